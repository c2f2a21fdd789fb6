//! Space that volumes on one shard gave back is there for volumes on another one.

use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ByteOffset, ErrorKind, ShardId};

use crate::rig::{Life, Rig, VOLUME_BYTES};

const PIECE: usize = 64 << 10;

/// Writes to the regions of a volume that lie on a shard until one is refused; the bytes that were taken.
async fn fill_on(life: &Life, name: &str, shard: ShardId) -> u64 {
    let volume = life.datasets().open(name).await.unwrap();
    let placement = life.datasets().dispatch().placement().clone();
    let mut rng = Rng::new(u64::from(shard.0));
    let mut taken = 0;
    for at in (0..VOLUME_BYTES).step_by(PIECE) {
        if placement.shard_of(volume.route().placement, at) != shard {
            continue;
        }
        let mut data = AlignedBuf::zeroed(PIECE);
        rng.fill(&mut data);
        match volume.write(ByteOffset(at), data.freeze()).await {
            Ok(()) => taken += PIECE as u64,
            Err(error) if error.kind() == ErrorKind::NoSpace => return taken,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("shard {shard} took all of the volume");
}

#[test]
fn what_one_shard_had_taken_another_one_takes() {
    Rig::new().live(async |life: Life| {
        let reactor = life.datasets().dispatch().reactor().clone();
        let (marking, zones) = (life.datasets().clone(), life.datasets().clone());
        reactor.spawn(async move { marking.keep_marking().await });
        reactor.spawn(async move { zones.keep_zones().await });
        let mut first = None;
        for (name, shard) in [("a", 0), ("b", 1), ("c", 0)] {
            life.create(name).await;
            let taken = fill_on(&life, name, ShardId(shard)).await;
            let first = *first.get_or_insert(taken);
            assert!(taken * 100 >= first * 95, "`{name}` took {taken}, the first one {first}");
            life.datasets().delete_volume(name, false).await.unwrap();
        }
    });
}
