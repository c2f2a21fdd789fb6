//! What happens to the drives of a redundant pool while the machine works.

use std::rc::Rc;

use varve_reactor::Reactor;
use varve_stdx::Rng;

use crate::drives::DriveCondition;
use crate::redundancy::DriveFaults;
use crate::redundant_world::SLOWEST_PART;
use crate::world::World;

/// What happens to drives while the machine works.
pub(crate) async fn bring_drive_faults(world: Rc<World>, reactor: Reactor, mut rng: Rng) {
    match world.redundancy().faults {
        DriveFaults::None | DriveFaults::Rotting | DriveFaults::Moving => {}
        DriveFaults::Returning => lose_members(&world, &reactor, &mut rng).await,
        DriveFaults::Losing | DriveFaults::Full => lose_drives(&world, &reactor, &mut rng).await,
        DriveFaults::Slow => stop_drive(&world, &reactor, &mut rng).await,
    }
}

/// Has drives fail at any step, seldom more of them than the class survives.
async fn lose_drives(world: &World, reactor: &Reactor, rng: &mut Rng) {
    let unit = world.config.latency.read_nanos.end;
    let media = world.redundant();
    for _ in 0..2 {
        // What a recovery left on one drive alone is missed by the next one, if the drive is lost before that.
        let is_early = rng.chance(1, 4);
        reactor.sleep(if is_early { 0 } else { rng.below(1500 * unit) }).await;
        let is_next = if media.spare() > 0 { rng.chance(1, 3) } else { rng.chance(1, 40) };
        let Some(index) = media.draw_sound(rng).filter(|_| is_next) else { continue };
        if media.is_absent(index) {
            continue; // One that is unplugged for this start would be there again.
        }
        if media.is_last_sound() && world.shards.borrow().is_empty() {
            continue; // Whoever goes on then does so with drives of long ago.
        }
        media.lose(index);
        world.faulty.set(media.lost_too_many());
        if rng.chance(1, 4) {
            media.fail_next_write(index, rng);
            continue;
        }
        let fails = [DriveCondition::Failing, DriveCondition::ReadOnly, DriveCondition::Silent];
        media.set_condition(index, fails[rng.index(fails.len())], reactor.now());
        if rng.chance(1, 3) {
            // It works again while the pool goes on without it, or has not noticed.
            reactor.sleep(rng.below(2 * world.redundancy().patience_nanos)).await;
            media.set_condition(index, DriveCondition::Well, reactor.now());
        }
    }
}

/// Has drives fail that come back at the next start: one, or at the same moment more than may be dropped, without which
/// nobody goes on.
async fn lose_members(world: &World, reactor: &Reactor, rng: &mut Rng) {
    let unit = world.config.latency.read_nanos.end;
    reactor.sleep(rng.below(3000 * unit)).await;
    let (media, Some(redundant)) = (world.redundant(), world.on_redundant()) else { return };
    let count = match (rng.below(8), media.spare()) {
        (0, _) => 1 + world.redundancy().survives(),
        (1..4, spare) if spare > 0 => 1,
        _ => return,
    };
    let fails = [DriveCondition::Failing, DriveCondition::ReadOnly, DriveCondition::Silent];
    for _ in 0..count {
        let Some(index) = media.draw_sound(rng) else { break };
        if !redundant.lose_member(index, &world.models, world.tick()) {
            return;
        }
        media.set_condition(index, fails[rng.index(fails.len())], reactor.now());
        // What begins now is not in the snapshot of what the drive has, and so must not land on it.
        media.refuse_writes(index);
    }
    world.faulty.set(media.lost_too_many());
    if rng.chance(1, 2) {
        // As a machine that stops while the others hardly know of it.
        world.cut_after.set(Some(rng.below(400)));
    }
}

/// Has a drive stop for a while, mostly for less than it may: it counts as lost only if it is more.
async fn stop_drive(world: &World, reactor: &Reactor, rng: &mut Rng) {
    let unit = world.config.latency.read_nanos.end;
    let (media, patience) = (world.redundant(), world.redundancy().patience_nanos);
    for _ in 0..1 + rng.below(3) {
        reactor.sleep(rng.below(1500 * unit)).await;
        let Some(index) = media.draw_sound(rng) else { return };
        let is_lost = media.spare() > 0 && rng.chance(1, 8);
        // An operation may take as long as a slow drive does before it stops.
        let stop_nanos = if is_lost { 2 * patience } else { rng.below(patience / 2) };
        if is_lost {
            media.lose(index);
        }
        media.stop(index, reactor.now() + stop_nanos);
        reactor.sleep(stop_nanos + patience / SLOWEST_PART).await;
    }
}
