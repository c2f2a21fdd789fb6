//! Lives of pools whose rows move while segments are put: drives are lost or drained, classes change, moves go back,
//! and power is cut anywhere. In the end every segment that was put is readable with every choice of as many lost
//! drives as its class survives, and at no time is it gone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::result::Result;

use varve_media::planted::{Bug, plant};
use varve_stdx::Rng;

use super::*;
use crate::change::Change;
use crate::class::{MediumKinds, StripeShape};
use crate::format::tests::samples::drive_number;
use crate::format::{DriveState, MoveReason, RowState};
use crate::ids::Epoch;
use crate::repair::{MoveProgress, ScrubEnd, ScrubRequest};
use crate::test_pool::ZONE_SEGMENTS;

use world::{World, WorldSpec, leave};

mod world;

const SHAPES: [[u8; 2]; 6] = [[1, 1], [1, 2], [2, 1], [3, 1], [2, 2], [4, 2]];

/// Seconds in which a small pool is repaired, waits after errors included.
const REPAIR_SECONDS: u64 = 900;

fn spec(seed: u64, shape: [u8; 2]) -> WorldSpec {
    let [data, parity] = shape;
    let drives = usize::from(data + parity) + usize::from(parity) + 1;
    WorldSpec { seed, shape, other_shape: [1, parity], drives }
}

/// What happens to a pool.
#[derive(Clone, Copy, Debug)]
enum Event {
    Losses,
    Drain,
    CancelledDrain,
    Conversion,
    CancelledConversion,
}

const EVENTS: [Event; 5] = [
    Event::Losses,
    Event::Drain,
    Event::CancelledDrain,
    Event::Conversion,
    Event::CancelledConversion,
];

fn shape_of([data, parity]: [u8; 2]) -> StripeShape {
    StripeShape::new(data, parity).unwrap()
}

/// Has an event happen.
fn begin(world: &mut World, rng: &mut Rng, event: Event, spec: &WorldSpec) {
    let drives = u64::try_from(spec.drives).unwrap();
    let drive = u8::try_from(rng.below(drives)).unwrap();
    let convert = |shape| Change::Class { shape: shape_of(shape), kinds: MediumKinds::ALL };
    match event {
        Event::Losses => world.lose(drive_number(drive)),
        Event::Drain => leave(world, drive),
        Event::CancelledDrain => {
            leave(world, drive);
            world.run_for(rng.below(30_000_000));
            assert!(world.control.cancel(MoveReason::Drain));
        }
        Event::Conversion => world.change(convert(spec.other_shape)),
        Event::CancelledConversion => {
            world.change(convert(spec.other_shape));
            world.run_for(rng.below(30_000_000));
            world.change(convert(spec.shape));
        }
    }
}

/// The life of a pool; what is wrong in the end, or on the way.
fn live(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let shape = SHAPES[rng.index(SHAPES.len())];
    let event = EVENTS[rng.index(EVENTS.len())];
    let spec = spec(seed, shape);
    let mut world = World::new(&spec);
    world.put_some(rng.next_u64(), 24);
    world.start_mover();
    world.start_client(rng.next_u64(), 20);
    begin(&mut world, &mut rng, event, &spec);
    // Of the class with the least parity of those that its rows may have.
    let [_, parity] = shape;
    let already = u8::from(matches!(event, Event::Losses));
    for _ in already..parity {
        world.run_for(rng.below(40_000_000));
        if rng.chance(1, 2) {
            let drive = u8::try_from(rng.below(spec.drives as u64)).unwrap();
            world.lose(drive_number(drive));
        }
    }
    for _ in 0..rng.below(4) {
        world.run_for(rng.below(40_000_000));
        let is_cancelled = world.control.is_cancelled(MoveReason::Drain);
        world = world.crash(&mut rng);
        found(&mut world, "after a cut")?;
        if is_cancelled {
            world.control.cancel(MoveReason::Drain);
        }
        world.start_mover();
        world.start_client(rng.next_u64(), 10);
    }
    world.run_for(Nanos::seconds(1));
    if matches!(event, Event::CancelledDrain) {
        // Rows went back, or had moved already; what is left is drained after all.
        let is_moving = |world: &World| {
            let view = world.tables.view();
            view.rows().any(|(_, row)| matches!(row.state, RowState::Moving { .. }))
        };
        if !world.run_while(REPAIR_SECONDS, is_moving) {
            return Err(format!("{event:?}: a row that went back moves for good"));
        }
        world.control.resume(MoveReason::Drain);
    }
    if !world.run_while(REPAIR_SECONDS, World::has_work) {
        return Err(format!("{event:?} of {shape:?}: {:?}", world.control.moves()));
    }
    match world.misses() {
        Some(missing) => Err(format!("{event:?} of {shape:?}: {missing}")),
        None => Ok(()),
    }
}

