//! Goal: a cell has a name only while the register says that cell (REGISTER-1), so no two cells have the same one, and
//! no name is lost to everybody, whatever owners and messages do. Method: owners of cells make and delete names over a
//! store that answers late, or never, and lets land late what dead ones sent; they crash, or sleep while others take
//! their cells over, and wake. Every step of everybody is drawn by a seed. Two orders of steps that break REGISTER-1
//! are planted, and must be found. `REGISTER_SEEDS=FIRST..LAST` chooses seeds.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use varve_register::{
    Entry, Error, MemoryNames, Name, NameFuture, NameKind, NameStore, Register, Result, Stamp,
};
use varve_stdx::Rng;
use varve_types::{CellId, ErrorKind, PoolId};

const POOL: PoolId = PoolId([7; 16]);
const CELLS: u16 = 3;
const NAMES: [&str; 2] = ["default/a", "default/b"];

/// Messages on their way to the store; they outlive who sent them.
type Network = Rc<RefCell<Vec<Box<dyn FnOnce(bool)>>>>;

/// A store behind a network.
struct Slow {
    names: MemoryNames,
    network: Network,
}

impl Slow {
    fn send<T: 'static>(
        &self,
        work: impl FnOnce(&MemoryNames) -> Result<T> + 'static,
    ) -> NameFuture<'static, T> {
        let answer: Rc<Cell<Option<Result<T>>>> = Rc::default();
        let (names, back) = (self.names.clone(), Rc::clone(&answer));
        self.network.borrow_mut().push(Box::new(move |is_lost| {
            let done = work(&names);
            let lost = Error::Store { kind: ErrorKind::Unavailable, reason: "lost".to_owned() };
            back.set(Some(if is_lost { Err(lost) } else { done }));
        }));
        Box::pin(poll_fn(move |_| answer.take().map_or(Poll::Pending, Poll::Ready)))
    }
}

/// Polls what a store in memory answers at once.
fn now<T>(future: NameFuture<'_, T>) -> Result<T> {
    let mut future = future;
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("memory answers at once"),
    }
}

impl NameStore for Slow {
    fn pool(&self) -> PoolId {
        POOL
    }

    fn cells(&self) -> u16 {
        CELLS
    }

    fn read(&self, name: &Name) -> NameFuture<'_, Option<Entry>> {
        let name = name.clone();
        self.send(move |names| now(names.read(&name)))
    }

    fn make(&self, name: &Name, entry: Entry) -> NameFuture<'_, bool> {
        let name = name.clone();
        self.send(move |names| now(names.make(&name, entry)))
    }

    fn replace(&self, name: &Name, before: Stamp, entry: Entry) -> NameFuture<'_, bool> {
        let name = name.clone();
        self.send(move |names| now(names.replace(&name, before, entry)))
    }

    fn remove(&self, name: &Name, stamp: Stamp) -> NameFuture<'_, bool> {
        let name = name.clone();
        self.send(move |names| now(names.remove(&name, stamp)))
    }
}

/// A cell as its media have it: names, and the epoch of the claim that may change them.
#[derive(Default)]
struct Media {
    epoch: u64,
    names: BTreeSet<String>,
}

/// One owner of a cell, from its claim until it is lost.
#[derive(Clone)]
struct Owner {
    cell: CellId,
    epoch: u64,
    media: Rc<RefCell<Media>>,
    register: Register,
    gates: Rc<RefCell<BTreeSet<String>>>,
    rng: Rc<RefCell<Rng>>,
    order: Order,
}

/// In which order it deletes.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Right,
    /// It sees the entry after it has deleted.
    SeesLate,
    /// It looks whether the name is there before it sees the entry (REGISTER-4).
    LooksFirst,
}

/// Its claim is lost.
struct Fenced;

