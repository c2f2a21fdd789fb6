//! A pool on simulated drives with an owner that remembers what it put, a mover, and a keeper that changes tables in
//! memory. What a row gives free is erased at once: who still needed it finds nothing.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use varve_media::{
    Disk, Error, HeldSegment, RedundantDriveSpec, RedundantSpec, RedundantSuperblock, Result,
    RootKey, SegmentId, SegmentStore, SimLatency, SimMedium, ZoneContents,
};
use varve_reactor::port::PortReceiver;
use varve_reactor::{Nanos, SimLoop};
use varve_stdx::{BufSlice, Rng};
use varve_types::{Generation, SegmentNumber, ShardId};

use crate::change::Change;
use crate::class::StripeShape;
use crate::format::tests::samples::{class, class_id, drive_number};
use crate::format::{
    DriveRemoval, DriveState, DriveTable, Row, RowState, StripForm, StripPlace, StripSet,
};
use crate::handles::{DriveHandle, DriveHandles, RedundantDisks};
use crate::ids::{DriveNumber, UNIT_BYTES, ZoneIndex};
use crate::mover::Mover;
use crate::plan::{PlaceRequest, choose};
use crate::repair::{RepairControl, RepairMedia};
use crate::segments::StripedSegments;
use crate::space::ranges_of_row;
use crate::tables::{TableBoard, TableRequest, Tables, TablesHandle};
use crate::test_pool::{TestPool, ZONE_SEGMENTS, table};

const UNITS: u32 = 2048;
const PATIENCE_NANOS: u64 = Nanos::seconds(10);
const SHARD: ShardId = ShardId(0);

/// Zones that the owner has.
pub(super) const ZONES: u32 = 2;

/// What an owner remembers of a slot.
#[derive(Clone)]
struct ShelfSegment {
    generation: u64,
    bytes: BufSlice,
    is_put: bool,
}

/// The owner of the zones: what it put, and what the mover asked of it.
#[derive(Default)]
pub(super) struct Shelf {
    slots: RefCell<BTreeMap<u32, ShelfSegment>>,
    pins: Rc<RefCell<BTreeMap<u32, u32>>>,
    next_generation: Cell<u64>,
    /// Slots whose bytes it does not take for what it put.
    pub(super) spoilt: RefCell<BTreeSet<u32>>,
    pub(super) relocated: RefCell<BTreeSet<u32>>,
}

struct ShelfPin {
    pins: Rc<RefCell<BTreeMap<u32, u32>>>,
    slot: u32,
}

impl Drop for ShelfPin {
    fn drop(&mut self) {
        let mut pins = self.pins.borrow_mut();
        let count = pins.get_mut(&self.slot).expect("it was pinned");
        *count -= 1;
        if *count == 0 {
            pins.remove(&self.slot);
        }
    }
}

impl ZoneContents for Shelf {
    fn held(&self, first: SegmentNumber, count: u32) -> Option<Vec<HeldSegment>> {
        if first.0 >= ZONES * ZONE_SEGMENTS {
            return None;
        }
        let slots = self.slots.borrow();
        let held = slots.range(first.0..first.0 + count).map(|(slot, segment)| HeldSegment {
            id: id(*slot, segment.generation),
            used_bytes: 256 << 10,
            is_put: segment.is_put,
            has_pages: slot % 3 == 0,
        });
        Some(held.collect())
    }

    fn pin(&self, id: SegmentId) -> Option<Box<dyn Any>> {
        let slot = id.number.0;
        let slots = self.slots.borrow();
        slots.get(&slot).filter(|it| it.generation == id.generation.get())?;
        *self.pins.borrow_mut().entry(slot).or_default() += 1;
        Some(Box::new(ShelfPin { pins: Rc::clone(&self.pins), slot }))
    }

    fn is_whole(&self, id: SegmentId, bytes: &BufSlice) -> bool {
        let slots = self.slots.borrow();
        let known = slots.get(&id.number.0).filter(|it| it.generation == id.generation.get());
        let is_spoilt = self.spoilt.borrow().contains(&id.number.0);
        known.is_some_and(|it| *it.bytes == **bytes) && !is_spoilt
    }