fn found(world: &mut World, when: &str) -> Result<(), String> {
    world.misses_without(&[]).map_or(Ok(()), |missing| Err(format!("{when}: {missing}")))
}

/// Seeds of lives that something is found wrong with.
fn failing(seeds: std::ops::Range<u64>, life: impl Fn(u64) -> Result<(), String>) -> Vec<u64> {
    seeds
        .filter(|seed| !matches!(catch_unwind(AssertUnwindSafe(|| life(*seed))), Ok(Ok(()))))
        .collect()
}

/// Whether a planted bug is found.
fn finds(bug: Bug, life: impl Fn(u64) -> Result<(), String>) -> bool {
    plant(Some(bug));
    let found = (0..40).any(|seed| !failing(seed..seed + 1, &life).is_empty());
    plant(None);
    found
}

#[test]
fn what_was_put_survives_moves_losses_and_cuts() {
    for seed in 0..60 {
        if let Err(wrong) = live(seed) {
            panic!("seed {seed}: {wrong}");
        }
    }
}

#[test]
fn the_seed_decides_the_life() {
    let ends = || {
        let spec = spec(3, [2, 1]);
        let mut world = World::new(&spec);
        world.put_some(5, 24);
        world.start_mover();
        world.start_client(6, 20);
        world.lose(drive_number(0));
        assert!(world.run_while(REPAIR_SECONDS, World::has_work));
        (world.sim.steps(), world.sim.handle().now(), world.control.counts())
    };
    assert_eq!(ends(), ends());
}

/// A drain of one drive of a pool, with a put going on; then power is cut, and the drive is gone.
fn drain_then_cut(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let spec = spec(seed, SHAPES[rng.index(SHAPES.len())]);
    let mut world = World::new(&spec);
    world.put_some(rng.next_u64(), 24);
    world.start_mover();
    world.start_client(rng.next_u64(), 60);
    let drive = world.drives_of(0)[0];
    leave(&mut world, drive.get());
    if !world.run_while(REPAIR_SECONDS, World::has_work) {
        return Err("it does not end".to_owned());
    }
    let mut world = world.crash(&mut rng);
    world.misses().map_or(Ok(()), Err)
}

#[test]
fn a_drain_ends_with_everything_elsewhere() {
    assert_eq!(failing(0..20, drain_then_cut), Vec::<u64>::new());
}

#[test]
fn parity_not_rebuilt() {
    assert!(finds(Bug::ParityNotRebuilt, drain_then_cut), "MOVER-2");
}

#[test]
fn freed_before_read_back() {
    assert!(finds(Bug::FreedBeforeReadBack, drain_then_cut), "MOVER-3");
}

#[test]
fn put_missed_by_mover() {
    assert!(finds(Bug::PutMissedByMover, drain_then_cut), "MOVER-4");
}

/// A segment that its owner does not take is moved as it is, is named, and is not completed by a conversion.
fn spoilt_segment(seed: u64) -> Result<(), String> {
    let mut world = World::new(&spec(seed, [2, 1]));
    world.put_some(seed, 24);
    let slot = world.shelf.put_segments()[0].0.number.0;
    world.shelf.spoilt.borrow_mut().insert(slot);
    world.start_mover();
    let drive = world.drives_of(slot / crate::test_pool::ZONE_SEGMENTS)[0];
    leave(&mut world, drive.get());
    if !world.run_while(REPAIR_SECONDS, World::has_work) {
        return Err("a drain does not end".to_owned());
    }
    if !world.shelf.relocated.borrow().contains(&slot) {
        return Err("its owner was not told".to_owned());
    }
    if world.control.counts().segments_unreadable == 0 {
        return Err("it was not counted".to_owned());
    }
    // It is as it was: its owner may still read what it takes of it.
    world.misses().map_or(Ok(()), Err)
}

#[test]
fn moved_unverified() {
    assert_eq!(spoilt_segment(1), Ok(()));
    assert!(finds(Bug::MovedUnverified, spoilt_segment), "MOVER-1");
}

