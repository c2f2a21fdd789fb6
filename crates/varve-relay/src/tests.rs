//! Goal: links carry bytes as they are, to whom they are meant for and by whom the table knows, within their bounds;
//! and a write that waits at a node does not happen after a later one by another node. Method: doors on loopback, with
//! NBD in memory behind them; the tests are the carrying nodes, so they hold back what they like.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio_rustls::client;
use varve_access_block::memory::{MemoryExport, MemoryExports};
use varve_access_nbd::{
    ConnectionBalancer, ConnectionLimit, Service, ServiceOptions, serve_connections,
};
use varve_membership::{Fingerprint, Node, NodeAddress, NodeId};
use varve_reactor::{Loop, LoopConfig, port};
use varve_types::{CellId, ErrorKind, PoolId};

use crate::carry::carry;
use crate::deliver::TOLD_MAX;
use crate::link::{FrameBuffer, connect, receive, send};
use crate::wire::{
    BeginExport, ExportQuestion, ExportReply, FrontEnd, FrontEndNumber, HELLO_BYTES, Hello,
    HelloReply, LinkExport, LinkFrame,
};
use crate::{
    ClientStream, LinkLimits, LocalFrontEnds, NodeKey, RelayListener, RelayedClient, View, offer,
};

const POOL: PoolId = PoolId([7; 16]);
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SERVING: NodeId = NodeId(1);
const CARRYING: NodeId = NodeId(2);
const OTHER: NodeId = NodeId(3);

/// A client of the admin API, and its address.
type AdminClient = (DuplexStream, Option<SocketAddr>);

/// Serves NBD and the admin API.
struct TestFrontEnds {
    nbd: ConnectionBalancer,
    admin: mpsc::Sender<AdminClient>,
}

impl LocalFrontEnds for TestFrontEnds {
    fn nbd(&self) -> &ConnectionBalancer {
        &self.nbd
    }

    fn offer_s3(&self, _: DuplexStream, _: Option<SocketAddr>) -> Result<(), HelloReply> {
        Err(HelloReply::NoFrontEnd)
    }

    fn offer_admin(
        &self,
        stream: DuplexStream,
        client: Option<SocketAddr>,
    ) -> Result<(), HelloReply> {
        offer(&self.admin, (stream, client))
    }
}

/// A node that serves, and the keys of two that carry.
struct Rig {
    door: RelayListener<TestFrontEnds>,
    shows: watch::Sender<View>,
    admin: mpsc::Receiver<AdminClient>,
    keys: [NodeKey; 2],
    runtime: Runtime,
}

fn limits() -> LinkLimits {
    LinkLimits { links_max: 4, of_node_max: 2, begin_max: Duration::from_millis(500) }
}

fn node(id: NodeId, reach: NodeAddress) -> Node {
    Node { id, place: "a".to_owned(), reach: Some(reach) }
}

impl Rig {
    fn new() -> Self {
        let (shows, views) = watch::channel(View::default());
        let any = SocketAddr::new(HERE, 0);
        let key = NodeKey::make().unwrap();
        let door = RelayListener::open(POOL, 1, key, any, HERE, views, limits()).unwrap();
        let keys = [NodeKey::make().unwrap(), NodeKey::make().unwrap()];
        let reach = |key: &NodeKey| NodeAddress::new(any, key.fingerprint());
        let nodes = vec![
            node(SERVING, door.reach()),
            node(CARRYING, reach(&keys[0])),
            node(OTHER, reach(&keys[1])),
        ];
        let owners = vec![Some(SERVING)];
        shows.send_replace(View { me: Some(SERVING), version: 3, owners, nodes });
        let (admin_to, admin) = mpsc::channel(8);
        door.serve(CellId::FIRST, TestFrontEnds { nbd: nbd(&door), admin: admin_to });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { door, shows, admin, keys, runtime }
    }

    fn hello(from: NodeId, front_end: FrontEnd) -> Hello {
        let (pool, cell, to) = (POOL, CellId::FIRST, SERVING);
        let front_end = front_end.number();
        Hello { front_end, pool, cell, from, to, table_version: 3, connection: 1, client: None }
    }

    /// What is said to a hello by the node with the first key.
    fn answer(&self, hello: &Hello) -> HelloReply {
        let connected = connect(&self.keys[0], self.door.reach(), hello);
        self.runtime.block_on(connected).unwrap().0
    }

