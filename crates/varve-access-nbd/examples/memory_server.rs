//! Serves volumes in memory: to try clients, and to measure the server without a disk.
//!
//! `memory_server ADDRESS [SIZE] [THREADS]`, such as `memory_server unix:/tmp/nbd.sock 1GiB 1`; with `LISTEN_FDS` the
//! address is ignored. Ends on end of input.

use std::io::Read;

use varve_access_nbd::memory::{MemoryExport, MemoryExports};
use varve_access_nbd::{
    Address, ConnectionLimit, Listener, Service, ServiceOptions, Shutdown, deal_connections,
    limits, serve_connections,
};
use varve_reactor::{Loop, LoopConfig, port};
use varve_types::parse_size;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let address: Address = args.next().ok_or("no address")?.parse()?;
    let size = parse_size(&args.next().unwrap_or("1GiB".into()))?;
    let threads: usize = args.next().unwrap_or("1".into()).parse()?;
    let export = MemoryExport::new(size.0);

    let (senders, receiving) = std::sync::mpsc::channel();
    for _ in 0..threads {
        let (export, senders) = (export.clone(), senders.clone());
        std::thread::spawn(move || {
            let mut event_loop = Loop::new(LoopConfig::default()).expect("a ring");
            let reactor = event_loop.handle();
            let (sender, receiver) = port::channel(&reactor, limits::CONNECTIONS_DEFAULT);
            senders.send(sender).expect("main waits for it");
            let exports = MemoryExports::new().with("memory", export);
            let service = Service::new(reactor, exports, ServiceOptions::default());
            event_loop.run(serve_connections(service, receiver));
        });
    }
    let targets: Vec<_> = receiving.iter().take(threads).collect();
    std::thread::spawn(move || {
        let mut event_loop = Loop::new(LoopConfig::default()).expect("a ring");
        let reactor = event_loop.handle();
        let mut inherited = Listener::inherited(&reactor).expect("usable sockets");
        let listener = match inherited.pop() {
            Some(listener) => listener,
            None => Listener::bind(&reactor, &address).expect("a free address"),
        };
        println!("listening on {}", listener.address());
        let limit = ConnectionLimit::new(limits::CONNECTIONS_DEFAULT);
        event_loop.run(deal_connections(reactor, listener, limit, targets, Shutdown::new()));
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
