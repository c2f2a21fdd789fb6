//! Goal: MEDIA-1 and MEDIA-2 hold whatever a power cut leaves behind. Method: random operations over the simulated
//! disk, cut off at a random step, reopened, and compared with what had been acknowledged; several cuts in a row on one
//! medium.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use varve_media::conformance::noise;
use varve_media::{
    Drive, DriveDisks, DriveOptions, DriveSpec, Media, RootKey, RootVersion, SegmentId, SimLatency,
    SimMedium,
};
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::Rng;
use varve_types::{Generation, PoolId, SegmentNumber, ShardId};

const SHARD: ShardId = ShardId(0);
const ROOT: RootKey = RootKey::Shard(SHARD);
const SLOTS: u64 = 8;

fn spec() -> DriveSpec {
    DriveSpec {
        segment_bytes: 32 << 10,
        lane_bytes: 64 << 10,
        root_bytes_max: 9000,
        ..DriveSpec::new(PoolId([1; 16]), 1)
    }
}

/// What must be there after a cut: the acknowledged contents, and for roots also what may have replaced them.
#[derive(Default)]
struct Model {
    slots: BTreeMap<u32, Vec<u8>>,
    lane: BTreeMap<u64, Vec<u8>>,
    root: (u64, Vec<u8>),
    root_attempt: Option<Vec<u8>>,
}

fn id(number: u32) -> SegmentId {
    SegmentId { number: SegmentNumber(number), generation: Generation::new(1) }
}

async fn put_forever(media: Media, reactor: Reactor, model: Rc<RefCell<Model>>) {
    let mut rng = Rng::new(reactor.random_u64());
    loop {
        let number = u32::try_from(rng.below(SLOTS)).unwrap();
        let bytes = noise(&mut rng, 4096 * (1 + number as usize));
        model.borrow_mut().slots.remove(&number);
        media.segments.put(id(number), bytes.clone()).await.unwrap();
        model.borrow_mut().slots.insert(number, bytes.to_vec());
    }
}

async fn append_forever(media: Media, reactor: Reactor, model: Rc<RefCell<Model>>, half: u64) {
    let mut rng = Rng::new(reactor.random_u64());
    let blocks = media.journal.capacity() / 4096;
    loop {
        // Two writers share the lane without touching each other's blocks.
        let position = 4096 * (rng.below(blocks / 2) * 2 + half);
        let bytes = noise(&mut rng, 4096);
        model.borrow_mut().lane.remove(&position);
        media.journal.append(position, bytes.clone()).await.unwrap();
        model.borrow_mut().lane.insert(position, bytes.to_vec());
    }
}

async fn replace_forever(media: Media, reactor: Reactor, model: Rc<RefCell<Model>>) {
    let mut rng = Rng::new(reactor.random_u64());
    loop {
        let len = rng.index(9000);
        let bytes = noise(&mut rng, len).to_vec();
        let expected = RootVersion(model.borrow().root.0);
        model.borrow_mut().root_attempt = Some(bytes.clone());
        let version = media.roots.replace(ROOT, expected, bytes.clone()).await.unwrap();
        assert_eq!(version.0, expected.0 + 1);
        let mut model = model.borrow_mut();
        model.root = (version.0, bytes);
        model.root_attempt = None;
    }
}

fn disks(media: &[SimMedium], reactor: &Reactor) -> Vec<DriveDisks> {
    let open = |medium: &SimMedium| medium.open(reactor, SimLatency::default());
    media.iter().map(|medium| DriveDisks::one(open(medium))).collect()
}

async fn open(disks: Vec<DriveDisks>) -> Media {
    let drive = Drive::open(disks, DriveOptions::default()).await.unwrap();
    drive.media(SHARD).unwrap()
}

async fn check(media: &Media, model: &Rc<RefCell<Model>>) {
    let (slots, lane) = {
        let model = model.borrow();
        (model.slots.clone(), model.lane.clone())
    };
    for (number, bytes) in slots {
        let len = u32::try_from(bytes.len()).unwrap();
        let got = media.segments.get(id(number), 0, len).await.unwrap();
        assert_eq!(*got, bytes[..], "slot {number} lost an acknowledged put"); // MEDIA-1
    }
    for (position, bytes) in lane {
        let got = media.journal.read(position, 4096).await.unwrap();
        assert_eq!(*got, bytes[..], "position {position} lost an acknowledged append"); // MEDIA-1
    }
    let (version, bytes) = media.roots.read(ROOT).await.unwrap();
    let mut model = model.borrow_mut();
    if (version.0, &bytes) != (model.root.0, &model.root.1) {
        assert_eq!(Some(&bytes), model.root_attempt.as_ref(), "the root is neither old nor new"); // MEDIA-2
        assert_eq!(version.0, model.root.0 + 1);
        model.root = (version.0, bytes);
    }
    model.root_attempt = None;
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    // Slots begin behind 8 MiB of superblocks, roots and the lane, on a second drive behind 4 MiB of superblocks.
    let slot_bytes = u64::from(spec().segment_bytes);
    let media = if seed.is_multiple_of(3) {
        vec![
            SimMedium::new("sim0", (8 << 20) + 5 * slot_bytes),
            SimMedium::new("sim1", (4 << 20) + 3 * slot_bytes),
        ]
    } else {
        vec![SimMedium::new("sim0", (8 << 20) + SLOTS * slot_bytes)]
    };
    let model = Rc::new(RefCell::new(Model::default()));
    let mut sim = SimLoop::new(seed);
    let drives = disks(&media, &sim.handle());
    sim.run_until(async move { Drive::format(&drives, &spec()).await.unwrap() });
    drop(sim);
    for lap in 0..4 {
        let power_fails = rng.chance(2, 3);
        for medium in &media {
            if power_fails { medium.crash(&mut rng) } else { medium.kill(&mut rng) }
        }
        let mut sim = SimLoop::new(rng.next_u64());
        let reactor = sim.handle();
        let (opened, shared) = (open(disks(&media, &reactor)), Rc::clone(&model));
        sim.run_until(async move {
            let media = opened.await;
            check(&media, &shared).await;
            reactor.spawn(put_forever(media.clone(), reactor.clone(), Rc::clone(&shared)));
            for half in 0..2 {
                let model = Rc::clone(&shared);
                reactor.spawn(append_forever(media.clone(), reactor.clone(), model, half));
            }
            reactor.spawn(replace_forever(media, reactor.clone(), shared));
        });
        let last = sim.steps() + rng.below(if lap == 0 { 400 } else { 100 });
        while sim.steps() < last {
            sim.step();
        }
    }
}

