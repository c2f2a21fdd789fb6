//! Goal: pools on RADOS fulfil the contracts of media, and a shard that was taken over is out of reach of who had it
//! before. Method: the conformance suite, and claims against each other, over the cluster in memory with an
//! erasure-coded data pool.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::future::Future;
use std::rc::Rc;
use std::task::Poll;

use varve_media::{
    Disk, Drive, DriveDisks, DriveOptions, DriveSpec, Error, IoFuture, Media, MemDisk, Persist,
    RootKey, RootStore, RootVersion, SegmentId, conformance,
};
use varve_media_rados::{
    CellOf, JournalPlace, LEASE_NS, LocalLane, MemoryClient, MemoryCluster, ObjectChange, Objects,
    PoolKind, RadosPool, RadosSpec, Refusal, ShardHolder, Write,
};
use varve_membership::MemberTable;
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{BufSlice, Rng, checksum64};
use varve_types::{ErrorKind, Generation, PoolId, SegmentNumber, ShardId};

const POOL: PoolId = PoolId([7; 16]);
const SHARD: ShardId = ShardId(1);

fn spec() -> RadosSpec {
    RadosSpec {
        pool: POOL,
        created_unix_ms: 5,
        segment_bytes: 64 << 10,
        segment_count: 16,
        lane_bytes: 9 << 20, // Three parts, the last one shorter.
        lane_count: 3,
        root_bytes_max: 9000,
        journal: JournalPlace::Rados,
        cell: CellOf::WHOLE,
    }
}

fn cluster() -> MemoryCluster {
    let cluster = MemoryCluster::new();
    cluster.make_pool("data", PoolKind::Erasure { stripe_bytes: 16 << 10 });
    cluster.make_pool("meta", PoolKind::Replicated);
    cluster
}

fn pools(client: &MemoryClient) -> (Rc<dyn Objects>, Rc<dyn Objects>) {
    (client.objects("data").unwrap(), client.objects("meta").unwrap())
}

async fn open(client: &MemoryClient) -> RadosPool {
    let (data, meta) = pools(client);
    RadosPool::open(data, meta, POOL).await.unwrap()
}

async fn claim(reactor: &Reactor, client: &MemoryClient) -> Media {
    open(client).await.claim(reactor, SHARD, None).await.unwrap().0
}

/// Runs a test on a cluster without pools of Varve.
fn on_loop<F: Future<Output = ()> + 'static>(
    test: impl FnOnce(MemoryCluster, Reactor) -> F + 'static,
) {
    let mut event_loop = SimLoop::new(1);
    let reactor = event_loop.handle();
    event_loop.run_until(test(cluster(), reactor));
}

/// Runs a test on a cluster with a new pool.
fn with_pool<F: Future<Output = ()> + 'static>(
    test: impl FnOnce(MemoryCluster, Reactor) -> F + 'static,
) {
    on_loop(|cluster, reactor| async move {
        let (data, meta) = pools(&cluster.client());
        RadosPool::make(&data, &meta, &spec()).await.unwrap();
        test(cluster, reactor).await;
    });
}

fn id(number: u32, generation: u64) -> SegmentId {
    SegmentId { number: SegmentNumber(number), generation: Generation::new(generation) }
}

fn noise(len: usize) -> BufSlice {
    conformance::noise(&mut Rng::new(len as u64), len)
}

#[test]
fn the_contracts_are_fulfilled() {
    with_pool(|cluster, reactor| async move {
        let pool = open(&cluster.client()).await;
        assert_eq!(*pool.spec(), spec());
        assert!(pool.register().is_none(), "one cell has all names");
        let (media, _) = pool.claim(&reactor, SHARD, None).await.unwrap();
        conformance::all(&media, RootKey::Shard(SHARD)).await;
        let (media, _) = pool.claim(&reactor, ShardId(2), None).await.unwrap();
        conformance::journal(&*media.journal).await;
        conformance::roots(&*media.roots, RootKey::Shard(ShardId(2))).await;
        assert_eq!(
            pool.claim(&reactor, ShardId(3), None).await.err().unwrap().kind(),
            ErrorKind::Invalid
        );
    });
}

#[test]
fn a_pool_is_made_once_and_found() {
    with_pool(|cluster, _| async move {
        let (data, meta) = pools(&cluster.client());
        let again = RadosPool::make(&data, &meta, &spec()).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Exists);
        let other = PoolId([8; 16]);
        assert_eq!(RadosPool::find(&*meta).await.unwrap(), [POOL.to_string()]);
        let missing = RadosPool::open(Rc::clone(&data), Rc::clone(&meta), other).await;
        assert_eq!(missing.err().unwrap().kind(), ErrorKind::NotFound);
        RadosPool::make(&data, &meta, &RadosSpec { pool: other, ..spec() }).await.unwrap();
        let found = RadosPool::find(&*meta).await.unwrap();
        assert_eq!(found, [POOL.to_string(), other.to_string()]);
    });
}

