//! A server that shuts down answers what is under way, leaves the rest unanswered, so that clients repeat it, and
//! closes. Method: clients in various states in the simulated loop.

use varve_access_nbd::{ConnectionEnd, Service, ServiceOptions, limits};
use varve_reactor::SimLoop;

use crate::support::{FIXED_NEWSTYLE, ROOMY, SlowExport, connect, header};

const MS: u64 = 1_000_000;

fn slow_service(sim: &SimLoop) -> (Service<SlowExport>, SlowExport) {
    let export = SlowExport::new(&sim.handle(), 16 << 30);
    (Service::new(sim.handle(), export.clone(), ServiceOptions::default()), export)
}

#[test]
fn outstanding_requests_finish_and_new_ones_are_not_answered() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    let (service, _export) = slow_service(&sim);
    let (client, ended) = connect(&reactor, &service, ROOMY);
    let ended = sim.run_until(async move {
        client.attach(false).await;
        client.write(1, 500 << 20, b"x").await;
        client.send(&header(1, 0, 3, 0, 1 << 20)).await; // Its payload is under way.
        client.send(&[7; 1000]).await;
        reactor.sleep(10 * MS).await;
        service.shutdown().begin();
        reactor.sleep(10 * MS).await;
        client.write(2, 0, b"x").await;
        assert_eq!(client.simple().await, (0, 1), "half a second later");
        assert!(client.is_closed().await);
        service.drained().await;
        ended.await
    });
    assert_eq!(ended, ConnectionEnd::Shutdown);
}

#[test]
fn idle_clients_and_handshakes_are_closed_soon() {
    let mut sim = SimLoop::new(2);
    let reactor = sim.handle();
    let (service, _export) = slow_service(&sim);
    let (idle, _ended) = connect(&reactor, &service, ROOMY);
    let (shaking, _ended_too) = connect(&reactor, &service, ROOMY);
    sim.run_until(async move {
        idle.attach(true).await;
        shaking.greet(FIXED_NEWSTYLE).await;
        let begun = reactor.now();
        service.shutdown().begin();
        assert!(shaking.is_closed().await);
        assert!(idle.is_closed().await);
        service.drained().await;
        assert!(reactor.now() - begun < MS);
    });
}

#[test]
fn a_request_that_never_ends_does_not_hold_up_the_shutdown() {
    let mut sim = SimLoop::new(3);
    let reactor = sim.handle();
    let (service, _export) = slow_service(&sim);
    let (client, _ended) = connect(&reactor, &service, ROOMY);
    sim.run_until(async move {
        client.attach(false).await;
        client.write(1, 15 << 30, b"x").await;
        reactor.sleep(10 * MS).await;
        let begun = reactor.now();
        service.shutdown().begin();
        service.drained().await;
        let took = (reactor.now() - begun) / MS;
        assert!((limits::DRAIN_TIMEOUT_MS - 1..limits::DRAIN_TIMEOUT_MS + 10).contains(&took));
    });
}

#[test]
fn a_client_that_is_told_to_leave_gets_its_answers_and_others_stay() {
    let mut sim = SimLoop::new(4);
    let reactor = sim.handle();
    let (service, _export) = slow_service(&sim);
    let (leaving, ended) = connect(&reactor, &service, ROOMY);
    let (staying, _staying_ended) = connect(&reactor, &service, ROOMY);
    let ended = sim.run_until(async move {
        leaving.attach(false).await;
        staying.attach(false).await;
        leaving.write(1, 500 << 20, b"x").await;
        reactor.sleep(10 * MS).await;
        let clients = service.clients();
        let seen: Vec<_> =
            clients.iter().map(|client| (client.export.as_deref(), client.requests)).collect();
        assert_eq!(seen, [(Some("disk"), 1), (Some("disk"), 0)]);
        assert_eq!(clients[0].connected_ms, 10);
        service.disconnect(&[clients[0].id]);
        assert_eq!(leaving.simple().await, (0, 1), "half a second later");
        assert!(leaving.is_closed().await);
        staying.write(2, 0, b"x").await;
        assert_eq!(staying.simple().await, (0, 2));
        let left: Vec<u64> = service.clients().iter().map(|client| client.id).collect();
        assert_eq!(left, [clients[1].id]);
        ended.await
    });
    assert_eq!(ended, ConnectionEnd::ToldToLeave);
}
