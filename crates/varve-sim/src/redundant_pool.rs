//! An open redundant pool of the machine: its drives as they were found, its keeper, which is a task of the same loop,
//! and handles of its own for each shard.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{Either, select};
use varve_engine::OpenPool;
use varve_media::{Error, IoFuture, Media, RedundantSuperblock, Result};
use varve_media_redundancy::{
    Candidate, DriveHandle, DriveHandles, DriveNumber, DriveOpener, FoundDrive, HistoryId,
    JournalPatience, Keeper, LeftOutStrip, MakingSpec, MediumKinds, Mover, NewMember, NewPoolDrive,
    OpeningOptions, PoolSizer, RedundantDisks, RedundantThread, RepairControl, RepairMedia,
    StripedSegments, Tables, ZoneIndex, ZoneRoot, make, open,
};
use varve_reactor::Reactor;
use varve_stdx::Rng;
use varve_types::{SegmentNumber, ShardId};

use crate::branches::PoolOpening;
use crate::census::{CensusSubjects, StripCensus};
use crate::drives::{DriveCondition, DriveLatencies, SimDrive};
use crate::found_tables::{FoundTables, OpeningWish};
use crate::moves::RowOperator;
use crate::observed::{ObservedSegments, SegmentKnowledge};
use crate::raw_tables::{RawLayout, is_member};
use crate::redundancy::{DriveFaults, Redundancy};
use crate::world::World;

/// Of how long a copy of a journal may not answer, the part by which it is late.
const LATE_PART: u64 = 3;

/// Percent of what drives can do that repair takes beside clients.
const REPAIR_PERCENT: u8 = 40;

/// The pool.
pub(crate) struct RedundantPool {
    world: Rc<World>,
    reactor: Reactor,
    tables: Tables,
    drives: Vec<(DriveNumber, FoundDrive)>,
    threads: RefCell<Vec<ShardThread>>,
    /// Strips that puts left out in this life.
    left_out: RefCell<Vec<LeftOutStrip>>,
    /// That of the movers, in a world that has some.
    control: Option<Arc<RepairControl>>,
}

/// What one shard's thread has.
struct ShardThread {
    shard: ShardId,
    segments: StripedSegments,
    knowledge: SegmentKnowledge,
    /// Moves rows of the shard's zones until it is dropped.
    mover: Option<Mover>,
}

/// Makes the pool's drives, unless they were made before. Durable on return.
///
/// # Errors
/// The drives'.
pub(crate) async fn make_drives(world: &World, reactor: &Reactor) -> Result<()> {
    let redundancy = world.redundancy();
    let latencies = world.drive_latencies(None);
    let drives = world.redundant().drives().iter().map(|drive| {
        Ok(NewPoolDrive {
            member: drive.member().clone(),
            superblock: drive.superblock().clone(),
            disks: drive.disks(reactor, &latencies)?,
        })
    });
    let drives = drives.collect::<Result<Vec<_>>>()?;
    let spec = MakingSpec {
        figures: redundancy.spec(&world.config),
        shape: redundancy.shape,
        kinds: MediumKinds::ALL,
        zone_segments: redundancy.zone_segments,
        history: draw_history(&mut Rng::new(world.config.seed ^ 0x4869_7374)),
    };
    match make(reactor, &drives, &spec).await {
        Ok(_) | Err(Error::PoolExists { .. }) => Ok(()), // Made before the power was cut.
        Err(error) => Err(error),
    }
}

impl RedundantPool {
    /// Opens the pool by the drives that can be found now.
    ///
    /// # Errors
    /// The opening's.
    pub(crate) async fn open(
        world: &Rc<World>,
        reactor: &Reactor,
        wish: &OpeningWish,
    ) -> Result<Self> {
        let redundancy = world.redundancy();
        let candidates = find_drives(world, reactor).await?;
        let options = OpeningOptions {
            degraded: wish.is_degraded,
            history: wish.history,
            new_history: draw_history(&mut world.split_rng()),
            pool: Some(world.config.pool()),
            patience_nanos: redundancy.patience_nanos,
        };
        let opening = open(reactor, candidates, &options).await?;
        let drives = opening.drives.clone();
        let keeper = Keeper::new(reactor, opening, Rc::new(NoOpener));
        let tables = keeper.tables();
        reactor.spawn(keeper.run());
        let moves = redundancy.faults.moves_rows();
        let control =
            moves.then(|| Arc::new(RepairControl::new(world.config.shards, REPAIR_PERCENT)));
        let (world, reactor) = (Rc::clone(world), reactor.clone());
        Ok(Self {
            control,
            world,
            reactor,
            tables,
            drives,
            threads: RefCell::default(),
            left_out: RefCell::default(),
        })
    }