impl Owner {
    /// Other things happen before the next step.
    async fn pause(&self) {
        let mut left = self.rng.borrow_mut().below(3);
        poll_fn(|_| {
            left = left.saturating_sub(1);
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Its catalogue, while its claim holds.
    fn catalogue<T>(
        &self,
        work: impl FnOnce(&mut BTreeSet<String>) -> T,
    ) -> std::result::Result<T, Fenced> {
        let mut media = self.media.borrow_mut();
        if media.epoch == self.epoch { Ok(work(&mut media.names)) } else { Err(Fenced) }
    }

    async fn hold(&self, name: &str) {
        while !self.gates.borrow_mut().insert(name.to_owned()) {
            self.pause().await;
            let mut is_again = false;
            poll_fn(|_| match std::mem::replace(&mut is_again, true) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        }
    }

    async fn create(self, name: &'static str) {
        self.hold(name).await;
        for _ in 0..3 {
            if self.try_create(name).await != Some(ErrorKind::Conflict) {
                break;
            }
        }
        self.gates.borrow_mut().remove(name);
    }

    /// Why it did not, if the register says so.
    async fn try_create(&self, name: &'static str) -> Option<ErrorKind> {
        let seen = match self.register.see(volume(name)).await {
            Ok(seen) => seen,
            Err(error) => return Some(error.kind()),
        };
        self.pause().await;
        if !matches!(self.catalogue(|names| names.contains(name)), Ok(false)) {
            return None; // It is there, or the claim is lost.
        }
        let stamp = Stamp(u128::from(self.rng.borrow_mut().next_u64()));
        if let Err(error) = seen.enter(stamp).await {
            return Some(error.kind());
        }
        self.pause().await;
        let _ = self.catalogue(|names| names.insert(name.to_owned()));
        None
    }

    async fn delete(self, name: &'static str) {
        self.hold(name).await;
        // What is lost, or fenced, is not done; the caller is told so.
        let _ = self.try_delete(name).await;
        self.gates.borrow_mut().remove(name);
    }

    async fn try_delete(&self, name: &'static str) -> std::result::Result<(), Fenced> {
        let see = async || self.register.see(volume(name)).await.map_err(|_| Fenced);
        match self.order {
            Order::Right => {
                let seen = see().await?;
                self.pause().await;
                self.catalogue(|names| names.remove(name))?;
                self.pause().await;
                seen.leave().await.map_err(|_| Fenced)
            }
            Order::SeesLate => {
                self.catalogue(|names| names.remove(name))?;
                self.pause().await;
                see().await?.leave().await.map_err(|_| Fenced)
            }
            Order::LooksFirst => {
                let is_there = self.catalogue(|names| names.contains(name))?;
                self.pause().await;
                let seen = see().await?;
                if is_there {
                    self.catalogue(|names| names.remove(name))?;
                    self.pause().await;
                }
                seen.leave().await.map_err(|_| Fenced)
            }
        }
    }
}

fn volume(name: &str) -> Name {
    Name { sort: NameKind::Volume, full: name.to_owned() }
}

struct Task {
    cell: CellId,
    epoch: u64,
    work: Pin<Box<dyn Future<Output = ()>>>,
}

struct World {
    rng: Rc<RefCell<Rng>>,
    order: Order,
    names: MemoryNames,
    network: Network,
    media: Vec<Rc<RefCell<Media>>>,
    owners: Vec<Owner>,
    tasks: Vec<Task>,
}

impl World {
    fn new(seed: u64, order: Order) -> Self {
        let mut world = Self {
            rng: Rc::new(RefCell::new(Rng::new(seed))),
            order,
            names: MemoryNames::new(POOL, CELLS),
            network: Network::default(),
            media: (0..CELLS).map(|_| Rc::default()).collect(),
            owners: Vec::new(),
            tasks: Vec::new(),
        };
        world.owners = (0..CELLS).map(|cell| world.claim(CellId(cell))).collect();
        if world.below(3) == 0 {
            // REGISTER-5
            let (name, cell) = (volume(NAMES[0]), CellId(CELLS + 1));
            world.names.put(&name, Entry { pool: POOL, cell, stamp: Stamp(1) }.encode(&name));
        }
        world
    }

    /// Another process takes a cell over. What the former one still does goes on.
    fn claim(&self, cell: CellId) -> Owner {
        let media = Rc::clone(&self.media[usize::from(cell.0)]);
        media.borrow_mut().epoch += 1;
        let epoch = media.borrow().epoch;
        let store = Slow { names: self.names.clone(), network: Rc::clone(&self.network) };
        let register = Register::new(Rc::new(store), cell);
        let (gates, rng) = (Rc::default(), Rc::clone(&self.rng));
        Owner { cell, epoch, media, register, gates, rng, order: self.order }
    }

    fn below(&self, bound: usize) -> usize {
        self.rng.borrow_mut().index(bound)
    }

    /// A request comes to the cell that the entry says, or, where there is none or what is known of it is old, to any.
    fn request(&mut self) {
        let name = NAMES[self.below(NAMES.len())];
        let entry = self.names.get(&volume(name)).unwrap();
        let cell = match entry {
            Some(entry) if entry.cell.0 < CELLS && self.below(10) < 8 => usize::from(entry.cell.0),
            _ => self.below(usize::from(CELLS)),
        };
        let (owner, is_create) = (self.owners[cell].clone(), self.below(2) == 0);
        self.start(owner, name, is_create);
    }

    fn start(&mut self, owner: Owner, name: &'static str, is_create: bool) {
        let (cell, epoch) = (owner.cell, owner.epoch);
        let work: Pin<Box<dyn Future<Output = ()>>> =
            if is_create { Box::pin(owner.create(name)) } else { Box::pin(owner.delete(name)) };
        self.tasks.push(Task { cell, epoch, work });
    }

    /// Somebody gets on, or a message lands.
    fn step(&mut self, loses: bool) {
        let messages = self.network.borrow().len();
        if messages > 0 && self.below(2) == 0 {
            let message = self.network.borrow_mut().swap_remove(self.below(messages));
            message(loses && self.below(20) == 0);
        } else if !self.tasks.is_empty() {
            let task = self.below(self.tasks.len());
            let work = self.tasks[task].work.as_mut();
            if work.poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                drop(self.tasks.swap_remove(task));
            }
        }
    }

    /// REGISTER-1, everywhere.
    fn holds(&self) -> bool {
        (0..CELLS).map(CellId).zip(&self.media).all(|(cell, media)| {
            media.borrow().names.iter().all(|name| {
                let entry = self.names.get(&volume(name)).unwrap();
                entry.is_some_and(|entry| entry.cell == cell)
            })
        })
    }

    /// Until nobody does anything any more.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.tasks.is_empty() && self.network.borrow().is_empty() {
                return;
            }
            self.step(false);
            assert!(self.holds(), "REGISTER-1");
        }
        panic!("somebody waits for ever");
    }
}

