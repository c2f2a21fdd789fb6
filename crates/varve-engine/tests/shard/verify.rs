//! A shard that is verified while writes, drains, reclaim and checkpoints are at work: nothing that is sound is called
//! damaged, and what is damaged is found.
//!
//! Method: a shard that is short of free segments, clients that overwrite, and a drive that is slow enough for much to
//! happen meanwhile.

use std::ops::ControlFlow;
use std::rc::Rc;

use crate::pool::{CROWDED, MIB, disk_for, format_on, open_media};
use varve_engine::{BLOCK_BYTES, Damage, DamagedPart, MapItem, Shard, ShardStats, VerifyEvent};
use varve_logstore::format::chunk::ChunkEntry;
use varve_media::{
    Disk, DiskOperation, Drive, DriveDisks, DriveOptions, Fault, FaultDisk, FaultPlan, FaultRule,
    MemDisk,
};
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{BlockIndex, ByteOffset, ChunkId, StreamId};

const STREAM: StreamId = StreamId::new(1);
const BLOCKS: u64 = 3_000;
const CLIENTS: u64 = 8;

/// Of one block each, which nobody overwrites.
const COLD: [StreamId; 2] = [StreamId::new(2), StreamId::new(3)];

/// A shard on a disk that is slow from now on where the plan says so.
async fn opened(reactor: &Reactor, disk: &MemDisk) -> (Rc<FaultPlan>, Rc<Shard>) {
    let plan = FaultPlan::new();
    let disk: Rc<dyn Disk> = Rc::new(disk.clone());
    let disk: Rc<dyn Disk> = Rc::new(FaultDisk::new(disk, reactor, Rc::clone(&plan)));
    let (media, made) = format_on(&disk, CROWDED, 1).await;
    made.expect("format the pool");
    (plan, open_media(reactor, media, CROWDED).await.remove(0))
}

fn slow_down(plan: &FaultPlan) {
    for operation in DiskOperation::ALL {
        let delay = FaultRule::always(operation, Fault::Delay(300_000));
        plan.add(FaultRule { one_in: 3, ..delay });
    }
}

async fn write(shard: &Shard, stream: StreamId, block: u64, rng: &mut Rng) {
    let mut data = AlignedBuf::zeroed(BLOCK_BYTES);
    rng.fill(&mut data);
    shard
        .write(stream, ByteOffset(block * BLOCK_BYTES as u64), data.freeze())
        .await
        .expect("write");
}

/// Overwrites at random until the loop is dropped.
fn spawn_clients(reactor: &Reactor, shard: &Rc<Shard>) {
    for client in 0..CLIENTS {
        let shard = Rc::clone(shard);
        let mut rng = Rng::new(client);
        reactor.spawn(async move {
            loop {
                let block = rng.below(BLOCKS);
                write(&shard, STREAM, block, &mut rng).await;
            }
        });
    }
}

/// Waits until reclaim has moved more.
async fn wait_moved(reactor: &Reactor, shard: &Shard, bytes: u64) {
    let before = shard.stats().moved_bytes;
    while shard.stats().moved_bytes < before + bytes {
        reactor.sleep(100_000).await;
    }
}

/// What a verification finds, which has to look at much.
async fn verified(shard: &Shard) -> Vec<Damage> {
    let mut damage = Vec::new();
    let mut observe = |event| {
        if let VerifyEvent::Damage(found) = event {
            damage.push(found);
        }
        ControlFlow::Continue(())
    };
    let report = shard.verify(&mut observe).await.expect("verify");
    assert!(report.needed_units > 1000, "{report:?}");
    damage
}

/// VERIFY-4, VERIFY-5, VERIFY-7.
#[test]
fn what_goes_on_meanwhile_is_not_damage() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let (plan, shard) = opened(&reactor, &disk_for(CROWDED, 1)).await;
        slow_down(&plan);
        spawn_clients(&reactor, &shard);
        wait_moved(&reactor, &shard, 1).await;
        let (mut segments, mut checkpoints, mut moved) = (0, 0, 0);
        for round in 0..20 {
            wait_moved(&reactor, &shard, MIB).await;
            let before = shard.stats();
            let damage = verified(&shard).await;
            assert!(damage.is_empty(), "round {round}: {damage:?}");
            let ShardStats { data_segments, checkpoints: made, moved_bytes, .. } = shard.stats();
            segments += data_segments - before.data_segments;
            checkpoints += made - before.checkpoints;
            moved += moved_bytes - before.moved_bytes;
        }
        // Without the gate in between there would be none of a checkpoint, and no more than what fits the buffer.
        assert!(
            checkpoints > 10 && segments > 100 && moved > MIB,
            "{checkpoints} {segments} {moved}"
        );
    });
}

/// The only chunk of a stream, and where it lies.
async fn only_chunk(shard: &Shard, stream: StreamId) -> (ChunkId, ChunkEntry) {
    let mut only = None;
    let mut visit = |item| {
        if let MapItem::Data { chunk, .. } = item {
            assert_eq!(only.replace(chunk), None, "one block was written");
        }
        ControlFlow::Continue(())
    };
    shard.walk_map(stream, BlockIndex::ZERO, &mut visit).await.expect("walk");
    let chunk = only.expect("a block was written");
    (chunk, shard.chunk_place(chunk).await.expect("read the table").expect("it is in the table"))
}

#[test]
fn damage_is_found_beside_writes() {
    let mut sim = SimLoop::new(2);
    let reactor = sim.handle();
    sim.run_until(async move {
        let disk = disk_for(CROWDED, 1);
        let (plan, shard) = opened(&reactor, &disk).await;
        let mut rng = Rng::new(1);
        for stream in COLD {
            write(&shard, stream, 0, &mut rng).await;
            for block in 0..BLOCKS / 2 {
                write(&shard, STREAM, block, &mut rng).await;
            }
        }
        shard.apply_acknowledged().await.expect("apply");
        let disks = vec![DriveDisks::One(Rc::new(disk.clone()) as Rc<dyn Disk>)];
        let drive = Drive::open(disks, DriveOptions { discard: false }).await.expect("open");
        let [(chunk, in_chunk), (_, in_header)] =
            [only_chunk(&shard, COLD[0]).await, only_chunk(&shard, COLD[1]).await];
        assert_ne!(in_chunk.segment, in_header.segment);
        let begin =
            |entry: &ChunkEntry| drive.segment_place(entry.segment.number).expect("a slot").offset;
        disk.flip_bit(begin(&in_chunk) + u64::from(in_chunk.offset_512) * 512 + 77, 3);
        disk.flip_bit(begin(&in_header) + 20, 3);
        slow_down(&plan);
        spawn_clients(&reactor, &shard);
        wait_moved(&reactor, &shard, 1).await;
        for round in 0..5 {
            wait_moved(&reactor, &shard, MIB).await;
            let damage = verified(&shard).await;
            let found: Vec<_> =
                damage.iter().map(|it| (it.segment, it.part, it.is_needed)).collect();
            let mut wanted = vec![
                (in_chunk.segment, DamagedPart::Chunk(chunk), true),
                (in_header.segment, DamagedPart::Header, true),
            ];
            wanted.sort_by_key(|(segment, ..)| segment.number);
            assert_eq!(found, wanted, "round {round}: {damage:?}");
        }
    });
}