#[test]
fn segments_fill_stripes_of_the_data_pool() {
    with_pool(|cluster, _| async move {
        let (data, meta) = pools(&cluster.client());
        let uneven = RadosSpec { pool: PoolId([9; 16]), segment_bytes: 68 << 10, ..spec() };
        let refused = RadosPool::make(&data, &meta, &uneven).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert_eq!(RadosSpec::segment_bytes_for(16 << 10, 100 << 10), Some(96 << 10));
        assert_eq!(RadosSpec::segment_bytes_for(6 << 10, 40 << 20), Some(41_938_944));
        assert_eq!(RadosSpec::segment_bytes_for(64 << 20, 4 << 20), None);
        assert_eq!(RadosSpec::segment_bytes_for(1, 2 << 20), Some(2 << 20));
    });
}

#[test]
fn a_segment_is_one_object_and_its_deletion_leaves_none() {
    with_pool(|cluster, reactor| async move {
        let media = claim(&reactor, &cluster.client()).await;
        media.segments.put(id(3, 7), noise(32 << 10)).await.unwrap();
        let objects: Vec<_> = cluster.objects("data").into_iter().collect();
        let name = format!("varve.{POOL}.segment.0001.00000003");
        let record = (format!("varve.{POOL}.pool"), 64);
        assert_eq!(objects, [record.clone(), (name, 32 << 10)]);
        media.segments.put(id(3, 8), noise(16 << 10)).await.unwrap(); // Over what a crash left there.
        let whole = media.segments.get(id(3, 0), 0, 32 << 10).await.unwrap();
        assert_eq!(whole[..16 << 10], *noise(16 << 10));
        assert!(whole[16 << 10..].iter().all(|byte| *byte == 0));
        assert_eq!(media.segments.present().await.unwrap(), [SegmentNumber(3)]);
        media.segments.delete(id(3, 8)).await.unwrap();
        media.segments.delete(id(3, 8)).await.unwrap(); // There is nothing to delete any more.
        assert_eq!(cluster.objects("data").into_iter().collect::<Vec<_>>(), [record]);
        assert!(media.segments.present().await.unwrap().is_empty());
    });
}

#[test]
fn who_lost_a_shard_writes_neither_lane_nor_root() {
    with_pool(|cluster, reactor| async move {
        let (old, new) = (cluster.client(), cluster.client());
        let before = claim(&reactor, &old).await;
        let root = RootKey::Shard(SHARD);
        let version = before.roots.replace(root, RootVersion(0), vec![1]).await.unwrap();
        before.journal.append(0, noise(4096)).await.unwrap();

        let after = claim(&reactor, &new).await;
        let late = noise(8192);
        for position in [4096, (4 << 20) - 4096, 8 << 20] {
            let refused = before.journal.append(position, late.clone()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Fenced, "at {position}");
        }
        let refused = before.roots.replace(root, version, vec![2]).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Fenced);
        assert_eq!(before.fence.check().unwrap_err().kind(), ErrorKind::Fenced);

        after.fence.check().unwrap();
        assert_eq!(after.roots.read(root).await.unwrap(), (version, vec![1]));
        assert_eq!(*after.journal.read(0, 4096).await.unwrap(), *noise(4096));
        assert_eq!(*after.journal.read(4096, 8192).await.unwrap(), [0; 8192]);
        after.journal.append(4096, late).await.unwrap();
        after.roots.replace(root, version, vec![3]).await.unwrap();
    });
}

#[test]
fn what_was_under_way_at_a_takeover_does_not_land() {
    with_pool(|cluster, reactor| async move {
        let (old, new) = (cluster.client(), cluster.client());
        let before = claim(&reactor, &old).await;
        old.hold(); // The process stops, or its packets are slow.
        let append = before.journal.append((4 << 20) - 4096, noise(8192)); // Two parts.
        let root = RootKey::Shard(SHARD);
        let replace = before.roots.replace(root, RootVersion(0), vec![1]);
        let mut replace = std::pin::pin!(replace);
        assert!(futures_util::poll!(&mut replace).is_pending());

        let after = claim(&reactor, &new).await;
        let seen = after.journal.read((4 << 20) - 4096, 8192).await.unwrap();
        old.let_go();
        assert_eq!(append.await.unwrap_err().kind(), ErrorKind::Fenced);
        assert_eq!(replace.await.unwrap_err().kind(), ErrorKind::Fenced);
        assert_eq!(*after.journal.read((4 << 20) - 4096, 8192).await.unwrap(), *seen);
        assert_eq!(after.roots.read(root).await.unwrap(), (RootVersion(0), Vec::new()));
    });
}

