//! A root in memory, and a keeper that replaces rows in a view: whose zones are emptied, and when they come back.

use std::cell::RefCell;

use varve_media::Error;
use varve_media::planted::plant;
use varve_reactor::SimLoop;
use varve_reactor::port::PortReceiver;

use super::*;
use crate::format::{DriveState, MoveReason};
use crate::repair::{MoveProgress, MoveWait};
use crate::sizes::PoolSizes;
use crate::tables::{TableBoard, TableRequest, Tables};
use crate::test_pool::{MIRROR, TestPool, place_units, table};

/// Whose a zone is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    Free,
    Shard,
    Withdrawn,
}

struct MemoryRoot {
    owners: RefCell<Vec<Owner>>,
    asked_back: Cell<u32>,
    /// Rows as they are when zones are given back.
    tables: Tables,
}

impl MemoryRoot {
    /// One of the zones that a shard has, and gives back when it is asked to.
    fn give_back(&self) {
        if self.asked_back.get() > 0 {
            let mut owners = self.owners.borrow_mut();
            let last = owners.iter_mut().rev().find(|owner| **owner == Owner::Shard);
            *last.expect("shards have some") = Owner::Free;
        }
    }

    fn count(&self, owner: Owner) -> usize {
        self.owners.borrow().iter().filter(|it| **it == owner).count()
    }
}

impl ZoneRoot for MemoryRoot {
    fn zones(&self) -> u32 {
        let owners = self.owners.borrow();
        u32::try_from(owners.iter().filter(|owner| **owner != Owner::Withdrawn).count()).unwrap()
    }

    fn is_withdrawn(&self, zone: ZoneIndex) -> bool {
        let owners = self.owners.borrow();
        owners.get(zone.0 as usize).is_none_or(|owner| *owner == Owner::Withdrawn)
    }

    fn ask_back(&self, zones: u32) {
        self.asked_back.set(zones);
    }

    fn resize(&self, zones: u32) -> IoFuture<'_, u32> {
        Box::pin(async move {
            let view = self.tables.view();
            while self.zones() > zones {
                let mut owners = self.owners.borrow_mut();
                let Some(free) = owners.iter_mut().rev().find(|owner| **owner == Owner::Free)
                else {
                    break;
                };
                *free = Owner::Withdrawn;
            }
            while self.zones() < zones {
                let mut owners = self.owners.borrow_mut();
                let at = owners.iter().position(|owner| *owner == Owner::Withdrawn).unwrap();
                let row = view.row(ZoneIndex(u32::try_from(at).unwrap()));
                assert_eq!(row.state, RowState::Empty, "POOL-SIZER-1: zone {at}");
                owners[at] = Owner::Free;
            }
            Ok(self.zones())
        })
    }
}

/// Replaces rows as they were expected.
async fn keep(mut requests: PortReceiver<TableRequest>, board: TableBoard, first: LayoutView) {
    let (mut view, mut batch) = (first, Vec::new());
    while requests.recv_batch(&mut batch).await > 0 {
        for TableRequest { change, answer } in batch.drain(..) {
            let Change::Row { zone, expected, new } = change else { panic!("{change:?}") };
            if *view.row(zone) != expected {
                let key = "of a row".to_owned();
                drop(answer.send(Err(Error::RootConflict { key, expected: 0, found: 1 })));
                continue;
            }
            view = view.with_row(zone, new).unwrap();
            board.publish(Arc::new(view.clone()));
            drop(answer.send(Ok(Arc::new(view.clone()))));
        }
    }
}

/// A keeper of a view, and a root whose zones have these owners.
fn open(reactor: &Reactor, view: &LayoutView, owners: Vec<Owner>) -> (Tables, Rc<MemoryRoot>) {
    let (tables, requests) = Tables::new(reactor, view.clone());
    reactor.spawn(keep(requests, tables.board().clone(), view.clone()));
    let (owners, asked_back) = (RefCell::new(owners), Cell::new(0));
    let root = MemoryRoot { owners, asked_back, tables: tables.clone() };
    (tables, Rc::new(root))
}

/// A pool of five drives all of whose zones have rows, and how many these are.
fn full_pool() -> (TestPool, u32) {
    let units = 40 * place_units(&table(&[0; 5]), MIRROR) + 3 * 16;
    let mut pool = TestPool::new(table(&[units; 5]));
    pool.add_journal(0, &[0, 1]);
    let zones = PoolSizes::of_view(&pool.view).zones;
    for zone in 0..zones {
        assert!(pool.place(zone, MIRROR));
    }
    (pool, zones)
}

