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

use varve_access_admin::v1::{MoveState, VolumeMove};
use varve_client::Result;

use super::kind::Item;
use super::side::MigrationRun;

/// Last letters of what a source's volume says that left and is to be kept.
const KEPT: &str = ", kept";

/// What the source's says once it has left.
pub(super) fn left(item: Item<'_>, mark: &VolumeMove, is_kept: bool) -> VolumeMove {
    let VolumeMove { state, peer } = item.run.left();
    let with = item.words().with;
    let last = last_of(with, mark).unwrap_or_default();
    let kept = if is_kept { KEPT } else { "" };
    VolumeMove { state, peer: format!("{peer}{with}{last}{kept}") }
}

/// Whether one left and is to be kept.
pub(super) fn is_kept(moves: &VolumeMove) -> bool {
    moves.state == MoveState::Left && moves.peer.ends_with(KEPT)
}

/// The snapshot, or number, with which one arrived or left.
fn last_of<'a>(with: &str, moves: &'a VolumeMove) -> Option<&'a str> {
    let (_, last) = moves.peer.rsplit_once(with)?;
    Some(last.strip_suffix(KEPT).unwrap_or(last))
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
    let with = item.words().with;
    let last = match item.there()?.and_then(|there| there.moves) {
        Some(left) if left.state == MoveState::Left => last_of(with, &left).map(str::to_owned),
        _ => item.kind.last(&item.run.source, item.name)?,
    };
    let is_same = last.is_some() && last_of(with, &mark) == last.as_deref();
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

#[cfg(test)]
mod tests {
    use varve_dataset::WITH_SNAPSHOT;

    use super::*;

    #[test]
    fn what_was_kept_says_so_behind_its_last_snapshot() {
        let moves = |state, peer: &str| VolumeMove { state, peer: peer.to_owned() };
        let left = |peer: &str| moves(MoveState::Left, peer);
        assert_eq!(
            last_of(WITH_SNAPSHOT, &left("pool 1 at x, by run 2, with snapshot ab")),
            Some("ab")
        );
        assert_eq!(
            last_of(WITH_SNAPSHOT, &left("pool 1 at x, by run 2, with snapshot ab, kept")),
            Some("ab")
        );
        assert_eq!(last_of(WITH_SNAPSHOT, &left("pool 1 at x, by run 2")), None);
        assert!(is_kept(&left("pool 1 at x, by run 2, with snapshot ab, kept")));
        assert!(!is_kept(&left("pool 1 at x, by run 2, with snapshot ab")));
        assert!(!is_kept(&moves(MoveState::Leaving, "pool 1 at x, kept")));
    }
}