#[test]
fn what_was_acknowledged_survives() {
    for seed in 0..1500 {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "seed {seed} fails");
    }
}

#[test]
fn a_format_cut_off_leaves_no_pool_or_a_whole_one() {
    let (mut none, mut whole) = (0, 0);
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let medium = SimMedium::new("sim0", 16 << 20);
        let mut sim = SimLoop::new(seed);
        let disk = medium.open(&sim.handle(), SimLatency::default());
        let drives = [DriveDisks::one(disk)];
        let steps = rng.below(200);
        sim.try_run_until(async move { Drive::format(&drives, &spec()).await.unwrap() }, steps);
        drop(sim);
        medium.crash(&mut rng);
        let mut sim = SimLoop::new(seed);
        let disk = medium.open(&sim.handle(), SimLatency::default());
        let opened = sim.run_until(async move {
            let drives = vec![DriveDisks::one(disk)];
            let drive = Drive::open(drives, DriveOptions::default()).await?;
            drive.media(SHARD)?.roots.read(ROOT).await
        });
        match opened {
            Ok(root) => {
                assert_eq!(root, (RootVersion(0), Vec::new()), "seed {seed}");
                whole += 1;
            }
            Err(_) => none += 1,
        }
    }
    assert!(none > 20 && whole > 20, "{none} {whole}");
}

/// Makes a pool on drives that a making was cut off on, or finds that it was made; how many drives it opened with.
async fn make_again(drives: Vec<DriveDisks>, pool: u8) -> varve_media::Result<PoolId> {
    let spec = DriveSpec { pool: PoolId([pool; 16]), ..spec() };
    match Drive::format(&drives, &spec).await {
        Ok(()) | Err(varve_media::Error::PoolExists { .. }) => {}
        Err(error) => return Err(error),
    }
    Ok(Drive::open(drives, DriveOptions::default()).await?.pool())
}

#[test]
fn a_format_cut_off_is_begun_again_by_the_same_command() {
    let mut cut = 0;
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let slot_bytes = u64::from(spec().segment_bytes);
        let count = 1 + rng.index(3);
        let mut media: Vec<_> = (0..count)
            .map(|drive| SimMedium::new(&format!("sim{drive}"), (8 << 20) + 5 * slot_bytes))
            .collect();
        for pool in 1..5 {
            if rng.chance(1, 4) {
                media.reverse(); // Named in another order.
            }
            let mut sim = SimLoop::new(rng.next_u64());
            let drives = disks(&media, &sim.handle());
            let steps = rng.below(40 * count as u64);
            let made = sim.try_run_until(make_again(drives, pool), steps);
            cut += u64::from(made.is_none());
            if let Some(made) = made {
                made.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
            drop(sim);
            media.iter().for_each(|medium| medium.crash(&mut rng));
        }
        let mut sim = SimLoop::new(seed);
        let made = sim.run_until(make_again(disks(&media, &sim.handle()), 9));
        let pool = made.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let again = sim.run_until(make_again(disks(&media, &sim.handle()), 10));
        assert_eq!(again.ok(), Some(pool), "seed {seed}: a pool that was made stays");
    }
    assert!(cut > 600, "{cut}");
}

#[test]
fn a_pool_with_damaged_superblocks_is_not_made_again() {
    let medium = SimMedium::new("sim0", 16 << 20);
    let mut sim = SimLoop::new(1);
    let drives = |sim: &SimLoop| disks(std::slice::from_ref(&medium), &sim.handle());
    sim.run_until(make_again(drives(&sim), 1)).unwrap();
    for copy in 0..4 {
        medium.flip_bit((copy << 20) + 200, 1);
        let made = sim.run_until({
            let drives = drives(&sim);
            async move { Drive::format(&drives, &spec()).await }
        });
        assert!(matches!(made, Err(varve_media::Error::PoolExists { .. })), "copy {copy}");
    }
}