/// A pool of five drives of which the first zones are a shard's, and all have rows, after one has left for a while;
/// with its root, and how many zones it should have.
fn shrink(owned: usize) -> (Arc<LayoutView>, Rc<MemoryRoot>, u32) {
    let (mut pool, zones) = full_pool();
    pool.set_state(4, DriveState::Leaving);
    let fewer = PoolSizes::of_view(&pool.view).zones;
    let mut sim = SimLoop::new(3);
    let reactor = sim.handle();
    sim.run_until(async move {
        let mut owners = vec![Owner::Shard; owned];
        owners.resize(zones as usize, Owner::Free);
        let (tables, root) = open(&reactor, &pool.view, owners);
        let control = Arc::new(RepairControl::new(1, 40));
        let handle = tables.on(&reactor);
        let sizer = PoolSizer::start(&reactor, handle, Rc::clone(&root) as _, control);
        for _ in 0..300 {
            reactor.sleep(Nanos::seconds(1)).await;
            root.give_back();
        }
        drop(sizer);
        (tables.view(), root, fewer)
    })
}

fn rows_without_owner(view: &LayoutView, root: &MemoryRoot) -> usize {
    view.rows().filter(|(zone, _)| root.is_withdrawn(*zone)).count()
}

#[test]
fn free_zones_are_withdrawn_and_their_rows_emptied() {
    let (view, root, fewer) = shrink(10);
    assert_eq!(root.zones(), fewer);
    assert_eq!(rows_without_owner(&view, &root), 0, "their room is free");
    assert_eq!(view.rows().count(), fewer as usize);
    assert_eq!((root.count(Owner::Shard), root.asked_back.get()), (10, 0));
}

#[test]
fn shards_give_back_what_the_pool_is_to_have_no_more() {
    let (view, root, fewer) = shrink(70);
    assert_eq!(root.zones(), fewer);
    assert_eq!(root.count(Owner::Shard), fewer as usize, "they gave what was asked for");
    assert_eq!(view.rows().count(), fewer as usize);
}

#[test]
fn rows_of_zones_that_somebody_has_stay() {
    let holds = |view: &LayoutView, root: &MemoryRoot| {
        let owners = root.owners.borrow();
        let mut owned = (0..).zip(owners.iter()).filter(|(_, owner)| **owner == Owner::Shard);
        owned.all(|(zone, _)| view.row(ZoneIndex(zone)).state != RowState::Empty)
    };
    let (view, root, _) = shrink(10);
    assert!(holds(&view, &root), "POOL-SIZER-1");
    plant(Some(Bug::LentRowEmptied));
    let (view, root, _) = shrink(10);
    plant(None);
    assert!(!holds(&view, &root), "the bug shows");
}

fn without_room(zone: u32) -> MoveProgress {
    MoveProgress {
        zone: ZoneIndex(zone),
        shard: None,
        why: MoveReason::Rebuild,
        bytes_done: 0,
        bytes_total: 0,
        bytes_per_s: 0,
        since_unix_ms: 0,
        waits_for: Some(MoveWait::Room),
    }
}

#[test]
fn rows_without_room_take_what_they_need_once_and_not_for_as_long_as_they_rest() {
    let (mut pool, zones) = full_pool();
    pool.set_state(4, DriveState::Failed);
    let mut sim = SimLoop::new(3);
    let reactor = sim.handle();
    sim.run_until(async move {
        let (tables, root) = open(&reactor, &pool.view, vec![Owner::Free; zones as usize]);
        let control = Arc::new(RepairControl::new(1, 40));
        let handle = tables.on(&reactor);
        let of_root = Rc::clone(&root) as _;
        let sizer = PoolSizer::start(&reactor, handle, of_root, Arc::clone(&control));
        for round in 1..=2 {
            (0..6).for_each(|zone| control.set_move(without_room(zone)));
            reactor.sleep(Nanos::seconds(60)).await;
            assert_eq!(root.zones(), zones - 3 * round, "POOL-SIZER-3: two places for each zone");
            assert_eq!(tables.view().rows().count(), root.zones() as usize);
            assert_eq!(control.rows_without_room(), 0, "nobody has tried since");
        }
        drop(sizer);
    });
}
