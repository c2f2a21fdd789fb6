//! A pool on simulated drives for tests of what reads and writes strips: handles, tables, and a keeper that changes
//! them in memory.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use varve_media::{
    Disk, DiskOperation, Error, Fault, FaultDisk, FaultPlan, FaultRule, Persist,
    RedundantDriveSpec, RedundantSpec, RedundantSuperblock, Result, SegmentId, SegmentStore,
    SimLatency, SimMedium,
};
use varve_reactor::port::PortReceiver;
use varve_reactor::{Nanos, SimLoop};
use varve_stdx::{BufSlice, Rng};
use varve_types::{Generation, SegmentNumber};

use crate::change::Change;
use crate::format::tests::samples::{class, class_id};
use crate::format::{
    DriveState, JournalCopy, JournalCopyState, JournalPlaceKind, MoveReason, Row, RowState,
};
use crate::handles::{DriveHandle, DriveHandles, RedundantDisks};
use crate::ids::{DriveNumber, UNIT_BYTES, ZoneIndex};
use crate::segments::StripedSegments;
use crate::tables::{TableRequest, Tables, TablesHandle};
use crate::test_pool::{TestPool, table};
use crate::view::StripLocation;

/// Units of each drive.
const UNITS: u32 = 2048;

/// How long drives are waited for.
pub(crate) const PATIENCE_NANOS: u64 = 10_000_000_000;

/// Attempts that a reader makes at most: more than any shape has.
const ATTEMPTS_MAX: u32 = 40;

pub(crate) fn id(number: u32, generation: u64) -> SegmentId {
    SegmentId { number: SegmentNumber(number), generation: Generation::new(generation) }
}

/// So many random bytes.
pub(crate) fn noise(seed: u64, len: u32) -> BufSlice {
    let mut bytes = vec![0; len as usize];
    Rng::new(seed).fill(&mut bytes);
    BufSlice::copy_from(&bytes)
}

/// The pool.
pub(crate) struct TestDrives {
    pub(crate) sim: SimLoop,
    pub(crate) media: Vec<SimMedium>,
    /// What happens to operations, by drive.
    plans: Vec<Rc<FaultPlan>>,
    /// Whether the next change is refused.
    refuses: Rc<Cell<bool>>,
    pub(crate) pool: Rc<RefCell<TestPool>>,
    pub(crate) handles: Rc<DriveHandles>,
    pub(crate) tables: Rc<TablesHandle>,
    pub(crate) segments: StripedSegments,
}

impl TestDrives {
    /// `count` drives, whose zones have so many strips. Class 1 is theirs.
    pub(crate) fn new(seed: u64, data: u8, parity: u8, count: usize) -> Self {
        let mut table = table(&vec![UNITS; count]);
        table.classes = vec![class(1, data, parity)];
        table.class = class_id(1);
        table.drops_max = parity;
        let bytes = u64::from(UNITS) * UNIT_BYTES;
        let media = (0..count).map(|it| SimMedium::new(&format!("space {it}"), bytes)).collect();
        Self::open(seed, Nanos(0), media, TestPool::new(table))
    }

    fn open(seed: u64, now: Nanos, media: Vec<SimMedium>, pool: TestPool) -> Self {
        let sim = SimLoop::starting_at(seed, now);
        let reactor = sim.handle();
        let handles = DriveHandles::new(&reactor);
        let mut figures = RedundantSpec::new(pool.view.drives().pool, 4, 64);
        figures.segment_bytes = pool.view.drives().segment_bytes;
        let plans: Vec<_> = media.iter().map(|_| FaultPlan::new()).collect();
        for ((number, medium), plan) in (0..).zip(&media).zip(&plans) {
            let drive = RedundantDriveSpec {
                number,
                drive_id: [u8::try_from(number).unwrap(); 16],
                is_directory: true,
                bytes: u64::from(UNITS) * UNIT_BYTES,
            };
            let superblock = RedundantSuperblock::new(&figures, &drive).unwrap();
            let meta = SimMedium::new(&format!("meta {number}"), superblock.space_offset);
            let open = |medium: &SimMedium| -> Rc<dyn Disk> {
                Rc::new(medium.open(&reactor, SimLatency::default()))
            };
            let open = |medium| -> Rc<dyn Disk> {
                Rc::new(FaultDisk::new(open(medium), &reactor, Rc::clone(plan)))
            };
            let disks = RedundantDisks { meta: open(&meta), space: open(medium) };
            let handle = DriveHandle::new(&reactor, superblock, &disks, PATIENCE_NANOS).unwrap();
            handles.insert(handle);
        }
        let (shared, requests) = Tables::new(&reactor, pool.view.clone());
        let (pool, refuses) = (Rc::new(RefCell::new(pool)), Rc::new(Cell::new(false)));
        let keeper = TestKeeper { pool: Rc::clone(&pool), refuses: Rc::clone(&refuses) };
        reactor.spawn(keeper.run(requests, shared.clone()));
        let tables = shared.on(&reactor);
        let segments = StripedSegments::new(Rc::clone(&handles), Rc::clone(&tables));
        Self { sim, media, plans, refuses, pool, handles, tables, segments }
    }

