//! Runs seeds: a world each, life after life, power cut between any two steps; catches panics and stalls.

use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use varve_logstore::format::frame::{FRAME_ALIGN, FrameHeader};
use varve_logstore::lane::FRAMES_IN_FLIGHT_MAX;
use varve_media::{DriveSpec, SimMedium, is_whole_side};
use varve_reactor::{Nanos, Progress, SimLoop};
use varve_stdx::Rng;
use varve_types::ShardId;

use crate::aside::cut_aside;
use crate::config::{Faults, WorldConfig};
use crate::drives::SimDrive;
use crate::host::Host;
use crate::life::{LifePlan, format, live};
use crate::media::MediaPart;
use crate::pages::{damage_pages, loses_both};
use crate::redundancy::{DriveFaults, Redundancy};
use crate::redundant_world::RedundantWorld;
use crate::rot::{decay_drives, rot};
use crate::side_cuts::SideCuts;
use crate::world::World;

/// Simulated time in which something has to be answered: a write waits 60 s for a mark pass, and none ends while a
/// shard has failed.
const STALL_NANOS: u64 = 100_000_000_000;

/// Steps in which something has to be answered.
const STALL_STEPS: u64 = 2_000_000;

/// Bytes of a side of a root that decay: its header, and what it holds.
const DECAY_BYTES: u64 = 1024;

/// What a seed came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedOutcome {
    /// The seed.
    pub seed: u64,
    /// Times the power was cut, or the process killed.
    pub cuts: u64,
    /// Times the power of a copy of the machine was cut, and what was left was opened.
    pub side_cuts: u64,
    /// Requests that were acknowledged.
    pub acknowledged: u64,
    /// Bytes that bypassed the lane.
    pub bypassed_bytes: u64,
    /// Zones that shards gave back to the pool.
    pub zones_given: u64,
    /// Steps of the simulated loop.
    pub steps: u64,
    /// Hash of everything that was observed.
    pub trace: u64,
    /// Whether a lost lane was found.
    pub lane_loss_found: bool,
    /// Segments with pages that were damaged although they have a copy, or whose copy was.
    pub damaged_copies: u64,
    /// Segments whose strips were counted on raw media.
    pub counted_segments: u64,
    /// Rows that came to the end of a move.
    pub rows_moved: u64,
    /// Strips that were damaged.
    pub damaged_strips: u64,
    /// What was wrong, if anything was.
    pub failure: Option<String>,
}

impl SeedOutcome {
    /// Of a run that has not begun.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            cuts: 0,
            side_cuts: 0,
            acknowledged: 0,
            bypassed_bytes: 0,
            zones_given: 0,
            steps: 0,
            trace: 0,
            lane_loss_found: false,
            damaged_copies: 0,
            counted_segments: 0,
            rows_moved: 0,
            damaged_strips: 0,
            failure: None,
        }
    }
}

/// How the harness left a life.
enum LifeEnd {
    Finished,
    OutOfSteps,
    Failed(String),
}

/// Runs one seed.
#[must_use]
pub fn run_seed(seed: u64) -> SeedOutcome {
    run_world(WorldConfig::from_seed(seed))
}

