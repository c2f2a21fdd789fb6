//! The one task of a pool that changes its tables.
use std::rc::Rc;
use varve_media::{IoFuture, RedundantSuperblock};
use varve_reactor::Reactor;
use crate::change::NewMember;
use crate::handles::RedundantDisks;
use crate::opening::Opening;
use crate::tables::Tables;

/// Opens drives that join, on the keeper's loop.
pub trait DriveOpener {
    /// The disks of a drive that gets this superblock; files have their full size.
    fn open<'a>(
        &'a self,
        member: &'a NewMember,
        superblock: &'a RedundantSuperblock,
    ) -> IoFuture<'a, RedundantDisks>;
}

/// The keeper.
pub struct Keeper {}
impl Keeper {
    /// The keeper of a pool that was opened.
    pub fn new(reactor: &Reactor, opening: Opening, opener: Rc<dyn DriveOpener>) -> Self { todo!() }
    /// The tables, for all threads.
    pub fn tables(&self) -> Tables { todo!() }
    /// Changes tables as it is asked to, until nobody has them any more.
    pub async fn run(self) { todo!() }
}