    /// Has operations on a drive begin later from now on; at once with 0.
    pub(crate) fn delay(&self, drive: DriveNumber, nanos: u64) {
        self.set_fault(drive, Fault::Delay(nanos));
    }

    /// Has all reads of a drive fail from now on, or answered again.
    pub(crate) fn fail_reads(&self, drive: DriveNumber, fail: bool) {
        let plan = &self.plans[usize::from(drive.get())];
        plan.clear();
        if fail {
            plan.add(FaultRule::always(DiskOperation::Read, Fault::Fail));
        }
    }

    /// Has all writes to a drive fail from now on.
    pub(crate) fn refuse_writes(&self, drive: DriveNumber) {
        let plan = &self.plans[usize::from(drive.get())];
        plan.clear();
        for persist in [Persist::Cached, Persist::Durable] {
            plan.add(FaultRule::always(DiskOperation::write(persist), Fault::Fail));
        }
    }

    /// Has the next change of the tables be refused.
    pub(crate) fn refuse_next(&self) {
        self.refuses.set(true);
    }

    /// Has a drive answer no more.
    pub(crate) fn hang(&self, drive: DriveNumber) {
        self.set_fault(drive, Fault::Hang);
    }

    fn set_fault(&self, drive: DriveNumber, fault: Fault) {
        let plan = &self.plans[usize::from(drive.get())];
        plan.clear();
        for operation in DiskOperation::ALL {
            plan.add(FaultRule::always(operation, fault));
        }
    }

    /// Lets go of everything but the loop.
    pub(crate) fn into_loop(self) -> SimLoop {
        self.sim
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, nanos: u64) {
        let reactor = self.sim.handle();
        self.sim.run_until(async move { reactor.sleep(nanos).await });
    }

    /// Cuts power, and opens what is left; tables are durable.
    pub(crate) fn crash(self, seed: u64) -> Self {
        let Self { sim, media, pool, handles, tables, segments, .. } = self;
        let now = sim.handle().now();
        drop((handles, tables, segments, sim));
        let mut rng = Rng::new(seed);
        media.iter().for_each(|medium| medium.crash(&mut rng));
        let pool = pool.borrow().clone();
        Self::open(seed, now, media, pool)
    }

    pub(crate) fn put(&mut self, id: SegmentId, bytes: &BufSlice) -> Result<()> {
        let (segments, bytes) = (self.segments.clone(), bytes.clone());
        self.sim.run_until(async move { segments.put(id, bytes).await })
    }

    pub(crate) fn complete(&mut self, id: SegmentId, bytes: &BufSlice) -> Result<()> {
        let (segments, bytes) = (self.segments.clone(), bytes.clone());
        self.sim.run_until(async move { segments.complete(id, bytes).await })
    }

    pub(crate) fn get(&mut self, id: SegmentId, offset: u32, len: u32) -> Result<BufSlice> {
        let segments = self.segments.clone();
        self.sim.run_until(async move { segments.get(id, offset, len).await })
    }

    /// What a caller gets that knows what it must be: the first attempt that is right, and its number.
    pub(crate) fn get_right(
        &mut self,
        id: SegmentId,
        offset: u32,
        expected: &[u8],
    ) -> Result<Option<u32>> {
        let len = u32::try_from(expected.len()).unwrap();
        if *self.get(id, offset, len)? == *expected {
            return Ok(Some(0));
        }
        for attempt in 1..ATTEMPTS_MAX {
            let segments = self.segments.clone();
            let again = async move { segments.get_again(id, offset, len, attempt).await };
            match self.sim.run_until(again)? {
                None => return Ok(None),
                Some(bytes) if *bytes == *expected => return Ok(Some(attempt)),
                Some(_) => {}
            }
        }
        panic!("attempts end");
    }

    /// What strips say by their labels.
    pub(crate) fn contents(&mut self, id: SegmentId, attempt: u32) -> Result<Option<BufSlice>> {
        let (reader, view) = (self.segments.reader().clone(), self.tables.view());
        let read = async move { reader.read_contents(&view, id, attempt).await };
        Ok(self.sim.run_until(read)?.map(|contents| contents.bytes))
    }

    /// Strips of a slot where its row puts them.
    pub(crate) fn strips(&self, number: u32) -> Vec<StripLocation> {
        let view = self.tables.view();
        let slot = view.zone_of(SegmentNumber(number)).unwrap();
        view.locate(view.row(slot.zone).target().unwrap(), slot.slot).collect()
    }

    pub(crate) fn medium_of(&self, location: &StripLocation) -> &SimMedium {
        &self.media[usize::from(location.place.drive.get())]
    }

    pub(crate) fn change(&mut self, change: Change) -> Result<()> {
        let tables = Rc::clone(&self.tables);
        self.sim.run_until(async move { tables.change(change).await.map(drop) })
    }

    /// Has the table say that a drive failed.
    pub(crate) fn lose(&mut self, drive: DriveNumber) {
        self.change(Change::DriveFailed { drive, reason: "lost".to_owned() }).unwrap();
    }

