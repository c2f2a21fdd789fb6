//! Nodes of one pool, and what happens to them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::{Either, select};
use varve_dispatch::nodes::{Inbox, Keeper, KeeperConfig, Router, RouterConfig};
use varve_dispatch::{Dispatch, JobSender, Placement, PoolLinks};
use varve_media_rados::{MemoryClient, MemoryCluster};
use varve_membership::{Member, Node, NodeId, Standing};
use varve_reactor::Reactor;
use varve_stdx::Rng;
use varve_types::ShardId;

use crate::clients::{BLOCKS, Clients, Socket};
use crate::network::{Network, SimConnector, fingerprint};
use crate::pool::{MS, POOL, SHARDS, Source, make, open};

/// A node.
pub(crate) struct Process {
    pub(crate) id: NodeId,
    pub(crate) client: MemoryClient,
    pub(crate) keeper: Rc<Keeper>,
    pub(crate) router: Rc<Router>,
    pub(crate) sockets: RefCell<Vec<Rc<Socket>>>,
    /// It was killed: it does nothing that anybody hears of.
    pub(crate) is_gone: Cell<bool>,
    pub(crate) leaves: Cell<bool>,
}

pub(crate) struct World {
    pub(crate) reactor: Reactor,
    pub(crate) cluster: MemoryCluster,
    pub(crate) network: Rc<Network>,
    pub(crate) nodes: RefCell<Vec<Rc<Process>>>,
    pub(crate) clients: Clients,
    pub(crate) is_over: Cell<bool>,
    pub(crate) rng: RefCell<Rng>,
}

impl World {
    pub(crate) async fn new(reactor: &Reactor, rng: Rng) -> Rc<Self> {
        let cluster = MemoryCluster::new();
        make(reactor, &cluster).await;
        Rc::new(Self {
            reactor: reactor.clone(),
            cluster,
            network: Network::new(reactor),
            nodes: RefCell::default(),
            clients: Clients::new(),
            is_over: Cell::new(false),
            rng: RefCell::new(rng),
        })
    }

    pub(crate) async fn join(&self) -> Rc<Process> {
        let client = self.cluster.client();
        let store = open(&client).await.nodes();
        let id = NodeId(u128::from(self.rng.borrow_mut().next_u64()));
        let node = Node { id, address: "node:1".to_owned(), fingerprint: fingerprint(id) };
        let reactor = self.reactor.clone();
        let links = PoolLinks { threads: vec![JobSender::new(&reactor).0; usize::from(SHARDS)] };
        let placement = Placement::new(vec![SHARDS]);
        let dispatch = Dispatch::new(reactor.clone(), placement, links, None);
        let source = Rc::new(Source { reactor, client: client.clone() });
        let member = Member::new(node, POOL, SHARDS).unwrap();
        let keeper = Keeper::start(KeeperConfig { dispatch, store, source, member });
        let connector = Rc::new(SimConnector { network: Rc::clone(&self.network), id });
        let config = RouterConfig { pool: POOL, keeper: Rc::clone(&keeper), connector };
        let router = Router::new(config);
        self.network.listen(id, Inbox::new(&router));
        let process = Rc::new(Process {
            id,
            client,
            keeper,
            router,
            sockets: RefCell::default(),
            is_gone: Cell::new(false),
            leaves: Cell::new(false),
        });
        let taking = Rc::downgrade(&process);
        process.router.connections().take_in_with(move || {
            if let Some(process) = taking.upgrade() {
                process.take_in();
            }
        });
        self.nodes.borrow_mut().push(Rc::clone(&process));
        process
    }

    /// A node that is not known to be gone, at random.
    pub(crate) fn somebody(&self) -> Option<Rc<Process>> {
        let nodes = self.nodes.borrow();
        let there: Vec<_> =
            nodes.iter().filter(|node| !node.is_gone.get() && !node.leaves.get()).collect();
        let at = self.rng.borrow_mut().index(there.len().max(1));
        there.get(at).map(|node| Rc::clone(node))
    }

