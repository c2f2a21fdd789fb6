//! Upgrades of pools on simulated drives, cut off anywhere: before the first superblock is new the pool is as it was,
//! then `resume_upgrade` goes on, and in the end it opens as a redundant one with all that it had.

use std::panic::{AssertUnwindSafe, catch_unwind};

use varve_media::planted::plant;
use varve_media::{
    Drive, DriveDisks, DriveOptions, DriveSpec, IoFuture, Media, RootStore, SegmentId,
    SegmentStore, SimLatency, SimMedium,
};
use varve_reactor::SimLoop;
use varve_stdx::{BufSlice, Rng};
use varve_types::{Generation, PoolId, SegmentNumber, ShardId};

use super::*;
use crate::change::NewMember;
use crate::journal::JournalPatience;
use crate::keeper::{DriveOpener, Keeper};
use crate::opening::open;
use crate::pool::RedundantThread;
use crate::survey::{Candidate, FoundDrive, OpeningOptions};

const POOL: PoolId = PoolId([7; 16]);
const SEGMENT_BYTES: u32 = 1 << 20;
const ZONE_SEGMENTS: u32 = 16;
const LANE_BYTES: u64 = 1 << 20;
const SHARDS: u16 = 3;
/// Bytes of a drive that its pool may use: no whole number of zones, so one lies on two drives.
const DRIVE_BYTES: u64 = 125 << 20;
/// Room behind that, where drives can be made longer.
const ROOM_BYTES: u64 = 64 << 20;
const BEFORE: &[u8] = b"the root before";
const AFTER: &[u8] = b"the root after";
/// Steps of the loop between two cuts.
const CUT_EVERY: u64 = 37;

fn id(number: u32) -> SegmentId {
    SegmentId { number: SegmentNumber(number), generation: Generation::new(u64::from(number) + 1) }
}

fn noise(seed: u64, len: usize) -> BufSlice {
    let mut bytes = vec![0; len];
    Rng::new(seed).fill(&mut bytes);
    BufSlice::copy_from(&bytes)
}

fn disk(reactor: &Reactor, medium: &SimMedium) -> Rc<dyn Disk> {
    Rc::new(medium.open(reactor, SimLatency::default()))
}

/// As the earlier format has them.
fn plain_disks(reactor: &Reactor, media: &[SimMedium]) -> Vec<DriveDisks> {
    let plain = |medium| Section::new(disk(reactor, medium), 0, DRIVE_BYTES).unwrap();
    media.iter().map(|medium| DriveDisks::one(plain(medium))).collect()
}

/// Zones that somebody has: every other one, the one on two drives among them, and not the last ones of a drive.
fn leased(drives: usize) -> Vec<bool> {
    let slots = SlotCounts::of(drives);
    let zones = slots.all / ZONE_SEGMENTS;
    let on_both = slots.each / ZONE_SEGMENTS;
    let is_free = |zone: u32| zone % 2 == 1 || zone + 2 >= zones || zone + 2 == on_both;
    (0..zones).map(|zone| zone == on_both && drives > 1 || !is_free(zone)).collect()
}

struct SlotCounts {
    each: u32,
    all: u32,
}

impl SlotCounts {
    fn of(drives: usize) -> Self {
        let spec = spec();
        let (_, slots) = spec.starts_on_disk(1, 2);
        let each = u32::try_from((DRIVE_BYTES - slots) / u64::from(SEGMENT_BYTES)).unwrap();
        let (_, slots) = spec.starts_on_disk(0, drives);
        let first = u32::try_from((DRIVE_BYTES - slots) / u64::from(SEGMENT_BYTES)).unwrap();
        let others = u32::try_from(drives - 1).unwrap();
        Self { each: first, all: first + others * each }
    }
}

fn spec() -> DriveSpec {
    let mut spec = DriveSpec::new(POOL, SHARDS);
    (spec.segment_bytes, spec.lane_bytes) = (SEGMENT_BYTES, LANE_BYTES);
    spec.root_bytes_max = 8192;
    spec
}

