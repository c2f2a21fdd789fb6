//! The simulated machine: media that outlive it, models of what must be on them, and what went wrong.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use varve_media::{Drive, DriveDisks, DriveOptions, DriveSpec, SimMedium};
use varve_reactor::{Nanos, Reactor};
use varve_stdx::Rng;
use varve_types::{ShardId, StreamId};

use crate::branches::PoolOpening;
use crate::config::{Faults, WorldConfig};
use crate::drives::{DriveLatencies, RedundantMedia};
use crate::found_tables::{FoundTables, OpeningWish};
use crate::host::Host;
use crate::media::Media;
use crate::model::{ModelStream, ShardModel, StreamModel};
use crate::redundancy::Redundancy;
use crate::redundant_world::RedundantWorld;
use crate::side_cuts::SideCuts;

/// What a seed makes, for all lives of the machine.
pub(crate) struct World {
    /// Its figures.
    pub config: WorldConfig,
    /// Its media; none in a world on redundant drives.
    pub media: Media,
    /// Redundant drives.
    on_redundant: Option<RedundantWorld>,
    /// The host's file system, where it may have no room.
    pub host: Option<Host>,
    /// A model for each shard.
    pub models: Vec<ShardModel>,
    clock: Cell<u64>,
    operations: Cell<u64>,
    next_stream: Cell<u64>,
    /// Answers to requests so far, successes or not.
    pub answers: Cell<u64>,
    /// Requests that were acknowledged.
    pub acknowledged: Cell<u64>,
    /// Whether a fault other than power loss may explain an error now.
    pub faulty: Cell<bool>,
    /// Whether workers should come to an end.
    pub stopping: Cell<bool>,
    /// Hash of everything that was observed, in order.
    trace: Cell<u64>,
    violation: RefCell<Option<String>>,
    /// How often a shard was opened.
    pub(crate) openings: Cell<u64>,
    /// Zones that shards gave back to the pool.
    pub(crate) zones_given: Cell<u64>,
    /// Steps after which power is to be cut, if a life has asked for that.
    pub(crate) cut_after: Cell<Option<u64>>,
    /// Whether shards are told to open although their lanes were lost.
    pub(crate) accepts_loss: Cell<bool>,
    /// Whether the last opening was refused because a lane was lost.
    pub(crate) refused_lane: Cell<bool>,
    /// The open shards, to look at when nothing moves.
    pub(crate) shards: RefCell<Vec<std::rc::Weak<varve_engine::Shard>>>,
    /// When copies of the machine are cut, where that is done.
    pub(crate) side_cuts: Option<SideCuts>,
    rng: RefCell<Rng>,
    log: Cell<bool>,
}

impl World {
    /// An empty world.
    #[must_use]
    pub(crate) fn new(config: WorldConfig) -> Rc<Self> {
        let media = Media::new(&config, &config.spec());
        let host = Host::new(&config);
        if let Some(host) = &host {
            media.slots().for_each(|slots| host.carry(&slots.medium));
        }
        let models: Vec<_> = (0..config.shards).map(|_| ShardModel::default()).collect();
        let rng = RefCell::new(Rng::new(config.seed ^ 0x6C69_7665));
        let side_cuts = SideCuts::new(&config);
        let mut world = Self {
            config,
            media,
            on_redundant: None,
            host,
            models,
            clock: Cell::new(1),
            operations: Cell::new(1),
            next_stream: Cell::new(1),
            answers: Cell::new(0),
            acknowledged: Cell::new(0),
            faulty: Cell::new(false),
            stopping: Cell::new(false),
            trace: Cell::new(0),
            violation: RefCell::new(None),
            openings: Cell::new(0),
            zones_given: Cell::new(0),
            cut_after: Cell::new(None),
            accepts_loss: Cell::new(false),
            refused_lane: Cell::new(false),
            shards: RefCell::default(),
            side_cuts,
            rng,
            log: Cell::new(std::env::var_os("VARVE_SIM_LOG").is_some()),
        };
        let mut bucket = None; // One on all shards.
        for model in &world.models {
            for _ in 0..world.config.streams {
                model.streams.borrow_mut().push(world.fresh_stream());
            }
            if world.config.object_percent > 0 {
                let bucket = bucket.get_or_insert_with(|| world.fresh_stream().id);
                model.bucket.set(Some(*bucket));
            }
        }
        world.on_redundant = RedundantWorld::new(&world.config, &world.models);
        Rc::new(world)
    }

