//! A shard that is verified while reclaim and checkpoints are at work: nothing that is sound is called damaged.
//!
//! Method: a shard that is short of free segments, clients that overwrite, and a drive that is slow enough for much to
//! happen meanwhile.

use std::ops::ControlFlow;
use std::rc::Rc;

use crate::pool::{CROWDED, MIB, disk_for, format_on, open_media};
use varve_engine::{BLOCK_BYTES, Shard, VerifyEvent};
use varve_media::{Disk, DiskOperation, Fault, FaultDisk, FaultPlan, FaultRule};
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, Rng};
use varve_types::StreamId;

const STREAM: StreamId = StreamId::new(1);
const BLOCKS: u64 = 3_000;
const CLIENTS: u64 = 8;

/// Overwrites at random until the loop is dropped.
fn spawn_clients(reactor: &Reactor, shard: &Rc<Shard>) {
    for client in 0..CLIENTS {
        let shard = Rc::clone(shard);
        let mut rng = Rng::new(client);
        reactor.spawn(async move {
            loop {
                let offset = rng.below(BLOCKS) * BLOCK_BYTES as u64;
                let mut data = AlignedBuf::zeroed(BLOCK_BYTES);
                rng.fill(&mut data);
                shard.write(STREAM, offset, data.freeze()).await.expect("write");
            }
        });
    }
}

#[test]
fn what_moves_meanwhile_is_not_damaged() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    sim.run_until(async move {
        let plan = FaultPlan::new();
        let disk: Rc<dyn Disk> = Rc::new(disk_for(CROWDED, 1));
        let disk: Rc<dyn Disk> = Rc::new(FaultDisk::new(disk, &reactor, Rc::clone(&plan)));
        let (media, made) = format_on(&disk, CROWDED, 1).await;
        made.expect("format the pool");
        let shard = open_media(&reactor, media, CROWDED).await.remove(0);
        for operation in DiskOperation::ALL {
            let delay = FaultRule::always(operation, Fault::Delay(300_000));
            plan.add(FaultRule { one_in: 3, ..delay });
        }
        spawn_clients(&reactor, &shard);
        while shard.stats().moved_bytes == 0 {
            reactor.sleep(1_000_000).await;
        }
        for round in 0..20 {
            let before = shard.stats().moved_bytes;
            while shard.stats().moved_bytes < before + MIB {
                reactor.sleep(100_000).await;
            }
            let mut damage = Vec::new();
            let mut observe = |event| {
                if let VerifyEvent::Damage(found) = event {
                    damage.push(found.reason);
                }
                ControlFlow::Continue(())
            };
            let report = shard.verify(&mut observe).await.expect("verify");
            assert!(report.needed_units > 1000, "round {round}: {report:?}");
            assert_eq!(damage, Vec::<String>::new(), "round {round}");
        }
    });
}
