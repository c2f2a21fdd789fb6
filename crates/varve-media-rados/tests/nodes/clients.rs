//! Clients, each of which goes from node to node and writes blocks of its own; and the model of every block.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use varve_dispatch::nodes::wire::{Operation, Outcome, Part};
use varve_dispatch::nodes::{Connection, Router};
use varve_reactor::Notify;
use varve_stdx::Rng;
use varve_types::{Reduction, ShardId, StreamId};

use crate::pool::{MS, SHARDS};
use crate::world::{Process, World};

const STREAM: StreamId = StreamId::new(1);
const BLOCK: usize = 4096;
const WRITERS: usize = 3;
const BLOCKS_OF_WRITER: usize = 24;

/// All blocks. Each shard has every fourth.
pub(crate) const BLOCKS: usize = WRITERS * BLOCKS_OF_WRITER;

/// What is known of a block.
#[derive(Clone, Default, Debug)]
struct Known {
    /// What a read must find, or something later.
    floor: u64,
    /// The last that was written.
    last: u64,
}

/// The model.
pub(crate) struct Clients {
    blocks: RefCell<Vec<Known>>,
    acknowledged: Cell<u64>,
}

/// A client's connection, as its node has it: what was sent and not read, and whether that is all.
pub(crate) struct Socket {
    connection: Rc<Connection>,
    unread: RefCell<VecDeque<(usize, u64)>>,
    is_closed: Cell<bool>,
    /// What was done of it, by block; false for what failed.
    answers: RefCell<BTreeMap<usize, (u64, bool)>>,
    moved: Notify,
}

fn contents(version: u64, block: usize) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    if version > 0 {
        Rng::new(version * 1009 + block as u64).fill(&mut bytes);
        bytes[..8].copy_from_slice(&version.to_le_bytes());
    }
    bytes
}

/// Writes a version of a block.
pub(crate) fn write_of(block: usize, version: u64) -> Operation {
    let (offset, data) = ((block * BLOCK) as u64, contents(version, block));
    Operation::Write { stream: STREAM, offset, reduction: Reduction::OFF, data }
}

/// The version of a block; none when it is not answered.
pub(crate) async fn version_of(
    block: usize,
    router: &Rc<Router>,
    connection: &Connection,
) -> Option<u64> {
    let (offset, len) = ((block * BLOCK) as u64, u32::try_from(BLOCK).unwrap());
    let read = Operation::Read { stream: STREAM, offset, len };
    let Ok(Outcome::Read(parts)) = router.ask(connection, shard_of(block), read).await else {
        return None;
    };
    let mut bytes = Vec::new();
    for part in parts {
        match part {
            Part::Zero(len) => bytes.resize(bytes.len() + len as usize, 0),
            Part::Data(data) => bytes.extend_from_slice(&data),
        }
    }
    let version = u64::from_le_bytes(*bytes.first_chunk().unwrap());
    assert!(bytes == contents(version, block), "block {block} is a mixture, or of another place");
    Some(version)
}

fn shard_of(block: usize) -> ShardId {
    ShardId(u16::try_from(block % usize::from(SHARDS)).unwrap())
}

impl Clients {
    pub(crate) fn new() -> Self {
        let blocks = RefCell::new(vec![Known::default(); BLOCKS]);
        Self { blocks, acknowledged: Cell::new(0) }
    }

    /// Writes that were acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.get()
    }

    /// The version of a block: nothing older than what was acknowledged when the read began. None when it is not answered.
    pub(crate) async fn read(
        &self,
        router: &Rc<Router>,
        connection: &Connection,
        block: usize,
    ) -> Option<u64> {
        let floor = self.blocks.borrow()[block].floor;
        let version = version_of(block, router, connection).await?;
        let last = self.blocks.borrow()[block].last;
        assert!(
            (floor..=last).contains(&version),
            "block {block} has {version}; {floor} was acknowledged, {last} is the last one"
        );
        Some(version)
    }
}

impl Process {
    /// Takes in what clients have sent, and learns of the ends of their connections behind it.
    pub(crate) fn take_in(self: &Rc<Self>) {
        let sockets: Vec<_> = self.sockets.borrow().clone();
        for socket in &sockets {
            while self.take_one(socket) {}
        }
        self.sockets.borrow_mut().retain(|socket| !socket.is_closed.get());
    }

