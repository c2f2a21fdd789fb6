//! Zones that are withdrawn are nobody's: a pool whose drives have room for fewer zones than there are slots lends
//! those alone, and grows and shrinks.
//!
//! Method: pools of more slots than zones, on a memory disk; leases until there is nothing more, and other sizes.

use std::rc::Rc;

use hashbrown::HashSet;
use varve_engine::{Error, OpenPool, PoolSpec, ZoneLayout};
use varve_media::{Disk, Media};
use varve_reactor::SimLoop;
use varve_types::{Reduction, ShardId};

use crate::pool::{MIB, POOL, Shape, disk_for, format_on, media_on};

const SHAPE: Shape = Shape {
    segments: 800,
    segment_bytes: 64 << 10,
    lane_bytes: MIB,
    memory_bytes: 16 * MIB,
    checkpoint_entries: 2000,
    write_blocks_max: 1,
    volume_percent: 50,
    reduction: Reduction::OFF,
    index_bytes: 1 << 10,
};

/// Zones for which there is room, of more slots.
const ROOM: ZoneLayout = ZoneLayout { zone_segments: 6, zones: 100 };

fn spec(zones: ZoneLayout) -> PoolSpec {
    PoolSpec { pool: POOL, created_unix_ms: 0, shard_count: 2, zones: Some(zones) }
}

async fn made() -> (Vec<Media>, Rc<OpenPool>) {
    let disk: Rc<dyn Disk> = Rc::new(disk_for(SHAPE, 2));
    let media = media_on(&disk, SHAPE, 2).await;
    OpenPool::format(&media, &spec(ROOM)).await.expect("format the pool");
    let pool = OpenPool::open(&media[0]).await.expect("open the pool");
    (media, pool)
}

/// Leases all that either shard gets; the zones of both, by their index.
async fn lease_all(pool: &OpenPool) -> HashSet<u32> {
    for shard in [ShardId(0), ShardId(1)] {
        while pool.lease(shard).await.expect("lease").is_some() {}
    }
    let mut zones = HashSet::new();
    for shard in [ShardId(0), ShardId(1)] {
        for zone in pool.zones_of(shard).await.expect("zones") {
            assert_eq!(zone.count, ROOM.zone_segments);
            assert!(zones.insert(zone.first.0 / ROOM.zone_segments), "a zone has one owner");
        }
    }
    zones
}

#[test]
fn zones_behind_the_root_are_lent_to_nobody() {
    SimLoop::new(1).run_until(async {
        let (media, pool) = made().await;
        assert_eq!(pool.zone_count(), ROOM.zones);
        assert_eq!(pool.zone_counts().share_segments(), 50 * 6);
        let zones = lease_all(&pool).await;
        assert!(zones.iter().all(|zone| *zone < ROOM.zones), "{zones:?}");
        let slots = media[0].segments.geometry().segment_count;
        assert!(u32::try_from(zones.len()).unwrap() * ROOM.zone_segments < slots);
    });
}

#[test]
fn a_pool_shrinks_by_what_nobody_has_and_grows_again() {
    SimLoop::new(2).run_until(async {
        let (media, pool) = made().await;
        let counts = pool.zone_counts();
        let standing = u32::try_from(counts.standing_segments()).unwrap() / ROOM.zone_segments;
        let least = pool.resize(0).await.expect("shrink");
        assert!(least < ROOM.zones, "there was nothing to withdraw");
        assert!(least >= 2 * standing, "{least} zones for two shards that keep {standing}");
        assert_eq!(counts.share_segments(), u64::from(least / 2 * ROOM.zone_segments));
        let pool = OpenPool::open(&media[0]).await.expect("open again");
        assert_eq!(pool.zone_count(), least);
        assert_eq!(u32::try_from(lease_all(&pool).await.len()).unwrap(), least, "all are leased");
        assert_eq!(pool.resize(0).await.expect("shrink"), least, "nothing is free");
        assert_eq!(pool.lease(ShardId(0)).await.expect("lease"), None);

        assert_eq!(pool.resize(least + 9).await.expect("grow"), least + 9);
        assert_eq!(lease_all(&pool).await.len(), least as usize + 9);
        let zones_max = media[0].segments.geometry().segment_count / ROOM.zone_segments;
        assert_eq!(pool.resize(u32::MAX).await.expect("grow"), zones_max);
        let pool = OpenPool::open(&media[0]).await.expect("open again");
        assert_eq!(pool.zone_count(), zones_max);
    });
}