#[test]
fn late_puts_and_deletions_do_not_touch_what_the_next_claim_put() {
    with_pool(|cluster, reactor| async move {
        let (old, new) = (cluster.client(), cluster.client());
        let before = claim(&reactor, &old).await;
        before.segments.put(id(1, 1), noise(16 << 10)).await.unwrap();
        old.hold();
        let replaced = before.segments.put(id(1, 2), noise(32 << 10));
        let made = before.segments.put(id(2, 3), noise(48 << 10));
        let deleted = before.segments.delete(id(3, 4));
        let unseen = before.segments.put(id(4, 5), noise(16 << 10));

        let after = claim(&reactor, &new).await;
        for slot in 1..4 {
            after.segments.put(id(slot, 9), noise(64 << 10)).await.unwrap();
        }
        old.let_go();
        for late in [replaced, made, deleted] {
            assert_eq!(late.await.unwrap_err().kind(), ErrorKind::Fenced);
        }
        for slot in 1..4 {
            let read = after.segments.get(id(slot, 9), 0, 64 << 10).await.unwrap();
            assert_eq!(*read, *noise(64 << 10), "slot {slot}");
        }
        // Nobody has used this slot: the put lands, but it is not answered, and whoever uses the slot replaces it.
        assert_eq!(unseen.await.unwrap_err().kind(), ErrorKind::Fenced);
        assert!(after.segments.present().await.unwrap().contains(&SegmentNumber(4)));
        after.segments.put(id(4, 9), noise(32 << 10)).await.unwrap();
        after.segments.delete(id(4, 9)).await.unwrap();
    });
}

#[test]
fn the_root_of_the_pool_goes_with_shard_0() {
    with_pool(|cluster, reactor| async move {
        let (old, new) = (cluster.client(), cluster.client());
        let before = open(&old).await.claim(&reactor, ShardId(0), None).await.unwrap().0;
        let version = before.roots.replace(RootKey::Pool, RootVersion(0), vec![1]).await.unwrap();
        let after = open(&new).await.claim(&reactor, ShardId(0), None).await.unwrap().0;
        let late = before.roots.replace(RootKey::Pool, version, vec![2]).await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::Fenced);
        after.roots.replace(RootKey::Pool, version, vec![3]).await.unwrap();
    });
}

#[test]
fn who_only_looks_reads_everything_and_changes_nothing() {
    with_pool(|cluster, reactor| async move {
        let (owner, guest) = (cluster.client(), cluster.client());
        let pool = open(&guest).await;
        assert!(pool.holdings().await.unwrap().iter().all(|holding| !holding.is_held));
        let media = claim(&reactor, &owner).await;
        let root = RootKey::Shard(SHARD);
        media.segments.put(id(3, 1), noise(64 << 10)).await.unwrap();
        media.journal.append(4096, noise(4096)).await.unwrap();
        let version = media.roots.replace(root, RootVersion(0), vec![9]).await.unwrap();

        let held = pool.holdings().await.unwrap();
        let of_shard = ShardHolder { shard: SHARD, epoch: 1, is_held: true };
        assert_eq!((held[1], held[0].is_held, held.len()), (of_shard, false, 3));
        let look = pool.look(&reactor, SHARD, None).unwrap();
        let seen = look.segments.get(id(3, 1), 0, 64 << 10).await.unwrap();
        assert_eq!(*seen, *noise(64 << 10));
        assert_eq!(*look.journal.read(4096, 4096).await.unwrap(), *noise(4096));
        assert_eq!(look.roots.read(root).await.unwrap(), (version, vec![9]));

        let fenced = |result: varve_media::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Fenced);
        };
        fenced(look.segments.put(id(3, 2), noise(4096)).await);
        fenced(look.segments.put(id(4, 2), noise(4096)).await);
        fenced(look.segments.delete(id(3, 1)).await);
        fenced(look.journal.append(4096, noise(8192)).await);
        fenced(look.roots.replace(root, version, vec![8]).await.map(drop));
        fenced(look.fence.release().await);
        assert_eq!(pool.holdings().await.unwrap(), held, "nobody lost anything");
        media.journal.append(0, noise(4096)).await.unwrap();
        assert_eq!(media.roots.read(root).await.unwrap(), (version, vec![9]));
        media.fence.release().await.unwrap();
        assert!(!pool.holdings().await.unwrap()[1].is_held);
        let above = pool.look(&reactor, ShardId(3), None).err().unwrap();
        assert_eq!(above.kind(), ErrorKind::Invalid);
    });
}