    /// Takes in one request; false when there is none.
    fn take_one(self: &Rc<Self>, socket: &Rc<Socket>) -> bool {
        let next = socket.unread.borrow_mut().pop_front();
        let Some((block, version)) = next else {
            if socket.is_closed.get() {
                socket.connection.close();
            }
            return false;
        };
        let write = write_of(block, version);
        let (router, socket) = (Rc::clone(&self.router), Rc::clone(socket));
        self.keeper.reactor().spawn(async move {
            let answer = router.ask(&socket.connection, shard_of(block), write).await;
            let is_done = matches!(answer, Ok(Outcome::Done));
            socket.answers.borrow_mut().insert(block, (version, is_done));
            socket.moved.notify_all();
        });
        true
    }

    /// A node reads its clients' requests when it comes to it.
    async fn serve(self: Rc<Self>, socket: Rc<Socket>, mut rng: Rng, slowest_ms: u64) {
        while !(socket.is_closed.get() && socket.unread.borrow().is_empty()) {
            self.keeper.reactor().sleep(rng.below(slowest_ms * MS)).await;
            self.take_one(&socket);
        }
        self.take_one(&socket);
    }
}

/// Opens a connection at some node.
async fn connect(world: &World, rng: &mut Rng) -> Option<(Rc<Process>, Rc<Socket>)> {
    let node = world.somebody()?;
    let opened = world.patiently(async { node.router.open().await.ok() }).await?;
    let socket = Rc::new(Socket {
        connection: Rc::new(opened),
        unread: RefCell::default(),
        is_closed: Cell::new(false),
        answers: RefCell::default(),
        moved: Notify::new(),
    });
    node.sockets.borrow_mut().push(Rc::clone(&socket));
    let slowest_ms = [1, 20, 2000][rng.index(3)];
    let serving = Rc::clone(&node).serve(Rc::clone(&socket), rng.split(), slowest_ms);
    world.reactor.spawn(serving);
    Some((node, socket))
}

/// Writes its blocks, some at a time, by a connection that it gives up now and then with writes under way; these are written again, later, by the next.
pub(crate) async fn write_on(world: Rc<World>, writer: usize, mut rng: Rng) {
    while !world.is_over.get() {
        world.reactor.sleep(rng.below(50 * MS)).await;
        let Some((_node, socket)) = connect(&world, &mut rng).await else { continue };
        for _ in 0..1 + rng.below(20) {
            if !burst(&world, &socket, writer, &mut rng).await || world.is_over.get() {
                break;
            }
        }
        socket.is_closed.set(true);
    }
}

/// Some writes at a time; false when not all were acknowledged within its patience.
async fn burst(world: &World, socket: &Rc<Socket>, writer: usize, rng: &mut Rng) -> bool {
    let count = 1 + rng.index(4);
    let first = rng.index(BLOCKS_OF_WRITER - count);
    let mut waits = BTreeMap::new();
    for block in writer * BLOCKS_OF_WRITER + first..writer * BLOCKS_OF_WRITER + first + count {
        let mut blocks = world.clients.blocks.borrow_mut();
        let known = &mut blocks[block];
        known.last += 1;
        waits.insert(block, known.last);
        socket.unread.borrow_mut().push_back((block, known.last));
    }
    let patience_ms = [30, 300, 3000, 15_000][rng.index(4)];
    let patience = world.reactor.now().0 + rng.below(patience_ms * MS);
    while !waits.is_empty() && world.reactor.now().0 < patience {
        world.reactor.sleep(5 * MS).await;
        let answers = std::mem::take(&mut *socket.answers.borrow_mut());
        for (block, (version, is_done)) in answers {
            if !is_done {
                return false;
            }
            if waits.get(&block) == Some(&version) {
                waits.remove(&block);
                world.clients.blocks.borrow_mut()[block].floor = version;
                world.clients.acknowledged.set(world.clients.acknowledged.get() + 1);
            }
        }
    }
    waits.is_empty()
}

/// Reads all blocks, at random nodes.
pub(crate) async fn read_on(world: Rc<World>, mut rng: Rng) {
    while !world.is_over.get() {
        let Some((node, socket)) = connect(&world, &mut rng).await else {
            world.reactor.sleep(100 * MS).await;
            continue;
        };
        for _ in 0..50 {
            world.reactor.sleep(rng.below(100 * MS)).await;
            let block = rng.index(BLOCKS);
            let read = world.clients.read(&node.router, &socket.connection, block);
            if world.patiently(read).await.is_none() || world.is_over.get() {
                break;
            }
        }
        socket.is_closed.set(true);
    }
}