#[test]
fn what_the_pool_wants_back_is_lent_for_standing_minimums_alone() {
    SimLoop::new(6).run_until(async {
        let (_media, pool) = made().await;
        let counts = pool.zone_counts();
        let standing = counts.standing_segments() / u64::from(ROOM.zone_segments);
        assert_eq!((counts.zones(), pool.is_withdrawn(ROOM.zones)), (100, true));
        assert!(!pool.is_withdrawn(ROOM.zones - 1));
        let spare = u32::try_from(counts.zones() - 2 * standing).unwrap();
        pool.ask_back(spare + 10);
        for shard in [ShardId(0), ShardId(1)] {
            while pool.lease(shard).await.expect("lease").is_some() {}
            let zones = pool.zones_of(shard).await.expect("zones").len() as u64;
            assert_eq!(zones, standing, "POOL-7");
            assert_eq!(counts.lendable_segments(shard), 0);
        }
        let left = pool.resize(0).await.expect("shrink");
        assert_eq!(u64::from(left), 2 * standing);
        assert!(pool.is_withdrawn(ROOM.zones - 1));
        pool.ask_back(0);
        assert_eq!(pool.resize(ROOM.zones).await.expect("grow"), ROOM.zones);
        assert!(pool.lease(ShardId(0)).await.expect("lease").is_some());
    });
}

#[test]
fn a_withdrawn_zone_between_others_stays_withdrawn() {
    SimLoop::new(3).run_until(async {
        let (media, pool) = made().await;
        lease_all(&pool).await;
        let given = {
            // The first shard has more than its standing minimum, and the second one what lies behind.
            let zones = pool.zones_of(ShardId(0)).await.expect("zones");
            zones[zones.len() - 2]
        };
        pool.give_back(ShardId(0), given).await.expect("give back");
        assert_eq!(pool.resize(0).await.expect("shrink"), ROOM.zones - 1);
        let pool = OpenPool::open(&media[0]).await.expect("open again");
        assert_eq!(pool.lease(ShardId(0)).await.expect("lease"), None);
        assert_eq!(pool.resize(ROOM.zones).await.expect("grow"), ROOM.zones);
        assert_eq!(pool.lease(ShardId(0)).await.expect("lease"), Some(given));
    });
}

#[test]
fn a_pool_without_redundancy_stays_as_large_as_it_is() {
    SimLoop::new(4).run_until(async {
        let disk: Rc<dyn Disk> = Rc::new(disk_for(SHAPE, 2));
        let (media, made) = format_on(&disk, SHAPE, 2).await;
        made.expect("format the pool");
        let pool = OpenPool::open(&media[0]).await.expect("open the pool");
        let zones = pool.zone_count();
        assert_eq!(pool.resize(3).await.expect("resize"), zones);
        assert_eq!(pool.zone_count(), zones);
    });
}

#[test]
fn zones_that_the_media_do_not_have_are_refused() {
    SimLoop::new(5).run_until(async {
        let disk: Rc<dyn Disk> = Rc::new(disk_for(SHAPE, 2));
        let media = media_on(&disk, SHAPE, 2).await;
        for zones in [
            ZoneLayout { zones: 100_000, ..ROOM },
            ZoneLayout { zone_segments: 0, ..ROOM },
            ZoneLayout { zone_segments: 129, zones: 2 },
        ] {
            let refused = OpenPool::format(&media, &spec(zones)).await;
            assert!(matches!(refused, Err(Error::BadPoolRoot { .. })), "{zones:?}: {refused:?}");
        }
        let few = OpenPool::format(&media, &spec(ZoneLayout { zones: 2, ..ROOM })).await;
        assert!(matches!(few, Err(Error::TooFewSegments { segments: 12, .. })), "{few:?}");
    });
}