    /// What the thread of a shard works with. Each call is another thread.
    ///
    /// # Errors
    /// The pool's.
    pub(crate) fn media(&self, shard: ShardId) -> Result<Media> {
        let redundancy = self.world.redundancy();
        let handles = DriveHandles::new(&self.reactor);
        for (_, drive) in &self.drives {
            let FoundDrive { superblock, disks, .. } = drive;
            let patience = redundancy.patience_nanos;
            let handle = DriveHandle::new(&self.reactor, superblock.clone(), disks, patience);
            handle.into_iter().for_each(|handle| handles.insert(handle));
        }
        let patience = JournalPatience {
            substitute_nanos: redundancy.journal_patience_nanos,
            late_nanos: redundancy.journal_patience_nanos / LATE_PART,
        };
        let thread = RedundantThread::new(handles, self.tables.on(&self.reactor), patience);
        let mut media = thread.media(shard)?;
        let (segments, knowledge) = ObservedSegments::over(Rc::clone(&media.segments));
        media.segments = segments;
        self.note_left_out();
        let mut threads = self.threads.borrow_mut();
        threads.retain(|other| other.shard != shard);
        let mover = self.control.as_ref().map(|control| {
            let (media, contents) = (RepairMedia::of(&thread), Rc::new(knowledge.clone()));
            Mover::start(media, shard, contents, Arc::clone(control))
        });
        threads.push(ShardThread { shard, segments: thread.segments().clone(), knowledge, mover });
        Ok(media)
    }

    /// Waits until nothing moves rows of a shard any more: what it has may then be another thread's.
    pub(crate) async fn end_mover(&self, shard: ShardId) {
        let mover = {
            let mut threads = self.threads.borrow_mut();
            let thread = threads.iter_mut().find(|thread| thread.shard == shard);
            thread.and_then(|thread| thread.mover.take())
        };
        if let Some(mover) = mover {
            mover.ended().await;
        }
    }

    /// Enters which drives take part from now on, and what must be on them.
    pub(crate) fn take_part(&self, found: &FoundTables) {
        let (media, view) = (self.world.redundant(), self.tables.view());
        let is_member_of = |drive: &SimDrive| {
            let id = drive.superblock().drive_id;
            let mut records = view.drives().drives.iter();
            let opened = self.drives.iter().any(|(_, it)| it.superblock.drive_id == id);
            opened && records.any(|record| record.id.0 == id && is_member(record.state))
        };
        let indexed = media.drives().iter().enumerate();
        let members: Vec<_> =
            indexed.filter(|(_, drive)| is_member_of(drive)).map(|(index, _)| index).collect();
        let table = view.drives();
        let holders = found.holders(table);
        self.world.enter_opening(&PoolOpening { table, holders: &holders, members: &members });
    }

    /// Counts strips of all that the shards hold; `None` while that changes.
    pub(crate) fn census(&self) -> Option<StripCensus> {
        let config = &self.world.config;
        let (media, pool) = (self.world.redundant(), config.pool());
        let history = self.tables.view().drives().history;
        let layout = RawLayout::read(media, pool, config.shards, Some(history))?;
        let redundancy = self.world.redundancy();
        self.note_left_out();
        let (mut held, mut stored) = (Vec::new(), Vec::new());
        for ShardThread { knowledge, .. } in self.threads.borrow().iter() {
            if self.control.is_none() {
                stored.extend(knowledge.stored());
            }
            for zone in 0..redundancy.zones {
                let first = SegmentNumber(zone * redundancy.zone_segments);
                // Zones that are not the shard's.
                held.extend(knowledge.put_ids(first, redundancy.zone_segments).unwrap_or_default());
            }
            if knowledge.is_changing() {
                return None;
            }
        }
        let left_out = self.left_out.borrow();
        let shards = self.control.as_ref().map(|control| control.shard_facts()).unwrap_or_default();
        let subjects =
            CensusSubjects { held: &held, stored: &stored, left_out: &left_out, shards: &shards };
        Some(StripCensus::take(media, &layout, pool, &subjects))
    }

    /// What an operator has at hand who moves rows, in a world where that is done.
    pub(crate) fn operator(&self, pool: &Rc<OpenPool>) -> Option<RowOperator> {
        if self.world.redundancy().faults != DriveFaults::Moving {
            return None;
        }
        let (reactor, tables) = (self.reactor.clone(), self.tables.on(&self.reactor));
        let (pool, control) = (Rc::clone(pool), Arc::clone(self.control.as_ref()?));
        Some(RowOperator { reactor, tables, pool, control })
    }