    /// Another machine, as a power cut is about to find this one, on redundant drives (SIM-ASIDE-1).
    ///
    /// # Panics
    /// When it has other drives.
    pub(crate) fn fork(&self, rng: &mut Rng) -> Rc<Self> {
        let now = self.clock.get() + 1; // Nobody here is told of it.
        let redundant = self.expect_redundant().fork();
        Rc::new(Self {
            config: self.config.clone(),
            media: Media::new(&self.config, &self.config.spec()),
            on_redundant: Some(redundant),
            host: None,
            models: self.models.iter().map(|model| model.after_cut(now).into_model()).collect(),
            clock: self.clock.clone(),
            operations: self.operations.clone(),
            next_stream: self.next_stream.clone(),
            answers: Cell::new(0),
            acknowledged: Cell::new(0),
            faulty: self.faulty.clone(),
            stopping: Cell::new(false),
            trace: Cell::new(0),
            violation: RefCell::default(),
            openings: self.openings.clone(),
            zones_given: Cell::new(0),
            cut_after: Cell::new(None),
            accepts_loss: Cell::new(false),
            refused_lane: Cell::new(false),
            shards: RefCell::default(),
            side_cuts: None,
            rng: RefCell::new(rng.split()),
            log: self.log.clone(),
        })
    }

    /// What a world on redundant drives has beside the others.
    #[must_use]
    pub(crate) fn on_redundant(&self) -> Option<&RedundantWorld> {
        self.on_redundant.as_ref()
    }

    fn expect_redundant(&self) -> &RedundantWorld {
        self.on_redundant.as_ref().expect("this is a world on redundant drives")
    }

    /// The redundant drives.
    ///
    /// # Panics
    /// When the world has none.
    #[must_use]
    pub(crate) fn redundant(&self) -> &RedundantMedia {
        self.expect_redundant().media()
    }

    /// The figures of the redundant pool.
    ///
    /// # Panics
    /// When the world has none.
    #[must_use]
    pub(crate) fn redundancy(&self) -> &Redundancy {
        self.expect_redundant().redundancy()
    }

    /// How long operations of a redundant drive take in this life.
    #[must_use]
    pub(crate) fn drive_latencies(&self, index: Option<usize>) -> DriveLatencies {
        self.expect_redundant().latencies(&self.config, index)
    }

    /// What the operator says after the redundant pool was refused.
    #[must_use]
    pub(crate) fn wishes_after(&self, found: &FoundTables) -> Vec<OpeningWish> {
        self.expect_redundant().wishes_after(found)
    }

    /// Enters whether the redundant pool was refused rightly.
    pub(crate) fn judge_refusal(&self, is_right: bool) {
        self.expect_redundant().judge_refusal(is_right);
    }

    /// The redundant pool is open.
    pub(crate) fn enter_opening(&self, opened: &PoolOpening<'_>) {
        self.expect_redundant().enter_opening(opened, &self.models);
        self.faulty.set(self.lost_too_many());
    }

    /// Whether more drives are lost than the pool survives: what was lost with them may not be readable.
    #[must_use]
    pub(crate) fn lost_too_many(&self) -> bool {
        self.on_redundant.as_ref().is_some_and(|world| world.media().lost_too_many())
    }

    /// Figures of the pool.
    #[must_use]
    pub(crate) fn spec(&self) -> DriveSpec {
        self.config.spec()
    }

    /// The disks of each drive, for one life.
    #[must_use]
    pub(crate) fn disks(&self, reactor: &Reactor) -> Vec<DriveDisks> {
        self.media.disks(reactor, &self.config)
    }

