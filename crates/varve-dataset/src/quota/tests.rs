//! Volumes with quotas over real shards.

use futures_util::future::join_all;
use varve_stdx::AlignedBuf;
use varve_types::{ByteOffset, ErrorKind};

use crate::rig::{Life, MIB, Rig};
use crate::{Result, Volume};

const BLOCK: u64 = 4096;

async fn write(volume: &Volume, block: u64, blocks: u64) -> Result<()> {
    let bytes = vec![7; usize::try_from(blocks * BLOCK).unwrap()];
    volume.write(ByteOffset(block * BLOCK), AlignedBuf::from_slice(&bytes).freeze()).await
}

#[track_caller]
fn over(outcome: Result<()>) {
    let error = outcome.expect_err("over the quota");
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(error.to_string().contains("quota"), "{error}");
}

/// Lets a count of before be forgotten, as if a second had passed.
async fn later(life: &Life) {
    life.datasets().dispatch().reactor().sleep(super::COUNT_PAUSE_NS).await;
}

#[test]
fn what_a_volume_holds_stays_within_its_quota() {
    let mut rig = Rig::new();
    rig.live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        let volume = datasets.open("v").await.unwrap();
        write(&volume, 0, 100).await.unwrap();
        datasets.set_quota("v", Some(128 * BLOCK)).await.unwrap();
        write(&volume, 50, 78).await.unwrap(); // 28 more, and the others again.
        over(write(&volume, 128, 1).await);
        over(write(&volume, 127, 2).await);
        write(&volume, 0, 128).await.unwrap();
        // On the other shard too, and in part of a block.
        over(write(&volume, (64 * MIB) / BLOCK, 1).await);
        over(
            volume.write(ByteOffset(70 * MIB + 5), AlignedBuf::from_slice(&[1; 9]).freeze()).await,
        );
        write(&volume, 5, 1).await.unwrap();
        volume.trim(ByteOffset(0), 10 * BLOCK).await.unwrap();
        later(&life).await;
        write(&volume, 200, 10).await.unwrap();
        over(write(&volume, 300, 1).await);
        assert_eq!(datasets.figures().await.unwrap().writes_over_quota, 5);
        volume.write_zeroes(ByteOffset(400 * BLOCK), 9 * BLOCK, true).await.unwrap();
        life.snapshot("v@kept").await;
        write(&volume, 20, 20).await.unwrap(); // What a snapshot keeps does not count.
    });
    rig.live(async |life: Life| {
        let datasets = life.datasets();
        assert_eq!(datasets.volume("v").await.unwrap().quota_bytes, Some(128 * BLOCK));
        let volume = datasets.open("v").await.unwrap();
        over(write(&volume, 300, 1).await);
        datasets.set_quota("v", Some(130 * BLOCK)).await.unwrap();
        let other = life.threads[1].open("v").await.unwrap();
        write(&other, 300, 2).await.unwrap();
        over(write(&volume, 302, 1).await);
        datasets.set_quota("v", None).await.unwrap();
        write(&volume, 302, 100).await.unwrap();
        assert_eq!(datasets.volume("v").await.unwrap().quota_bytes, None);
        datasets.set_quota("v", Some(BLOCK)).await.unwrap(); // It holds more, and may go on changing that.
        over(write(&volume, 500, 1).await);
        write(&volume, 302, 100).await.unwrap();
    });
}

#[test]
fn writes_at_the_same_time_do_not_exceed_it_together() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        datasets.set_quota("v", Some(64 * BLOCK)).await.unwrap();
        let volumes = [datasets.open("v").await.unwrap(), life.threads[1].open("v").await.unwrap()];
        for round in 0..3 {
            later(&life).await;
            let writes = (0..100).map(|at| write(&volumes[at % 2], round * 100 + at as u64, 1));
            let done = join_all(writes).await.iter().filter(|outcome| outcome.is_ok()).count();
            assert_eq!(done, if round == 0 { 64 } else { 0 });
        }
    });
}

#[test]
fn a_rollback_keeps_the_quota_and_a_clone_has_none() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        datasets.set_quota("v", Some(8 * BLOCK)).await.unwrap();
        let volume = datasets.open("v").await.unwrap();
        write(&volume, 0, 8).await.unwrap();
        drop(volume);
        life.snapshot("v@full").await;
        let clone = datasets.clone_volume("v", "c").await.unwrap();
        assert_eq!(clone.quota_bytes, None);
        datasets.rollback("v@full").await.unwrap();
        let volume = datasets.open("v").await.unwrap();
        over(write(&volume, 8, 1).await);
        write(&datasets.open("c").await.unwrap(), 8, 1).await.unwrap();
    });
}
