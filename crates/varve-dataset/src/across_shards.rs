//! For tests: what two shards hold of equal blocks, over real shards and their dispatchers.

use std::sync::Arc;

use varve_dispatch::{CheckProgress, ReadPart};
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ByteOffset, Compression, Dedup, ErrorKind, ShardId};

use crate::rig::{Life, MIB, Rig, volume_spec};
use crate::{Datasets, VolumeSpec};

const BLOCKS: u64 = 64;

async fn create(datasets: &Datasets, name: &str) {
    let spec = VolumeSpec {
        dedup: Some(Dedup::On),
        compression: Some(Compression::Off),
        ..volume_spec(name)
    };
    datasets.create_volume(spec).await.unwrap();
}

fn bytes(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(BLOCKS * 4096).unwrap()];
    Rng::new(seed).fill(&mut bytes);
    bytes
}

/// Writes random blocks at the beginning of a region: the regions 0 and 1 lie on different shards.
async fn write(life: &Life, name: &str, region: u64, seed: u64) {
    let volume = life.datasets().open(name).await.unwrap();
    let data = AlignedBuf::from_slice(&bytes(seed)).freeze();
    volume.write(ByteOffset(region * 64 * MIB), data).await.unwrap();
    settle(life).await;
}

async fn reads(life: &Life, name: &str, region: u64, seed: u64) -> bool {
    let volume = life.datasets().open(name).await.unwrap();
    let parts = volume
        .read(ByteOffset(region * 64 * MIB), u32::try_from(BLOCKS * 4096).unwrap())
        .await
        .unwrap();
    let mut all = Vec::new();
    for part in parts {
        match part {
            ReadPart::Zero(len) => all.resize(all.len() + len, 0),
            ReadPart::Data(data) => all.extend_from_slice(&data),
        }
    }
    all == bytes(seed)
}

/// Waits until everything acknowledged is in its place, and told.
async fn settle(life: &Life) {
    life.streams().await;
    life.datasets().dispatch().reactor().sleep(10_000_000).await;
}

/// Chunks on all shards, once what was overwritten is folded.
async fn chunks(life: &Life) -> u64 {
    settle(life).await;
    life.datasets().space().await.unwrap(); // It folds.
    life.datasets().dispatch().stats().await.unwrap().iter().map(|shard| shard.data_chunks).sum()
}

async fn check(life: &Life) {
    let progress = Arc::new(CheckProgress::default());
    let report = life.datasets().check_online(progress).await.unwrap();
    assert!(!report.is_damaged(), "{report:?}");
}

/// Two volumes that hold the same in both regions.
async fn two_alike(life: &Life) {
    for name in ["v", "w"] {
        create(life.datasets(), name).await;
    }
    for (name, region) in [("v", 0), ("v", 1), ("w", 0), ("w", 1)] {
        write(life, name, region, 1).await;
    }
}

#[test]
fn equal_blocks_of_two_shards_are_stored_once() {
    let mut rig = Rig::new();
    rig.live(async |life: Life| {
        two_alike(&life).await;
        assert_eq!(chunks(&life).await, BLOCKS);
        for (name, region) in [("v", 0), ("v", 1), ("w", 0), ("w", 1)] {
            assert!(reads(&life, name, region, 1).await, "{name} {region}");
        }
        let space = life.datasets().space().await.unwrap();
        assert_eq!(space.logical_bytes, 4 * BLOCKS * 4096);
        for volume in &space.volumes {
            assert_eq!(volume.held.referenced_bytes, 2 * BLOCKS * (4096 + 64), "{volume:?}");
            assert_eq!(volume.held.unique_bytes, 0);
        }
        check(&life).await;
    });
    // After a crash the names are what they were, and equal blocks are found again.
    rig.live(async |life: Life| {
        assert!(reads(&life, "v", 1, 1).await && reads(&life, "w", 0, 1).await);
        life.datasets().dispatch().reactor().sleep(1_000_000_000).await;
        create(life.datasets(), "x").await;
        write(&life, "x", 0, 1).await;
        write(&life, "x", 1, 1).await;
        assert_eq!(chunks(&life).await, BLOCKS);
        check(&life).await;
    });
}