#[test]
fn a_conversion_waits_for_what_cannot_be_read() {
    let spec = spec(1, [2, 1]);
    let mut world = World::new(&spec);
    world.put_some(1, 24);
    let (bad, _) = world.shelf.put_segments()[0].clone();
    world.shelf.spoilt.borrow_mut().insert(bad.number.0);
    world.start_mover();
    let shape = shape_of(spec.other_shape);
    world.change(Change::Class { shape, kinds: MediumKinds::ALL });
    assert!(!world.run_while(60, World::has_work), "a row has to wait");
    let moves = world.control.moves();
    let waits =
        |it: &MoveProgress| matches!(it.waits_for, Some(MoveWait::Unreadable { segments: 1 }));
    assert!(moves.iter().any(waits), "{moves:?}");
    // Its owner has moved what was live.
    world.shelf.spoilt.borrow_mut().clear();
    assert!(world.run_while(REPAIR_SECONDS, World::has_work));
    assert_eq!(world.misses(), None);
    assert!(world.control.moves().is_empty(), "nothing is listed any more");
}

/// A segment that cannot be read, and a conversion, which must not drop what is left of it.
fn unreadable_in_conversion(seed: u64) -> Result<(), String> {
    let spec = spec(seed, [2, 1]);
    let mut world = World::new(&spec);
    world.put_some(seed, 24);
    let (bad, _) = world.shelf.put_segments()[0].clone();
    world.shelf.spoilt.borrow_mut().insert(bad.number.0);
    world.start_mover();
    let shape = shape_of(spec.other_shape);
    world.change(Change::Class { shape, kinds: MediumKinds::ALL });
    world.run_while(60, World::has_work);
    world.misses_without(&[]).map_or(Ok(()), Err)
}

#[test]
fn conversion_drops_unreadable() {
    assert_eq!(unreadable_in_conversion(1), Ok(()));
    assert!(finds(Bug::ConversionDropsUnreadable, unreadable_in_conversion), "MOVER-1");
}

/// A drain that is cancelled while it is under way.
fn cancelled_drain(seed: u64) -> Result<(), String> {
    let mut world = World::new(&spec(seed, [2, 1]));
    world.put_some(seed, 40);
    let before = world.drives_of(0);
    world.start_mover();
    leave(&mut world, before[0].get());
    let is_still = |world: &World| {
        let view = world.tables.view();
        matches!(view.row(ZoneIndex(0)).state, RowState::Still(_))
    };
    if !world.run_while(60, is_still) {
        return Err("it does not begin".to_owned());
    }
    world.control.cancel(MoveReason::Drain);
    if !world.run_while(REPAIR_SECONDS, |world| !is_still(world)) {
        return Err("it does not go back".to_owned());
    }
    world.misses().map_or(Ok(()), Err)
}

#[test]
fn cancel_leaves_both() {
    for seed in 0..10 {
        assert_eq!(cancelled_drain(seed), Ok(()), "seed {seed}");
    }
    assert!(finds(Bug::CancelLeavesBoth, cancelled_drain), "MOVER-5");
}

#[test]
fn a_drive_that_stays_gets_back_what_is_on_its_way() {
    let mut turned = 0;
    for seed in 0..10 {
        let mut world = World::new(&spec(seed, [2, 1]));
        world.put_some(seed, 40);
        let before = world.drives_of(0);
        world.start_mover();
        world.start_client(seed, 20);
        leave(&mut world, before[0].get());
        let is_still = |world: &World| {
            let view = world.tables.view();
            matches!(view.row(ZoneIndex(0)).state, RowState::Still(_))
        };
        assert!(world.run_while(60, is_still), "seed {seed}: it does not begin");
        world.change(Change::Stay { drive: before[0] });
        assert!(world.run_while(REPAIR_SECONDS, World::has_work), "seed {seed}");
        // What had been moved by then stays where it is.
        turned += u32::from(world.drives_of(0) == before);
        assert_eq!(world.misses(), None, "seed {seed}");
    }
    assert!(turned >= 8, "{turned} of 10");
}