    /// Waits for an outcome as long as a client does.
    pub(crate) async fn patiently<T>(&self, work: impl Future<Output = Option<T>>) -> Option<T> {
        match select(Box::pin(work), Box::pin(self.reactor.sleep(9000 * MS))).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => None,
        }
    }

    /// Something that happens to a node.
    pub(crate) async fn trouble(&self, rng: &mut Rng) {
        let Some(node) = self.somebody() else {
            self.join().await;
            return;
        };
        let longest = [400, 4000, 12_000][rng.index(3)] * MS;
        let long = rng.below(longest);
        match rng.below(10) {
            0 => {
                node.client.hold(); // Killed: what it has under way may land later.
                node.is_gone.set(true);
                self.network.kill(node.id);
                self.reactor.sleep(long).await;
                node.client.let_go_first(rng.index(6));
            }
            1 | 2 => {
                node.client.hold(); // Paused: it hears nothing, and wakes without knowing.
                self.network.hold(node.id);
                self.reactor.sleep(long).await;
                self.wake(&node, rng).await;
            }
            3 => {
                node.client.hold(); // Cut off from the cluster.
                self.reactor.sleep(long).await;
                node.client.let_go();
            }
            4 => {
                node.client.hold_answers();
                self.reactor.sleep(long).await;
                node.client.let_go();
            }
            5 => {
                self.network.hold(node.id); // Cut off from others; perhaps its links break meanwhile.
                self.reactor.sleep(long / 2).await;
                if rng.chance(1, 2) {
                    self.network.break_links(node.id);
                }
                self.reactor.sleep(long / 2).await;
                self.network.let_go(node.id);
            }
            6 => self.network.break_links(node.id),
            7 => {
                node.leaves.set(true);
                let keeper = Rc::clone(&node.keeper);
                self.reactor.spawn(async move { keeper.leave().await });
            }
            _ if self.nodes.borrow().len() < 9 => {
                self.join().await;
            }
            _ => {}
        }
    }

    /// A paused node goes on: it may hear of the cluster first, or of others.
    async fn wake(&self, node: &Process, rng: &mut Rng) {
        if rng.chance(1, 2) {
            self.network.let_go(node.id);
            self.reactor.sleep(rng.below(2000 * MS)).await;
            node.client.let_go();
        } else {
            node.client.let_go();
            self.reactor.sleep(rng.below(2000 * MS)).await;
            self.network.let_go(node.id);
        }
    }

    /// Every shard is served by a node that is there, and evenly; and has everything.
    pub(crate) async fn calm(self: &Rc<Self>) {
        let nodes: Vec<_> = self.nodes.borrow().clone();
        for node in &nodes {
            node.client.let_go();
            self.network.let_go(node.id);
        }
        let last = self.join().await; // Perhaps nobody is left.
        self.reactor.sleep(40_000 * MS).await;
        for node in nodes.iter().filter(|node| node.leaves.get()) {
            let standing = node.keeper.standing();
            assert!(matches!(standing, Standing::Left | Standing::GivenUp), "{standing:?}");
        }
        let there: Vec<_> = self.nodes.borrow().clone();
        let mut loads = Vec::new();
        for node in there.iter().filter(|node| node.keeper.standing() == Standing::Inside) {
            let served = (0..SHARDS).filter(|shard| node.keeper.host(ShardId(*shard)).is_some());
            loads.push(served.count());
        }
        let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
        assert!(most - least <= 1 && loads.iter().sum::<usize>() == usize::from(SHARDS), "{loads:?}");
        assert_eq!(last.keeper.standing(), Standing::Inside);
        let connection = last.router.open().await.expect("it is calm");
        for block in 0..BLOCKS {
            let found = self.clients.read(&last.router, &connection, block).await;
            assert!(found.is_some(), "block {block} is not read, and it is calm");
        }
    }
}