#[test]
fn a_chunk_lives_as_long_as_any_shard_names_it() {
    let mut rig = Rig::new();
    rig.live(async |life: Life| {
        two_alike(&life).await;
        write(&life, "v", 0, 2).await;
        write(&life, "v", 1, 3).await;
        life.datasets().mark().await.unwrap();
        assert_eq!(chunks(&life).await, 3 * BLOCKS);
        assert!(reads(&life, "w", 0, 1).await && reads(&life, "w", 1, 1).await);
    });
    rig.live(async |life: Life| {
        assert!(reads(&life, "w", 0, 1).await && reads(&life, "w", 1, 1).await);
        // One of the two holds chunks of the other shard only.
        write(&life, "w", 0, 4).await;
        life.datasets().mark().await.unwrap();
        assert_eq!(chunks(&life).await, 4 * BLOCKS);
        assert!(reads(&life, "w", 1, 1).await);
        write(&life, "w", 1, 5).await;
        life.datasets().mark().await.unwrap();
        assert_eq!(chunks(&life).await, 4 * BLOCKS, "nobody names the first ones any more");
        check(&life).await;
    });
}

#[test]
fn a_foreign_chunk_that_is_overwritten_makes_a_mark_pass_due() {
    Rig::new().live(async |life: Life| {
        create(life.datasets(), "v").await;
        write(&life, "v", 0, 1).await;
        write(&life, "v", 1, 1).await;
        life.datasets().mark().await.unwrap();
        let kept = async |life: &Life| -> u64 {
            settle(life).await;
            let stats = life.datasets().dispatch().stats().await.unwrap();
            stats.iter().map(|shard| shard.kept_bytes).sum()
        };
        assert_eq!(kept(&life).await, 0);
        write(&life, "v", 0, 2).await;
        write(&life, "v", 1, 3).await;
        chunks(&life).await;
        assert!(kept(&life).await >= 2 * BLOCKS * 4096, "{}", kept(&life).await);
    });
}

/// A shard that another process took over grants nothing and holds nobody up; what lies there is unavailable, and
/// nothing else.
#[test]
fn a_shard_that_is_lost_answers_at_once() {
    Rig::new().live(async |life: Life| {
        create(life.datasets(), "v").await;
        write(&life, "v", 0, 1).await;
        let stats = life.datasets().dispatch().stats().await.unwrap();
        let home = stats.iter().position(|shard| shard.data_chunks == BLOCKS).unwrap();
        let other = 1 - home;
        write(&life, "v", 1, 1).await; // These name the home's chunks.
        let asking = life.threads[other].clone();
        let volume = asking.open("v").await.unwrap();
        let (dispatch, len) = (asking.dispatch(), u32::try_from(BLOCKS * 4096).unwrap());

        life.fences[home].take();
        let began = dispatch.reactor().now();
        let again = 64 * MIB + BLOCKS * 4096;
        volume.write(ByteOffset(again), AlignedBuf::from_slice(&bytes(1)).freeze()).await.unwrap();
        let drained = dispatch.on_shard(ShardId(u16::try_from(other).unwrap()), |shard| {
            Box::pin(async move {
                shard.apply_acknowledged().await?;
                Ok(shard.stats())
            })
        });
        let stats = drained.await.unwrap();
        assert_eq!(stats.foreign_blocks, BLOCKS, "those from before");
        assert_eq!((stats.data_chunks, stats.late_answers), (BLOCKS, 0), "stored once more");
        let error = volume.read(ByteOffset(64 * MIB), len).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let mut read = Vec::new();
        for part in volume.read(ByteOffset(again), len).await.unwrap() {
            let ReadPart::Data(data) = part else { panic!("it holds data") };
            read.extend_from_slice(&data);
        }
        assert_eq!(read, bytes(1));
        assert!(asking.mark().await.is_err(), "nothing is swept without the names of all");
        let took_ms = (dispatch.reactor().now().0 - began.0) / 1_000_000;
        assert!(took_ms < 100, "{took_ms} ms");
    });
}
