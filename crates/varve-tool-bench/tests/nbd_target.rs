//! Goal: a load on an NBD export does to it what it does to a disk, and a server's refusals and end are told. Method:
//! the server of this project over exports in memory, on a unix socket.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread;

use varve_access_block::memory::{MemoryExport, MemoryExports};
use varve_access_nbd::{
    Address, ConnectionLimit, Listener, Service, ServiceOptions, Shutdown, deal_connections,
    limits, serve_connections,
};
use varve_media::{Disk, Persist};
use varve_reactor::{Loop, LoopConfig, Reactor, port};
use varve_stdx::BufSlice;
use varve_tool_bench::{Error, Job, JobPart, JobPhase, JobWatch, LoadSpec, Target};

const SIZE_BYTES: u64 = 8 << 20;

/// Serves `export` as `v` until the process ends.
fn serve(socket: &Path, export: MemoryExport) {
    let address: Address = format!("unix:{}", socket.display()).parse().unwrap();
    let (listening, listens) = mpsc::channel();
    thread::spawn(move || {
        let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
        let reactor = event_loop.handle();
        let (sender, receiver) = port::channel(&reactor, limits::CONNECTIONS_DEFAULT);
        let exports = MemoryExports::new().with("v", export);
        let service = Service::new(reactor.clone(), exports, ServiceOptions::default());
        let listener = Listener::bind(&reactor, &address).unwrap();
        let limit = ConnectionLimit::new(limits::CONNECTIONS_DEFAULT);
        let dealt =
            deal_connections(reactor.clone(), listener, limit, vec![sender], Shutdown::new());
        reactor.spawn(async move {
            let _ends_with_the_process = dealt.await;
        });
        listening.send(()).unwrap();
        event_loop.run(serve_connections(service, receiver));
    });
    listens.recv().unwrap();
}

fn target(socket: &Path, export: &str) -> Target {
    format!("nbd+unix:///{export}?socket={}", socket.display()).parse().unwrap()
}

fn on_a_loop<T: 'static, F: Future<Output = T> + 'static>(main: impl FnOnce(Reactor) -> F) -> T {
    let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
    let main = main(event_loop.handle());
    event_loop.run(main)
}

#[test]
fn a_verified_load_finds_what_it_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nbd.sock");
    serve(&socket, MemoryExport::new(SIZE_BYTES));
    let target = target(&socket, "v");
    for block_bytes in [4096, 512 << 10] {
        let target = target.clone();
        let depth = if block_bytes == 4096 { 32 } else { 4 };
        let spec = LoadSpec {
            block_bytes,
            depth,
            verify: true,
            durable: true,
            read_percent: 50,
            ..LoadSpec::default()
        };
        let load = on_a_loop(|reactor| async move {
            let disk = target.open(&reactor).unwrap();
            assert_eq!(disk.size(), SIZE_BYTES);
            let part = JobPart { job: 0, begin_bytes: 0, size_bytes: SIZE_BYTES };
            let job = Job::new(&reactor, disk, &spec, part, Arc::<JobWatch>::default()).unwrap();
            job.run(JobPhase::Fill).await.unwrap();
            let load = JobPhase::Load { ramp_ns: 0, duration_ns: 300_000_000 };
            let load = job.run(load).await.unwrap();
            job.run(JobPhase::ReadBack).await.unwrap();
            load
        });
        assert!(load.reads.operations > 10 && load.writes.operations > 10, "{block_bytes}");
    }
}

#[test]
fn an_export_that_is_not_there_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nbd.sock");
    let nobody = target(&socket, "v");
    on_a_loop(|reactor| async move {
        assert!(matches!(nobody.open(&reactor), Err(Error::Handshake { .. })));
    });
    serve(&socket, MemoryExport::new(SIZE_BYTES));
    let other = target(&socket, "w");
    on_a_loop(|reactor| async move {
        let error = other.open(&reactor).err().unwrap().to_string();
        assert!(error.ends_with("it has no such export"), "{error}");
    });
}

#[test]
fn a_refused_request_is_an_error_and_the_next_one_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nbd.sock");
    let export = MemoryExport::new(SIZE_BYTES);
    export.set_read_only(true);
    serve(&socket, export);
    let target = target(&socket, "v");
    on_a_loop(|reactor| async move {
        let disk: Rc<dyn Disk> = target.open(&reactor).unwrap();
        let bytes = BufSlice::copy_from(&[1; 4096]);
        let error = disk.write(0, bytes, Persist::Durable).await.unwrap_err().to_string();
        assert!(error.contains("write of 4096 bytes at 0"), "{error}");
        assert!(disk.read(0, 4096).await.unwrap().iter().all(|byte| *byte == 0));
    });
}

#[test]
fn a_server_that_goes_away_ends_every_request() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nbd.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"NBDMAGICIHAVEOPT\x00\x03").unwrap();
        stream.read_exact(&mut [0; 4 + 16 + 7]).unwrap();
        let reply = |kind: u32, data: &[u8]| {
            let len = u32::try_from(data.len()).unwrap();
            let numbers = [7, kind, len].map(u32::to_be_bytes).concat();
            [&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &numbers, data].concat()
        };
        let export = [&[0, 0][..], &SIZE_BYTES.to_be_bytes(), &[0, 1]].concat();
        stream.write_all(&[reply(3, &export), reply(1, &[])].concat()).unwrap();
        stream.read_exact(&mut [0; 2 * 28]).unwrap();
        // An answer to nothing is the last thing that it says.
        stream.write_all(&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 99]).unwrap();
    });
    let target = target(&socket, "v");
    on_a_loop(|reactor| async move {
        let disk = target.open(&reactor).unwrap();
        let (first, second) = (disk.read(0, 4096), disk.read(4096, 4096));
        for read in [first, second] {
            let error = read.await.unwrap_err().to_string();
            assert!(error.ends_with("the server answered what was not asked"), "{error}");
        }
        assert!(disk.read(0, 4096).await.is_err());
    });
}
