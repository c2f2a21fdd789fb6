//! Tables, roots and journals on each drive: whether both sides of the ones, and all of the others, can be read.

use varve_media::{Disk, RootKey, SidedRoot};
use varve_reactor::Nanos;
use varve_types::{PoolId, ShardId};

use crate::budget::{DriveUse, RepairUrgency};
use crate::format::{DriveRoles, JournalPlaceKind};
use crate::handles::DriveHandle;
use crate::repair::{DriveFaults, RepairThread};
use crate::view::LayoutView;

/// After which time a side is looked at once more: it may be being replaced.
const AGAIN_NANOS: u64 = Nanos::seconds(1);

/// Bytes of a journal that are read at once.
const JOURNAL_READ_BYTES: u64 = 1 << 20;

/// What was seen of copies.
pub(crate) struct CopiesCheck {
    /// Of drives where something cannot be read, how much.
    pub(crate) faults: Vec<DriveFaults>,
    /// Whether there are drives that this thread has not opened.
    pub(crate) has_gaps: bool,
}

/// Reads of all drives what stands there in several copies; of drives where something cannot be read, how much.
pub(crate) async fn check_copies(mover: &RepairThread, view: &LayoutView) -> CopiesCheck {
    let (mut faults, mut has_gaps) = (Vec::new(), false);
    let readable = view.drives().drives.iter().filter(|drive| drive.state.is_readable());
    for record in readable {
        let Some(drive) = mover.media.handles.get(record.number) else {
            has_gaps = true;
            continue;
        };
        let mut found = DriveFaults::none(record.number);
        for root in roots_on(&drive, view, record.roles) {
            if !is_sound(mover, &root, drive.meta(), view.drives().pool).await {
                found.tables += 1;
            }
        }
        found.unreadable += unreadable_journals(mover, &drive, view).await;
        if found.total() > 0 {
            faults.push(found);
        }
    }
    CopiesCheck { faults, has_gaps }
}

/// What a drive with these roles has two sides of.
fn roots_on(drive: &DriveHandle, view: &LayoutView, roles: DriveRoles) -> Vec<SidedRoot> {
    let superblock = drive.superblock();
    let mut roots = vec![superblock.drive_table()];
    if !roles.has(DriveRoles::ROOTS) {
        return roots;
    }
    let shards: Vec<ShardId> = view.journals().map(|journal| journal.shard).collect();
    roots.extend(shards.iter().filter_map(|shard| superblock.journal_record(*shard).ok()));
    roots.extend(view.pages().map(|page| superblock.layout_page(page.page)));
    let keys = std::iter::once(RootKey::Pool).chain(shards.into_iter().map(RootKey::Shard));
    roots.extend(keys.filter_map(|key| superblock.root(key).ok()));
    roots
}

/// Whether both sides of a root can be read. Nothing is written.
async fn is_sound(mover: &RepairThread, root: &SidedRoot, disk: &dyn Disk, pool: PoolId) -> bool {
    for look in 0..2 {
        if look > 0 {
            mover.reactor.sleep(AGAIN_NANOS).await;
        }
        let sides = root.look(disk, pool).await;
        if sides.is_ok_and(|sides| sides.iter().all(Option::is_some)) {
            return true;
        }
    }
    false
}

/// Parts of journals on a drive that cannot be read. What they hold, frames say when they are replayed.
async fn unreadable_journals(mover: &RepairThread, drive: &DriveHandle, view: &LayoutView) -> u64 {
    let mut unreadable = 0;
    for (shard, first, lane_bytes) in journals_on(drive, view) {
        let mut at = 0;
        while at < lane_bytes {
            let bytes = JOURNAL_READ_BYTES.min(lane_bytes - at);
            let len = usize::try_from(bytes).expect("at most 1 MiB");
            let read = async { drive.read(first + at, len).await };
            let used = DriveUse { drive: drive.number(), bytes };
            if let Err(error) = mover.turns.run(RepairUrgency::Scrub, used, read).await {
                tracing::warn!(%shard, drive = %drive.number(), %error, "a journal cannot be read");
                unreadable += 1;
            }
            at += bytes;
        }
    }
    unreadable
}

/// Journals that have a place on a drive: whose, where, and how many bytes.
fn journals_on(drive: &DriveHandle, view: &LayoutView) -> Vec<(ShardId, u64, u64)> {
    let mut places = Vec::new();
    for journal in view.journals() {
        for copy in journal.copies.iter().filter(|copy| copy.drive == drive.number()) {
            if let JournalPlaceKind::Units(first) = copy.place {
                places.push((journal.shard, first.offset(), journal.lane_bytes));
            }
        }
    }
    places
}
