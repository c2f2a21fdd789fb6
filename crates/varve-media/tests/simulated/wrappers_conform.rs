//! Goal: wrappers over disks change what they say they change and nothing else. Method: the conformance suite over
//! each, then each wrapper's own effect.

use std::rc::Rc;

use varve_media::{
    Disk, DiskOperation, DiskStats, Drive, DriveDisks, DriveOptions, DriveSpec, Error, Fault,
    FaultDisk, FaultPlan, FaultRule, MemDisk, OverlayDisk, OverlayMemory, Persist, RootKey,
    RootVersion, Section, SegmentId, StatsDisk, Throttle, ThrottleDisk, ThrottleLimits,
    conformance, overlay_media,
};
use varve_reactor::{Nanos, SimLoop};
use varve_stdx::BufSlice;
use varve_types::{ErrorKind, Generation, PoolId, SegmentNumber, ShardId};

fn mem() -> Rc<dyn Disk> {
    Rc::new(MemDisk::new("mem", 16 << 20))
}

fn block(byte: u8) -> BufSlice {
    BufSlice::copy_from(&[byte; 4096])
}

fn slot_of(number: u32) -> SegmentId {
    SegmentId { number: SegmentNumber(number), generation: Generation::ZERO }
}

async fn run_suite(disk: impl Disk + 'static) {
    let spec = DriveSpec {
        segment_bytes: 32 << 10,
        lane_bytes: 64 << 10,
        root_bytes_max: 9000,
        ..DriveSpec::new(PoolId([1; 16]), 1)
    };
    let drives = vec![DriveDisks::one(disk)];
    Drive::format(&drives, &spec).await.unwrap();
    let drive = Drive::open(drives, DriveOptions { discard: true }).await.unwrap();
    let key = RootKey::Shard(ShardId(0));
    conformance::all(&drive.media(ShardId(0)).unwrap(), key).await;
}

#[test]
fn a_fault_plan_without_rules_or_with_delays_conforms() {
    let mut sim = SimLoop::new(1);
    let plan = FaultPlan::new();
    let rule = FaultRule::always(DiskOperation::WriteDurable, Fault::Delay(50_000));
    plan.add(FaultRule { one_in: 3, ..rule });
    let disk = FaultDisk::new(mem(), &sim.handle(), plan);
    sim.run_until(run_suite(disk));
}

#[test]
fn a_throttle_conforms() {
    let mut sim = SimLoop::new(1);
    let limits =
        ThrottleLimits { bytes_per_second: Some(100 << 20), operations_per_second: Some(5000) };
    let throttle = Throttle::new(&sim.handle(), limits);
    sim.run_until(run_suite(ThrottleDisk::new(mem(), throttle)));
}

#[test]
fn statistics_conform_and_count() {
    let mut sim = SimLoop::new(1);
    let stats = DiskStats::new();
    let disk = StatsDisk::new(mem(), &sim.handle(), Rc::clone(&stats));
    sim.run_until(run_suite(disk));
    for operation in DiskOperation::ALL {
        assert!(stats.of(operation).count > 0, "{operation:?}");
        assert_eq!(stats.of(operation).in_flight, 0, "{operation:?}");
    }
    assert_eq!((stats.oldest(), stats.errors()), (None, Vec::new()));
}

#[test]
fn statistics_name_the_oldest_operation_and_count_failures() {
    let mut sim = SimLoop::new(1);
    let stats = DiskStats::new();
    let plan = FaultPlan::new();
    plan.add(FaultRule::always(DiskOperation::Read, Fault::Delay(7_000_000_000)));
    plan.add(FaultRule::always(DiskOperation::WriteDurable, Fault::Fail));
    let faulty = Rc::new(FaultDisk::new(mem(), &sim.handle(), plan));
    let disk = Rc::new(StatsDisk::new(faulty, &sim.handle(), Rc::clone(&stats)));
    let reactor = sim.handle();
    sim.run_until(async move {
        let reading = Rc::clone(&disk);
        reactor.spawn(async move { drop(reading.read(8192, 4096).await) });
        assert!(disk.write(0, block(1), Persist::Durable).await.is_err());
        reactor.sleep(6_000_000_000).await;
        let (_, oldest) = stats.oldest().unwrap();
        assert_eq!((oldest.operation, oldest.offset), ("read", 8192));
        assert!(reactor.now() - oldest.start >= 6_000_000_000);
        let errors = stats.errors();
        assert_eq!((errors.len(), errors[0].1.reads, errors[0].1.writes), (1, 0, 1));
        assert!(errors[0].1.last.contains("write"), "{}", errors[0].1.last);
        reactor.sleep(2_000_000_000).await;
        assert_eq!(stats.oldest(), None);
    });
}

