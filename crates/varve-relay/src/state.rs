//! What all parts of the links of a node share.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use varve_types::{CellId, PoolId};

use crate::key::NodeKey;
use crate::limits::LinkLimits;
use crate::link_table::LinkTable;
use crate::view::Views;

/// See the module; `F` are the front-ends of a cell.
pub(crate) struct RelayState<F> {
    pub(crate) pool: PoolId,
    /// How many the pool has.
    pub(crate) cells: u16,
    pub(crate) key: NodeKey,
    pub(crate) views: Views,
    pub(crate) threads: Handle,
    pub(crate) limits: LinkLimits,
    pub(crate) links: Arc<LinkTable>,
    /// The number of the next link.
    pub(crate) next: AtomicU64,
    /// Of the cells that this node serves. The lock guards nothing else, and nobody waits while it is held.
    pub(crate) fronts: Mutex<BTreeMap<CellId, F>>,
}

impl<F> RelayState<F> {
    pub(crate) fn fronts(&self) -> MutexGuard<'_, BTreeMap<CellId, F>> {
        self.fronts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where clients of a cell go, while this node serves it.
    pub(crate) fn here<T>(&self, cell: CellId, with: impl FnOnce(&F) -> T) -> Option<T> {
        self.fronts().get(&cell).map(with)
    }
}