    /// Has the pool grow and shrink from now on, in a world where rows are moved.
    pub(crate) fn start_sizer(&self, pool: &Rc<OpenPool>) -> Option<PoolSizer> {
        let (tables, control) = (self.tables.on(&self.reactor), Arc::clone(self.control.as_ref()?));
        let root = SizedRoot { pool: Rc::clone(pool), zones_max: self.world.redundancy().zones };
        Some(PoolSizer::start(&self.reactor, tables, Rc::new(root), control))
    }

    /// Where rows are moved, movers take the lists.
    fn note_left_out(&self) {
        if self.control.is_some() {
            return;
        }
        let threads = self.threads.borrow();
        let strips = threads.iter().flat_map(|thread| thread.segments.take_left_out());
        self.left_out.borrow_mut().extend(strips);
    }
}

impl Drop for RedundantPool {
    fn drop(&mut self) {
        if let (Some(control), Some(redundant)) = (&self.control, self.world.on_redundant()) {
            redundant.note_moved(control.counts().rows_moved);
        }
    }
}

/// The pool's root as its sizer needs it. The world knows of no more zones than there were at first.
struct SizedRoot {
    pool: Rc<OpenPool>,
    zones_max: u32,
}

impl ZoneRoot for SizedRoot {
    fn zones(&self) -> u32 {
        self.pool.zone_count()
    }

    fn is_withdrawn(&self, zone: ZoneIndex) -> bool {
        self.pool.is_withdrawn(zone.0)
    }

    fn ask_back(&self, zones: u32) {
        self.pool.ask_back(zones);
    }

    fn resize(&self, zones: u32) -> IoFuture<'_, u32> {
        let failed = |error: varve_engine::Error| Error::TableChange { reason: error.to_string() };
        let zones = zones.min(self.zones_max);
        Box::pin(async move { self.pool.resize(zones).await.map_err(failed) })
    }
}

/// The drives that are found, in any order.
async fn find_drives(world: &World, reactor: &Reactor) -> Result<Vec<Candidate>> {
    let redundancy = world.redundancy();
    let mut candidates = Vec::new();
    for (index, drive) in world.redundant().drives().iter().enumerate() {
        let path = drive.path().to_owned();
        match drive.condition() {
            // A path that is named and leads nowhere, or one that is not named.
            DriveCondition::Absent if index % 2 == 0 => {
                candidates.push(Candidate::Absent { path });
                continue;
            }
            DriveCondition::Absent => continue,
            DriveCondition::Unopenable => {
                let error =
                    Error::Open { path: path.clone(), reason: "permission denied".to_owned() };
                candidates.push(Candidate::Failed { path, error });
                continue;
            }
            DriveCondition::Well
            | DriveCondition::Failing
            | DriveCondition::ReadOnly
            | DriveCondition::Silent => {}
        }
        let latencies = world.drive_latencies(Some(index));
        candidates.push(find_drive(redundancy, reactor, drive, &latencies).await?);
    }
    let mut rng = world.split_rng();
    for last in (1..candidates.len()).rev() {
        candidates.swap(last, rng.index(last + 1));
    }
    Ok(candidates)
}

async fn find_drive(
    redundancy: &Redundancy,
    reactor: &Reactor,
    drive: &SimDrive,
    latencies: &DriveLatencies,
) -> Result<Candidate> {
    let path = drive.path().to_owned();
    let disks = drive.disks(reactor, latencies)?;
    let outcome = {
        let read = pin!(RedundantSuperblock::read(&*disks.meta));
        match select(read, reactor.sleep(redundancy.patience_nanos)).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(((), _)) => Err(silence(drive)),
        }
    };
    Ok(match outcome {
        Ok(Some(superblock)) => Candidate::Found(FoundDrive { path, superblock, disks }),
        Ok(None) => Candidate::Failed { error: Error::NoPool { path: path.clone() }, path },
        Err(error) => Candidate::Failed { path, error },
    })
}

/// A drive that does not answer is as good as one that is not there (OPEN-5).
fn silence(drive: &SimDrive) -> Error {
    Error::Io {
        operation: "read",
        path: drive.path().to_owned(),
        offset: 0,
        len: 0,
        reason: "it does not answer".to_owned(),
    }
}

fn draw_history(rng: &mut Rng) -> HistoryId {
    let mut id = [0; 16];
    rng.fill(&mut id);
    HistoryId(id)
}

/// No drive joins.
struct NoOpener;

impl DriveOpener for NoOpener {
    fn open<'a>(
        &'a self,
        member: &'a NewMember,
        _superblock: &'a RedundantSuperblock,
    ) -> IoFuture<'a, RedundantDisks> {
        let reason = "no drive joins in this world".to_owned();
        let error = Error::Open { path: member.path.clone(), reason };
        Box::pin(std::future::ready(Err(error)))
    }
}