    /// A client that nodes carry, as the test wants.
    async fn raw(&self, by: usize) -> Raw {
        let hello = Self::hello([CARRYING, OTHER][by], FrontEnd::Export);
        let connected = connect(&self.keys[by], self.door.reach(), &hello).await.unwrap();
        assert_eq!(connected.0, HelloReply::Accepted);
        Raw { link: connected.1, asked: None, received: Vec::new() }
    }
}

/// A thread that serves a disk in memory.
fn nbd(door: &RelayListener<TestFrontEnds>) -> ConnectionBalancer {
    let (ready, made) = std::sync::mpsc::channel();
    let gate = Some(door.gate());
    std::thread::spawn(move || {
        let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
        let reactor = event_loop.handle();
        let (dealt_to, dealt) = port::channel(&reactor, 16);
        ready.send(dealt_to).unwrap();
        let exports = MemoryExports::new().with("disk", MemoryExport::new(1 << 20));
        let options = ServiceOptions { gate, ..ServiceOptions::default() };
        event_loop.run(serve_connections(Service::new(reactor, exports, options), dealt));
    });
    ConnectionBalancer::new(ConnectionLimit::new(8), vec![made.recv().unwrap()])
}

/// A client of NBD, and the node that carries it, in one.
struct Raw {
    link: client::TlsStream<TcpStream>,
    /// A question that was not answered.
    asked: Option<u64>,
    received: Vec<u8>,
}

