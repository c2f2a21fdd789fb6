//! Requests of one connection run side by side, and what clients are promised about their order holds. Method: an
//! export whose requests take as many ms as their offset has MiB, in the simulated loop.

use varve_access_block::memory::MemoryExport;
use varve_access_nbd::{ConnectionEnd, Service, ServiceOptions};
use varve_reactor::SimLoop;

use crate::support::{ROOMY, SlowExport, connect, memory_service};

const MS: u64 = 1_000_000;

#[test]
fn fast_requests_overtake_slow_ones() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    let export = SlowExport::new(&reactor, 64 << 20);
    let service = Service::new(reactor.clone(), export, ServiceOptions::default());
    let (client, _ended) = connect(&reactor, &service, ROOMY);
    sim.run_until(async move {
        client.attach(false).await;
        let start = reactor.now();
        for delay in [30, 10, 20, 0] {
            client.write(delay, delay << 20, b"x").await;
        }
        for delay in [0, 10, 20, 30] {
            assert_eq!(client.simple().await, (0, delay));
        }
        assert!((reactor.now() - start) < 31 * MS, "they wait at the same time");
    });
}

#[test]
fn a_disconnect_waits_for_what_was_asked_before() {
    let mut sim = SimLoop::new(2);
    let reactor = sim.handle();
    let export = SlowExport::new(&reactor, 64 << 20);
    let service = Service::new(reactor.clone(), export, ServiceOptions::default());
    let (client, ended) = connect(&reactor, &service, ROOMY);
    let ended = sim.run_until(async move {
        client.attach(false).await;
        client.write(1, 30 << 20, b"x").await;
        client.request(2, 0, 2, 0, 0).await;
        assert_eq!(client.simple().await, (0, 1));
        assert!(client.is_closed().await);
        ended.await
    });
    assert_eq!(ended, ConnectionEnd::Disconnected);
}

#[test]
fn a_client_that_vanishes_has_its_writes_finished() {
    let mut sim = SimLoop::new(3);
    let reactor = sim.handle();
    let export = SlowExport::new(&reactor, 64 << 20);
    let service = Service::new(reactor.clone(), export.clone(), ServiceOptions::default());
    let (client, ended) = connect(&reactor, &service, ROOMY);
    let ended = sim.run_until(async move {
        client.attach(false).await;
        client.write(1, 30 << 20, b"x").await;
        while export.under_way.get() == 0 {
            reactor.sleep(MS / 10).await;
        }
        drop(client);
        let ended = ended.await;
        assert_eq!(export.under_way.get(), 0);
        ended
    });
    assert!(matches!(ended, ConnectionEnd::PeerClosed | ConnectionEnd::Io(_)), "{ended}");
}

#[test]
fn a_resize_shows_at_the_next_request() {
    let mut sim = SimLoop::new(4);
    let reactor = sim.handle();
    let export = MemoryExport::new(1 << 20);
    let service = memory_service(&reactor, &export);
    let (client, _ended) = connect(&reactor, &service, ROOMY);
    sim.run_until(async move {
        assert_eq!(client.attach(false).await, 1 << 20);
        client.write(1, 1 << 20, b"x").await;
        assert_eq!(client.simple().await, (28, 1));
        export.resize(2 << 20);
        client.write(2, 1 << 20, b"x").await;
        assert_eq!(client.simple().await, (0, 2));
        export.resize(1 << 20);
        client.request(0, 0, 3, 1 << 20, 1).await;
        assert_eq!(client.simple().await, (22, 3));
    });
}

#[test]
fn connections_see_each_others_writes() {
    let mut sim = SimLoop::new(5);
    let reactor = sim.handle();
    let service = memory_service(&reactor, &MemoryExport::new(1 << 20));
    let (one, _ended) = connect(&reactor, &service, ROOMY);
    let (two, _ended_too) = connect(&reactor, &service, ROOMY);
    sim.run_until(async move {
        one.attach(false).await;
        two.attach(true).await;
        one.write(1, 100, b"shared").await;
        assert_eq!(one.simple().await, (0, 1));
        two.request(0, 4, 2, 100, 6).await;
        assert_eq!(&two.chunk().await.payload[8..], b"shared");
    });
}
