//! Several owners of shards replace one root of a pool: nobody gets what another has.

use std::collections::BTreeSet;

use varve_engine::Pool;
use varve_reactor::SimLoop;
use varve_stdx::Rng;
use varve_types::ShardId;

use crate::pool::{CROWDED, Shape, disk_for, format};

/// Room for three shards.
const ROOMY: Shape = Shape { segments: 2 * CROWDED.segments, ..CROWDED };

#[test]
fn zones_and_ids_are_given_once_whoever_asks() {
    for seed in 0..20 {
        let mut event_loop = SimLoop::new(seed);
        let reactor = event_loop.handle();
        event_loop.run_until(async move {
            let (media, made) = format(&disk_for(ROOMY, 3), ROOMY, 3).await;
            made.expect("format the pool");
            let mut owners = Vec::new();
            for media in &media {
                let pool = Pool::open_shared(media).await.expect("open the root");
                owners.push(reactor.spawn_join(take(pool, owners.len(), Rng::new(seed * 3))));
            }
            let (mut zones, mut ids) = (BTreeSet::new(), BTreeSet::new());
            for owner in owners {
                let (leased, reserved) = owner.await;
                for zone in leased {
                    assert!(zones.insert(zone), "zone {zone} was lent twice");
                }
                for id in reserved {
                    assert!(ids.insert(id), "stream {id} was given twice");
                }
            }
            let pool = Pool::open(&media[0]).await.expect("open the root");
            let owned = (0..3).map(|shard| pool.zones_of(ShardId(shard)).len()).sum::<usize>();
            assert_eq!(owned, zones.len() + 3, "each shard has its first zone, and what was lent");
            assert_eq!(pool.unleased().load(std::sync::atomic::Ordering::Relaxed), 0);
        });
    }
}

/// Takes zones until there are none, and ids beside it; returns their first segments, and the ids.
async fn take(pool: std::rc::Rc<Pool>, shard: usize, mut rng: Rng) -> (Vec<u32>, Vec<u64>) {
    let shard = ShardId(u16::try_from(shard).expect("three"));
    let (mut zones, mut ids) = (Vec::new(), Vec::new());
    loop {
        let count = 1 + rng.below(1500);
        let first = pool.reserve_streams(count).await.expect("there are ids").get();
        ids.extend(first..first + count);
        match pool.lease(shard).await.expect("the root is replaced") {
            Some(zone) => zones.push(zone.first.0),
            None => return (zones, ids),
        }
    }
}

/// Where one owner has the root to itself, a replacement by somebody else is an error, and not tried again.
#[test]
fn a_root_with_one_owner_is_not_shared() {
    SimLoop::new(1).run_until(async {
        let (media, made) = format(&disk_for(CROWDED, 2), CROWDED, 2).await;
        made.expect("format the pool");
        let one = Pool::open(&media[0]).await.expect("open the root");
        let other = Pool::open_shared(&media[1]).await.expect("open the root");
        other.lease(ShardId(1)).await.expect("the root is replaced").expect("a zone");
        assert_eq!(
            one.lease(ShardId(0)).await.expect_err("another replaced it").kind(),
            varve_types::ErrorKind::Conflict
        );
    });
}
