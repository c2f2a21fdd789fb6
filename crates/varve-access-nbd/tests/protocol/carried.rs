//! Goal: who carries a connection can tell when everything that a client had sent has happened, and whoever opens an
//! export for writing passes the gate first. Method: an export whose requests take as many ms as their offset has MiB,
//! in the simulated loop.

use std::sync::{Arc, Mutex};

use varve_access_block::memory::{MemoryExport, MemoryExports};
use varve_access_block::{ExportInfo, Exports, OpenBarrier, PendingOpen};
use varve_access_nbd::{
    AgreedTerms, ClientUsage, ConnectionEnd, KnownExport, NegotiatedExport, OpenRequest,
    RelayProgress, Service, ServiceOptions, Since, pipe,
};
use varve_reactor::{JoinHandle, Reactor, SimLoop};
use varve_types::ErrorKind;

use crate::support::{Client, FIXED_NEWSTYLE, NO_ZEROES, ROOMY, SlowExport, header};

const MS: u64 = 1_000_000;

fn connect<X: Exports + 'static>(
    reactor: &Reactor,
    service: &Service<X>,
    number: u64,
) -> (Client, Arc<RelayProgress>, JoinHandle<ConnectionEnd>) {
    let ((near, far), carried) = (pipe(ROOMY), Arc::new(RelayProgress::new(number)));
    let (service, of_task) = (service.clone(), Arc::clone(&carried));
    let ended =
        reactor.spawn_join(async move { service.serve_carried(far, Some(of_task)).await.cause });
    (Client::new(near), carried, ended)
}

fn write_bytes(cookie: u64, ms: u64) -> Vec<u8> {
    [&header(1, 0, cookie, ms << 20, 1)[..], b"x"].concat()
}

#[test]
fn a_connection_has_settled_once_what_was_sent_has_happened() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    let export = SlowExport::new(&reactor, 64 << 20);
    let service = Service::new(reactor.clone(), export.clone(), ServiceOptions::default());
    let (client, carried, ended) = connect(&reactor, &service, 1);
    sim.run_until(async move {
        client.attach(false).await;
        assert!(carried.writes_to("disk") && !carried.writes_to("other"));
        reactor.sleep(MS).await;
        let before = (4 + 16 + 6) as u64; // Flags, and the option with its data.
        assert!(carried.has_settled(before) && !carried.has_settled(before + 1));
        let bytes = before + 2 * 29;
        client.send(&[write_bytes(1, 30), write_bytes(2, 3)].concat()).await;
        assert_eq!(client.simple().await, (0, 2));
        assert!(!carried.has_settled(bytes), "the slow one is under way");
        assert_eq!(client.simple().await, (0, 1));
        reactor.sleep(MS).await;
        assert!(carried.has_settled(bytes));
        client.send(&write_bytes(3, 3)[..20]).await;
        reactor.sleep(MS).await;
        assert!(carried.has_settled(bytes + 20), "a part of a request is none");
        drop(client);
        assert!(matches!(ended.await, ConnectionEnd::PeerClosed | ConnectionEnd::Io(_)));
        assert!(carried.is_over() && carried.has_settled(u64::MAX));
    });
}

#[test]
fn a_connection_that_is_held_settles_however_much_its_client_sends() {
    for is_held in [false, true] {
        let mut sim = SimLoop::new(2);
        let reactor = sim.handle();
        let export = SlowExport::new(&reactor, 64 << 20);
        let service = Service::new(reactor.clone(), export.clone(), ServiceOptions::default());
        let (client, carried, _ended) = connect(&reactor, &service, 1);
        sim.run_until(async move {
            client.attach(false).await;
            for cookie in 0..4 {
                client.send(&write_bytes(cookie, 10)).await;
                reactor.sleep(3 * MS).await;
            }
            let bytes = 26 + 4 * 29;
            let _hold = is_held.then(|| carried.hold());
            let mut settled = false;
            for cookie in 4..50 {
                client.send(&write_bytes(cookie, 10)).await; // There is always one under way.
                reactor.sleep(3 * MS).await;
                settled |= carried.has_settled(bytes);
            }
            assert_eq!(settled, is_held);
        });
    }
}

/// Lets nobody pass until it is told.
#[derive(Default)]
struct Shut(Mutex<Vec<PendingOpen>>);

impl std::fmt::Debug for Shut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shut")
    }
}

impl OpenBarrier for Shut {
    fn pass(&self, opening: PendingOpen) {
        self.0.lock().expect("nobody panics with it").push(opening);
    }
}