fn leased_slots(drives: usize) -> Vec<u32> {
    let leased = leased(drives);
    let is_leased = |slot: &u32| leased.get((*slot / ZONE_SEGMENTS) as usize) == Some(&true);
    (0..SlotCounts::of(drives).all).filter(is_leased).step_by(5).collect()
}

/// A pool of the earlier format, with segments, frames and roots.
fn make(drives: usize, can_grow: bool) -> Vec<SimMedium> {
    let bytes = if can_grow { DRIVE_BYTES + ROOM_BYTES } else { DRIVE_BYTES };
    let media = (0..drives).map(|it| SimMedium::new(&format!("drive {it}"), bytes));
    let media: Vec<SimMedium> = media.collect();
    let mut sim = SimLoop::new(1);
    let (reactor, made) = (sim.handle(), media.clone());
    sim.run_until(async move {
        let drives = made.len();
        Drive::format(&plain_disks(&reactor, &made), &spec()).await.unwrap();
        let disks = plain_disks(&reactor, &made);
        let drive = Drive::open(disks, DriveOptions::default()).await.unwrap();
        let geometry = SegmentStore::geometry(&drive);
        assert_eq!(geometry.segment_count, SlotCounts::of(drives).all);
        for slot in leased_slots(drives) {
            drive.put(id(slot), noise(u64::from(slot), 8192)).await.unwrap();
        }
        for shard in (0..SHARDS).map(ShardId) {
            let Media { journal, roots, .. } = drive.media(shard).unwrap();
            journal.append(4096, noise(u64::from(shard.0), 4096)).await.unwrap();
            let root = vec![u8::try_from(shard.0).unwrap(); 100];
            roots.replace(RootKey::Shard(shard), RootVersion(0), root).await.unwrap();
        }
        drive.replace(RootKey::Pool, RootVersion(0), BEFORE.to_vec()).await.unwrap();
    });
    media
}

/// As `varve pool upgrade` does it: from the beginning, or on from where superblocks are new.
async fn upgrade(reactor: &Reactor, media: &[SimMedium], can_grow: bool) -> Result<()> {
    let (mut plain, mut upgraded) = (Vec::new(), None);
    for medium in media {
        let disk = disk(reactor, medium);
        match RedundantSuperblock::read(&*disk).await? {
            Some(superblock) => upgraded = Some((superblock, disk)),
            None => plain.push((PlainDrive::read(&*disk).await?, disk)),
        }
    }
    if let Some((superblock, disk)) = upgraded {
        let disks = RedundantDisks::one(&disk, &superblock)?;
        return resume_upgrade(reactor, &superblock, &disks, &plain).await;
    }
    let (mut drives, mut disks) = (Vec::new(), Vec::new());
    for (plain, meta) in plain {
        let id = DriveId([u8::try_from(plain.index()).unwrap() + 1; 16]);
        let (kind, name) = (MediumKind::Ssd, "a drive".to_owned());
        drives.push(UpgradeDrive { plain, id, kind, name, can_grow });
        disks.push(UpgradeDisks { meta, slots: None, lanes: Vec::new() });
    }
    let zones = UpgradeZones { zone_segments: ZONE_SEGMENTS, leased: leased(media.len()) };
    let plan = UpgradePlan::new(&drives, &zones, HistoryId([3; 16]), 0)?;
    assert_eq!(plan.withdrawn().is_empty(), can_grow);
    assert!(plan.withdrawn().iter().all(|zone| !zones.leased[*zone as usize]));
    plan.write(reactor, &drives, &disks, AFTER).await
}

struct NoDrives;

impl DriveOpener for NoDrives {
    fn open<'a>(
        &'a self,
        member: &'a NewMember,
        _superblock: &'a RedundantSuperblock,
    ) -> IoFuture<'a, RedundantDisks> {
        let path = member.path.clone();
        Box::pin(std::future::ready(Err(Error::NoPool { path })))
    }
}

