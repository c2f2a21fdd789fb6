//! Goal: threads, listeners, calls and their order of ending work together. Method: a stack in memory beneath them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use varve_access_admin::v1::{
    ChangeVolume, CreateVolume, DeleteVolume, JournalStatus, ServiceState, ShardState, ShardStatus,
    Volume,
};
use varve_access_admin::{self as admin, AdminBackend, ListenAddress, MetricKind};
use varve_access_block::Exports;
use varve_access_block::memory::{MemoryExport, MemoryExports};
use varve_access_nbd::{ConnectionLimit, ServiceOptions};
use varve_client::{Failure, Result};
use varve_dataset::StoredSpace;
use varve_engine::ShardConfig;
use varve_reactor::Reactor;
use varve_reactor::port::{self, PortReceiver, PortSender};
use varve_types::{Compression, Dedup, ErrorKind, PoolId, ShardId};

use super::{NbdPlan, NbdSockets, PoolPlan, ServedPool, open};
use crate::backend::PoolFacts;
use crate::config::Thresholds;
use crate::objects::Objects;
use crate::pool_size::PoolSize;
use crate::socket_access::SocketAccess;
use crate::stack::{ShardHealth, ShardMetric, ShardReport, ShardStack, ThreadContext};

/// What the threads of a memory pool share: volumes by name, and what happened in which order.
#[derive(Clone, Default)]
struct Shared {
    volumes: Arc<Mutex<BTreeMap<String, (Volume, MemoryExport)>>>,
    events: Arc<Mutex<Vec<String>>>,
    broken_shard: Option<u16>,
}

/// One thread of a memory pool.
struct MemoryStack {
    shard: u16,
    shared: Shared,
    _peers: Vec<PortSender<u8>>,
    _inbox: PortReceiver<u8>,
}

struct SharedExports(Shared);

impl Exports for SharedExports {
    type Export = <MemoryExports as Exports>::Export;

    async fn list(&self) -> std::result::Result<Vec<String>, ErrorKind> {
        Ok(self.0.volumes.lock().unwrap().keys().cloned().collect())
    }

    async fn open(&self, name: &str) -> std::result::Result<Self::Export, ErrorKind> {
        let volumes = self.0.volumes.lock().unwrap();
        volumes.get(name).map(|(_, export)| export.clone()).ok_or(ErrorKind::NotFound)
    }
}

impl Shared {
    fn note(&self, event: String) {
        self.events.lock().unwrap().push(event);
    }

    fn find<T>(&self, name: &str, then: impl FnOnce(&mut Volume) -> T) -> admin::Result<T> {
        let refusal = || admin::Error::Backend {
            kind: ErrorKind::NotFound,
            message: format!("no volume `{name}`"),
            hint: None,
        };
        let mut volumes = self.volumes.lock().unwrap();
        volumes.get_mut(name).map(|(volume, _)| then(volume)).ok_or_else(refusal)
    }
}

impl ShardStack for MemoryStack {
    type Source = Shared;
    type Door = PortSender<u8>;
    type Inbox = PortReceiver<u8>;
    type Exports = SharedExports;

    fn doors(reactor: &Reactor) -> (Self::Door, Self::Inbox) {
        port::channel(reactor, 8)
    }

    async fn open(seat: ThreadContext<Self>) -> Result<Self> {
        if seat.source.broken_shard == Some(seat.shard.0) {
            return Err(Failure::new(format!("shard {} does not open", seat.shard)));
        }
        assert!(seat.reactor.ring().is_some(), "shards run on the real loop");
        let ThreadContext { shard, source: shared, peers, inbox, .. } = seat;
        assert_eq!(peers.len(), 2, "every thread has ways to both");
        Ok(Self { shard: shard.0, shared, _peers: peers, _inbox: inbox })
    }

    async fn begin(&self, _reactor: &Reactor) -> Result<()> {
        self.shared.note(format!("begin {}", self.shard));
        Ok(())
    }

    fn exports(&self) -> SharedExports {
        SharedExports(self.shared.clone())
    }

    async fn space(&self) -> admin::Result<StoredSpace> {
        Ok(StoredSpace { stored_bytes: 150, metadata_bytes: 50, ..StoredSpace::default() })
    }

    async fn volumes(&self) -> admin::Result<Vec<Volume>> {
        Ok(self.shared.volumes.lock().unwrap().values().map(|(volume, _)| volume.clone()).collect())
    }

    async fn volume(&self, name: &str) -> admin::Result<Volume> {
        assert!(name != "panic", "asked to panic");
        self.shared.find(name, |volume| volume.clone())
    }

