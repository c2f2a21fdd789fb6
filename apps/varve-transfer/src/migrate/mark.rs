//! What the target's volume or bucket says once it has arrived: the source's pool, the run, and the snapshot with which
//! it did, or the number that the bucket has at the source.
//!
//! MIGRATE-MARK-1. The target's daemon sets the mark with the step that lets clients use the volume, and nobody deletes
//!     the volume or moves it on while it is there. So a volume without it did not arrive from here, whatever its name
//!     is, or what was left of its move is done.
//! MIGRATE-MARK-2. The source's volume is taken out of use, and deleted, only while the target's has a mark with its
//!     last snapshot: the last that a migration took, or, once it has left, the one that it says itself, for those may
//!     be half deleted. The same of a bucket with its number, which no other bucket of that pool ever has.
//! MIGRATE-MARK-3. The mark goes when the source has no volume any more, or says that it keeps it.

use varve_access_admin::v1::{MoveRemark, MoveState, VolumeMove};
use varve_client::Result;

use super::kind::Item;
use super::side::MigrationRun;

/// What the source's says once it has left.
pub(super) fn left(item: Item<'_>, mark: &VolumeMove, is_kept: bool) -> VolumeMove {
    let VolumeMove { snapshot, bucket, .. } = *mark;
    VolumeMove { remark: is_kept.then_some(MoveRemark::Kept), snapshot, bucket, ..item.run.left() }
}

/// Whether one left and is to be kept.
pub(super) fn is_kept(moves: &VolumeMove) -> bool {
    moves.state == MoveState::Left && moves.remark == Some(MoveRemark::Kept)
}

/// The snapshot, or number, with which one arrived or left.
fn last_of(moves: &VolumeMove) -> Option<String> {
    let snapshot = moves.snapshot.map(|identity| identity.to_string());
    snapshot.or(moves.bucket.map(|number| number.to_string()))
}

/// The mark of one that came from the source's pool.
fn from_source(item: Item<'_>) -> Result<Option<VolumeMove>> {
    let moves = item.here()?.and_then(|here| here.moves);
    Ok(moves.filter(|moves| is_from_source(item.run, moves)))
}

/// Whether that is one.
pub(super) fn is_from_source(run: &MigrationRun, moves: &VolumeMove) -> bool {
    moves.state == MoveState::Arrived && run.source.is_peer_of(moves)
}

/// The mark of the target's, if it is what the source's was last (MIGRATE-MARK-2).
pub(super) fn of_same(item: Item<'_>) -> Result<Option<VolumeMove>> {
    let Some(mark) = from_source(item)? else { return Ok(None) };
    let last = match item.there()?.and_then(|there| there.moves) {
        Some(left) if left.state == MoveState::Left => last_of(&left),
        _ => item.kind.last(&item.run.source, item.name)?,
    };
    let is_same = last.is_some() && last_of(&mark) == last;
    Ok(is_same.then_some(mark))
}

/// Removes the mark, and before it the snapshots of the migration (MIGRATE-MARK-3).
pub(super) fn remove(item: Item<'_>) -> Result<()> {
    let Some(mark) = from_source(item)? else { return Ok(()) };
    item.kind.remove_traces(&item.run.target, item.name, Some(&mark))?;
    match item.step_here(Some(&mark), None) {
        // Whoever did it, it is done.
        Err(_) if from_source(item)?.is_none() => Ok(()),
        removed => removed,
    }
}