impl Raw {
    async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let mut buffer = FrameBuffer::new();
        buffer.room()[..bytes.len()].copy_from_slice(bytes);
        buffer.send(bytes.len(), &mut self.link).await
    }

    /// Takes what comes until there are so many bytes.
    async fn take(&mut self, len: usize) -> std::io::Result<Vec<u8>> {
        while self.received.len() < len {
            let mut buffer = vec![0; 1 << 16];
            match receive(&mut self.link, &mut buffer).await? {
                LinkFrame::Data(len) => self.received.extend(&buffer[..len]),
                LinkFrame::Ask(number) => self.asked = Some(number),
                other => panic!("{other:?}"),
            }
        }
        Ok(self.received.drain(..len).collect())
    }

    /// Waits until the node is asked.
    async fn question(&mut self) -> u64 {
        while self.asked.is_none() {
            match receive(&mut self.link, &mut vec![0; 1 << 16]).await.unwrap() {
                LinkFrame::Ask(number) => self.asked = Some(number),
                other => panic!("{other:?}"),
            }
        }
        self.asked.take().unwrap()
    }

    async fn ask(&mut self, question: &ExportQuestion) -> ExportReply {
        self.send(&question.encode().unwrap()).await.unwrap();
        let mut buffer = vec![0; 1 << 16];
        match receive(&mut self.link, &mut buffer).await.unwrap() {
            LinkFrame::Data(len) => ExportReply::decode(&buffer[..len]).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Agrees with the client on the disk, and says so.
    async fn begin(&mut self) {
        let name = "disk".to_owned();
        let open = ExportQuestion::Open { name, since: Some(Vec::new()) };
        let ExportReply::Found(export) = self.ask(&open).await else { panic!("no disk") };
        self.send(&begin(export)).await.unwrap();
    }

    /// Opens the disk; returns once the client is told that it is open.
    async fn open(&mut self) {
        self.begin().await;
        assert_eq!(self.take(WORDS.len()).await.unwrap(), WORDS);
    }

    async fn write(&mut self, letter: u8) -> std::io::Result<()> {
        self.send(&[&request(1)[..], &[letter; 512]].concat()).await
    }

    async fn write_and_wait(&mut self, letter: u8) {
        self.write(letter).await.unwrap();
        assert_eq!(self.take(16).await.unwrap()[4..8], [0; 4]);
    }

    async fn read(&mut self) -> u8 {
        self.send(&request(0)).await.unwrap();
        let reply = self.take(16 + 512).await.unwrap();
        assert_eq!(reply[4..8], [0; 4]);
        reply[20]
    }
}

/// What the client is told when the disk is open.
const WORDS: &[u8] = b"it is open";

fn begin(export: LinkExport) -> Vec<u8> {
    let begin = BeginExport {
        export,
        structured_reply: false,
        extended_headers: false,
        allocation: false,
        changes: 0,
        words: WORDS.to_vec(),
    };
    ExportQuestion::Begin(Box::new(begin)).encode().unwrap()
}

fn request(command: u16) -> Vec<u8> {
    let magic = 0x2560_9513_u32.to_be_bytes();
    [&magic[..], &[0, 0], &command.to_be_bytes(), &[0; 16], &512u32.to_be_bytes()].concat()
}

#[test]
fn bytes_are_carried_as_they_are_and_counted() {
    let mut rig = Rig::new();
    rig.runtime.block_on(async {
        let hello = Rig::hello(CARRYING, FrontEnd::Admin);
        let client = Some("10.1.2.3:4".parse().unwrap());
        let connected = connect(&rig.keys[0], rig.door.reach(), &Hello { client, ..hello }).await;
        let (answer, link) = connected.unwrap();
        assert_eq!(answer, HelloReply::Accepted);
        let (mut near, far) = UnixStream::pair().unwrap();
        let carrying = tokio::spawn(async move {
            let client = RelayedClient::new(ClientStream::Unix(far), None);
            carry(&client, &[], link).await
        });
        let (front, address) = rig.admin.recv().await.unwrap();
        assert_eq!(address, client);
        let echo = tokio::spawn(async move {
            let (mut from, mut to) = tokio::io::split(front);
            tokio::io::copy(&mut from, &mut to).await.unwrap();
            to.shutdown().await.unwrap();
        });
        let mut rng = varve_stdx::Rng::new(1);
        let mut sent = vec![0; 3_000_001];
        rng.fill(&mut sent);
        let (mut from, mut to) = near.split();
        let mut back = Vec::new();
        let writing = async {
            to.write_all(&sent).await.unwrap();
            to.shutdown().await.unwrap();
        };
        tokio::join!(writing, async { from.read_to_end(&mut back).await.unwrap() });
        assert!(back == sent, "{} bytes came back", back.len());
        carrying.await.unwrap().unwrap();
        echo.await.unwrap();
        let told = loop {
            let told = rig.door.watcher(CellId::FIRST).nodes().swap_remove(1);
            if told.connections > 0 && told.connections_open == 0 {
                break told;
            }
            tokio::task::yield_now().await;
        };
        let counted = (told.connections, told.received_bytes, told.sent_bytes);
        assert_eq!(counted, (1, 3_000_001, 3_000_001));
    });
}

#[test]
fn only_who_is_meant_takes_a_link_and_only_nodes_are_let_in() {
    let rig = Rig::new();
    let hello = Rig::hello(CARRYING, FrontEnd::Admin);
    assert_eq!(rig.answer(&hello), HelloReply::Accepted);
    assert_eq!(rig.answer(&Hello { pool: PoolId([8; 16]), ..hello }), HelloReply::OtherPool);
    assert_eq!(rig.answer(&Hello { to: OTHER, ..hello }), HelloReply::OtherNode); // RELAY-LISTENER-1
    assert_eq!(rig.answer(&Hello { from: OTHER, ..hello }), HelloReply::NotANode); // RELAY-LISTENER-2
    assert_eq!(rig.answer(&Hello { from: NodeId(9), ..hello }), HelloReply::NotANode);
    let s3 = Hello { front_end: FrontEnd::S3.number(), ..hello };
    assert_eq!(rig.answer(&s3), HelloReply::NoFrontEnd);
    for unknown in [0, 4, u8::MAX] {
        let later = Hello { front_end: FrontEndNumber(unknown), ..hello };
        assert_eq!(rig.answer(&later), HelloReply::NoFrontEnd, "{unknown}");
    }
    assert_eq!(rig.answer(&Hello { cell: CellId(1), ..hello }), HelloReply::NotServing);
    let elsewhere = NodeAddress { fingerprint: Fingerprint([9; 32]), ..rig.door.reach() };
    let refused = rig.runtime.block_on(connect(&rig.keys[0], elsewhere, &hello));
    assert!(refused.is_err(), "another key is there");
    rig.shows.send_modify(|view| view.owners = vec![Some(OTHER)]);
    assert_eq!(rig.answer(&hello), HelloReply::NotServing); // RELAY-LISTENER-1
    rig.shows.send_modify(|view| view.owners = vec![view.me]);
    rig.door.close(CellId::FIRST);
    assert_eq!(rig.answer(&hello), HelloReply::NotServing);
}

#[test]
fn there_are_so_many_links_and_no_more() {
    let rig = Rig::new();
    let hello = Rig::hello(CARRYING, FrontEnd::Admin);
    rig.runtime.block_on(async {
        let to = rig.door.reach();
        let mut links = Vec::new();
        for _ in 0..limits().of_node_max {
            let (answer, link) = connect(&rig.keys[0], to, &hello).await.unwrap();
            assert_eq!(answer, HelloReply::Accepted);
            links.push(link);
        }
        assert_eq!(connect(&rig.keys[0], to, &hello).await.unwrap().0, HelloReply::TooMany);
        let other = Hello { from: OTHER, ..hello };
        assert_eq!(connect(&rig.keys[1], to, &other).await.unwrap().0, HelloReply::Accepted);
        links.pop();
        while connect(&rig.keys[0], to, &hello).await.unwrap().0 != HelloReply::Accepted {}
    });
}

#[test]
fn who_says_nothing_or_half_a_hello_or_another_version_is_let_go_of() {
    let rig = Rig::new();
    rig.runtime.block_on(async {
        let to = rig.door.reach();
        let mut silent = TcpStream::connect(to.address).await.unwrap();
        assert_eq!(silent.read(&mut [0; 1]).await.unwrap_or(0), 0);
        let hello = Rig::hello(CARRYING, FrontEnd::Admin).encode();
        let mut later = hello;
        later[8] = 9;
        let mut torn = hello;
        torn[70] ^= 1;
        for (bytes, answers) in [(&hello[..HELLO_BYTES - 1], 0), (&torn, 0), (&later, 16)] {
            let socket = TcpStream::connect(to.address).await.unwrap();
            let connector = rig.keys[0].connector(to.fingerprint).unwrap();
            let mut link = connector.connect(NodeKey::name(), socket).await.unwrap();
            link.write_all(bytes).await.unwrap();
            link.flush().await.unwrap();
            let mut answer = Vec::new();
            let _cut_or_ended = link.read_to_end(&mut answer).await;
            assert_eq!(answer.len(), answers);
        }
        assert!(rig.door.watcher(CellId::FIRST).nodes().iter().all(|node| node.connections == 0));
    });
}

#[test]
fn who_asks_is_told_what_there_is_and_begins_only_with_what_is_still_so() {
    let rig = Rig::new();
    rig.runtime.block_on(async {
        let mut link = rig.raw(0).await;
        let names = ExportReply::Names { names: vec!["disk".to_owned()], is_last: true };
        assert_eq!(link.ask(&ExportQuestion::List).await, names);
        let open = |name: &str| ExportQuestion::Open { name: name.to_owned(), since: None };
        let refused = ExportReply::Refused(ErrorKind::NotFound);
        assert_eq!(link.ask(&open("other")).await, refused);
        let ExportReply::Found(export) = link.ask(&open("")).await else { panic!("no disk") };
        assert_eq!((export.name.as_str(), export.size_bytes), ("disk", 1 << 20));
        assert!(rig.door.links().open().values().all(|link| link.carried.get().is_none()));
        let other = LinkExport { read_only: true, ..export };
        link.send(&begin(other)).await.unwrap();
        let told = receive(&mut link.link, &mut vec![0; 1 << 16]).await;
        assert!(matches!(told, Ok(LinkFrame::End) | Err(_)), "its client is told {told:?}");
        drop(link);
        let mut silent = rig.raw(0).await;
        silent.send(b"\x09").await.unwrap();
        assert!(silent.take(1).await.is_err(), "what makes no sense ends the link");
        drop(silent);
        while !rig.door.links().open().is_empty() {
            tokio::task::yield_now().await; // Nothing is over later than its link (RELAY-LISTENER-3).
        }
    });
}

/// The client's first write waits at a node that sleeps. By another node it writes again, and then something newer.
#[test]
fn a_write_that_waits_at_a_node_that_sleeps_never_happens_after_a_later_one() {
    let rig = Rig::new();
    rig.runtime.block_on(async {
        let mut sleeping = rig.raw(0).await;
        sleeping.open().await;
        sleeping.write_and_wait(1).await;
        let mut next = rig.raw(1).await;
        let begin = Instant::now();
        next.open().await; // It is asked, and says nothing.
        assert!(begin.elapsed() >= TOLD_MAX, "nobody waited: {:?}", begin.elapsed());
        next.write_and_wait(2).await;
        next.write_and_wait(3).await;
        // It wakes.
        if sleeping.write(2).await.is_ok() {
            assert!(sleeping.take(16).await.is_err(), "its write is answered");
        }
        assert_eq!(next.read().await, 3);
    });
}

#[test]
fn a_write_that_a_node_still_has_happens_before_the_volume_is_open_by_another_one() {
    let rig = Rig::new();
    rig.runtime.block_on(async {
        let mut old = rig.raw(0).await;
        old.open().await;
        old.write_and_wait(1).await;
        let mut new = rig.raw(1).await;
        {
            let mut opening = std::pin::pin!(new.open());
            let number = tokio::select! {
                number = old.question() => number,
                () = &mut opening => panic!("it is open, and the other node has not answered"),
            };
            old.write(2).await.unwrap();
            let early = tokio::time::timeout(Duration::from_millis(100), &mut opening).await;
            assert!(early.is_err(), "it is open, and the other node has not answered");
            send(LinkFrame::Told(number), &mut old.link).await.unwrap();
            opening.await;
        }
        assert_eq!(new.read().await, 2);
        old.take(16).await.unwrap();
        old.write_and_wait(4).await; // Its client was there all the time.
        assert_eq!(new.read().await, 4);
    });
}

#[test]
fn two_openings_do_not_wait_for_each_other() {
    let rig = Rig::new();
    rig.runtime.block_on(async {
        let (mut old, mut one, mut two) = (rig.raw(0).await, rig.raw(1).await, rig.raw(1).await);
        old.open().await;
        let answering = async {
            // Both wait for the same link, and neither is open: so each would see the other one, if it looked at what
            // is being opened.
            while old.question().await < 2 {}
            send(LinkFrame::Told(2), &mut old.link).await.unwrap();
        };
        let begin = Instant::now();
        tokio::join!(one.open(), two.open(), answering);
        assert!(begin.elapsed() < TOLD_MAX, "one waited for the other: {:?}", begin.elapsed());
    });
}

#[test]
fn a_node_that_is_out_of_the_table_has_its_links_cut() {
    let rig = Rig::new();
    rig.runtime.block_on(async {
        let (mut out, mut stays) = (rig.raw(0).await, rig.raw(1).await);
        assert!(matches!(out.ask(&ExportQuestion::List).await, ExportReply::Names { .. }));
        rig.shows.send_modify(|view| view.nodes.retain(|node| node.id != CARRYING)); // RELAY-LISTENER-4
        assert!(out.take(1).await.is_err());
        stays.open().await;
    });
}

/// A client, the other end of its link, and what carries it.
async fn carried_client(
    client: ClientStream,
) -> (tokio::io::DuplexStream, tokio::task::JoinHandle<std::io::Result<()>>) {
    let (serving, link) = tokio::io::duplex(1 << 20);
    (
        serving,
        tokio::spawn(async move { carry(&RelayedClient::new(client, None), b"", link).await }),
    )
}

#[test]
fn a_question_is_answered_behind_everything_that_the_client_had_sent() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind((HERE, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut near = TcpStream::connect(address).await.unwrap();
        let (far, from) = listener.accept().await.unwrap();
        near.write_all(&[5; 300_000]).await.unwrap();
        let (mut serving, _carrying) = carried_client(ClientStream::Tcp(far, from)).await;
        send(LinkFrame::Ask(1), &mut serving).await.unwrap();
        let (mut bytes, mut buffer) = (0, vec![0; 1 << 16]);
        loop {
            match receive(&mut serving, &mut buffer).await.unwrap() {
                LinkFrame::Data(len) => bytes += len,
                LinkFrame::Told(1) => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(bytes, 300_000);
        // Busy clients are told of too: they take what they are sent.
        send(LinkFrame::Ask(2), &mut serving).await.unwrap();
        let chatting = async {
            let mut answer = [0; 3];
            loop {
                near.write_all(b"ask").await.unwrap();
                near.read_exact(&mut answer).await.unwrap();
            }
        };
        let answering = async {
            loop {
                match receive(&mut serving, &mut buffer).await.unwrap() {
                    LinkFrame::Data(len) => {
                        send_data(&buffer[..len], &mut serving).await;
                    }
                    LinkFrame::Told(2) => return,
                    other => panic!("{other:?}"),
                }
            }
        };
        tokio::select! {
            () = answering => {}
            () = chatting => {}
        }
    });
}

async fn send_data(bytes: &[u8], to: &mut tokio::io::DuplexStream) {
    let mut frame = FrameBuffer::new();
    frame.room()[..bytes.len()].copy_from_slice(bytes);
    frame.send(bytes.len(), to).await.unwrap();
}

#[test]
fn a_client_that_has_gone_ends_its_link() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut serving, carrying) = carried_client(ClientStream::Unix(far)).await;
        drop(near);
        send(LinkFrame::Ask(1), &mut serving).await.unwrap();
        let mut buffer = vec![0; 1 << 16];
        assert_eq!(receive(&mut serving, &mut buffer).await.unwrap(), LinkFrame::End);
        send_data(b"an answer to nobody", &mut serving).await;
        assert!(carrying.await.unwrap().is_err(), "the rest of the link goes with it");
    });
}

#[test]
fn keys_are_made_anew_each_time() {
    let keys: Vec<_> = (0..3).map(|_| NodeKey::make().unwrap().fingerprint()).collect();
    assert!(keys[0] != keys[1] && keys[1] != keys[2]);
}