    async fn create_volume(&self, spec: CreateVolume) -> admin::Result<Volume> {
        let volume = Volume {
            id: 1,
            name: spec.name.clone(),
            namespace: "default".to_owned(),
            cell: None,
            size_bytes: spec.size_bytes,
            block_size_bytes: 4096,
            created_unix_ms: 0,
            openers: 0,
            dedup: Dedup::Off,
            compression: Compression::Lz4,
            quota_bytes: None,
            reserved_bytes: None,
            outstanding_bytes: None,
            exclusive: false,
            origin: None,
            receiving: None,
            moves: None,
        };
        let entry = (volume.clone(), MemoryExport::new(spec.size_bytes));
        self.shared.volumes.lock().unwrap().insert(spec.name, entry);
        Ok(volume)
    }

    async fn change_volume(&self, name: &str, change: ChangeVolume) -> admin::Result<Volume> {
        self.shared.find(name, |volume| {
            volume.size_bytes = change.size_bytes.unwrap_or(volume.size_bytes);
            volume.dedup = change.dedup.unwrap_or(volume.dedup);
            volume.clone()
        })
    }

    async fn delete_volume(&self, name: &str, _how: DeleteVolume) -> admin::Result<()> {
        self.shared.find(name, |_| ())?;
        self.shared.volumes.lock().unwrap().remove(name);
        Ok(())
    }

    fn report(&self) -> ShardReport {
        ShardReport {
            status: ShardStatus {
                shard: self.shard,
                cell: None,
                state: ShardState::Serving,
                trouble: None,
                undrained_bytes: 0,
                lane_used_bytes: 0,
                lane_size_bytes: 1 << 20,
            },
            memory_used_bytes: 10,
            space_used_bytes: Some(100),
            room: None,
            used_segments: 0,
            journal_tail: 0,
            pool_segments: None,
            drives: Vec::new(),
            metrics: vec![ShardMetric {
                name: "varve_engine_writes_total",
                help: "Writes.",
                kind: MetricKind::Counter,
                value: u64::from(self.shard),
            }],
            health: ShardHealth::default(),
        }
    }

    async fn close(&self) -> Result<()> {
        self.shared.note(format!("close {}", self.shard));
        Ok(())
    }

    async fn give_back(&self) -> Result<()> {
        self.shared.note(format!("give back {}", self.shard));
        Ok(())
    }
}

fn plan(shared: Shared, socket: &Path) -> PoolPlan<MemoryStack> {
    let facts = PoolFacts {
        id: "p".to_owned(),
        created_unix_ms: 0,
        shards: 2,
        segment_size_bytes: 1 << 22,
        size: PoolSize {
            shards: 2,
            segment_bytes: 1 << 22,
            segments: 256,
            shard: ShardConfig::with_memory(PoolId([0; 16]), ShardId(0), 1 << 28),
        },
        drives: Vec::new(),
        redundancy: crate::redundancy::DriveRedundancy::None,
        journal: JournalStatus { place: "drives".to_owned(), durability: "none".to_owned() },
        nodes: None,
        conditions: crate::condition::DriveConditions::default(),
        memory_budget_bytes: 1 << 29,
        thresholds: Thresholds::default(),
    };
    let addresses =
        vec!["127.0.0.1:0".parse().unwrap(), ListenAddress::Unix(socket.join("nbd.sock"))];
    let options = ServiceOptions::default();
    let nbd = NbdPlan {
        options,
        connections: ConnectionLimit::new(2),
        sockets: NbdSockets::Own {
            addresses,
            access: SocketAccess::PRIVATE,
            inherited_instead: false,
        },
    };
    PoolPlan { source: shared, facts, nbd }
}

fn answer<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(future)
}

fn create(backend: &dyn AdminBackend, name: &str) {
    let spec = CreateVolume {
        name: name.to_owned(),
        size_bytes: 1 << 20,
        block_size_bytes: None,
        dedup: None,
        compression: None,
        quota_bytes: None,
        reservation: None,
        exclusive: None,
        beside: None,
    };
    answer(backend.create_volume(spec)).unwrap();
}

/// Whether an NBD server greets on the stream.
fn greets(mut stream: impl Read) -> bool {
    let mut magic = [0; 8];
    stream.read_exact(&mut magic).is_ok() && &magic == b"NBDMAGIC"
}