/// Runs one world.
#[must_use]
pub fn run_world(config: WorldConfig) -> SeedOutcome {
    let seed = config.seed;
    let lives = config.lives;
    let faults = config.faults;
    let has_floods = config.has_floods;
    let world = World::new(config);
    let mut rng = Rng::new(seed);
    let mut outcome = SeedOutcome::new(seed);
    cut_making(&world, &mut outcome);
    let made = {
        let (world, sim) = (Rc::clone(&world), SimLoop::new(rng.next_u64()));
        let reactor = sim.handle();
        let slot = Rc::new(Cell::new(None));
        let result = Rc::clone(&slot);
        let inner = Rc::clone(&world);
        let body = async move { result.set(Some(format(inner, reactor).await)) };
        match spend(&world, sim, body, u64::MAX, None, &mut outcome) {
            LifeEnd::Finished => slot.take().expect("the body finished").map_err(|e| e.to_string()),
            LifeEnd::OutOfSteps => Err("formatting takes for ever".to_owned()),
            LifeEnd::Failed(failure) => Err(failure),
        }
    };
    if let Err(failure) = made {
        outcome.failure = Some(format!("formatting: {failure}"));
        return outcome;
    }
    let copied_after = rng_of_damage(seed).below(u64::from(lives.max(2) - 1));
    let mut copy = None;
    let mut decay_rng = Rng::new(seed ^ 0x4465_6361); // Lives go on with their own.
    for life in 0..lives {
        let steps = match world.on_redundant() {
            Some(_) => steps_on_redundant_drives(&mut rng),
            None if has_floods => steps_of_flood(&mut rng),
            None => steps_of_life(&mut rng),
        };
        if !run_life(&world, &mut rng, LifePlan::Work, steps, &mut outcome) {
            return finish(&world, outcome, life);
        }
        if faults == Faults::None {
            decay(&world, &mut decay_rng);
        } else {
            world.heal();
        }
        if u64::from(life) == copied_after {
            copy = copy_for_damage(&world);
        }
        if has_lost_for_good(&world) {
            break;
        }
    }
    spend_last_life(&world, &mut rng, copy.as_deref(), &mut outcome);
    finish(&world, outcome, lives)
}

/// What damage after the last power cut brings back: lanes, or segments.
fn copy_for_damage(world: &World) -> Option<Vec<MediaPart>> {
    if let Some(redundant) = world.on_redundant() {
        let units = redundant.media().drives().iter().map(SimDrive::units);
        let copies = units.map(|it| MediaPart { medium: it.medium.copy(), start: it.start });
        let is_rotting = redundant.redundancy().faults == DriveFaults::Rotting;
        return is_rotting.then(|| copies.collect());
    }
    let lane = |shard| world.media.lane(ShardId(shard)).copy();
    match world.config.faults {
        Faults::Lanes => Some((0..world.config.shards).map(lane).collect()),
        Faults::Bits => Some(world.media.slots().map(MediaPart::copy).collect()),
        Faults::None | Faults::Reads | Faults::Writes | Faults::Pages | Faults::Stuck => None,
    }
}

/// After the last power cut: brings the damage of this world, and looks at what is left. `copy` is of an earlier end.
fn spend_last_life(
    world: &Rc<World>,
    rng: &mut Rng,
    copy: Option<&[MediaPart]>,
    outcome: &mut SeedOutcome,
) {
    if world.on_redundant().is_some() {
        end_on_redundant_drives(world, rng, copy, outcome);
    } else if world.config.faults == Faults::Bits {
        // What bypassed the lane is as bare in the newest segments as records are in the newest frames: damage there
        // looks like a torn write. An opening puts it behind a checkpoint.
        if outcome.bypassed_bytes > 0 && !run_life(world, rng, LifePlan::Open, u64::MAX, outcome) {
            return;
        }
        match (world.config.seed % 3, copy) {
            (0, Some(slots)) => stray(world, rng, Some(slots)),
            (1, _) => stray(world, rng, None),
            _ => flip_bits(world, rng),
        }
        world.faulty.set(true);
        run_life(world, rng, LifePlan::Damaged, u64::MAX, outcome);
    } else if world.config.faults == Faults::Lanes {
        lose_lanes(world, copy);
        // What is refused was found; what is not has lost nothing.
        if run_life(world, rng, LifePlan::Damaged, u64::MAX, outcome) && world.refused_lane.get() {
            outcome.lane_loss_found = true;
            world.accepts_loss.set(true);
            run_life(world, rng, LifePlan::AcceptLoss, u64::MAX, outcome);
        }
    } else if world.config.faults == Faults::Pages {
        outcome.damaged_copies = damage_pages(world);
        // Of what is damaged twice there may be nothing left, and nothing else may be read instead.
        let is_lost = loses_both(world);
        world.faulty.set(is_lost);
        let plan = if is_lost { LifePlan::Damaged } else { LifePlan::Inspect };
        run_life(world, rng, plan, u64::MAX, outcome);
    } else {
        world.faulty.set(false);
        run_life(world, rng, LifePlan::Inspect, u64::MAX, outcome);
    }
}

/// Whether more drives failed than the pool survives, so that all that is left is to look at what can be read.
pub(crate) fn has_lost_for_good(world: &World) -> bool {
    let is_losing = |redundancy: &Redundancy| redundancy.faults.loses_drives();
    world.config.redundancy.as_ref().is_some_and(is_losing) && world.lost_too_many()
}