    fn relocate(&self, id: SegmentId, _reason: &str) {
        self.relocated.borrow_mut().insert(id.number.0);
    }
}

impl Shelf {
    /// A slot that may be written, with what is put there: from now on it has that.
    fn begin_put(&self, rng: &mut Rng) -> Option<(SegmentId, BufSlice)> {
        let slot = u32::try_from(rng.below(u64::from(ZONES * ZONE_SEGMENTS))).unwrap();
        let is_pinned = self.pins.borrow().contains_key(&slot);
        let is_busy = self.slots.borrow().get(&slot).is_some_and(|it| !it.is_put);
        if is_pinned || is_busy || self.spoilt.borrow().contains(&slot) {
            return None;
        }
        let generation = self.next_generation.get() + 1;
        self.next_generation.set(generation);
        let len = 4096 * (1 + rng.below(64));
        let mut bytes = vec![0; usize::try_from(len).unwrap()];
        rng.fill(&mut bytes);
        let bytes = BufSlice::copy_from(&bytes);
        let segment = ShelfSegment { generation, bytes: bytes.clone(), is_put: false };
        self.slots.borrow_mut().insert(slot, segment);
        Some((id(slot, generation), bytes))
    }

    /// A slot that a writer has opened and has not put.
    pub(super) fn open_slot(&self) {
        let mut rng = Rng::new(7);
        let opened = (0..100).find_map(|_| self.begin_put(&mut rng));
        assert!(opened.is_some(), "slots are free");
    }

    /// What was live in a segment is elsewhere, and nobody needs it any more.
    pub(super) fn drop_segment(&self, id: SegmentId) {
        self.slots.borrow_mut().remove(&id.number.0).expect("it was put");
    }

    fn end_put(&self, id: SegmentId, is_put: bool) {
        let mut slots = self.slots.borrow_mut();
        if is_put {
            slots.get_mut(&id.number.0).expect("nobody else writes it").is_put = true;
        } else {
            slots.remove(&id.number.0);
        }
    }

    /// What was not answered when power was cut may be there or not: nobody needs it.
    fn forget_unanswered(&self) {
        self.slots.borrow_mut().retain(|_, segment| segment.is_put);
        self.pins.borrow_mut().clear();
    }

    pub(super) fn put_segments(&self) -> Vec<(SegmentId, BufSlice)> {
        let slots = self.slots.borrow();
        let put = slots.iter().filter(|(_, segment)| segment.is_put);
        put.map(|(slot, it)| (id(*slot, it.generation), it.bytes.clone())).collect()
    }
}

pub(super) fn id(slot: u32, generation: u64) -> SegmentId {
    SegmentId { number: SegmentNumber(slot), generation: Generation::new(generation) }
}

/// How a pool begins.
pub(super) struct WorldSpec {
    pub(super) seed: u64,
    /// The class of its zones.
    pub(super) shape: [u8; 2],
    /// One that they may be converted to.
    pub(super) other_shape: [u8; 2],
    pub(super) drives: usize,
}

/// The pool.
pub(super) struct World {
    pub(super) sim: SimLoop,
    pub(super) media: Vec<SimMedium>,
    pub(super) pool: Rc<RefCell<TestPool>>,
    pub(super) handles: Rc<DriveHandles>,
    pub(super) tables: Rc<TablesHandle>,
    pub(super) segments: StripedSegments,
    pub(super) shelf: Rc<Shelf>,
    pub(super) control: Arc<RepairControl>,
    mover: Option<Mover>,
}

impl World {
    pub(super) fn new(spec: &WorldSpec) -> Self {
        Self::with_shapes(spec.seed, &[spec.shape, spec.other_shape], spec.drives)
    }