#[test]
fn who_opens_for_writing_passes_the_gate_and_who_only_reads_does_not() {
    let mut sim = SimLoop::new(3);
    let reactor = sim.handle();
    let (shut, disk) = (Arc::new(Shut::default()), MemoryExport::new(1 << 20));
    let exports = MemoryExports::new().with("disk", disk.clone());
    let gate = Some(Arc::clone(&shut) as Arc<dyn OpenBarrier>);
    let options = ServiceOptions { gate, ..ServiceOptions::default() };
    let service = Service::new(reactor.clone(), exports, options);
    let (client, carried, _ended) = connect(&reactor, &service, 7);
    let (refused, other, _refused_ended) = connect(&reactor, &service, 8);
    let (reader, reads, _reader_ended) = connect(&reactor, &service, 9);
    sim.run_until(async move {
        let attaching = reactor.spawn_join(async move { client.attach(false).await });
        reactor.sleep(100 * MS).await;
        let opening = shut.0.lock().unwrap().pop().expect("it asks");
        assert_eq!((opening.export.as_str(), opening.by), ("disk", Some(7)));
        assert!(!carried.writes_to("disk"));
        opening.passes.send(()).unwrap();
        assert_eq!(attaching.await, 1 << 20);
        assert!(carried.writes_to("disk"));
        let asking = reactor.spawn_join(async move {
            refused.greet(FIXED_NEWSTYLE | NO_ZEROES).await;
            refused.option(7, &[0; 6]).await;
            refused.try_take(1).await
        });
        reactor.sleep(100 * MS).await;
        drop(shut.0.lock().unwrap().pop().expect("it asks"));
        assert_eq!(asking.await, None, "it is let go of");
        assert!(!other.writes_to("disk"));
        disk.set_read_only(true);
        assert_eq!(reader.attach(false).await, 1 << 20);
        assert!(shut.0.lock().unwrap().is_empty() && !reads.writes_to("disk"));
    });
}

/// What a client is told at the end of its handshake by whoever agreed with it.
const WORDS: &[u8] = b"it is open";

fn agreed(size_bytes: u64, since: &[&str]) -> AgreedTerms {
    let info = ExportInfo { size_bytes, block_bytes: 4096, read_only: false, exclusive: false };
    let since = since.iter().map(|name| (*name).to_owned()).collect();
    AgreedTerms {
        export: KnownExport { name: "disk".to_owned(), info, since, holder: None },
        negotiated: NegotiatedExport::default(),
        usage: ClientUsage::default(),
        words: WORDS.to_vec(),
        early: write_bytes(1, 3)[..20].to_vec(),
        session: None,
    }
}

#[test]
fn who_was_agreed_with_elsewhere_is_told_behind_the_gate_and_goes_on_in_the_midst_of_a_request() {
    let mut sim = SimLoop::new(4);
    let reactor = sim.handle();
    let shut = Arc::new(Shut::default());
    let options = ServiceOptions {
        gate: Some(Arc::clone(&shut) as Arc<dyn OpenBarrier>),
        ..ServiceOptions::default()
    };
    let service = Service::new(reactor.clone(), SlowExport::new(&reactor, 64 << 20), options);
    let ((near, far), carried) = (pipe(ROOMY), Arc::new(RelayProgress::new(5)));
    let (of_task, client) = (Arc::clone(&carried), Client::new(near));
    let serving = service.clone();
    let ended = reactor.spawn_join(async move {
        serving.serve_agreed(far, agreed(1 << 20, &[]), Some(of_task)).await.cause
    });
    sim.run_until(async move {
        client.send(&write_bytes(1, 3)[20..]).await;
        reactor.sleep(100 * MS).await;
        let opening = shut.0.lock().unwrap().pop().expect("it asks");
        assert_eq!((opening.export.as_str(), opening.by), ("disk", Some(5)));
        assert!(!carried.writes_to("disk") && carried.has_settled(0) && !carried.has_settled(1));
        opening.passes.send(()).unwrap();
        assert_eq!(client.take(WORDS.len()).await, WORDS);
        assert!(carried.writes_to("disk"));
        assert_eq!(client.simple().await, (0, 1));
        reactor.sleep(MS).await;
        assert!(
            carried.has_settled(9),
            "what was early is not counted: its carrier did not send it"
        );
        drop(client);
        assert!(matches!(ended.await, ConnectionEnd::PeerClosed | ConnectionEnd::Io(_)));
        assert!(carried.is_over());
    });
}

#[test]
fn an_export_that_changed_since_it_was_found_is_not_served() {
    let mut sim = SimLoop::new(5);
    let reactor = sim.handle();
    let disk = MemoryExport::new(1 << 20);
    let exports = MemoryExports::new().with("disk", disk.clone());
    let service = Service::new(reactor.clone(), exports, ServiceOptions::default());
    sim.run_until(async move {
        let request = |name: &str| OpenRequest { name: name.to_owned(), since: Since::Listed };
        assert_eq!(service.list().await, Ok(vec!["disk".to_owned()]));
        assert_eq!(service.look(&request("other")).await.map(|_| ()), Err(ErrorKind::NotFound));
        let found = service.look(&request("")).await.unwrap();
        assert_eq!((found.name.as_str(), found.info.size_bytes), ("disk", 1 << 20));
        disk.set_read_only(true);
        let gone = KnownExport { name: "gone".to_owned(), ..found.clone() };
        for export in [found, gone] {
            let (near, far) = pipe(ROOMY);
            let agreed = AgreedTerms { export, ..agreed(0, &[]) };
            let serving = service.clone();
            let ended = reactor
                .spawn_join(async move { serving.serve_agreed(far, agreed, None).await.cause });
            assert!(Client::new(near).is_closed().await, "it is told nothing");
            assert_eq!(ended.await, ConnectionEnd::Changed);
        }
        let (_near, far) = pipe(ROOMY);
        let other = agreed(1 << 20, &["monday"]);
        assert_eq!(service.serve_agreed(far, other, None).await.cause, ConnectionEnd::Changed);
    });
}
