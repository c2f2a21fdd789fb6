//! Serves volumes in memory: to try clients, and to measure the server without a disk.
//!
//! `memory_server ADDRESS [SIZE] [THREADS] [memory|null]`, such as `memory_server unix:/tmp/nbd.sock 1GiB 1`; with
//! `LISTEN_FDS` the address is ignored. `null` forgets what is written, which leaves the cost of the protocol. Runs
//! until it is killed.

use varve_access_block::memory::{MemoryExport, MemoryExports};
use varve_access_block::{Export, ExportInfo, Exports, Extent, ExtentKind, ReadPart};
use varve_access_nbd::{
    Address, ConnectionLimit, Listener, Service, ServiceOptions, Shutdown, StdListener,
    deal_connections, limits, serve_connections,
};
use varve_reactor::{Loop, LoopConfig, port};
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::{ByteOffset, ErrorKind, parse_size};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let address: Address = args.next().ok_or("no address")?.parse()?;
    let size = parse_size(&args.next().unwrap_or("1GiB".into()))?;
    let threads: usize = args.next().unwrap_or("1".into()).parse()?;
    match args.next().as_deref() {
        None | Some("memory") => {
            let export = MemoryExport::new(size.0);
            run(address, threads, move || MemoryExports::new().with("memory", export.clone()))
        }
        Some("null") => run(address, threads, move || NullExports { size_bytes: size.0 }),
        Some(other) => Err(format!("unknown kind of export `{other}`").into()),
    }
}

fn run<X: Exports + 'static>(
    address: Address,
    threads: usize,
    exports: impl Fn() -> X + Clone + Send + 'static,
) -> Result<(), Box<dyn std::error::Error>> {
    let (senders, receiving) = std::sync::mpsc::channel();
    for _ in 0..threads {
        let (exports, senders) = (exports.clone(), senders.clone());
        std::thread::spawn(move || {
            let mut event_loop = Loop::new(LoopConfig::default()).expect("a ring");
            let reactor = event_loop.handle();
            let (sender, receiver) = port::channel(&reactor, limits::CONNECTIONS_DEFAULT);
            senders.send(sender).expect("main waits for it");
            let service = Service::new(reactor, exports(), ServiceOptions::default());
            event_loop.run(serve_connections(service, receiver));
        });
    }
    let targets: Vec<_> = receiving.iter().take(threads).collect();
    std::thread::spawn(move || {
        let mut event_loop = Loop::new(LoopConfig::default()).expect("a ring");
        let reactor = event_loop.handle();
        let mut inherited = StdListener::inherited().expect("usable sockets");
        let listener = match inherited.pop() {
            Some(socket) => Listener::from_std(&reactor, socket).expect("a usable socket"),
            None => Listener::bind(&reactor, &address).expect("a free address"),
        };
        println!("listening on {}", listener.address());
        let limit = ConnectionLimit::new(limits::CONNECTIONS_DEFAULT);
        event_loop.run(deal_connections(reactor, listener, limit, targets, Shutdown::new()));
    });
    loop {
        std::thread::park();
    }
}

struct NullExports {
    size_bytes: u64,
}

impl Exports for NullExports {
    type Export = NullExport;

    async fn list(&self) -> Result<Vec<String>, ErrorKind> {
        Ok(vec!["null".to_owned()])
    }

    async fn open(&self, _name: &str) -> Result<NullExport, ErrorKind> {
        Ok(NullExport { size_bytes: self.size_bytes, data: AlignedBuf::zeroed(32 << 20).freeze() })
    }
}

/// Reads as zeros, sent as data; forgets writes.
struct NullExport {
    size_bytes: u64,
    data: BufSlice,
}

impl Export for NullExport {
    type Parts = [ReadPart; 1];

    fn info(&self) -> ExportInfo {
        ExportInfo {
            size_bytes: self.size_bytes,
            block_bytes: 4096,
            read_only: false,
            exclusive: false,
        }
    }

    async fn read(&self, _offset: ByteOffset, len: u32) -> Result<[ReadPart; 1], ErrorKind> {
        let len = usize::try_from(len).map_err(|_| ErrorKind::Invalid)?;
        Ok([ReadPart::Data(self.data.slice(0..len))])
    }

    async fn write(&self, _offset: ByteOffset, _data: BufSlice) -> Result<(), ErrorKind> {
        Ok(())
    }

    async fn trim(&self, _offset: ByteOffset, _len: u64) -> Result<(), ErrorKind> {
        Ok(())
    }

    async fn write_zeroes(
        &self,
        _offset: ByteOffset,
        _len: u64,
        _keep: bool,
    ) -> Result<(), ErrorKind> {
        Ok(())
    }

    async fn flush(&self) -> Result<(), ErrorKind> {
        Ok(())
    }

    async fn block_status(
        &self,
        _offset: ByteOffset,
        len: u64,
        _max: usize,
    ) -> Result<Vec<Extent>, ErrorKind> {
        Ok(vec![Extent { len, kind: ExtentKind::Data }])
    }
}