    /// Has a zone move its strip with this index to a drive that has none.
    pub(crate) fn move_strip(&mut self, zone: u32, strip: usize) {
        let expected = self.tables.view().row(ZoneIndex(zone)).clone();
        let RowState::Still(from) = expected.state.clone() else { panic!("the zone moves") };
        let tenancy = expected.tenancy.next().unwrap();
        let mut to = from.clone();
        let pool = self.pool.borrow();
        let drives = (0..u8::try_from(self.media.len()).unwrap()).filter_map(DriveNumber::new);
        let drive = drives.clone().find(|drive| !from.has_drive(*drive)).expect("a drive is left");
        let units = pool.view.drives().geometry(pool.view.class_of(&from).shape).place_units();
        let space = pool.occupancy.spaces().drive(drive).unwrap();
        let place = space.first_fit(units).unwrap();
        drop(pool);
        to.places[strip] = crate::format::StripPlace { drive, tenancy, place };
        let state = RowState::Moving { from, to, why: MoveReason::Rebalance };
        let zone = ZoneIndex(zone);
        self.change(Change::Row { zone, expected, new: Row { tenancy, state } }).unwrap();
    }
}

/// Changes tables in memory.
struct TestKeeper {
    pool: Rc<RefCell<TestPool>>,
    refuses: Rc<Cell<bool>>,
}

impl TestKeeper {
    async fn run(self, mut requests: PortReceiver<TableRequest>, tables: Tables) {
        let Self { pool, refuses } = self;
        let mut batch = Vec::new();
        while requests.recv_batch(&mut batch).await > 0 {
            for TableRequest { change, answer } in batch.drain(..) {
                if refuses.take() {
                    let (key, expected, found) = ("of the test".to_owned(), 0, 1);
                    drop(answer.send(Err(Error::RootConflict { key, expected, found })));
                    continue;
                }
                let changed = apply(&mut pool.borrow_mut(), change);
                let view = Arc::new(pool.borrow().view.clone());
                tables.board().publish(Arc::clone(&view));
                drop(answer.send(changed.map(|()| view)));
            }
        }
    }
}

fn apply(pool: &mut TestPool, change: Change) -> Result<()> {
    let no_space = || Error::NoSpace { path: "the test's drives".to_owned() };
    match change {
        Change::DriveFailed { drive, .. } | Change::GiveUp { drive, .. } => {
            if pool.view.drives().drive(drive).unwrap().state != DriveState::Failed {
                pool.set_state(drive.get(), DriveState::Failed);
            }
            Ok(())
        }
        Change::Leave { drive } => {
            pool.set_state(drive.get(), DriveState::Leaving);
            Ok(())
        }
        Change::DriveSlow { drive, slow } => {
            pool.set_slow(drive.get(), slow);
            Ok(())
        }
        Change::Loss => {
            let mut table = pool.view.drives().clone();
            table.epoch.0 += 1;
            table.loss_epoch = table.epoch;
            pool.view = pool.view.with_drives(table).expect("it follows");
            Ok(())
        }
        Change::Place { zone } => pool.place(zone.0, 1).then_some(()).ok_or_else(no_space),
        Change::Row { zone, expected, new } => {
            assert_eq!(*pool.view.row(zone), expected, "rows are replaced as they were expected");
            pool.set_row(zone.0, new);
            Ok(())
        }
        Change::JournalSubstitute { shard, expected, without, until } => {
            let record = pool.view.journals().find(|it| it.shard == shard).unwrap().clone();
            assert_eq!(record.journal_epoch, expected);
            let is_live = |drive: DriveNumber| {
                pool.view.drives().drive(drive).unwrap().state == DriveState::Live
            };
            let mut copies = record.copies.clone();
            copies.retain(|copy| copy.drive != without || is_live(without));
            for copy in copies.iter_mut().filter(|copy| copy.drive == without) {
                copy.state = JournalCopyState::Former { until };
            }
            let mut drives = pool.view.drives().drives.iter().map(|drive| drive.number);
            let is_free = |drive: &DriveNumber| {
                is_live(*drive) && !record.copies.iter().any(|copy| copy.drive == *drive)
            };
            let drive = drives.find(is_free).ok_or_else(no_space)?;
            let free = pool.occupancy.spaces().drive(drive).unwrap();
            let place = JournalPlaceKind::Units(free.first_fit(16).ok_or_else(no_space)?);
            let state = JournalCopyState::Current;
            copies.push(JournalCopy { drive, place, since: until, state });
            replace_journal(pool, crate::format::JournalRecord { copies, ..record });
            Ok(())
        }
        Change::JournalCopies { shard, expected, copies } => {
            let record = pool.view.journals().find(|it| it.shard == shard).unwrap().clone();
            assert_eq!(record.journal_epoch, expected);
            replace_journal(pool, crate::format::JournalRecord { copies, ..record });
            Ok(())
        }
        _ => Err(no_space()),
    }
}

fn replace_journal(pool: &mut TestPool, mut record: crate::format::JournalRecord) {
    record.journal_epoch += 1;
    pool.occupancy.replace_journal(&pool.view, &record).unwrap();
    pool.view = pool.view.with_journal(record).unwrap();
}