#[test]
fn a_listing_tells_what_is_not_the_pools_and_what_is_missing() {
    with_pool(|cluster, reactor| async move {
        let client = cluster.client();
        let (data, meta) = pools(&client);
        let pool = open(&client).await;
        let media = claim(&reactor, &client).await;
        for slot in [9, 2] {
            media.segments.put(id(slot, 1), noise(64 << 10)).await.unwrap();
        }
        let listing = pool.list().await.unwrap();
        let slots = vec![SegmentNumber(2), SegmentNumber(9)];
        assert_eq!(listing.segments.iter().collect::<Vec<_>>(), [(&SHARD, &slots)]);
        // Records, roots of pool and shards, and three parts of each lane.
        assert_eq!((listing.data_objects, listing.meta_objects), (3, 2 + 3 + 3 * 3));
        assert_eq!((listing.unknown.as_slice(), listing.missing.as_slice()), (&[][..], &[][..]));

        let put = |objects: &Rc<dyn Objects>, name: String| {
            let write = Some(Write::Whole(noise(16 << 10)));
            objects.change(&name, ObjectChange { write, ..ObjectChange::default() })
        };
        let remove = |objects: &Rc<dyn Objects>, name: String| {
            objects.change(
                &name,
                ObjectChange { write: Some(Write::Remove), ..ObjectChange::default() },
            )
        };
        let other = PoolId([8; 16]);
        put(&data, format!("varve.{other}.segment.0001.00000001")).await.unwrap();
        put(&meta, "somebody's".to_owned()).await.unwrap();
        put(&meta, format!("varve.{POOL}.nodes")).await.unwrap();
        assert_eq!(pool.list().await.unwrap().unknown, [""; 0], "others', and the table of nodes");
        for name in ["segment.0003.00000001", "segment.0001.00000010", "segment.0001.2", "x"] {
            put(&data, format!("varve.{POOL}.{name}")).await.unwrap();
        }
        put(&meta, format!("varve.{POOL}.lane.0001.000003")).await.unwrap();
        remove(&meta, format!("varve.{POOL}.lane.0002.000001")).await.unwrap();
        remove(&meta, format!("varve.{POOL}.root.0000")).await.unwrap();
        let listing = pool.list().await.unwrap();
        let of = |pool: &str, names: &[&str]| -> Vec<String> {
            names.iter().map(|name| format!("rados:{pool}/varve.{POOL}.{name}")).collect()
        };
        let in_data = ["segment.0001.00000010", "segment.0001.2", "segment.0003.00000001", "x"];
        let unknown = [of("data", &in_data), of("meta", &["lane.0001.000003"])].concat();
        assert_eq!(
            listing.unknown, unknown,
            "shards and slots beyond the last, and other spellings"
        );
        assert_eq!(listing.missing, of("meta", &["root.0000", "lane.0002.000001"]));
        assert_eq!(listing.segments[&SHARD], slots);
    });
}

#[test]
fn a_record_of_a_later_version_is_told_whatever_its_length() {
    with_pool(|cluster, _| async move {
        let (data, meta) = pools(&cluster.client());
        let object = format!("varve.{POOL}.pool");
        let open = async || RadosPool::open(Rc::clone(&data), Rc::clone(&meta), POOL).await;
        let seal = |bytes: &mut Vec<u8>| {
            let len = bytes.len() - 8;
            let sum = checksum64(&bytes[..len]).to_le_bytes();
            bytes[len..].copy_from_slice(&sum);
        };
        let record = meta.read(&object, 0, 4096).await.unwrap();
        let put = async |mut bytes: Vec<u8>| {
            seal(&mut bytes);
            let write = Some(Write::Whole(BufSlice::copy_from(&bytes)));
            meta.change(&object, ObjectChange { write, ..ObjectChange::default() }).await.unwrap();
            open().await.err().map(|error| error.kind())
        };
        assert_eq!(put(record.clone()).await, None);
        let longer = |len| [record.clone(), vec![0; len]].concat();
        for (mut bytes, version, kind) in [
            (longer(0), 4, ErrorKind::Unsupported),
            (longer(16), 4, ErrorKind::Unsupported),
            (longer(8), 1, ErrorKind::Corrupt), // Its length is that of version 3.
            (longer(0), 3, ErrorKind::Corrupt),
        ] {
            bytes[8] = version;
            assert_eq!(put(bytes).await, Some(kind), "version {version}");
        }
    });
}