#[test]
fn a_replacement_gets_the_strips_of_the_drive_that_goes() {
    let mut world = World::new(&spec(1, [2, 1]));
    world.put_some(1, 24);
    let old = world.drives_of(0).into_iter().min().unwrap();
    let drives = world.tables.view().drives().drives.iter().map(|it| it.number).collect::<Vec<_>>();
    let of_zone = world.drives_of(0);
    let new = *drives.iter().rfind(|drive| !of_zone.contains(drive)).unwrap();
    assert!(new > old, "it joined later");
    world.change(Change::Remove { drive: old, successor: Some(new) });
    world.lose(old);
    let mut world = world.crash(&mut Rng::new(2));
    world.start_mover();
    assert!(world.run_while(REPAIR_SECONDS, World::has_work));
    assert!(world.drives_of(0).contains(&new), "{:?}", world.drives_of(0));
    assert_eq!(world.misses(), None);
}

#[test]
fn rows_wait_where_no_drive_has_room() {
    let mut spec = spec(1, [2, 1]);
    spec.drives = 3;
    let mut world = World::new(&spec);
    world.put_some(1, 24);
    world.start_mover();
    let lost = world.drives_of(0)[0];
    world.lose(lost);
    assert!(!world.run_while(20, World::has_work));
    let moves = world.control.moves();
    assert!(moves.iter().any(|it| it.waits_for == Some(MoveWait::Room)), "{moves:?}");
    assert_eq!(world.misses_without(&[]), None);
    // They rest for longer than this, unless room is made.
    let waiting = world.control.rows_without_room();
    world.control.note_room();
    assert_eq!(world.control.rows_without_room(), 0);
    world.run_for(Nanos::seconds(3));
    assert_eq!(world.control.rows_without_room(), waiting, "POOL-SIZER-3: they were tried anew");
}

#[test]
fn what_finds_no_room_in_its_class_is_rebuilt_in_another_one() {
    let mut spec = spec(1, [2, 1]);
    spec.drives = 3;
    let mut world = World::new(&spec);
    world.put_some(1, 24);
    world.start_mover();
    let lost = world.drives_of(0)[0];
    world.lose(lost);
    assert!(!world.run_while(20, World::has_work), "three strips need three drives");
    world.change(Change::Class { shape: shape_of(spec.other_shape), kinds: MediumKinds::ALL });
    assert!(world.run_while(REPAIR_SECONDS, World::has_work), "{:?}", world.control.moves());
    assert_eq!(world.misses(), None);
}

#[test]
fn a_pool_goes_through_classes_that_survive_more_and_back() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let shapes = [[1, 1], [4, 2], [8, 3]];
        let mut world = World::with_shapes(seed, &shapes, 12);
        world.put_some(rng.next_u64(), 24);
        for at in [1usize, 2, 1, 0] {
            let before = world.shape();
            world.start_mover();
            world.start_client(rng.next_u64(), 20);
            // Turned around in the middle, and then cut off.
            for shape in [shape_of(shapes[at]), before, shape_of(shapes[at])] {
                world.change(Change::Class { shape, kinds: MediumKinds::ALL });
                world.run_for(rng.below(30_000_000));
            }
            world = world.crash(&mut rng);
            assert_eq!(found(&mut world, "after a cut"), Ok(()), "seed {seed}");
            world.start_mover();
            assert!(
                world.run_while(REPAIR_SECONDS, World::has_work),
                "{:?}",
                world.control.moves()
            );
            assert_eq!(world.shape(), shape_of(shapes[at]));
            assert_eq!(world.misses_of_some(&mut rng, 20), None, "seed {seed}");
        }
    }
}

#[test]
fn zones_that_nobody_has_are_moved_without_contents() {
    let mut world = World::new(&spec(1, [2, 1]));
    let free = world::ZONES;
    world.change(Change::Place { zone: ZoneIndex(free) });
    let media = RepairMedia {
        handles: Rc::clone(&world.handles),
        tables: Rc::clone(&world.tables),
        segments: world.segments.clone(),
    };
    let zones =
        UnownedZones::new(|first, _| first.0 >= world::ZONES * crate::test_pool::ZONE_SEGMENTS);
    let mover = Mover::start_unowned(media, zones, Arc::clone(&world.control));
    let lost = world.drives_of(free)[0];
    world.lose(lost);
    assert!(world.run_while(60, World::has_work));
    assert!(!world.drives_of(free).contains(&lost));
    drop(mover);
}