/// All that the pool had is there.
async fn check(media_of: impl Fn(ShardId) -> Media, drives: usize, root: &[u8]) {
    let Media { segments, roots, .. } = media_of(ShardId(0));
    for slot in leased_slots(drives) {
        let read = segments.get(id(slot), 0, 8192).await.unwrap();
        assert_eq!(*read, *noise(u64::from(slot), 8192), "slot {slot}");
    }
    assert_eq!(roots.read(RootKey::Pool).await.unwrap().1, root);
    for shard in (0..SHARDS).map(ShardId) {
        let (_, bytes) = roots.read(RootKey::Shard(shard)).await.unwrap();
        assert_eq!(bytes, vec![u8::try_from(shard.0).unwrap(); 100]);
        let journal = media_of(shard).journal;
        let frame = journal.read(4096, 4096).await.unwrap();
        assert_eq!(*frame, *noise(u64::from(shard.0), 4096), "{shard}");
        let again = noise(77, 4096);
        journal.append(8192, again.clone()).await.unwrap();
        assert_eq!(*journal.read(8192, 4096).await.unwrap(), *again);
    }
    let slot = leased_slots(drives)[1];
    let put = SegmentId { generation: Generation::new(1 << 20), ..id(slot) };
    segments.put(put, noise(9, 4096)).await.unwrap();
    assert_eq!(*segments.get(put, 0, 4096).await.unwrap(), *noise(9, 4096));
    segments.put(id(slot), noise(u64::from(slot), 8192)).await.unwrap();
}

async fn check_redundant(reactor: &Reactor, media: &[SimMedium]) {
    let mut candidates = Vec::new();
    for medium in media {
        let disk = disk(reactor, medium);
        let superblock = RedundantSuperblock::read(&*disk).await.unwrap().unwrap();
        let disks = RedundantDisks::one(&disk, &superblock).unwrap();
        let path = medium_path(&*disk);
        candidates.push(Candidate::Found(FoundDrive { path, superblock, disks }));
    }
    let options = OpeningOptions {
        degraded: false,
        history: None,
        new_history: HistoryId([9; 16]),
        pool: Some(POOL),
        patience_nanos: DRIVE_PATIENCE_NANOS,
    };
    let opening = open(reactor, candidates, &options).await.unwrap();
    let handles = Rc::clone(&opening.handles);
    let keeper = Keeper::new(reactor, opening, Rc::new(NoDrives));
    let tables = keeper.tables().on(reactor);
    let view = tables.view();
    assert_eq!(view.rows().count(), leased(media.len()).iter().filter(|it| **it).count());
    let thread = RedundantThread::new(handles, tables, JournalPatience::default());
    check(|shard| thread.media(shard).unwrap(), media.len(), AFTER).await;
}

fn medium_path(disk: &dyn Disk) -> String {
    disk.path().to_owned()
}

/// Opens the pool by what its superblocks say, and checks that all is there; whether it is upgraded.
fn opens(media: &[SimMedium]) -> bool {
    let mut sim = SimLoop::new(2);
    let (reactor, media) = (sim.handle(), media.to_vec());
    sim.run_until(async move {
        let disks = plain_disks(&reactor, &media);
        match Drive::open(disks, DriveOptions::default()).await {
            Ok(drive) => {
                check(|shard| drive.media(shard).unwrap(), media.len(), BEFORE).await;
                false
            }
            Err(Error::RedundantDrive { .. }) => {
                upgrade(&reactor, &media, true).await.unwrap();
                check_redundant(&reactor, &media).await;
                true
            }
            Err(error) => panic!("{error}"),
        }
    })
}

/// Upgrades a pool; with a number of steps power is cut after so many. Whether it came to its end.
fn run(media: &[SimMedium], can_grow: bool, steps: Option<u64>) -> bool {
    let mut sim = SimLoop::new(3);
    let (reactor, owned) = (sim.handle(), media.to_vec());
    let work = async move { upgrade(&reactor, &owned, can_grow).await.unwrap() };
    let Some(steps) = steps else {
        sim.run_until(work);
        return true;
    };
    let has_ended = sim.try_run_until(work, steps).is_some();
    drop(sim);
    media.iter().for_each(|medium| medium.crash(&mut Rng::new(steps)));
    has_ended
}