#[test]
fn the_table_of_nodes_is_replaced_at_its_version_only() {
    with_pool(|cluster, _| async move {
        let (one, other) = (cluster.client(), cluster.client());
        let [ours, theirs] = [open(&one).await.nodes(), open(&other).await.nodes()];
        assert_eq!(ours.read().await, Ok(None));
        let mut first = MemberTable::new(POOL);
        first.version = 1;
        assert_eq!(ours.replace(MemberTable { version: 2, ..first.clone() }).await, Ok(false));
        assert_eq!(ours.replace(first.clone()).await, Ok(true));
        assert_eq!(theirs.replace(first.clone()).await, Ok(false), "it is there already");
        assert_eq!(theirs.read().await, Ok(Some(first.clone())));
        let second = MemberTable { version: 2, ..first.clone() };
        one.hold();
        let late = ours.replace(MemberTable { version: 2, ..first });
        assert_eq!(theirs.replace(second.clone()).await, Ok(true));
        one.let_go();
        assert_eq!(late.await, Ok(false), "another came before");
        assert_eq!(ours.read().await, Ok(Some(second)));
        let object = format!("varve.{POOL}.nodes");
        cluster.damage("meta", &object, |bytes| bytes[30] ^= 1);
        assert_eq!(ours.read().await.unwrap_err().kind(), ErrorKind::Corrupt);
        cluster.shut_out(&one);
        assert_eq!(ours.read().await.unwrap_err().kind(), ErrorKind::Fenced);
    });
}

#[test]
fn who_takes_over_waits_until_the_former_owner_answers_no_more() {
    with_pool(|cluster, reactor| async move {
        let (old, new) = (cluster.client(), cluster.client());
        let begin = reactor.now().0;
        let before = claim(&reactor, &old).await;
        assert!(reactor.now().0 - begin < LEASE_NS, "nobody had it before");
        assert!(!before.fence.is_confirmed(), "nothing asked yet");
        before.fence.confirm().await.unwrap();
        assert!(before.fence.is_confirmed());
        reactor.sleep(2 * LEASE_NS).await;
        assert!(before.fence.is_confirmed(), "an idle owner asks");
        before.fence.confirm().await.unwrap();
        old.hold();
        reactor.sleep(LEASE_NS - 1_000_000).await;
        assert!(before.fence.is_confirmed());
        reactor.sleep(2_000_000).await;
        assert!(!before.fence.is_confirmed(), "a paused process finds that it has to ask");
        old.let_go();
        before.journal.append(0, noise(4096)).await.unwrap();
        assert!(before.fence.is_confirmed(), "what demands the claim confirms it");

        let begin = reactor.now().0;
        let after = claim(&reactor, &new).await;
        assert!(reactor.now().0 - begin > LEASE_NS);
        before.fence.lost().await; // Although it did nothing.
        assert!(!before.fence.is_confirmed(), "it may not answer when another one may");
        assert_eq!(before.fence.confirm().await.unwrap_err().kind(), ErrorKind::Fenced);
        assert_eq!(before.fence.release().await.unwrap_err().kind(), ErrorKind::Fenced);

        after.fence.release().await.unwrap();
        let late = after.journal.append(4096, noise(4096)).await;
        assert!(!after.fence.is_confirmed() && after.fence.check().is_err(), "{late:?}");
        let begin = reactor.now().0;
        let last = claim(&reactor, &new).await;
        assert!(reactor.now().0 - begin < LEASE_NS, "it was given back");
        last.fence.confirm().await.unwrap();
    });
}

#[test]
fn of_claims_at_once_the_last_one_wins() {
    with_pool(|cluster, reactor| async move {
        let clients: Vec<_> = (0..4).map(|_| cluster.client()).collect();
        let first = open(&clients[0]).await.claim(&reactor, SHARD, None).await.unwrap().1;
        // The others' claims run in turns: each operation is held back until the turn of its client.
        let mut claims = Vec::new();
        for client in &clients[1..] {
            let pool = open(client).await;
            client.hold();
            let reactor = reactor.clone();
            let claim = async move { pool.claim(&reactor, SHARD, None).await };
            claims.push((client, Some(Box::pin(claim))));
        }
        let mut won = Vec::new();
        while won.len() < claims.len() {
            reactor.sleep(10_000_000).await;
            for (client, claim) in &mut claims {
                if let Some(under_way) = claim
                    && let Poll::Ready(done) = futures_util::poll!(under_way)
                {
                    won.push(done.map(|(media, claim)| (media, claim.epoch())));
                    *claim = None;
                }
                client.let_go();
                client.hold();
            }
        }
        clients.iter().for_each(MemoryClient::let_go);
        let newest = won.iter().flatten().map(|(_, epoch)| *epoch).max().unwrap();
        assert!(newest > first.epoch());
        let mut writers = 0;
        for (media, epoch) in won.iter().flatten() {
            let written = media.journal.append(0, noise(4096)).await;
            assert_eq!(written.is_ok(), *epoch == newest, "epoch {epoch} of {newest}");
            writers += usize::from(written.is_ok());
        }
        assert_eq!(writers, 1);
    });
}