#[test]
fn an_open_pool_answers_calls_and_greets_clients() {
    let dir = tempfile::tempdir().unwrap();
    let pool: ServedPool<MemoryStack> =
        open(plan(Shared::default(), dir.path()), || Ok(())).unwrap();
    assert_eq!(pool.summary(), "pool p (2 shards, 1 GiB)");
    let admin = "127.0.0.1:9105".parse().unwrap();
    let backend = pool.backend(Objects::Off, vec![admin]);
    create(&*backend, "v");
    let change = ChangeVolume {
        size_bytes: Some(2 << 20),
        dedup: Some(Dedup::On),
        ..ChangeVolume::default()
    };
    let changed = answer(backend.change_volume("v".to_owned(), change)).unwrap();
    assert_eq!((changed.size_bytes, changed.dedup), (2 << 20, Dedup::On));
    assert_eq!(answer(backend.volume("w".to_owned())).unwrap_err().kind(), ErrorKind::NotFound);
    let [ListenAddress::Tcp(tcp), ListenAddress::Unix(path)] = pool.nbd_addresses() else {
        panic!("two listeners: {:?}", pool.nbd_addresses());
    };
    assert!(tcp.port() != 0 && greets(TcpStream::connect(tcp).unwrap()));
    assert!(greets(UnixStream::connect(path).unwrap()));
    let status = answer(backend.status()).unwrap();
    assert_eq!((status.state, status.volumes, status.shards.len()), (ServiceState::Serving, 1, 2));
    assert_eq!((status.memory.used_bytes, status.listeners.len()), (20, 3));
    let admin = &status.listeners[2];
    assert_eq!((admin.protocol.as_str(), admin.address.as_str()), ("admin", "127.0.0.1:9105"));
    let space = answer(backend.pool()).unwrap();
    assert_eq!((space.used_bytes, space.free_bytes), (200, space.capacity_bytes - 200));
    let space = answer(backend.space()).unwrap();
    assert_eq!((space.used_bytes, space.free_bytes), (200, space.capacity_bytes - 200));
    assert_eq!((space.stored_bytes, space.size_bytes), (150, 1 << 30));
    assert!((1..1 << 30).contains(&space.capacity_bytes), "{space:?}");
    let metrics = answer(backend.metrics()).unwrap();
    let writes = metrics.iter().find(|metric| metric.name == "varve_engine_writes_total").unwrap();
    let values: Vec<u64> = writes.samples.iter().map(|sample| sample.value).collect();
    assert_eq!(values, [0, 1]);
    answer(backend.delete_volume("v".to_owned(), DeleteVolume::default())).unwrap();
    assert!(answer(backend.volumes()).unwrap().is_empty());
    drop(backend);
    pool.close().unwrap();
}

#[test]
fn closing_ends_connections_and_shards() {
    let dir = tempfile::tempdir().unwrap();
    let shared = Shared::default();
    let pool: ServedPool<MemoryStack> = open(plan(shared.clone(), dir.path()), || Ok(())).unwrap();
    let mut client = UnixStream::connect(dir.path().join("nbd.sock")).unwrap();
    assert!(greets(&client));
    pool.close().unwrap();
    let mut events = shared.events.lock().unwrap().clone();
    events.chunks_mut(2).for_each(<[String]>::sort);
    let expected = ["begin 0", "begin 1", "close 0", "close 1", "give back 0", "give back 1"];
    assert_eq!(events, expected);
    let _ = client.write_all(&[0; 4]);
    let mut rest = Vec::new();
    assert!(client.read_to_end(&mut rest).is_ok() || !rest.is_empty(), "the connection is closed");
}

#[test]
fn a_shard_that_does_not_open_stops_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let shared = Shared { broken_shard: Some(1), ..Shared::default() };
    let refused = open(plan(shared, dir.path()), || Ok(())).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("shard 1 does not open"), "{refused}");
}

#[test]
fn an_address_in_use_stops_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut plan = plan(Shared::default(), dir.path());
    let addresses = vec![ListenAddress::Tcp(held.local_addr().unwrap())];
    plan.nbd.sockets =
        NbdSockets::Own { addresses, access: SocketAccess::PRIVATE, inherited_instead: false };
    let refused = open(plan, || Ok(())).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("NBD: listen on 127.0.0.1:"), "{refused}");
}

#[test]
fn a_panicking_shard_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut pool: ServedPool<MemoryStack> =
        open(plan(Shared::default(), dir.path()), || Ok(())).unwrap();
    let asked = answer(pool.backend(Objects::Off, Vec::new()).volume("panic".to_owned()));
    assert_eq!(asked.unwrap_err().kind(), ErrorKind::Unavailable);
    let failure = answer(pool.failed()).to_string();
    assert!(failure.contains("the thread of shard 0 panicked"), "{failure}");
}
