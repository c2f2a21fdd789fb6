//! Many roots that were never written, at once. Called when drives of redundant pools are made or join.

use varve_stdx::AlignedBuf;
use varve_types::PoolId;

use crate::Result;
use crate::disk::{Disk, Persist};
use crate::format::{RootSlot, encode_root};
use crate::sided_root::SidedRoot;

/// Bytes of sides that lie beside each other and are written at once.
const BATCH_BYTES: usize = 1 << 20;

/// Makes each of `roots` one that was never written, whatever it was: both sides of each have version 0 and no bytes.
/// Durable on return; cut off, any side may have what it had before. Costs a write for each MiB, and a flush.
///
/// # Errors
/// The disk's.
pub async fn write_empty_roots(disk: &dyn Disk, pool: PoolId, roots: &[SidedRoot]) -> Result<()> {
    let mut sides: Vec<_> =
        roots.iter().flat_map(|it| it.sides.map(|side| (side, it.number))).collect();
    sides.sort_unstable();
    let mut batch: (u64, Vec<u8>) = (0, Vec::new());
    for (offset, root) in sides {
        let side = encode_root(RootSlot { pool, root, version: 0 }, &[]);
        let is_behind = batch.0 + batch.1.len() as u64 == offset;
        if !is_behind || batch.1.len() + side.len() > BATCH_BYTES {
            write_batch(disk, &batch.1, batch.0).await?;
            batch = (offset, Vec::new());
        }
        batch.1.extend_from_slice(&side);
    }
    write_batch(disk, &batch.1, batch.0).await?;
    disk.flush().await
}

async fn write_batch(disk: &dyn Disk, bytes: &[u8], offset: u64) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    disk.write(offset, AlignedBuf::from_slice(bytes).freeze(), Persist::Cached).await
}