/// The last life on redundant drives: while no more were lost than may be, everything is there.
fn end_on_redundant_drives(
    world: &Rc<World>,
    rng: &mut Rng,
    copy: Option<&[MediaPart]>,
    outcome: &mut SeedOutcome,
) {
    let mut rot_rng = Rng::new(world.config.seed ^ 0x0052_6F74);
    if !let_rot(world, rng, &mut rot_rng, copy, outcome) {
        return;
    }
    let plan = if has_lost_for_good(world) { LifePlan::Damaged } else { LifePlan::Inspect };
    run_life(world, rng, plan, u64::MAX, outcome);
}

/// Damages what drives hold, in a world where they rot; false when something was wrong before.
pub(crate) fn let_rot(
    world: &Rc<World>,
    rng: &mut Rng,
    rot_rng: &mut Rng,
    copy: Option<&[MediaPart]>,
    outcome: &mut SeedOutcome,
) -> bool {
    if world.redundancy().faults != DriveFaults::Rotting {
        return true;
    }
    // What a power cut tore has no strip to spare: an opening puts all of it in order.
    if !run_life(world, rng, LifePlan::Open, u64::MAX, outcome) {
        return false;
    }
    outcome.damaged_strips = rot(world, copy, rot_rng);
    world.on_redundant().into_iter().for_each(RedundantWorld::set_rotten);
    true
}

/// Begins to make the pool, and cuts the power meanwhile, some times over.
fn cut_making(world: &Rc<World>, outcome: &mut SeedOutcome) {
    let mut rng = Rng::new(world.config.seed ^ 0x4D61_6B65); // Lives go on with their own.
    for _ in 0..rng.below(4) {
        let sim = SimLoop::new(rng.next_u64());
        let (inner, reactor) = (Rc::clone(world), sim.handle());
        let body = async move {
            if let Err(error) = format(Rc::clone(&inner), reactor).await {
                inner.violated(format!("making a pool again: {error}"));
            }
        };
        let steps_max = if rng.chance(1, 2) { 40 } else { 400 };
        let steps = rng.below(steps_max);
        if let LifeEnd::Failed(failure) = spend(world, sim, body, steps, None, outcome) {
            world.violated(failure);
            return;
        }
        world.all_media().for_each(|medium| medium.crash(&mut rng));
    }
}

fn finish(world: &World, mut outcome: SeedOutcome, life: u32) -> SeedOutcome {
    outcome.trace = world.trace();
    outcome.acknowledged = world.acknowledged.get();
    outcome.failure = outcome.failure.map(|failure| format!("life {life}: {failure}"));
    outcome
}

/// Steps until the power is cut: often during recovery, sometimes never.
fn steps_of_life(rng: &mut Rng) -> u64 {
    match rng.below(16) {
        0 => 1500 + rng.below(20_000),
        1..10 => rng.below(300),
        10..14 => rng.below(1000),
        _ => {
            let magnitude = 8 + rng.below(8);
            rng.below(1 << magnitude)
        }
    }
}

/// Steps until the power is cut, if nothing asks for that before: mostly enough to fill a shard.
fn steps_of_flood(rng: &mut Rng) -> u64 {
    if rng.chance(1, 8) { rng.below(1000) } else { 5000 + rng.below(20_000) }
}

/// Steps until the power is cut on redundant drives, an opening of which takes some thousands.
fn steps_on_redundant_drives(rng: &mut Rng) -> u64 {
    match rng.below(8) {
        0..3 => rng.below(3000),
        3..7 => 2000 + rng.below(30_000),
        _ => 2000 + rng.below(150_000),
    }
}

