//! A shard that failed writes nothing once its last writes have ended: another is open in its place then, whose
//! segments it would overwrite.
//!
//! Method: a disk on which some operations are slow and some writes fail; whatever the shard's tasks and callers were
//! doing goes on beside nobody, and the disk counts.

use std::rc::Rc;

use crate::pool::{CROWDED, disk_for, format_on, open_media};
use varve_engine::{BLOCK_BYTES, Error, Shard};
use varve_media::{
    Disk, DiskOperation, DiskStats, Fault, FaultDisk, FaultPlan, FaultRule, StatsDisk,
};
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ByteOffset, ByteRange, StreamId};

const STREAM: StreamId = StreamId::new(1);
const BLOCKS: u64 = 2000;
const CLIENTS: u64 = 8;
/// Writes of the shard before one fails, at most.
const SKIP_MAX: u64 = 400;
const WORLDS: u64 = 60;
const PAUSE_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Overwrites, trims and checkpoints until the shard refuses.
fn spawn_callers(reactor: &Reactor, shard: &Rc<Shard>, seed: u64) {
    for client in 0..CLIENTS {
        let (reactor, shard) = (reactor.clone(), Rc::clone(shard));
        let mut rng = Rng::new(seed * CLIENTS + client);
        reactor.clone().spawn(async move {
            loop {
                let offset = rng.below(BLOCKS) * BLOCK_BYTES as u64;
                let mut data = AlignedBuf::zeroed(BLOCK_BYTES);
                rng.fill(&mut data);
                let outcome = match rng.below(8) {
                    0 => {
                        shard
                            .trim(
                                STREAM,
                                ByteRange { start: offset, end: offset + BLOCK_BYTES as u64 },
                            )
                            .await
                    }
                    _ => shard.write(STREAM, ByteOffset(offset), data.freeze()).await,
                };
                match outcome {
                    Ok(()) => {}
                    Err(Error::Failed { .. }) => return,
                    // A zone could not be leased, which harms nobody else.
                    Err(_) => reactor.sleep(PAUSE_NS).await,
                }
            }
        });
    }
    let shard = Rc::clone(shard);
    reactor.spawn(async move {
        while shard.checkpoint().await.is_ok() && shard.apply_acknowledged().await.is_ok() {}
    });
}

fn changes(stats: &DiskStats) -> u64 {
    let operations =
        [DiskOperation::WriteCached, DiskOperation::WriteDurable, DiskOperation::Discard];
    operations.iter().map(|operation| stats.of(*operation).count).sum()
}

async fn world(reactor: Reactor, seed: u64) -> u64 {
    let plan = FaultPlan::new();
    let stats = DiskStats::new();
    let disk: Rc<dyn Disk> = Rc::new(disk_for(CROWDED, 1));
    let disk: Rc<dyn Disk> = Rc::new(FaultDisk::new(disk, &reactor, Rc::clone(&plan)));
    let disk: Rc<dyn Disk> = Rc::new(StatsDisk::new(disk, &reactor, Rc::clone(&stats)));
    let (media, made) = format_on(&disk, CROWDED, 1).await;
    made.expect("format the pool");
    let shard = open_media(&reactor, media, CROWDED).await.remove(0);
    let skip = Rng::new(seed).below(SKIP_MAX);
    // From then on all: of one that fails there may be a copy, or nobody who needs it.
    let fails = FaultRule::once(DiskOperation::WriteDurable, skip, Fault::Fail);
    plan.add(FaultRule { times: u64::MAX, ..fails });
    for operation in DiskOperation::ALL {
        plan.add(FaultRule { one_in: 3, ..FaultRule::always(operation, Fault::Delay(300_000)) });
    }
    spawn_callers(&reactor, &shard, seed);
    shard.stopped().await;
    shard.quiesced().await;
    plan.clear();
    let before = changes(&stats);
    reactor.sleep(SECOND_NS).await;
    changes(&stats) - before
}

#[test]
fn a_failed_shard_writes_no_more() {
    for seed in 0..WORLDS {
        let mut sim = SimLoop::new(seed);
        let reactor = sim.handle();
        let late = sim.run_until(world(reactor, seed));
        assert_eq!(late, 0, "world {seed}: writes after the last had ended");
    }
}