    /// Opens the drives, for one life.
    ///
    /// # Errors
    /// The drives'.
    pub(crate) async fn drive(&self, reactor: &Reactor) -> varve_media::Result<Drive> {
        let mut disks = self.disks(reactor);
        if disks.len() > 1 {
            let mut rng = self.split_rng();
            // They may be named in any order.
            for last in (1..disks.len()).rev() {
                disks.swap(last, rng.index(last + 1));
            }
        }
        Drive::open(disks, DriveOptions::default()).await
    }

    /// All media.
    pub(crate) fn all_media(&self) -> impl Iterator<Item = &SimMedium> {
        let redundant = self.on_redundant.iter().flat_map(|world| world.media().all());
        self.media.all().chain(redundant)
    }

    /// Cuts power, or only kills the process. Drop the loop before.
    pub(crate) fn cut(&self, rng: &mut Rng) {
        let kill = rng.chance(1, 8);
        for medium in self.all_media() {
            if kill {
                medium.kill(rng);
            } else {
                medium.crash(rng);
            }
        }
        let now = self.tick();
        for model in &self.models {
            model.cut(now);
        }
    }

    /// Ends all read and write failures; all disks answer, but for drives that are lost.
    pub(crate) fn heal(&self) {
        if let Some(world) = &self.on_redundant {
            world.media().heal();
            self.faulty.set(world.media().lost_too_many());
            return;
        }
        for medium in self.all_media() {
            medium.heal_reads();
            medium.fail_writes(false);
            medium.fail_next_write(false);
            medium.stick(Nanos(0));
        }
        self.faulty.set(self.config.faults == Faults::Bits && self.stopping.get());
    }

    /// The next time.
    pub(crate) fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// The next operation.
    pub(crate) fn fresh_operation(&self) -> u64 {
        self.operations.set(self.operations.get() + 1);
        self.operations.get()
    }

    /// A stream with an id never used before.
    pub(crate) fn fresh_stream(&self) -> Rc<ModelStream> {
        let id = StreamId::new(self.next_stream.get());
        self.next_stream.set(id.get() + 1);
        Rc::new(ModelStream {
            id,
            model: RefCell::new(StreamModel::new(self.config.whole_each())),
            dropped: Cell::new(false),
            is_promised: Cell::new(false),
            promise_changes: Cell::new(false),
        })
    }

    /// Bytes that bypassed the lanes of the open shards.
    #[must_use]
    pub(crate) fn bypassed_bytes(&self) -> u64 {
        let shards = self.shards.borrow();
        let open = shards.iter().filter_map(std::rc::Weak::upgrade);
        open.map(|shard| shard.stats().bypassed_bytes).sum()
    }

    /// An independent generator.
    pub(crate) fn split_rng(&self) -> Rng {
        self.rng.borrow_mut().split()
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, acknowledged: bool) {
        self.answers.set(self.answers.get() + 1);
        if acknowledged {
            self.acknowledged.set(self.acknowledged.get() + 1);
        }
    }

    /// Adds to the trace.
    pub(crate) fn record(&self, what: &str, shard: ShardId, numbers: &[u64]) {
        let mut hash = self.trace.get();
        for number in numbers.iter().chain(&[u64::from(shard.0), what.len() as u64]) {
            hash = (hash ^ number).wrapping_mul(0x9FB2_1C65_1E98_DF25).rotate_left(29);
        }
        self.trace.set(hash);
        if self.log.get() {
            eprintln!("{:>8} shard {shard} {what} {numbers:?}", self.clock.get());
        }
    }

    /// Hash of everything that was recorded.
    #[must_use]
    pub(crate) fn trace(&self) -> u64 {
        self.trace.get()
    }

    /// Says that a promise was broken; the first one counts.
    pub(crate) fn violated(&self, what: String) {
        if self.log.get() {
            eprintln!("VIOLATION {what}");
        }
        self.violation.borrow_mut().get_or_insert(what);
    }

    /// The first broken promise.
    #[must_use]
    pub(crate) fn violation(&self) -> Option<String> {
        self.violation.borrow().clone()
    }

    /// Whether a promise was broken.
    #[must_use]
    pub(crate) fn is_violated(&self) -> bool {
        self.violation.borrow().is_some()
    }
}
