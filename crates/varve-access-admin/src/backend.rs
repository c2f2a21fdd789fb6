//! What the API asks of the daemon behind it. Calls come from the control thread; the daemon passes them to its shards.

use std::future::Future;
use std::pin::Pin;

use crate::error::Result;
use crate::metrics::Metric;
use crate::v1::{ChangeVolume, CreateVolume, Pool, Space, Status, Volume};

/// An answer that arrives later, possibly from another thread.
pub type AdminFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// The daemon, as the admin API sees it. Changes are durable when their future resolves.
pub trait AdminBackend: Send + Sync + 'static {
    /// What the daemon is doing now.
    fn status(&self) -> AdminFuture<'_, Status>;

    /// The pool and its drives.
    fn pool(&self) -> AdminFuture<'_, Pool>;

    /// What is stored, by volume and in sum. Costs a walk over the maps of all volumes.
    fn space(&self) -> AdminFuture<'_, Space>;

    /// Every volume.
    fn volumes(&self) -> AdminFuture<'_, Vec<Volume>>;

    /// One volume. `NotFound` when no volume has the name.
    fn volume(&self, name: String) -> AdminFuture<'_, Volume>;

    /// Makes a volume. `Exists` when the name is taken, `Invalid` for a name or size that no volume may have.
    fn create_volume(&self, spec: CreateVolume) -> AdminFuture<'_, Volume>;

    /// Changes size and reduction of a volume, also while clients have it open. `NotFound`, `Invalid`.
    fn change_volume(&self, name: String, change: ChangeVolume) -> AdminFuture<'_, Volume>;

    /// Deletes a volume and what it holds. `NotFound`; `Conflict` while a client has it open.
    fn delete_volume(&self, name: String) -> AdminFuture<'_, ()>;

    /// Counters and gauges of every layer below the API.
    fn metrics(&self) -> AdminFuture<'_, Vec<Metric>>;
}