#[test]
fn a_mover_that_ended_writes_nothing_more() {
    let mut world = World::new(&spec(1, [2, 1]));
    world.put_some(1, 24);
    world.start_mover();
    let drive = world.drives_of(0)[0];
    leave(&mut world, drive.get());
    let is_early = |world: &World| world.control.counts().bytes_written == 0;
    assert!(world.run_while(60, is_early));
    world.end_mover();
    let written = world.control.counts();
    world.run_for(Nanos::seconds(120));
    assert_eq!(world.control.counts(), written);
    assert!(world.has_work(), "it ended in the middle");
    world.start_mover();
    assert!(world.run_while(REPAIR_SECONDS, World::has_work));
    assert_eq!(world.misses(), None);
}

#[test]
fn what_is_not_put_holds_up_no_row() {
    let mut world = World::new(&spec(1, [2, 1]));
    world.put_some(1, 24);
    world.shelf.open_slot();
    world.start_mover();
    let drive = world.drives_of(0)[0];
    leave(&mut world, drive.get());
    assert!(world.run_while(REPAIR_SECONDS, World::has_work));
    assert_eq!(world.control.counts().segments_unreadable, 0);
    assert!(world.shelf.relocated.borrow().is_empty());
    assert_eq!(world.misses(), None);
}

#[test]
fn what_clients_put_is_known_to_the_budget() {
    let mut world = World::new(&spec(1, [2, 1]));
    world.start_mover();
    world.put_some(1, 1);
    let drive = world.drives_of(world.shelf.put_segments()[0].0.number.0 / ZONE_SEGMENTS)[0];
    assert!(world.control.budget().has_clients(drive, world.sim.handle().boot_time()));
    world.run_for(Nanos::seconds(2));
    assert!(!world.control.budget().has_clients(drive, world.sim.handle().boot_time()));
}

#[test]
fn a_walk_after_a_repair_proves_what_is_held() {
    let mut world = World::new(&spec(1, [2, 1]));
    world.put_some(1, 24);
    world.start_mover();
    let lost = world.drives_of(0)[0];
    world.lose(lost);
    let is_unproven = |world: &World| {
        let view = world.tables.view();
        let facts = world.control.shard_facts();
        let loss = view.drives().loss_epoch;
        let is_verified = facts
            .iter()
            .any(|it| it.counted_since == loss && it.held > 0 && it.verified == it.held);
        view.drives().walked_epoch != loss || !is_verified
    };
    assert!(is_unproven(&world));
    assert!(world.run_while(REPAIR_SECONDS, is_unproven), "{:?}", world.control.scrub());
    assert_eq!(world.control.scrub().unwrap().end, Some(ScrubEnd::Clean));
    assert_ne!(world.tables.view().drives().loss_epoch, Epoch(0));
    assert!(world.control.faults().is_empty());
}

/// A strip rots, and a scrub looks at it.
fn rotten_strip(seed: u64) -> Result<(), String> {
    let mut world = World::new(&spec(seed, [2, 1]));
    world.put_some(seed, 24);
    let (segment, _) = world.shelf.put_segments()[0].clone();
    let view = world.tables.view();
    let at = view.zone_of(segment.number).unwrap();
    let strip = view.locate(view.row(at.zone).target().unwrap(), at.slot).next().unwrap();
    let medium = world.media[usize::from(strip.place.drive.get())].clone();
    medium.flip_bit(strip.offset + 4096 + 77, 3);
    let range = strip.offset..strip.offset + 8192;
    let before = medium.durable(range.clone());
    assert!(before.is_some(), "nothing is under way");
    let loss = view.drives().loss_epoch;
    world.start_mover();
    world.control.start_scrub(ScrubRequest { drives: Vec::new(), is_deep: true });
    let is_open = |world: &World| world.control.scrub().is_none_or(|it| it.end.is_none());
    if !world.run_while(REPAIR_SECONDS, is_open) {
        return Err("it does not end".to_owned());
    }
    let table = world.tables.view().drives().clone();
    assert_eq!(world.control.scrub().unwrap().end, Some(ScrubEnd::Faults));
    let faults = world.control.faults();
    assert!(faults.iter().any(|it| it.drive == strip.place.drive && it.strips > 0), "{faults:?}");
    assert!(table.loss_epoch > loss && table.walked_epoch != table.loss_epoch, "it is no walk");
    assert!(world.shelf.relocated.borrow().contains(&segment.number.0));
    if medium.durable(range) != before {
        return Err("the strip was written where it lies".to_owned());
    }
    Ok(())
}