#[test]
fn a_client_that_is_shut_out_knows_that_it_lost() {
    with_pool(|cluster, reactor| async move {
        let client = cluster.client();
        let media = claim(&reactor, &client).await;
        media.fence.check().unwrap();
        cluster.shut_out(&client);
        let refused = media.segments.put(id(0, 1), noise(4096)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Fenced);
        assert_eq!(media.fence.check().unwrap_err().kind(), ErrorKind::Fenced);
        assert_eq!(cluster.objects("data").len(), 1, "the record");
    });
}

#[test]
fn another_data_pool_is_not_taken_for_it() {
    with_pool(|cluster, _| async move {
        cluster.make_pool("other", PoolKind::Erasure { stripe_bytes: 16 << 10 });
        let client = cluster.client();
        let (_, meta) = pools(&client);
        let other = client.objects("other").unwrap();
        let opened = RadosPool::open(Rc::clone(&other), Rc::clone(&meta), POOL).await;
        assert_eq!(opened.err().unwrap().kind(), ErrorKind::NotFound);
        let later = RadosSpec { pool: PoolId([9; 16]), ..spec() };
        let made = RadosPool::make(&meta, &other, &later).await;
        assert_eq!(made.unwrap_err().kind(), ErrorKind::NotFound, "lanes need copies");
    });
}

#[test]
fn damage_is_told() {
    with_pool(|cluster, reactor| async move {
        let client = cluster.client();
        let root = format!("varve.{POOL}.root.0001");
        let media = claim(&reactor, &client).await;
        media.roots.replace(RootKey::Shard(SHARD), RootVersion(0), vec![5; 100]).await.unwrap();
        cluster.damage("meta", &root, |bytes| bytes[50] ^= 1);
        let read = media.roots.read(RootKey::Shard(SHARD)).await.unwrap_err();
        assert_eq!(read.kind(), ErrorKind::Corrupt);
        let record = format!("varve.{POOL}.pool");
        for at in 0..64 {
            cluster.damage("meta", &record, |bytes| bytes[at] ^= 0x10);
            let (data, meta) = pools(&client);
            let opened = RadosPool::open(data, meta, POOL).await;
            assert_eq!(opened.err().unwrap().kind(), ErrorKind::Corrupt, "byte {at}");
            cluster.damage("meta", &record, |bytes| bytes[at] ^= 0x10);
        }
        cluster.damage("meta", &record, |bytes| bytes.truncate(40));
        let (data, meta) = pools(&client);
        let opened = RadosPool::open(data, meta, POOL).await;
        assert_eq!(opened.err().unwrap().kind(), ErrorKind::Corrupt);
    });
}

#[test]
fn the_cluster_in_memory_has_the_rules_of_rados() {
    let cluster = cluster();
    SimLoop::new(1).run_until(async move {
        let (data, meta) = pools(&cluster.client());
        let write = |write| ObjectChange { write: Some(write), ..ObjectChange::default() };
        let refused = data.change("a", write(Write::At(0, noise(16)))).await;
        assert_eq!(refused, Err(Refusal::UNSUPPORTED), "erasure-coded objects are written whole");
        data.change("a", write(Write::Whole(noise(16)))).await.unwrap();
        assert_eq!(data.read("a", 10, 100).await.unwrap(), noise(16)[10..]);
        assert_eq!(data.read("b", 0, 1).await, Err(Refusal::NOT_FOUND));
        let create = ObjectChange { creates: true, ..ObjectChange::default() };
        assert_eq!(data.change("a", create.clone()).await, Err(Refusal::EXISTS));
        meta.change("c", create).await.unwrap();
        let set = |expects: Vec<_>| ObjectChange {
            expects,
            write: Some(Write::At(2, noise(16))),
            sets: vec![("x", vec![1])],
            ..ObjectChange::default()
        };
        let refused = meta.change("c", set(vec![("x", vec![2])])).await;
        assert_eq!(refused, Err(Refusal::UNEXPECTED));
        assert_eq!(meta.attribute("c", "x").await, Ok(None), "nothing happened");
        assert!(meta.read("c", 0, 9).await.unwrap().is_empty());
        meta.change("c", set(Vec::new())).await.unwrap();
        meta.change("c", set(vec![("x", vec![1])])).await.unwrap();
        assert_eq!(meta.read("c", 0, 100).await.unwrap(), [&[0; 2][..], &noise(16)].concat());
        assert_eq!(cluster.client().objects("none").err(), Some(Refusal::NOT_FOUND));
    });
}