/// Whether REGISTER-1 held all the time.
fn run(seed: u64, order: Order) -> bool {
    let mut world = World::new(seed, order);
    for _ in 0..600 {
        match world.below(40) {
            0..4 => world.request(),
            4 => {
                // A cell is taken over; its former owner has crashed, or wakes later.
                let cell = world.below(usize::from(CELLS));
                world.owners[cell] = world.claim(CellId(u16::try_from(cell).unwrap()));
                if world.below(2) == 0 {
                    let alive = world.owners[cell].epoch;
                    world
                        .tasks
                        .retain(|task| usize::from(task.cell.0) != cell || task.epoch == alive);
                }
            }
            _ => world.step(true),
        }
        if !world.holds() {
            return false;
        }
    }
    if order == Order::Right {
        check_calm(&mut world);
    }
    true
}

/// Every name can be made, in the cell that keeps it, and deleted, and then nothing is left of it.
fn check_calm(world: &mut World) {
    world.settle();
    for name in NAMES {
        for is_create in [true, false] {
            let entry = world.names.get(&volume(name)).unwrap();
            let cell = entry.map(|entry| entry.cell).filter(|cell| cell.0 < CELLS);
            let cell = cell.unwrap_or(CellId::FIRST);
            let owner = world.owners[usize::from(cell.0)].clone();
            world.start(owner, name, is_create);
            world.settle();
            let has = |media: &&Rc<RefCell<Media>>| media.borrow().names.contains(name);
            let count = world.media.iter().filter(has).count();
            assert_eq!(count, usize::from(is_create), "{name}");
        }
    }
    assert!(world.names.is_empty(), "{} entries are left", world.names.len());
}