    /// One whose zones have the first shape, and may be converted to the others.
    pub(super) fn with_shapes(seed: u64, shapes: &[[u8; 2]], drives: usize) -> Self {
        let mut table = table(&vec![UNITS; drives]);
        let classes = (1u8..).zip(shapes).map(|(id, [data, parity])| class(id, *data, *parity));
        table.classes = classes.collect();
        table.class = class_id(1);
        table.drops_max = shapes.iter().map(|[_, parity]| *parity).max().unwrap();
        let bytes = u64::from(UNITS) * UNIT_BYTES;
        let names = (0..drives).map(|it| format!("space {it}"));
        let media = names.map(|name| SimMedium::new(&name, bytes)).collect();
        Self::open(seed, Nanos(0), media, TestPool::new(table), Rc::default())
    }

    /// The shape of new zones.
    pub(super) fn shape(&self) -> StripeShape {
        let view = self.tables.view();
        let table = view.drives();
        table.class_of(table.class).unwrap().shape
    }

    fn open(
        seed: u64,
        now: Nanos,
        media: Vec<SimMedium>,
        pool: TestPool,
        shelf: Rc<Shelf>,
    ) -> Self {
        let sim = SimLoop::starting_at(seed, now);
        let reactor = sim.handle();
        let handles = DriveHandles::new(&reactor);
        let mut figures = RedundantSpec::new(pool.view.drives().pool, 1, 64);
        figures.segment_bytes = pool.view.drives().segment_bytes;
        for (number, medium) in (0..).zip(&media) {
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
            let disks = RedundantDisks { meta: open(&meta), space: open(medium) };
            let handle = DriveHandle::new(&reactor, superblock, &disks, PATIENCE_NANOS).unwrap();
            handles.insert(handle);
        }
        let (shared, requests) = Tables::new(&reactor, pool.view.clone());
        let pool = Rc::new(RefCell::new(pool));
        let keeper = TestKeeper {
            board: shared.board().clone(),
            pool: Rc::clone(&pool),
            media: media.clone(),
        };
        let slow = reactor.clone();
        reactor.spawn(async move {
            keeper.run(requests, || slow.sleep(slow.random_u64() % 1_000_000)).await;
        });
        let sim = with_tables(sim, &handles);
        let tables = shared.on(&reactor);
        let segments = StripedSegments::new(Rc::clone(&handles), Rc::clone(&tables));
        let control = Arc::new(RepairControl::new(1, 100));
        Self { sim, media, pool, handles, tables, segments, shelf, control, mover: None }
    }

    pub(super) fn start_mover(&mut self) {
        let media = RepairMedia {
            handles: Rc::clone(&self.handles),
            tables: Rc::clone(&self.tables),
            segments: self.segments.clone(),
        };
        let contents = Rc::clone(&self.shelf) as Rc<dyn ZoneContents>;
        self.mover = Some(Mover::start(media, SHARD, contents, Arc::clone(&self.control)));
    }

    /// Ends the mover, and waits for that.
    pub(super) fn end_mover(&mut self) {
        let mover = self.mover.take().expect("one was started");
        self.sim.run_until(mover.ended());
    }

    /// Cuts power, and opens what is left; tables are durable.
    pub(super) fn crash(self, rng: &mut Rng) -> Self {
        let Self { sim, media, pool, handles, tables, segments, shelf, mover, .. } = self;
        let now = sim.handle().now();
        drop((mover, handles, tables, segments, sim));
        media.iter().for_each(|medium| medium.crash(rng));
        let pool = pool.borrow().clone();
        shelf.forget_unanswered();
        Self::open(rng.next_u64(), now, media, pool, shelf)
    }

    /// Starts a client that puts so many segments, one after the other.
    pub(super) fn start_client(&self, seed: u64, puts: u32) {
        let (segments, shelf) = (self.segments.clone(), Rc::clone(&self.shelf));
        let (reactor, mut rng) = (self.sim.handle(), Rng::new(seed));
        self.sim.handle().spawn(async move {
            for _ in 0..puts {
                reactor.sleep(rng.below(2_000_000)).await;
                let Some((id, bytes)) = shelf.begin_put(&mut rng) else { continue };
                let put = segments.put(id, bytes).await;
                shelf.end_put(id, put.is_ok());
            }
        });
    }