#[test]
fn what_a_pool_had_it_has_as_a_redundant_one() {
    for (drives, can_grow) in [(1, false), (1, true), (2, false), (2, true), (3, true)] {
        let media = make(drives, can_grow);
        assert!(!opens(&media), "it is of the earlier format");
        assert!(run(&media, can_grow, None));
        assert!(opens(&media), "{drives} drives");
    }
}

#[test]
fn an_upgrade_may_be_cut_off_anywhere() {
    for (drives, can_grow) in [(1, true), (2, false)] {
        let (mut steps, mut outcomes) = (0, Vec::new());
        loop {
            let media = make(drives, can_grow);
            let has_ended = run(&media, can_grow, Some(steps));
            outcomes.push(opens(&media));
            if !outcomes.last().unwrap() {
                // It was opened as it was, and written to: it begins anew.
                assert!(run(&media, can_grow, None));
                assert!(opens(&media), "after {steps} steps");
            }
            if has_ended {
                break;
            }
            steps += CUT_EVERY;
        }
        assert!(outcomes.contains(&false) && outcomes.last() == Some(&true), "{}", outcomes.len());
        assert!(outcomes.is_sorted(), "once it is upgraded it stays so");
    }
}

/// Whether a pool has all that it had after its upgrade was cut off, at some of the last steps.
fn survives_cuts(drives: usize, can_grow: bool, last: u64) -> bool {
    let steps = {
        let media = make(drives, can_grow);
        let (mut sim, owned) = (SimLoop::new(3), media.clone());
        let reactor = sim.handle();
        sim.run_until(async move { upgrade(&reactor, &owned, can_grow).await.unwrap() });
        sim.steps()
    };
    (0..last).step_by(11).all(|back| {
        let media = make(drives, can_grow);
        run(&media, can_grow, Some(steps.saturating_sub(back)));
        catch_unwind(AssertUnwindSafe(|| opens(&media))).is_ok()
    })
}

#[track_caller]
fn assert_found(bug: Bug, holds: impl Fn() -> bool) {
    assert!(holds(), "it holds without {bug:?}");
    plant(Some(bug));
    let holds = holds();
    plant(None);
    assert!(!holds, "{bug:?} shows");
}

#[test]
fn upgrade_superblocks_first() {
    assert_found(Bug::UpgradeSuperblocksFirst, || survives_cuts(1, true, 400)); // UPGRADE-2
}

#[test]
fn upgrade_anew() {
    assert_found(Bug::UpgradeAnew, || survives_cuts(2, false, 200)); // UPGRADE-3
}

#[test]
fn upgrade_over_data() {
    assert_found(Bug::UpgradeOverData, || {
        let media = make(1, false);
        refusal_without_free_zones(&media).is_some() // UPGRADE-1
    });
}

#[test]
fn a_device_without_free_zones_is_refused() {
    let media = make(1, false);
    let refused = refusal_without_free_zones(&media).unwrap().to_string();
    assert!(refused.contains("MiB in zones that nobody has"), "{refused}");
    assert!(!opens(&media), "nothing was written");
}

/// Why a pool of which somebody has every zone is not upgraded.
fn refusal_without_free_zones(media: &[SimMedium]) -> Option<Error> {
    let mut sim = SimLoop::new(4);
    let (reactor, medium) = (sim.handle(), media[0].clone());
    sim.run_until(async move {
        let plain = PlainDrive::read(&*disk(&reactor, &medium)).await.unwrap();
        let (id, kind, name) = (DriveId([1; 16]), MediumKind::Ssd, "a drive".to_owned());
        let drive = UpgradeDrive { plain, id, kind, name, can_grow: false };
        let leased = vec![true; leased(1).len()];
        let zones = UpgradeZones { zone_segments: ZONE_SEGMENTS, leased };
        UpgradePlan::new(&[drive], &zones, HistoryId([3; 16]), 0).err()
    })
}