/// A drive of one machine that keeps lanes.
struct JournalDrive(MemDisk);

impl JournalDrive {
    async fn made(lane_bytes: u64) -> Self {
        let disk = MemDisk::new("journal", 3 * lane_bytes + (64 << 20));
        let spec = DriveSpec { lane_bytes, segment_bytes: 4096, ..DriveSpec::new(POOL, 3) };
        Drive::format(&[DriveDisks::one(disk.clone())], &spec).await.unwrap();
        Self(disk)
    }

    /// What a claim of that identity is made with.
    async fn lane(&self, claim: u128) -> Option<LocalLane> {
        let disks = vec![DriveDisks::one(self.0.clone())];
        let drive = Drive::open(disks, DriveOptions::default()).await.unwrap();
        let Media { journal, roots, .. } = drive.media(SHARD).unwrap();
        Some(LocalLane { journal, roots, claim })
    }

    /// Another drive that holds what this one holds now.
    async fn copy(&self) -> Self {
        let size = self.0.size();
        let copy = MemDisk::new("copy", size);
        for offset in (0..size).step_by(4 << 20) {
            let len = (size - offset).min(4 << 20) as usize;
            let bytes = self.0.read(offset, len).await.unwrap().freeze();
            copy.write(offset, bytes, Persist::Durable).await.unwrap();
        }
        Self(copy)
    }
}

#[test]
fn lanes_may_lie_on_a_drive_of_one_machine() {
    let mut event_loop = SimLoop::new(1);
    let reactor = event_loop.handle();
    event_loop.run_until(async move {
        let cluster = cluster();
        let client = cluster.client();
        let (data, meta) = pools(&client);
        let local = RadosSpec { journal: JournalPlace::Local, ..spec() };
        RadosPool::make(&data, &meta, &local).await.unwrap();
        let names = meta.list().await.unwrap();
        assert!(!names.iter().any(|name| name.contains(".lane.")), "{names:?}");
        let pool = open(&client).await;
        assert_eq!(*pool.spec(), local);
        let drive = JournalDrive::made(local.lane_bytes).await;
        let short = JournalDrive::made(local.lane_bytes / 2).await.lane(1).await;
        for (wrong, told) in [(None, "was not given"), (short, "has 4718592 bytes")] {
            let refused = pool.claim(&reactor, SHARD, wrong).await.err().unwrap().to_string();
            assert!(refused.contains(told), "{refused}");
        }
        let (before, _) = pool.claim(&reactor, SHARD, drive.lane(1).await).await.unwrap();
        before.journal.append(8192, noise(4096)).await.unwrap();
        let (version, _) = before.roots.read(RootKey::Shard(SHARD)).await.unwrap();
        let (after, _) =
            open(&client).await.claim(&reactor, SHARD, drive.lane(2).await).await.unwrap();
        assert_eq!(after.journal.read(8192, 4096).await.unwrap()[..], noise(4096)[..]);
        let late = before.roots.replace(RootKey::Shard(SHARD), version, vec![1]).await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::Fenced);
        assert_eq!(
            before.segments.put(id(3, 1), noise(64 << 10)).await.unwrap_err().kind(),
            ErrorKind::Fenced
        );
        after.segments.put(id(3, 2), noise(64 << 10)).await.unwrap();
    });
}

#[test]
fn a_pool_with_lanes_in_rados_takes_no_other() {
    with_pool(|cluster, reactor| async move {
        let lane = JournalDrive::made(spec().lane_bytes).await.lane(1).await;
        let pool = open(&cluster.client()).await;
        let refused = pool.claim(&reactor, SHARD, lane).await.err().unwrap().to_string();
        assert!(refused.contains("it is in RADOS"), "{refused}");
    });
}

