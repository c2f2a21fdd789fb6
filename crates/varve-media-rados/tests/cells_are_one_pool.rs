//! Goal: a pool of several cells is one pool: found once, with one table of nodes and one register of names, while each
//! cell is claimed by itself; and what cannot be is refused. Method: pools made as a program makes them, over the
//! cluster in memory.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::future::Future;
use std::rc::Rc;

use varve_media::conformance;
use varve_media_rados::{
    CellOf, JournalPlace, MemoryClient, MemoryCluster, ObjectChange, Objects, PoolKind, RadosPool,
    RadosSpec, Write,
};
use varve_membership::MemberTable;
use varve_reactor::{Reactor, SimLoop};
use varve_register::{Entry, Name, NameKind, Register, Stamp};
use varve_stdx::BufSlice;
use varve_types::{CellId, ErrorKind, PoolId, ShardId};

const POOL: PoolId = PoolId([7; 16]);
const SHARD: ShardId = ShardId(1);

fn spec() -> RadosSpec {
    RadosSpec {
        pool: POOL,
        created_unix_ms: 5,
        segment_bytes: 64 << 10,
        segment_count: 16,
        lane_bytes: 5 << 20,
        lane_count: 2,
        root_bytes_max: 9000,
        journal: JournalPlace::Rados,
        cell: CellOf::WHOLE,
    }
}

fn pools(client: &MemoryClient) -> (Rc<dyn Objects>, Rc<dyn Objects>) {
    (client.objects("data").unwrap(), client.objects("meta").unwrap())
}

/// Runs a test on a cluster without pools of Varve.
fn on_loop<F: Future<Output = ()> + 'static>(
    test: impl FnOnce(MemoryCluster, Reactor) -> F + 'static,
) {
    let cluster = MemoryCluster::new();
    cluster.make_pool("data", PoolKind::Erasure { stripe_bytes: 16 << 10 });
    cluster.make_pool("meta", PoolKind::Replicated);
    let mut event_loop = SimLoop::new(1);
    let reactor = event_loop.handle();
    event_loop.run_until(test(cluster, reactor));
}

/// A pool of as many cells, made as a program does: the first one last.
async fn make_in_cells(cluster: &MemoryCluster, cells: u16) -> Vec<RadosPool> {
    let (data, meta) = pools(&cluster.client());
    let mut made = Vec::new();
    for cell in spec().in_cells(cells).rev() {
        RadosPool::make(&data, &meta, &cell).await.unwrap();
        let opened = RadosPool::open(Rc::clone(&data), Rc::clone(&meta), cell.pool).await.unwrap();
        assert_eq!(*opened.spec(), cell);
        made.insert(0, opened);
    }
    made
}

#[test]
fn a_pool_of_several_cells_is_found_once_and_its_cells_are_claimed_by_themselves() {
    on_loop(|cluster, reactor| async move {
        let made = make_in_cells(&cluster, 3).await;
        let (_, meta) = pools(&cluster.client());
        assert_eq!(RadosPool::find(&*meta).await.unwrap(), [POOL.to_string()]);
        assert_eq!(made[0].spec().pool, POOL);
        let mut fences = Vec::new();
        for pool in &made {
            assert_eq!((pool.whole(), pool.spec().segment_count), (POOL, 5), "16 for all");
            let (media, _) = pool.claim(&reactor, SHARD, None).await.unwrap();
            conformance::journal(&*media.journal).await;
            fences.push(media.fence);
        }
        for fence in fences {
            fence.confirm().await.unwrap(); // One cell's claim is not another's.
        }
        let table = MemberTable::of_cells(POOL, 3);
        let first = MemberTable { version: 1, ..table };
        assert_eq!(made[2].nodes().replace(first.clone()).await, Ok(true));
        assert_eq!(made[0].nodes().read().await, Ok(Some(first)), "one table for all");
        let object = format!("varve.{POOL}.pool");
        cluster.damage("meta", &object, |bytes| bytes[58] ^= 1);
        let damaged = RadosPool::find(&*meta).await.unwrap();
        assert_eq!(damaged, [POOL.to_string()], "it is a pool all the same");
        let object = format!("varve.{}.pool", POOL.of_cell(CellId(2)));
        cluster.damage("meta", &object, |bytes| bytes[58] ^= 1);
        let damaged = RadosPool::find(&*meta).await.unwrap();
        assert_eq!(damaged, [POOL.to_string()], "it is a cell of that one");
    });
}

#[test]
fn the_table_and_the_names_are_known_under_the_first_cell_only() {
    on_loop(|cluster, _| async move {
        let made = make_in_cells(&cluster, 2).await;
        let (_, meta) = pools(&cluster.client());
        let tail = ["nodes", "name.v.lab/vm1", "name.b.photos"];
        for pool in &made {
            for tail in tail {
                let object = format!("varve.{}.{tail}", pool.spec().pool);
                let write = Some(Write::Whole(BufSlice::copy_from(&[0; 8])));
                meta.change(&object, ObjectChange { write, ..ObjectChange::default() })
                    .await
                    .unwrap();
            }
        }
        let listing = made[0].list().await.unwrap();
        assert_eq!((listing.unknown.len(), listing.missing.len()), (0, 0), "{listing:?}");
        let listing = made[1].list().await.unwrap();
        assert_eq!((listing.unknown.len(), listing.missing.len()), (3, 0), "{listing:?}");
    });
}