#[test]
fn a_cell_has_a_name_only_while_the_register_says_so() {
    let seeds = std::env::var("REGISTER_SEEDS").unwrap_or_else(|_| "0..3000".to_owned());
    let (first, last) = seeds.split_once("..").unwrap();
    for seed in first.parse().unwrap()..last.parse().unwrap() {
        match std::panic::catch_unwind(|| run(seed, Order::Right)) {
            Ok(held) => assert!(held, "REGISTER-1: REGISTER_SEEDS={seed}..{}", seed + 1),
            Err(panic) => {
                eprintln!("seed {seed}: REGISTER_SEEDS={seed}..{}", seed + 1);
                std::panic::resume_unwind(panic);
            }
        }
    }
}

#[test]
fn orders_that_let_a_late_owner_take_an_entry_away_are_found() {
    for order in [Order::SeesLate, Order::LooksFirst] {
        let found = (0..20_000).find(|seed| !run(*seed, order));
        assert!(found.is_some(), "the method finds nothing");
    }
}

#[test]
fn a_name_of_another_cell_is_not_entered_and_not_left() {
    let names = MemoryNames::new(POOL, CELLS);
    let register = |cell| Register::new(Rc::new(names.clone()), CellId(cell));
    let see = |cell| now(Box::pin(async move { register(cell).see(volume("default/a")).await }));
    now(Box::pin(see(1).unwrap().enter(Stamp(1)))).unwrap();
    let seen = see(2).unwrap();
    assert_eq!(seen.cell(), Ok(Some(CellId(1))));
    let refused = now(Box::pin(seen.enter(Stamp(2))));
    let name = volume("default/a");
    assert_eq!(refused, Err(Error::Elsewhere { name, cell: CellId(1) }));
    now(Box::pin(see(2).unwrap().leave())).unwrap();
    assert_eq!(names.len(), 1, "it is another cell's");
    let (early, late) = (see(1).unwrap(), see(1).unwrap());
    now(Box::pin(early.enter(Stamp(3)))).unwrap();
    now(Box::pin(late.leave())).unwrap();
    assert_eq!(names.len(), 1, "it was entered since");
    now(Box::pin(see(1).unwrap().leave())).unwrap();
    assert!(names.is_empty());
}

#[test]
fn an_entry_of_no_cell_is_taken_over_and_one_that_cannot_be_read_stays() {
    let names = MemoryNames::new(POOL, CELLS);
    let register = |cell| Register::new(Rc::new(names.clone()), CellId(cell));
    let see = |cell| now(Box::pin(async move { register(cell).see(volume("default/a")).await }));
    let name = volume("default/a");
    let senseless = Entry { pool: POOL, cell: CellId(CELLS), stamp: Stamp(1) };
    names.put(&name, senseless.encode(&name));
    let (first, second) = (see(1).unwrap(), see(2).unwrap());
    assert_eq!(first.cell(), Ok(None), "it is nobody's");
    now(Box::pin(first.enter(Stamp(2)))).unwrap();
    assert_eq!(now(Box::pin(second.enter(Stamp(3)))), Err(Error::Changed { name: name.clone() }));
    names.put(&name, senseless.encode(&name));
    now(Box::pin(see(2).unwrap().leave())).unwrap();
    assert!(names.is_empty(), "who deletes it removes it");

    let other = Entry { pool: PoolId([8; 16]), cell: CellId(1), stamp: Stamp(1) };
    for (bytes, says) in [(vec![7; Entry::BYTES], "is damaged"), (other.encode(&name), "of pool")] {
        names.put(&name, bytes);
        let seen = see(1).unwrap();
        let refused = [
            seen.cell().map(drop).unwrap_err(),
            now(Box::pin(seen.enter(Stamp(2)))).unwrap_err(),
            now(Box::pin(see(1).unwrap().leave())).unwrap_err(),
        ];
        for refused in refused {
            assert_eq!(refused.kind(), ErrorKind::Corrupt);
            assert!(refused.to_string().contains(says), "{refused}");
            assert!(refused.to_string().contains("once no cell has the name"), "{refused}");
        }
        assert_eq!(names.len(), 1, "it may be another cell's");
    }
}