/// Runs `test` with a pool whose lanes are on a drive, and a drive that no claim was made with.
fn with_journal_drive<F: Future<Output = ()> + 'static>(
    test: impl FnOnce(MemoryCluster, Reactor, JournalDrive) -> F + 'static,
) {
    let mut event_loop = SimLoop::new(1);
    let reactor = event_loop.handle();
    event_loop.run_until(async move {
        let cluster = cluster();
        let (data, meta) = pools(&cluster.client());
        let local = RadosSpec { journal: JournalPlace::Local, ..spec() };
        RadosPool::make(&data, &meta, &local).await.unwrap();
        let drive = JournalDrive::made(local.lane_bytes).await;
        test(cluster, reactor, drive).await;
    });
}

#[test]
fn a_drive_that_missed_a_claim_is_refused() {
    with_journal_drive(|cluster, reactor, drive| async move {
        let pool = open(&cluster.client()).await;
        let unused = drive.copy().await;
        pool.claim(&reactor, SHARD, drive.lane(1).await).await.unwrap();
        let older = drive.copy().await;
        pool.claim(&reactor, SHARD, drive.lane(2).await).await.unwrap();
        for (copy, claim) in [(unused, 3), (older, 4)] {
            for _ in 0..2 {
                let refused = pool.claim(&reactor, SHARD, copy.lane(claim).await).await.err();
                let told = refused.unwrap().to_string();
                assert!(told.contains("give the drive that was"), "{told}");
            }
        }
        pool.claim(&reactor, SHARD, drive.lane(5).await).await.unwrap();
    });
}

#[test]
fn of_copies_that_claim_at_once_one_goes_on() {
    with_journal_drive(|cluster, reactor, drive| async move {
        let pool = open(&cluster.client()).await;
        pool.claim(&reactor, SHARD, drive.lane(1).await).await.unwrap();
        let copy = drive.copy().await;
        let others = open(&cluster.client()).await;
        let (lane, other) = (drive.lane(2).await, copy.lane(3).await);
        let (one, two) = futures_util::join!(
            pool.claim(&reactor, SHARD, lane),
            others.claim(&reactor, SHARD, other)
        );
        assert!(one.is_ok() != two.is_ok());
        let later = [&drive, &copy];
        let mut claimed = 0;
        for (drive, claim) in later.into_iter().zip(4..) {
            claimed +=
                u32::from(pool.claim(&reactor, SHARD, drive.lane(claim).await).await.is_ok());
        }
        assert_eq!(claimed, 1, "the one that was claimed with");
    });
}

/// Roots of a drive that tell of nothing that they do.
struct Silent(Rc<dyn RootStore>);

impl RootStore for Silent {
    fn bytes_max(&self) -> u32 {
        self.0.bytes_max()
    }

    fn read(&self, key: RootKey) -> IoFuture<'_, (RootVersion, Vec<u8>)> {
        self.0.read(key)
    }

    fn replace(
        &self,
        key: RootKey,
        expected: RootVersion,
        bytes: Vec<u8>,
    ) -> IoFuture<'_, RootVersion> {
        Box::pin(async move {
            self.0.replace(key, expected, bytes).await?;
            Err(Error::Fenced)
        })
    }
}

#[test]
fn a_claim_that_only_the_drive_knows_of_can_be_made_again() {
    with_journal_drive(|cluster, reactor, drive| async move {
        let pool = open(&cluster.client()).await;
        let older = drive.copy().await;
        for claim in (1..10).step_by(3) {
            for attempt in 0..2 {
                let mut lane = drive.lane(claim + attempt).await.unwrap();
                lane.roots = Rc::new(Silent(lane.roots));
                pool.claim(&reactor, SHARD, Some(lane)).await.err().unwrap();
            }
            pool.claim(&reactor, SHARD, drive.lane(claim + 2).await).await.unwrap();
        }
        assert!(pool.claim(&reactor, SHARD, older.lane(99).await).await.is_err());
    });
}

#[test]
fn a_making_that_was_cut_off_between_its_records_goes_on() {
    with_pool(|cluster, _reactor| async move {
        let client = cluster.client();
        let (data, meta) = pools(&client);
        let removal = ObjectChange { write: Some(Write::Remove), ..ObjectChange::default() };
        meta.change(&format!("varve.{POOL}.pool"), removal).await.unwrap();
        let other = RadosSpec { lane_bytes: 8 << 20, ..spec() };
        let refused = RadosPool::make(&data, &meta, &other).await.unwrap_err().to_string();
        assert!(refused.contains("was begun with 3 lanes of 9437184 bytes"), "{refused}");
        let later = RadosSpec { created_unix_ms: 6, segment_count: 17, ..spec() };
        RadosPool::make(&data, &meta, &later).await.unwrap();
        assert_eq!(*open(&client).await.spec(), spec());
    });
}