#[test]
fn cells_make_sense_or_are_refused() {
    let cells = |cell, cells| RadosSpec { cell: CellOf { cell: CellId(cell), cells }, ..spec() };
    assert!(cells(2, 3).validate().is_ok());
    for senseless in [cells(3, 3), cells(0, 0), cells(0, CellId::COUNT_MAX + 1)] {
        assert_eq!(senseless.validate().unwrap_err().kind(), ErrorKind::Invalid);
    }
    let local = RadosSpec { journal: JournalPlace::Local, ..cells(0, 2) };
    assert!(local.validate().is_err(), "its cells could not move");
    let last = PoolId([255; 16]);
    assert_eq!(last.of_cell(CellId(2)).whole(CellId(2)), last);
    assert_eq!(POOL.of_cell(CellId::FIRST), POOL);
}

#[test]
fn a_making_goes_on_with_what_it_was_begun_with_only() {
    on_loop(|cluster, _| async move {
        let (data, meta) = pools(&cluster.client());
        RadosPool::make(&data, &meta, &spec()).await.unwrap();
        let record = format!("varve.{POOL}.pool");
        let removal = ObjectChange { write: Some(Write::Remove), ..ObjectChange::default() };
        meta.change(&record, removal).await.unwrap(); // It was cut off before its last step.
        let one = spec().in_cells(2).next().unwrap();
        let refused = RadosPool::make(&data, &meta, &one).await.unwrap_err().to_string();
        assert!(refused.contains("as cell 0 of 1, not "), "{refused}");
        assert!(refused.contains("as cell 0 of 2: go on with these"), "{refused}");
        let larger = RadosSpec { segment_bytes: 2 * spec().segment_bytes, ..spec() };
        let refused = RadosPool::make(&data, &meta, &larger).await.unwrap_err().to_string();
        for bytes in [spec().segment_bytes, larger.segment_bytes] {
            assert!(refused.contains(&format!("segments of {bytes} bytes")), "{refused}");
        }
        RadosPool::make(&data, &meta, &spec()).await.unwrap();
    });
}

#[test]
fn entries_of_names_are_made_replaced_and_removed_by_their_stamps_only() {
    on_loop(|cluster, _| async move {
        assert!(make_in_cells(&cluster, 2).await[1].register().is_some());
        let (one, other) = (cluster.client(), cluster.client());
        let mut registers = Vec::new();
        for (client, cell) in [(&one, CellId(1)), (&other, CellId(1)), (&other, CellId(0))] {
            let (data, meta) = pools(client);
            let pool = RadosPool::open(data, meta, POOL.of_cell(cell)).await.unwrap();
            registers.push(Register::new(pool.register().unwrap(), cell));
        }
        let [first, heir, elsewhere] = &registers[..] else { panic!("three were made") };
        let name = |sort| Name { sort, full: "lab/vm1".to_owned() };
        let volume = || name(NameKind::Volume);
        assert_eq!(first.see(volume()).await.unwrap().cell(), Ok(None));
        first.see(volume()).await.unwrap().enter(Stamp(1)).await.unwrap();
        let seen = elsewhere.see(volume()).await.unwrap();
        assert_eq!(seen.cell(), Ok(Some(CellId(1))));
        assert_eq!(seen.enter(Stamp(2)).await.unwrap_err().kind(), ErrorKind::Exists);
        elsewhere.see(name(NameKind::Bucket)).await.unwrap().enter(Stamp(3)).await.unwrap();
        // What is late finds another stamp.
        let late = first.see(volume()).await.unwrap();
        one.hold();
        let leaving = late.leave();
        let mut leaving = std::pin::pin!(leaving);
        assert!(futures_util::poll!(&mut leaving).is_pending());
        heir.see(volume()).await.unwrap().enter(Stamp(4)).await.unwrap();
        one.let_go();
        leaving.await.unwrap();
        assert_eq!(heir.see(volume()).await.unwrap().cell(), Ok(Some(CellId(1))), "it stays");
        let racing = heir.see(volume()).await.unwrap();
        heir.see(volume()).await.unwrap().leave().await.unwrap();
        assert_eq!(racing.enter(Stamp(5)).await.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(first.see(volume()).await.unwrap().cell(), Ok(None));
        let object = format!("varve.{POOL}.name.b.lab/vm1");
        cluster.damage("meta", &object, |bytes| bytes[12] ^= 1);
        let damaged = elsewhere.see(name(NameKind::Bucket)).await.unwrap();
        assert_eq!(damaged.enter(Stamp(6)).await.unwrap_err().kind(), ErrorKind::Corrupt);
    });
}

#[test]
fn an_entry_without_its_stamp_is_told_and_is_no_change_by_others() {
    on_loop(|cluster, _| async move {
        let (_, meta) = pools(&cluster.client());
        let pool = make_in_cells(&cluster, 2).await.remove(0);
        let register = Register::new(pool.register().unwrap(), CellId::FIRST);
        let name = || Name { sort: NameKind::Volume, full: "lab/vm1".to_owned() };
        let object = format!("varve.{POOL}.name.v.lab/vm1");
        let bytes = |stamp| {
            let entry = Entry { pool: POOL, cell: CellId::FIRST, stamp: Stamp(stamp) };
            Some(Write::Whole(BufSlice::copy_from(&entry.encode(&name()))))
        };
        // Put there by hand, and then one over it whose attribute is another's.
        let put = async |write| {
            meta.change(&object, ObjectChange { write, ..ObjectChange::default() }).await.unwrap();
            let errors = [
                register.see(name()).await.unwrap().enter(Stamp(9)).await.unwrap_err(),
                register.see(name()).await.unwrap().leave().await.unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                assert!(error.to_string().contains("another stamp, or none"), "{error}");
            }
        };
        put(bytes(1)).await;
        meta.change(
            &object,
            ObjectChange { write: Some(Write::Remove), ..ObjectChange::default() },
        )
        .await
        .unwrap();
        register.see(name()).await.unwrap().enter(Stamp(2)).await.unwrap();
        put(bytes(3)).await;
    });
}
