//! Damages segments with metadata pages, or their copies.
//!
//! Only what has a copy is damaged: a segment of metadata that the root of its shard names, while the copy that the
//! root names is equal to it. What recovery replays, and data, have none.

use std::cell::RefCell;
use std::rc::Rc;

use hashbrown::HashSet;
use varve_logstore::format::root::ShardRoot;
use varve_logstore::format::segment::{SegmentKind, StripHeader};
use varve_media::RootKey;
use varve_reactor::SimLoop;
use varve_stdx::Rng;
use varve_types::{SegmentNumber, ShardId};

use crate::run::rng_of_damage;
use crate::world::World;

/// Bits that are inverted in a segment at most.
const FLIPS_MAX: u64 = 60;

/// A segment with pages, where its copy lies, and how many bytes it has.
struct Pair {
    of: SegmentNumber,
    copy: SegmentNumber,
    len: u64,
}

/// Whether both copies are damaged.
pub(crate) fn loses_both(world: &World) -> bool {
    world.config.seed.is_multiple_of(4)
}

/// Damages one segment of each pair, or both; returns of how many pairs.
pub(crate) fn damage_pages(world: &Rc<World>) -> u64 {
    let mut rng = rng_of_damage(world.config.seed);
    let roots = roots(world, &mut rng);
    world.all_media().for_each(|medium| medium.crash(&mut rng)); // Nothing is cached.
    let promised = promised_slots(world, &roots);
    let mut pairs: Vec<Pair> = roots.iter().flat_map(|root| pairs(world, root)).collect();
    pairs.retain(|pair| !promised.contains(&pair.copy));
    for pair in &pairs {
        let one = if rng.chance(1, 3) { pair.copy } else { pair.of };
        spoil(world, &mut rng, one, pair.len);
        if loses_both(world) {
            let other = if one == pair.of { pair.copy } else { pair.of };
            spoil(world, &mut rng, other, pair.len);
        }
    }
    pairs.len() as u64
}

/// The root of every shard, as far as they can be read.
fn roots(world: &Rc<World>, rng: &mut Rng) -> Vec<ShardRoot> {
    let (mut sim, found) = (SimLoop::new(rng.next_u64()), Rc::new(RefCell::new(Vec::new())));
    let (inner, reactor, out) = (Rc::clone(world), sim.handle(), Rc::clone(&found));
    sim.run_until(async move {
        let Ok(drive) = inner.drive(&reactor).await else { return };
        for shard in (0..inner.config.shards).map(ShardId) {
            let Ok(media) = drive.media(shard) else { continue };
            let Ok((_, bytes)) = media.roots.read(RootKey::Shard(shard)).await else { continue };
            out.borrow_mut().extend(ShardRoot::decode(&bytes).ok());
        }
    });
    found.take()
}

/// Slots that segments newer than the roots promise to the next ones: a copy there was given up.
fn promised_slots(world: &World, roots: &[ShardRoot]) -> HashSet<SegmentNumber> {
    let numbers = (0..world.config.segments).map(SegmentNumber);
    let headers = numbers.filter_map(|number| {
        let (header, _) = StripHeader::decode(&world.media.segment(number)?).ok()?;
        (header.slot == number).then_some(header)
    });
    let is_newer = |header: &StripHeader| {
        let root = roots.iter().find(|root| root.shard == header.shard);
        root.is_some_and(|root| match header.kind {
            SegmentKind::Data => header.chain_seq > root.data_chain.seq,
            SegmentKind::Reclaimed => header.chain_seq > root.reclaim_chain.seq,
            SegmentKind::Metadata => false,
        })
    };
    headers.filter(is_newer).map(|header| header.next_slot).collect()
}

fn pairs(world: &World, root: &ShardRoot) -> Vec<Pair> {
    let named = root.copies.iter().filter_map(|(of, copy)| {
        let original = world.media.segment(*of)?;
        let (header, _) = StripHeader::decode(&original).ok()?;
        let is_its = header.kind == SegmentKind::Metadata && header.slot == *of;
        let used = original.get(..usize::try_from(header.used_bytes).ok()?)?;
        let is_whole = world.media.segment(*copy)?.starts_with(used);
        let pair = Pair { of: *of, copy: *copy, len: u64::from(header.used_bytes) };
        (is_its && is_whole).then_some(pair)
    });
    named.collect()
}

fn spoil(world: &World, rng: &mut Rng, number: SegmentNumber, len: u64) {
    for _ in 0..1 + rng.below(FLIPS_MAX) {
        world.media.flip_in(number, len, rng);
    }
}