    /// Puts so many segments.
    pub(super) fn put_some(&mut self, seed: u64, puts: u32) {
        let (segments, shelf) = (self.segments.clone(), Rc::clone(&self.shelf));
        let mut rng = Rng::new(seed);
        self.sim.run_until(async move {
            for _ in 0..puts {
                let Some((id, bytes)) = shelf.begin_put(&mut rng) else { continue };
                segments.put(id, bytes).await.unwrap();
                shelf.end_put(id, true);
            }
        });
    }

    /// Reads the beginning of a segment as a client that knows what it must be; how many times it had to read again.
    pub(super) fn read_right(&mut self, id: SegmentId, expected: &[u8]) -> u32 {
        let (segments, expected) = (self.segments.clone(), expected.to_vec());
        let len = u32::try_from(expected.len()).unwrap();
        self.sim.run_until(async move {
            if *segments.get(id, 0, len).await.unwrap() == *expected {
                return 0;
            }
            for attempt in 1.. {
                match segments.get_again(id, 0, len, attempt).await.unwrap() {
                    Some(bytes) if *bytes == *expected => return attempt,
                    Some(_) => {}
                    None => return attempt,
                }
            }
            unreachable!("attempts end")
        })
    }

    pub(super) fn change(&mut self, change: Change) {
        let tables = Rc::clone(&self.tables);
        self.sim.run_until(async move { tables.change(change).await.map(drop) }).unwrap();
    }

    pub(super) fn lose(&mut self, drive: DriveNumber) {
        self.change(Change::DriveFailed { drive, reason: "lost".to_owned() });
    }

    pub(super) fn run_for(&mut self, nanos: u64) {
        let reactor = self.sim.handle();
        self.sim.run_until(async move { reactor.sleep(nanos).await });
    }

    /// Runs until something holds no more, for so many seconds at most; returns whether it does not. Looks often at
    /// first.
    pub(super) fn run_while(&mut self, seconds: u64, is_open: impl Fn(&Self) -> bool) -> bool {
        let began = self.sim.handle().now();
        while is_open(self) {
            let age = self.sim.handle().now().since(began);
            if age > Nanos::seconds(seconds) {
                return false;
            }
            self.run_for(if age < Nanos::seconds(2) { 200_000 } else { Nanos::millis(100) });
        }
        true
    }

    /// Whether a row moves, or names a drive that is not live, or another class than new zones get.
    pub(super) fn has_work(&self) -> bool {
        let view = self.tables.view();
        let table = view.drives();
        let is_live = |place: &StripPlace| {
            table.drive(place.drive).is_some_and(|drive| drive.state == DriveState::Live)
        };
        view.rows().any(|(_, row)| match &row.state {
            RowState::Empty => false,
            RowState::Moving { .. } => true,
            RowState::Still(set) => set.class != table.class || !set.places.iter().all(is_live),
        })
    }

    /// What is wrong with segments that were put, when all of `lost` are gone as well.
    pub(super) fn misses_without(&mut self, lost: &[DriveNumber]) -> Option<String> {
        let mut pool = self.pool.borrow().clone();
        for drive in lost {
            pool.set_state(drive.get(), DriveState::Failed);
        }
        let (reader, view) = (self.segments.reader().clone(), pool.view);
        let segments = self.shelf.put_segments();
        let lost = lost.to_vec();
        self.sim.run_until(async move {
            for (id, bytes) in segments {
                let slot = id.number.0;
                match reader.read_contents(&view, id, 0).await {
                    Ok(Some(contents)) if *contents.bytes == *bytes => {}
                    Ok(Some(_)) => {
                        return Some(format!("slot {slot} is another, without {lost:?}"));
                    }
                    Ok(None) => return Some(format!("slot {slot} is gone, without {lost:?}")),
                    Err(error) => return Some(format!("slot {slot} without {lost:?}: {error}")),
                }
            }
            None
        })
    }