/// Lives once and cuts the power; false when something was wrong.
pub(crate) fn run_life(
    world: &Rc<World>,
    rng: &mut Rng,
    plan: LifePlan,
    steps: u64,
    outcome: &mut SeedOutcome,
) -> bool {
    if let Some(redundant) = world.on_redundant() {
        redundant.begin_life(rng, plan != LifePlan::Work);
        world.faulty.set(world.lost_too_many());
    }
    let sim = SimLoop::new(rng.next_u64());
    world.stopping.set(false);
    world.shards.borrow_mut().clear();
    let body = live(Rc::clone(world), sim.handle(), plan);
    let side_cuts = world.side_cuts.as_ref().filter(|_| plan == LifePlan::Work);
    match spend(world, sim, body, steps, side_cuts, outcome) {
        LifeEnd::Failed(failure) => {
            outcome.failure = Some(failure);
            return false;
        }
        LifeEnd::Finished | LifeEnd::OutOfSteps => {}
    }
    if let Some(failure) = world.host.as_ref().and_then(Host::violation) {
        outcome.failure = Some(failure);
        return false;
    }
    outcome.cuts += 1;
    world.cut(rng);
    if let Some(redundant) = world.on_redundant() {
        redundant.end_life(&world.models);
        outcome.counted_segments = redundant.counted();
        outcome.rows_moved = redundant.moved();
    }
    true
}

/// Runs `body` in a loop of its own for at most `steps` steps, and cuts the power of copies of the machine meanwhile.
fn spend(
    world: &Rc<World>,
    mut sim: SimLoop,
    body: impl Future<Output = ()> + 'static,
    mut steps: u64,
    side_cuts: Option<&SideCuts>,
    outcome: &mut SeedOutcome,
) -> LifeEnd {
    let reactor = sim.handle();
    world.cut_after.set(None);
    let mut body = Some(reactor.spawn_join(body));
    let (mut answers, mut since, mut since_steps) = (world.answers.get(), Nanos(0), 0);
    let end = loop {
        if sim.steps() >= steps {
            break LifeEnd::OutOfSteps;
        }
        let step = catch_unwind(AssertUnwindSafe(|| {
            let progress = sim.step();
            let done = body.as_mut().is_some_and(|body| body.try_take().is_some());
            (progress, done)
        }));
        let (progress, done) = match step {
            Ok(step) => step,
            Err(panic) => {
                let text = panic_text(&*panic);
                // What panicked may be half-changed: it is not even dropped.
                outcome.steps += sim.steps();
                std::mem::forget(sim);
                std::mem::forget(body);
                std::mem::forget(Rc::clone(world));
                return LifeEnd::Failed(format!("panic: {text}"));
            }
        };
        if let Some(violation) = world.violation() {
            break LifeEnd::Failed(violation);
        }
        if progress == Progress::Ran
            && let Some(failure) = side_cuts.and_then(|cuts| cut_aside(world, cuts, outcome))
        {
            break LifeEnd::Failed(format!("cut aside after step {}: {failure}", sim.steps()));
        }
        if let Some(left) = world.cut_after.take() {
            steps = steps.min(sim.steps() + left);
        }
        if done {
            break LifeEnd::Finished;
        }
        if world.answers.get() != answers {
            (answers, since, since_steps) = (world.answers.get(), reactor.now(), sim.steps());
        } else if progress == Progress::Idle {
            break LifeEnd::Failed(format!("deadlock: nothing is left to run{}", look(world)));
        } else if reactor.now().0 - since.0 > STALL_NANOS || sim.steps() - since_steps > STALL_STEPS
        {
            break LifeEnd::Failed(format!(
                "no progress for {} steps, {} ms{}",
                sim.steps() - since_steps,
                (reactor.now().0 - since.0) / 1_000_000,
                look(world)
            ));
        }
    };
    outcome.steps += sim.steps();
    outcome.bypassed_bytes += world.bypassed_bytes();
    outcome.zones_given = world.zones_given.get();
    drop(sim);
    drop(body);
    end
}

/// The state of all open shards.
fn look(world: &World) -> String {
    let shards = world.shards.borrow();
    let open = shards.iter().filter_map(std::rc::Weak::upgrade);
    open.map(|shard| format!("\n  failed {} {:#?}", shard.has_failed(), shard.stats())).collect()
}

thread_local! {
    static LAST_PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

/// Keeps panics of this thread for the report instead of printing them.
pub fn catch_panics() {
    std::panic::set_hook(Box::new(|info| {
        LAST_PANIC.set(Some(info.to_string()));
        if std::env::var_os("VARVE_SIM_BACKTRACE").is_some() {
            eprintln!("{info}\n{}", std::backtrace::Backtrace::force_capture());
        }
    }));
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = LAST_PANIC.take() {
        return text;
    }
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "unknown".to_owned())
}

