//! What volumes and snapshots hold over real shards, and what deletions give back.

use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ByteOffset, Compression};

use crate::rig::{Life, MIB, Rig, volume_spec};
use crate::space::{StoredSpace, VolumeSpace};
use crate::{Datasets, VolumeSpec};

/// Bytes that a raw block takes in a segment: itself and its entry.
const RAW: u64 = 4096 + 64;

const BLOCKS: u64 = 64;

/// Makes a volume whose blocks are stored as they are.
async fn create_raw(datasets: &Datasets, name: &str) {
    let spec = VolumeSpec { compression: Some(Compression::Off), ..volume_spec(name) };
    datasets.create_volume(spec).await.unwrap();
}

/// Writes 64 random blocks at the beginning of a region: every other one is on another shard.
async fn write(datasets: &Datasets, name: &str, region: u64, seed: u64) {
    let mut bytes = vec![0; usize::try_from(BLOCKS * 4096).unwrap()];
    Rng::new(seed).fill(&mut bytes);
    let volume = datasets.open(name).await.unwrap();
    volume
        .write(ByteOffset(region * 64 * MIB), AlignedBuf::from_slice(&bytes).freeze())
        .await
        .unwrap();
}

/// What is stored, after everything acknowledged is in its place and on media.
async fn space(life: &Life) -> StoredSpace {
    life.streams().await;
    life.datasets().space().await.unwrap()
}

fn volume<'a>(space: &'a StoredSpace, name: &str) -> &'a VolumeSpace {
    space.volumes.iter().find(|held| held.volume.name == name).unwrap()
}

#[test]
fn snapshots_and_clones_are_counted_apart() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        create_raw(datasets, "v").await;
        for region in 0..4 {
            write(datasets, "v", region, region).await;
        }
        life.snapshot("v@a").await;
        write(datasets, "v", 0, 10).await;
        life.snapshot("v@b").await;
        write(datasets, "v", 0, 11).await;
        write(datasets, "v", 1, 12).await;
        datasets.clone_volume("v@a", "c").await.unwrap();
        create_raw(datasets, "empty").await;

        let space = space(&life).await;
        let part = BLOCKS * 4096;
        let v = volume(&space, "v");
        assert_eq!(v.held.logical_bytes, 4 * part);
        assert_eq!(v.held.referenced_bytes, 4 * BLOCKS * RAW);
        assert_eq!(v.held.unique_bytes, 2 * part, "regions 0 and 1 as they are now");
        let [a, b] = v.snapshots.as_slice() else { panic!("{:?}", v.snapshots) };
        assert_eq!((a.snapshot.name.as_str(), a.held.logical_bytes), ("v@a", 4 * part));
        assert_eq!(a.held.unique_bytes, 0, "the clone has it all");
        assert_eq!(b.held.unique_bytes, part, "region 0 as it was between");
        let c = volume(&space, "c");
        assert_eq!((c.held.unique_bytes, c.snapshots.len()), (0, 0));
        assert_eq!(volume(&space, "empty").held, super::HeldSpace::default());
        assert_eq!(space.logical_bytes, 8 * part);
        assert_eq!(space.referenced_bytes, 7 * BLOCKS * RAW);
        assert_eq!((space.unique_bytes, space.waiting_bytes()), (7 * part, 0));
    });
}

/// The space once all that was deleted is found, and all is on media.
async fn settled(life: &Life) -> StoredSpace {
    let datasets = life.datasets();
    for _ in 0..2 {
        for shard in datasets.dispatch().placement().shards() {
            let settled = datasets.dispatch().on_shard(shard, |shard| {
                Box::pin(async move {
                    shard.apply_acknowledged().await?;
                    shard.checkpoint().await
                })
            });
            settled.await.unwrap();
        }
        datasets.mark().await.unwrap();
    }
    datasets.space().await.unwrap()
}

/// What came back is what was said to, within 2 %.
#[track_caller]
fn check_freed(before: &StoredSpace, after: &StoredSpace, said: u64) {
    let freed = before.used_bytes() - after.used_bytes();
    assert!(said > BLOCKS * RAW && freed.abs_diff(said) <= said / 50, "{freed}, not {said}");
    assert_eq!(after.waiting_bytes(), 0);
}

#[test]
fn deletions_give_back_what_was_said() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        create_raw(datasets, "v").await;
        for (round, snapshot) in ["a", "b", "c", "d"].into_iter().enumerate() {
            for region in 0..4 {
                write(datasets, "v", region, round as u64 * 10 + region).await;
            }
            life.snapshot(&format!("v@{snapshot}")).await;
        }
        write(datasets, "v", 0, 100).await;
        write(datasets, "v", 1, 101).await;
        datasets.clone_volume("v@d", "c").await.unwrap();

        let before = settled(&life).await;
        datasets.delete_snapshot("v@b").await.unwrap();
        let after = settled(&life).await;
        check_freed(&before, &after, volume(&before, "v").snapshots[1].held.freed_bytes);

        let before = after;
        for snapshot in ["v@a", "v@c", "v@d"] {
            datasets.delete_snapshot(snapshot).await.unwrap();
        }
        let after = settled(&life).await;
        check_freed(&before, &after, volume(&before, "v").snapshots_freed_bytes);

        life.snapshot("v@e").await;
        write(datasets, "v", 3, 103).await;
        let before = settled(&life).await;
        datasets.delete_volume("v", true).await.unwrap();
        let after = settled(&life).await;
        check_freed(&before, &after, volume(&before, "v").whole_freed_bytes);

        let before = after;
        datasets.delete_volume("c", false).await.unwrap();
        let after = settled(&life).await;
        check_freed(&before, &after, volume(&before, "c").held.freed_bytes);
        assert_eq!((after.unique_bytes, after.stored_bytes), (0, 0));
    });
}