    /// The same for every choice of as many drives as the zones survive.
    pub(super) fn misses(&mut self) -> Option<String> {
        let view = self.tables.view();
        let table = view.drives();
        let parity = table.class_of(table.class).unwrap().shape.parity();
        let live: Vec<_> = table.drives.iter().filter(|it| it.state == DriveState::Live).collect();
        let live: Vec<_> = live.into_iter().map(|drive| drive.number).collect();
        for bits in 0u32..1 << live.len() {
            if bits.count_ones() > u32::from(parity) {
                continue;
            }
            let chosen = live.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
            let lost: Vec<_> = chosen.map(|(_, drive)| *drive).collect();
            let found = self.misses_without(&lost);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// The same for some choices.
    pub(super) fn misses_of_some(&mut self, rng: &mut Rng, choices: u32) -> Option<String> {
        let view = self.tables.view();
        let live = view.drives().drives.iter().filter(|it| it.state == DriveState::Live);
        let live: Vec<_> = live.map(|drive| drive.number).collect();
        (0..choices).find_map(|_| {
            let mut rest = live.clone();
            let lost = (0..self.shape().parity()).map(|_| rest.swap_remove(rng.index(rest.len())));
            let lost: Vec<_> = lost.collect();
            self.misses_without(&lost)
        })
    }

    /// Drives of a zone's strips.
    pub(super) fn drives_of(&self, zone: u32) -> Vec<DriveNumber> {
        let view = self.tables.view();
        let set = view.row(ZoneIndex(zone)).target().unwrap();
        set.places.iter().map(|place| place.drive).collect()
    }
}

/// Gives drives sides of tables that can be read: the keeper of these pools writes none.
fn with_tables(mut sim: SimLoop, handles: &Rc<DriveHandles>) -> SimLoop {
    let drives = handles.all();
    sim.run_until(async move {
        for drive in drives {
            let (superblock, meta) = (drive.superblock(), drive.meta());
            let root = superblock.root(RootKey::Pool).unwrap();
            for root in [superblock.drive_table(), superblock.layout_page(0), root] {
                root.reset(meta, superblock.pool).await.unwrap();
            }
        }
    });
    sim
}

/// Changes tables in memory, a while after it is asked to.
struct TestKeeper {
    board: TableBoard,
    pool: Rc<RefCell<TestPool>>,
    media: Vec<SimMedium>,
}

impl TestKeeper {
    async fn run<F: Future<Output = ()>>(
        &self,
        mut requests: PortReceiver<TableRequest>,
        pause: impl Fn() -> F,
    ) {
        let mut batch = Vec::new();
        while requests.recv_batch(&mut batch).await > 0 {
            for TableRequest { change, answer } in batch.drain(..) {
                pause().await;
                let changed = self.apply(change);
                let view = Arc::new(self.pool.borrow().view.clone());
                self.board.publish(Arc::clone(&view));
                pause().await;
                drop(answer.send(changed.map(|()| view)));
            }
        }
    }

    fn apply(&self, change: Change) -> Result<()> {
        match change {
            Change::DriveFailed { drive, .. } => {
                self.set_state(drive, DriveState::Failed);
                Ok(())
            }
            Change::Leave { drive } => {
                self.set_state(drive, DriveState::Leaving);
                Ok(())
            }
            Change::Remove { drive, successor } => {
                self.set_state(drive, DriveState::Leaving);
                self.edit(|table| {
                    let record = table.drives.iter_mut().find(|it| it.number == drive).unwrap();
                    record.removal = Some(DriveRemoval { successor });
                });
                Ok(())
            }
            Change::Stay { drive } => {
                self.set_state(drive, DriveState::Live);
                Ok(())
            }
            Change::Place { zone } if self.pool.borrow().view.row(zone).target().is_some() => {
                Ok(())
            }
            Change::Place { zone } => {
                let class = self.pool.borrow().view.drives().class;
                let is_placed = self.pool.borrow_mut().place(zone.0, class.get());
                is_placed.then_some(()).ok_or_else(no_space)
            }
            Change::Move { zone, why, class, avoid, prefer } => {
                let row = self.pool.borrow().view.row(zone).clone();
                let to = self.target(zone, &row, class, &avoid, prefer)?;
                self.set_row(zone, row.moved_to(to, why).unwrap());
                Ok(())
            }
            Change::Row { zone, expected, new } => {
                if *self.pool.borrow().view.row(zone) != expected {
                    return Err(Error::RootConflict { key: "row".into(), expected: 0, found: 1 });
                }
                self.set_row(zone, new);
                Ok(())
            }
            Change::Class { shape, .. } => {
                self.edit(|table| table.class = class_with(table, shape));
                Ok(())
            }
            Change::Loss => {
                self.edit(|table| table.loss_epoch = table.epoch);
                Ok(())
            }
            Change::Walked { began_with } => {
                self.edit(|table| table.walked_epoch = began_with);
                Ok(())
            }
            _ => Err(no_space()),
        }
    }

    fn target(
        &self,
        zone: ZoneIndex,
        row: &Row,
        class: Option<crate::class::ClassId>,
        avoid: &[DriveNumber],
        prefer: Option<DriveNumber>,
    ) -> Result<StripSet> {
        let pool = self.pool.borrow();
        let (table, target) = (pool.view.drives(), row.target().unwrap());
        let class = *table.class_of(class.unwrap_or(target.class)).unwrap();
        let is_alike = pool.view.class_of(target).shape == class.shape;
        let is_moving = matches!(row.state, RowState::Moving { .. });
        assert!(!is_moving || class.id == target.class, "a row that moves is not converted");
        let stays = |place: &StripPlace| {
            let state = table.drive(place.drive).unwrap().state;
            let is_live = state == DriveState::Live && !avoid.contains(&place.drive);
            is_alike && (is_live || is_moving && state.is_readable())
        };
        let mut kept: Vec<_> =
            target.places.iter().map(|place| Some(*place).filter(stays)).collect();
        kept.resize(class.shape.strips(), None);
        if kept.iter().all(Option::is_some) {
            // A put asked for what was done meanwhile.
            return Err(Error::TableChange { reason: "nothing is to be moved".to_owned() });
        }
        let request = PlaceRequest { zone, class: &class, kept: &kept, avoid, prefer };
        let places = choose(&pool.view, &pool.occupancy, &request).ok_or_else(no_space)?;
        Ok(StripSet { class: class.id, form: StripForm::Striped, places: places.into() })
    }

    /// What the row before had alone is erased: it is free.
    fn set_row(&self, zone: ZoneIndex, row: Row) {
        let mut pool = self.pool.borrow_mut();
        let table = pool.view.drives().clone();
        let kept = ranges_of_row(&table, &row);
        for range in ranges_of_row(&table, pool.view.row(zone)) {
            if !kept.contains(&range) {
                let first = range.first.offset();
                let end = first + u64::from(range.count) * UNIT_BYTES;
                self.media[usize::from(range.drive.get())].erase(first..end);
            }
        }
        pool.set_row(zone.0, row);
    }

    fn set_state(&self, drive: DriveNumber, state: DriveState) {
        let before = self.pool.borrow().view.drives().drive(drive).unwrap().state;
        if before != state && before != DriveState::Failed {
            self.pool.borrow_mut().set_state(drive.get(), state);
        }
    }

    fn edit(&self, edit: impl FnOnce(&mut DriveTable)) {
        let mut pool = self.pool.borrow_mut();
        let mut table = pool.view.drives().clone();
        table.epoch.0 += 1;
        edit(&mut table);
        pool.view = pool.view.with_drives(table).unwrap();
    }
}

fn class_with(table: &DriveTable, shape: StripeShape) -> crate::class::ClassId {
    table.classes.iter().find(|class| class.shape == shape).unwrap().id
}

fn no_space() -> Error {
    Error::NoSpace { path: "the test's drives".to_owned() }
}

/// The state of a drive, without what the keeper would ask before.
pub(super) fn leave(world: &mut World, drive: u8) {
    world.change(Change::Leave { drive: drive_number(drive) });
}