#[test]
fn an_overlay_of_media_conforms_and_leaves_what_is_below_alone() {
    let mut sim = SimLoop::new(1);
    sim.run_until(async move {
        let spec = DriveSpec {
            segment_bytes: 32 << 10,
            lane_bytes: 64 << 10,
            root_bytes_max: 9000,
            ..DriveSpec::new(PoolId([1; 16]), 1)
        };
        let drives = vec![DriveDisks::one(MemDisk::new("mem", 16 << 20))];
        Drive::format(&drives, &spec).await.unwrap();
        let below = Drive::open(drives, DriveOptions::default()).await.unwrap();
        let (key, slot) = (RootKey::Shard(ShardId(0)), slot_of(5));
        let before = below.media(ShardId(0)).unwrap();
        before.segments.put(slot, block(1)).await.unwrap();
        let memory = OverlayMemory::new(1 << 20);
        let media = overlay_media(before.clone(), &memory);
        assert_eq!(
            *media.segments.get(slot, 0, 4096).await.unwrap(),
            *block(1),
            "it shows through"
        );
        conformance::all(&media, key).await;
        media.segments.delete(slot).await.unwrap();
        assert!(media.segments.get(slot, 0, 4096).await.unwrap().iter().all(|byte| *byte == 0));
        assert!(memory.bytes() > 0);
        media.segments.put(slot, BufSlice::copy_from(&[2; 32 << 10])).await.unwrap();
        let kept = memory.bytes();
        media.segments.put(slot, block(3)).await.unwrap();
        assert_eq!(memory.bytes(), kept - (28 << 10), "what is replaced takes nothing any more");

        assert_eq!(*before.segments.get(slot, 0, 4096).await.unwrap(), *block(1));
        let unwritten = before.segments.get(slot_of(0), 0, 4096).await.unwrap();
        assert!(unwritten.iter().all(|byte| *byte == 0));
        let lane = before.journal.read(0, 8192).await.unwrap();
        assert!(lane.iter().all(|byte| *byte == 0));
        assert_eq!(before.roots.read(key).await.unwrap(), (RootVersion(0), Vec::new()));
        drop(media);
        assert_eq!(memory.bytes(), 0);
        let small = overlay_media(before, &OverlayMemory::new(4096));
        small.segments.put(slot, block(1)).await.unwrap();
        let full = small.journal.append(0, block(1)).await;
        assert!(matches!(full, Err(Error::OverlayFull { bytes_max: 4096 })), "{full:?}");
    });
}

#[test]
fn an_overlay_conforms_and_leaves_what_is_below_alone() {
    let mut sim = SimLoop::new(1);
    let below = mem();
    let disk = OverlayDisk::new(Rc::clone(&below), OverlayMemory::new(16 << 20));
    sim.run_until(run_suite(disk));
    let untouched = sim.run_until(async move { below.read(0, 16 << 20).await.unwrap() });
    assert!(untouched.iter().all(|byte| *byte == 0));
}

