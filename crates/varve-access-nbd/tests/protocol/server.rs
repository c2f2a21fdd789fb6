//! A real server for real clients: listens on a unix socket in a directory of its own and on a free TCP port, serves
//! from its own threads, and tells what each connection used.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;

use tempfile::TempDir;
use varve_access_block::memory::{MemoryExport, MemoryExports};
use varve_access_nbd::{
    Address, ClientUsage, ConnectionLimit, Listener, Service, ServiceOptions, Shutdown,
    WorkHandoff, deal_connections,
};
use varve_reactor::net::Socket;
use varve_reactor::port::{self, PortSender};
use varve_reactor::{Loop, LoopConfig, Reactor};

/// Runs until dropped.
pub(crate) struct Server {
    pub(crate) dir: TempDir,
    pub(crate) export: MemoryExport,
    pub(crate) port: u16,
    closed: mpsc::Receiver<ClientUsage>,
    stop: Vec<PortSender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Serves `disk`, an empty export of `size_bytes`, from `threads` threads.
    pub(crate) fn start(size_bytes: u64, threads: usize, options: &ServiceOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let export = MemoryExport::new(size_bytes);
        let (usage_to, closed) = mpsc::channel();
        let (mut stop, mut ports, mut joins) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..threads {
            let (ready_to, ready) = mpsc::channel();
            let (export, options, usage_to) = (export.clone(), options.clone(), usage_to.clone());
            joins.push(std::thread::spawn(move || {
                let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
                let reactor = event_loop.handle();
                let (stop_to, stop) = port::channel(&reactor, 1);
                let (dealt_to, dealt) = port::channel::<WorkHandoff>(&reactor, 64);
                ready_to.send((stop_to, dealt_to)).unwrap();
                let exports = MemoryExports::new().with("disk", export);
                let service = Service::new(reactor.clone(), exports, options);
                event_loop.run(serve(reactor, service, dealt, stop, usage_to));
            }));
            let (stop_to, dealt_to) = ready.recv().unwrap();
            stop.push(stop_to);
            ports.push(dealt_to);
        }
        let (ready_to, ready) = mpsc::channel();
        let socket = Address::Unix(dir.path().join("nbd.sock"));
        joins.push(std::thread::spawn(move || {
            let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
            let reactor = event_loop.handle();
            let (stop_to, mut stop) = port::channel(&reactor, 1);
            let unix = Listener::bind(&reactor, &socket).unwrap();
            let tcp = Listener::bind(&reactor, &"127.0.0.1:0".parse().unwrap()).unwrap();
            let Address::Tcp(tcp_address) = tcp.address().clone() else { panic!("bound to TCP") };
            ready_to.send((stop_to, tcp_address.port())).unwrap();
            let (limit, shutdown) = (ConnectionLimit::new(64), Shutdown::new());
            for listener in [unix, tcp] {
                let (limit, ports) = (limit.clone(), ports.clone());
                let (reactor, shutdown) = (reactor.clone(), shutdown.clone());
                let dealing = deal_connections(reactor.clone(), listener, limit, ports, shutdown);
                reactor.spawn(dealing);
            }
            event_loop.run(async move {
                stop.recv_batch(&mut Vec::<()>::new()).await;
                shutdown.begin();
            });
        }));
        let (stop_to, port) = ready.recv().unwrap();
        stop.push(stop_to);
        Self { dir, export, port, closed, stop, threads: joins }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("nbd.sock")
    }

    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///disk?socket={}", self.socket().display())
    }

    /// What the next connection to close had used.
    pub(crate) fn next_usage(&self) -> ClientUsage {
        self.closed.recv().unwrap()
    }

    /// Everything that the connections closed so far used, at least one.
    pub(crate) fn usages(&self) -> Vec<ClientUsage> {
        std::iter::once(self.next_usage()).chain(self.closed.try_iter()).collect()
    }
}

async fn serve(
    reactor: Reactor,
    service: Service<MemoryExports>,
    mut dealt: port::PortReceiver<WorkHandoff>,
    mut stop: port::PortReceiver<()>,
    usage_to: mpsc::Sender<ClientUsage>,
) {
    let serving = service.clone();
    let spawner = reactor.clone();
    reactor.spawn(async move {
        let mut batch = Vec::new();
        while dealt.recv_batch(&mut batch).await > 0 {
            for accepted in batch.drain(..) {
                let (service, usage_to) = (serving.clone(), usage_to.clone());
                let (fd, permit) = accepted.into_parts().expect("it comes from a listener");
                let socket = Socket::from_fd(&spawner, fd).unwrap();
                spawner.spawn(async move {
                    let closed = service.serve(socket).await;
                    drop(permit);
                    // The test may be over.
                    let _ = usage_to.send(closed.usage);
                });
            }
        }
    });
    stop.recv_batch(&mut Vec::new()).await;
    service.shutdown().begin();
    service.drained().await;
}

impl Drop for Server {
    fn drop(&mut self) {
        for stop in &self.stop {
            let _ = stop.send(());
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The program's command, or `None` and a line that says so when it is not installed.
pub(crate) fn client(program: &str) -> Option<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let extra = [PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")];
    let found =
        std::env::split_paths(&path).chain(extra).map(|dir| dir.join(program)).find(|p| p.exists());
    if found.is_none() {
        println!("SKIPPED: `{program}` is not installed");
    }
    let mut command = Command::new(found?);
    // The system's Python has libnbd's module; another one that comes first may not.
    let system_first = [PathBuf::from("/usr/bin")].into_iter().chain(std::env::split_paths(&path));
    command.stdin(Stdio::null()).env("PATH", std::env::join_paths(system_first).unwrap());
    Some(command)
}

/// Runs a client to its end and returns what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?} failed: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}
