//! What all parts of the links of a node share.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use varve_types::{CellId, PoolId};

use super::key::NodeKey;
use super::limits::LinkLimits;
use super::link_table::LinkTable;
use super::view::Views;

/// See the module; `F` are the front-ends of a cell.
pub(super) struct RelayState<F> {
    pub(super) pool: PoolId,
    /// How many the pool has.
    pub(super) cells: u16,
    pub(super) key: NodeKey,
    pub(super) views: Views,
    pub(super) threads: Handle,
    pub(super) limits: LinkLimits,
    pub(super) links: Arc<LinkTable>,
    /// The number of the next link.
    pub(super) next: AtomicU64,
    /// Of the cells that this node serves. The lock guards nothing else, and nobody waits while it is held.
    pub(super) fronts: Mutex<BTreeMap<CellId, F>>,
}

impl<F> RelayState<F> {
    pub(super) fn fronts(&self) -> MutexGuard<'_, BTreeMap<CellId, F>> {
        self.fronts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where clients of a cell go, while this node serves it.
    pub(super) fn here<T>(&self, cell: CellId, with: impl FnOnce(&F) -> T) -> Option<T> {
        self.fronts().get(&cell).map(with)
    }
}