#[test]
fn rules_hit_what_they_name() {
    let mut sim = SimLoop::new(1);
    let plan = FaultPlan::new();
    let disk = FaultDisk::new(mem(), &sim.handle(), Rc::clone(&plan));
    let reactor = sim.handle();
    sim.run_until(async move {
        plan.add(FaultRule::once(DiskOperation::WriteDurable, 1, Fault::Fail));
        disk.write(0, block(1), Persist::Durable).await.unwrap();
        disk.write(0, block(2), Persist::Cached).await.unwrap();
        let failed = disk.write(4096, block(3), Persist::Durable).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Internal);
        disk.write(0, block(4), Persist::Durable).await.unwrap();

        let flip = FaultRule::always(DiskOperation::Read, Fault::FlipBit);
        plan.add(FaultRule { range: 0..1, ..flip });
        let read = disk.read(0, 4096).await.unwrap();
        let flipped: u32 = read.iter().map(|byte| (byte ^ 4).count_ones()).sum();
        assert_eq!(flipped, 1);
        assert!(disk.read(8192, 4096).await.unwrap().iter().all(|byte| *byte == 0));

        plan.clear();
        plan.add(FaultRule::once(DiskOperation::WriteDurable, 0, Fault::Lose));
        disk.write(0, block(5), Persist::Durable).await.unwrap();
        assert_eq!(disk.read(0, 4096).await.unwrap()[0], 4);

        plan.add(FaultRule::once(DiskOperation::Flush, 0, Fault::Hang));
        let flush = disk.flush();
        let timeout = reactor.sleep(Nanos::seconds(100));
        let first = futures_util::future::select(flush, timeout).await;
        assert!(matches!(first, futures_util::future::Either::Right(_)), "a hung flush returned");
    });
}

#[test]
fn a_throttle_keeps_its_rates_and_its_order() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    let limits =
        ThrottleLimits { bytes_per_second: Some(4096 * 1000), operations_per_second: None };
    let throttle = Throttle::new(&reactor, limits);
    let disk = ThrottleDisk::new(mem(), Rc::clone(&throttle));
    let (bytes_took, operations_took) = sim.run_until(async move {
        let start = reactor.now();
        let writes: Vec<_> =
            (0..100).map(|byte| disk.write(0, block(byte), Persist::Cached)).collect();
        for write in writes {
            write.await.unwrap();
        }
        assert_eq!(disk.read(0, 4096).await.unwrap()[0], 99);
        let bytes_took = reactor.now() - start;
        let operations_per_second = Some(100);
        throttle.limit(ThrottleLimits { bytes_per_second: None, operations_per_second });
        let start = reactor.now();
        for _ in 0..10 {
            disk.flush().await.unwrap();
        }
        (bytes_took, reactor.now() - start)
    });
    assert!((Nanos::millis(99)..Nanos::millis(105)).contains(&bytes_took), "{bytes_took} ns");
    let expected = Nanos::millis(89)..Nanos::millis(105);
    assert!(expected.contains(&operations_took), "{operations_took} ns");
}

/// Parts of one write, and what they are together.
fn parts() -> (Vec<BufSlice>, Vec<u8>) {
    let parts = vec![block(1), BufSlice::copy_from(&[2; 8192]), block(3)];
    let joined = parts.iter().flat_map(|part| part.to_vec()).collect();
    (parts, joined)
}

async fn write_gathered(disk: &dyn Disk) {
    let (parts, joined) = parts();
    disk.write_gathered(8192, parts, Persist::Durable).await.unwrap();
    assert_eq!(disk.read(8192, joined.len()).await.unwrap()[..], joined[..]);
    disk.write_gathered(4096, vec![block(9)], Persist::Cached).await.unwrap();
    assert_eq!(disk.read(4096, 8192).await.unwrap()[..], [[9; 4096], [1; 4096]].concat()[..]);
}

#[test]
fn gathered_writes_are_one_write_of_their_parts_under_every_wrapper() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        write_gathered(&*mem()).await;
        write_gathered(&Section::new(mem(), 1 << 20, 1 << 20).unwrap()).await;
        write_gathered(&FaultDisk::new(mem(), &reactor, FaultPlan::new())).await;
        let throttle = Throttle::new(&reactor, ThrottleLimits::default());
        write_gathered(&ThrottleDisk::new(mem(), throttle)).await;
        write_gathered(&OverlayDisk::new(mem(), OverlayMemory::new(1 << 20))).await;
        let stats = DiskStats::new();
        write_gathered(&StatsDisk::new(mem(), &reactor, Rc::clone(&stats))).await;
        let durable = stats.of(DiskOperation::WriteDurable);
        assert_eq!((durable.count, durable.bytes), (1, 16384));
        let plan = FaultPlan::new();
        plan.add(FaultRule::once(DiskOperation::WriteDurable, 0, Fault::Fail));
        let failing = FaultDisk::new(mem(), &reactor, plan);
        let failed = failing.write_gathered(0, parts().0, Persist::Durable).await;
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Internal);
    });
}