/// What is lost is not drawn from the generator of the world, which lives go on with.
pub(crate) fn rng_of_damage(seed: u64) -> Rng {
    Rng::new(seed ^ 0x4C61_6E65)
}

/// Takes a lane away: all of it, or its first half, or what it got since it was copied.
fn lose_lanes(world: &World, copy: Option<&[MediaPart]>) {
    let config = &world.config;
    let mut rng = rng_of_damage(config.seed);
    let shard = ShardId(u16::try_from(rng.index(usize::from(config.shards))).expect("a few"));
    let MediaPart { medium, start } = world.media.lane(shard);
    let (middle, end) = (start + config.lane_bytes / 2, start + config.lane_bytes);
    match (config.seed % 3, copy) {
        (0, _) if shows_half_lost(medium, *start..middle, end) => medium.erase(*start..middle),
        (1, Some(copy)) => {
            let copy = &copy[usize::from(shard.0)];
            medium.transplant(*start..end, &copy.medium, copy.start);
        }
        _ => medium.erase(*start..end),
    }
}

/// Whether frames behind the first half of a lane tell that it is lost, if they follow what it holds. Few of them may
/// have been under way at the cut, as far as anybody can tell, with those before them not written yet (LANE-READER-2).
fn shows_half_lost(medium: &SimMedium, first: Range<u64>, end: u64) -> bool {
    let newest = |half: Range<u64>| {
        let bytes = medium.visible(half);
        let headers = bytes.chunks(FRAME_ALIGN as usize).map(FrameHeader::decode);
        headers.filter_map(Result::ok).map(|header| header.frame_seq).max().unwrap_or(0)
    };
    let (before, behind) = (newest(first.clone()), newest(first.end..end));
    behind < before || behind - before > FRAMES_IN_FLIGHT_MAX as u64
}

/// Inverts bits of what there is several times, on one side of roots and in two copies of the superblock at most: none
/// of it shows, and the next opening mends it. Only what is whole everywhere decays, and only while nothing is cached:
/// after a kill a whole side may be in the cache alone, and the next power cut takes it.
pub(crate) fn decay(world: &World, rng: &mut Rng) {
    if world.on_redundant().is_some() {
        return decay_drives(world, rng);
    }
    let pool = world.config.pool();
    if let Some(meta) = world.media.metas().next() {
        for (root, sides) in (0..).zip(world.spec().root_sides()) {
            let is_whole = |side: &Range<u64>| {
                meta.durable(side.clone()).is_some_and(|bytes| is_whole_side(pool, root, &bytes))
            };
            if sides.iter().all(is_whole) && rng.chance(1, 2) {
                let side = &sides[rng.index(2)];
                flip(meta, rng, side.start..side.start + DECAY_BYTES);
            }
        }
    }
    let copies = DriveSpec::superblock_copies();
    for meta in world.media.metas() {
        let first = meta.durable(copies[0].clone());
        if first.is_some() && copies.iter().all(|copy| meta.durable(copy.clone()) == first) {
            for _ in 0..rng.below(3) {
                let copy = rng.index(copies.len());
                flip(meta, rng, copies[copy].clone());
            }
        }
    }
}

/// Writes to some segments what another one holds, or what they held themselves when `older` was copied.
fn stray(world: &World, rng: &mut Rng, older: Option<&[MediaPart]>) {
    let count = u64::from(world.config.segments);
    let now: Vec<_> = world.media.slots().cloned().collect();
    for _ in 0..1 + rng.below(4) {
        let slot = rng.below(count);
        match older {
            Some(older) => world.media.transplant(slot, older, slot),
            None => world.media.transplant(slot, &now, rng.below(count)),
        }
    }
}

/// Inverts some bits of what is durable in segments.
fn flip_bits(world: &World, rng: &mut Rng) {
    for _ in 0..1 + rng.below(200) {
        world.media.flip(rng);
    }
}

fn flip(medium: &SimMedium, rng: &mut Rng, range: Range<u64>) {
    let bit = u8::try_from(rng.below(8)).expect("below 8");
    medium.flip_bit(range.start + rng.below(range.end - range.start), bit);
}
