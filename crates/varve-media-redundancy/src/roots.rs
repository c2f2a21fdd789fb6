//! Roots of the engine in several copies.
use std::rc::Rc;
use crate::handles::DriveHandles;
use crate::tables::TablesHandle;
/// The roots.
pub struct MirroredRoots {}
impl MirroredRoots {
    /// Those of a pool, on one thread.
    pub fn new(drives: Rc<DriveHandles>, tables: Rc<TablesHandle>) -> Self { todo!() }
}
