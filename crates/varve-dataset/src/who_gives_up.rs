//! Goal: who gives up waiting for a change leaves none behind that lands after others have changed the same name: what
//! was deleted meanwhile does not come back, and what was made anew is not changed or deleted. Method: each change of a
//! record with each of its requests late in turn; it is given up, and the volume deleted, and made anew or not.

use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, select};
use varve_types::{Dedup, SnapshotIdentity};

use crate::catalog::home_of;
use crate::name::DatasetName;
use crate::receive::ReceiveSpec;
use crate::rig::{Life, Rig, VOLUME_BYTES};
use crate::{Datasets, Result};

const NAME: &str = "vm1";
const SNAPSHOT: &str = "vm1@a";
const SECOND_NS: u64 = 1_000_000_000;

/// What the volume receives.
const RECEIVED: SnapshotIdentity = SnapshotIdentity([9; 16]);

/// Requests at the shard of the name that a change makes at most.
const REQUESTS_MAX: u32 = 16;

/// A change, on the thread of who asks for it.
type Change = fn(Datasets) -> LocalBoxFuture<'static, Result<()>>;

/// Prepares to receive changes since the snapshot.
async fn begin_receive(datasets: &Datasets) -> Result<()> {
    let from = datasets.snapshots(Some(NAME), None, 1).await?[0].identity;
    let spec = ReceiveSpec {
        name: NAME.to_owned(),
        identity: RECEIVED,
        from: Some(from),
        size_bytes: VOLUME_BYTES + 4096,
        block_size_bytes: 4096,
    };
    datasets.begin_receive(spec).await.map(drop)
}

/// Makes the volume and its snapshot, and says what is to be there then.
async fn make(life: &Life) -> String {
    life.create(NAME).await;
    life.snapshot(SNAPSHOT).await;
    found(life).await
}

async fn found(life: &Life) -> String {
    let datasets = life.datasets();
    let (volumes, snapshots) = (datasets.volumes().await, datasets.snapshots(None, None, 9).await);
    format!("{:?} {:?}", volumes.unwrap(), snapshots.unwrap())
}

/// Gives a change up whose request of this number is late, while others go on.
async fn give_up(life: &Life, change: Change, late: u32, made_anew: bool) {
    let dispatch = life.datasets().dispatch();
    let home = usize::from(home_of(dispatch, &DatasetName::parse(NAME).unwrap()).0);
    let reactor = dispatch.reactor();
    let (asker, other) = (&life.threads[1 - home], &life.threads[home]);
    life.fences[home].be_late_in(Some(late));
    let pause = Box::pin(reactor.sleep(SECOND_NS / 2));
    drop(select(change(asker.clone()), pause).await);
    life.fences[home].be_late_in(None);
    let deleted = other.delete_volume(NAME, true).await;
    let expected = match made_anew {
        true => make(life).await,
        false => "[] []".to_owned(),
    };
    reactor.sleep(3 * SECOND_NS).await;
    assert_eq!(found(life).await, expected, "request {late} was late; deleted: {deleted:?}");
}

fn check(prepare: Change, change: Change) {
    Rig::new().live(async move |life| {
        for late in 0..REQUESTS_MAX {
            for made_anew in [false, true] {
                make(&life).await;
                prepare(life.datasets().clone()).await.unwrap();
                give_up(&life, change, late, made_anew).await;
                if made_anew {
                    life.datasets().delete_volume(NAME, true).await.unwrap();
                }
            }
        }
    });
}

const NOTHING: Change = |_| async { Ok(()) }.boxed_local();

#[test]
fn a_change_of_a_volumes_settings() {
    check(NOTHING, |there| {
        async move { there.set_reduction(NAME, Some(Dedup::Off), None).await.map(drop) }
            .boxed_local()
    });
    check(NOTHING, |there| {
        async move { there.set_quota(NAME, Some(1 << 30)).await.map(drop) }.boxed_local()
    });
    check(
        // There is room for that much.
        |there| async move { there.resize_volume(NAME, 4 << 20).await.map(drop) }.boxed_local(),
        |there| async move { there.set_reservation(NAME, true).await.map(drop) }.boxed_local(),
    );
    check(NOTHING, |there| async move { there.flatten_volume(NAME).await.map(drop) }.boxed_local());
}

#[test]
fn a_change_of_a_volumes_size() {
    check(NOTHING, |there| {
        async move { there.resize_volume(NAME, VOLUME_BYTES * 2).await.map(drop) }.boxed_local()
    });
    check(NOTHING, |there| {
        async move { there.resize_volume(NAME, VOLUME_BYTES / 2).await.map(drop) }.boxed_local()
    });
}

#[test]
fn a_change_of_a_snapshot() {
    check(NOTHING, |there| {
        async move { there.protect_snapshot(SNAPSHOT, false).await.map(drop) }.boxed_local()
    });
    check(NOTHING, |there| async move { there.delete_snapshot(SNAPSHOT).await }.boxed_local());
    check(NOTHING, |there| async move { there.rollback(SNAPSHOT).await.map(drop) }.boxed_local());
}

#[test]
fn a_deletion() {
    check(NOTHING, |there| async move { there.delete_volume(NAME, true).await }.boxed_local());
}

#[test]
fn a_snapshot_that_arrives() {
    check(NOTHING, |there| async move { begin_receive(&there).await }.boxed_local());
    check(
        |there| async move { begin_receive(&there).await }.boxed_local(),
        |there| async move { there.end_receive(NAME, RECEIVED, "b").await.map(drop) }.boxed_local(),
    );
}