/// A bit of a strip flips, a client reads there, and what it read was written anew; whether health could say ok
/// meanwhile, by what the tables and shards say.
fn met_damage(seed: u64) -> Result<(), String> {
    let mut world = World::new(&spec(seed, [2, 1]));
    world.put_some(seed, 24);
    world.start_mover();
    world.run_for(Nanos::seconds(2));
    let (segment, bytes) = world.shelf.put_segments()[0].clone();
    let view = world.tables.view();
    let at = view.zone_of(segment.number).unwrap();
    let strip = view.locate(view.row(at.zone).target().unwrap(), at.slot).next().unwrap();
    let medium = world.media[usize::from(strip.place.drive.get())].clone();
    medium.flip_bit(strip.offset + 4096 + 77, 3);
    let loss = view.drives().loss_epoch;
    let is_ok = |world: &World| {
        let table = world.tables.view().drives().clone();
        let is_counted = world.control.shard_facts().iter().all(|it| it.damaged == 0);
        table.walked_epoch == table.loss_epoch && is_counted && world.control.suspects() == 0
    };
    assert!(is_ok(&world), "nobody knows of it");
    if world.read_right(segment, &bytes[..4096]) == 0 {
        return Err("the first read is right".to_owned());
    }
    if is_ok(&world) {
        return Err("it is ok directly after the read".to_owned());
    }
    if !world.run_while(60, |world| world.control.suspects() > 0) {
        return Err("nobody looks at it".to_owned());
    }
    let table = world.tables.view().drives().clone();
    if table.loss_epoch <= loss || is_ok(&world) {
        return Err("an opening would know nothing of it".to_owned());
    }
    assert!(world.shelf.relocated.borrow().contains(&segment.number.0));
    assert_eq!(world.control.open_faults(), [(strip.place.drive, 1)]);
    // No walk proves anything while it is where it was.
    world.run_for(Nanos::seconds(30));
    assert!(!is_ok(&world) && world.control.scrub().is_none(), "{:?}", world.control.scrub());
    world.shelf.drop_segment(segment);
    if !world.run_while(REPAIR_SECONDS, |world| !is_ok(world)) {
        return Err("it is never ok again".to_owned());
    }
    assert!(world.control.open_faults().is_empty(), "{:?}", world.control.open_faults());
    Ok(())
}

#[test]
fn damage_untold() {
    for seed in 1..4 {
        assert_eq!(met_damage(seed), Ok(()), "POOL-HEALTH-5");
    }
    assert!(finds(Bug::DamageUntold, met_damage));
}

#[test]
fn a_read_that_finds_nothing_wrong_later_leaves_a_pool_ok() {
    let mut world = World::new(&spec(1, [2, 1]));
    world.put_some(1, 24);
    world.start_mover();
    world.run_for(Nanos::seconds(2));
    let (segment, _) = world.shelf.put_segments()[0].clone();
    world.read_right(segment, &[7; 4096]);
    assert!(world.run_while(60, |world| world.control.suspects() > 0));
    let table = world.tables.view().drives().clone();
    assert_eq!((table.loss_epoch, table.walked_epoch), (Epoch(0), Epoch(0)));
    assert!(world.control.open_faults().is_empty());
}

#[test]
fn repaired_in_place() {
    assert_eq!(rotten_strip(1), Ok(()));
    assert!(finds(Bug::RepairedInPlace, rotten_strip), "SCRUB-1");
}

#[test]
fn a_scrub_can_be_stopped_and_goes_over_some_drives() {
    let mut world = World::new(&spec(1, [2, 1]));
    world.put_some(1, 24);
    world.start_mover();
    world.control.start_scrub(ScrubRequest::default());
    world.run_for(1_000_000);
    world.control.stop_scrub();
    world.run_for(Nanos::seconds(2));
    let stopped = world.control.scrub();
    assert!(stopped.is_none_or(|it| it.end.is_some()));
    let drives = vec![world.drives_of(0)[0]];
    world.control.start_scrub(ScrubRequest { drives, is_deep: false });
    let is_open =
        |world: &World| world.control.scrub().is_none_or(|it| it.end != Some(ScrubEnd::Clean));
    assert!(world.run_while(60, is_open), "{:?}", world.control.scrub());
    let walked = world.tables.view().drives().walked_epoch;
    assert_eq!(walked, Epoch(0), "a part is no walk");
    assert_eq!(
        world.tables.view().drives().drive(drive_number(0)).unwrap().state,
        DriveState::Live
    );
}
