//! What a client can make the server hold is bounded, and one client does not hold up another for ever. Method: greedy
//! and silent clients in the simulated loop, whose clock makes timeouts cheap.

use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use varve_access_block::Export;
use varve_access_block::memory::{MemoryExport, MemoryExports};
use varve_access_nbd::{ConnectionEnd, PipeOptions, Service, ServiceOptions, limits};
use varve_reactor::SimLoop;
use varve_stdx::AlignedBuf;
use varve_types::ByteOffset;

use crate::support::{Client, ROOMY, SlowExport, connect, header, memory_service};

const MIB: u32 = 1 << 20;

#[test]
fn no_more_than_the_allowed_requests_are_under_way() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    let export = SlowExport::new(&reactor, 64 << 20);
    let service = Service::new(reactor.clone(), export.clone(), ServiceOptions::default());
    let (client, _ended) = connect(&reactor, &service, ROOMY);
    sim.run_until(async move {
        client.attach(false).await;
        for cookie in 0..1000 {
            client.request(0, 0, cookie, 5 << 20, 1).await;
        }
        for _ in 0..1000 {
            assert_eq!(client.simple().await.0, 0);
            client.take(1).await;
        }
    });
    assert_eq!(export.under_way_max.get(), limits::REQUESTS_MAX);
}

#[test]
fn replies_that_nobody_reads_hold_up_requests() {
    let mut sim = SimLoop::new(2);
    let reactor = sim.handle();
    let export = SlowExport::new(&reactor, 64 << 20);
    let service = Service::new(reactor.clone(), export.clone(), ServiceOptions::default());
    let options = PipeOptions { capacity: 60_000, receive_max: 1 << 20 };
    let (client, _ended) = connect(&reactor, &service, options);
    let (client, sleeper) = (Rc::new(client), reactor.clone());
    let writer = Rc::clone(&client);
    reactor.spawn(async move {
        writer.attach(false).await;
        for cookie in 0..500 {
            writer.request(0, 0, cookie, 1 << 20, MIB).await;
        }
    });
    sim.run_until(async move {
        sleeper.sleep(5_000_000_000).await;
        // Half of the budget is unread replies, and none is read meanwhile.
        let most = limits::THREAD_BYTES_DEFAULT >> 21;
        assert!(export.under_way_max.get() <= most, "{}", export.under_way_max.get());
        for _ in 0..500 {
            assert_eq!(client.simple().await.0, 0);
            client.take(MIB as usize).await;
        }
    });
}

#[test]
fn connections_share_a_budget_and_a_stalled_one_is_cut() {
    let mut sim = SimLoop::new(3);
    let reactor = sim.handle();
    let export = MemoryExport::new(256 << 20);
    let options = ServiceOptions { request_bytes_max: 32 << 20, ..ServiceOptions::default() };
    let exports = MemoryExports::new().with("disk", export);
    let service = Service::new(reactor.clone(), exports, options);
    let (greedy, greedy_ended) = connect(&reactor, &service, ROOMY);
    let (modest, _ended) = connect(&reactor, &service, ROOMY);
    let clock = reactor.clone();
    let ended = sim.run_until(async move {
        greedy.attach(true).await;
        modest.attach(true).await;
        // Announces 32 MiB, sends a little of it, and falls silent.
        greedy.send(&header(1, 0, 1, 0, 32 << 20)).await;
        greedy.send(&[1; 1000]).await;
        clock.sleep(60_000_000_000).await;
        // As long as nobody else needs the memory, that is its right.
        assert_eq!(greedy.try_send(&[1; 1000]).await.map_err(|e| e.kind()), Ok(()));
        let asked = clock.now();
        modest.write(2, 0, &[2; MIB as usize]).await;
        assert_eq!(modest.chunk().await.cookie, 2);
        let waited_s = (clock.now() - asked) / 1_000_000_000;
        assert!((2..=5).contains(&waited_s), "{waited_s}");
        assert!(greedy.is_closed().await);
        greedy_ended.await
    });
    assert_eq!(ended, ConnectionEnd::Stalled);
}

/// What a client does before it falls silent.
#[derive(Clone, Copy, Debug)]
enum Stall {
    /// Asks for so many reads of so many bytes and takes no reply.
    Reads(u64, u32),
    /// Sends a part of a large write.
    MidPayload,
    /// Stops within the handshake.
    Handshake,
}

const STALLS: [Stall; 5] = [
    Stall::Reads(64, MIB),
    Stall::Reads(32, 256 << 10),
    Stall::Reads(8, 32 * MIB),
    Stall::MidPayload,
    Stall::Handshake,
];

impl Stall {
    async fn begin(self, client: &Client) {
        match self {
            Self::Reads(count, len) => {
                client.attach(true).await;
                for cookie in 0..count {
                    client.request(0, 0, cookie, 0, len).await;
                }
            }
            Self::MidPayload => {
                client.attach(true).await;
                client.send(&header(1, 0, 1, 0, 32 * MIB)).await;
                client.send(&[1; 1000]).await;
            }
            Self::Handshake => client.send(b"\0\0").await,
        }
    }
}

#[test]
fn stalled_clients_do_not_hold_up_others() {
    for (seed, stalled) in [(10, 1), (11, 4), (12, 100)] {
        let mut sim = SimLoop::new(seed);
        let reactor = sim.handle();
        let export = MemoryExport::new(64 << 20);
        let options = ServiceOptions { request_bytes_max: 32 << 20, ..ServiceOptions::default() };
        let exports = MemoryExports::new().with("disk", export);
        let service = Service::new(reactor.clone(), exports, options);
        let silent: Vec<_> = (0..stalled).map(|_| connect(&reactor, &service, ROOMY).0).collect();
        let (modest, _ended) = connect(&reactor, &service, ROOMY);
        sim.run_until(async move {
            for (client, stall) in silent.iter().zip(STALLS.iter().cycle()) {
                stall.begin(client).await;
            }
            modest.attach(true).await;
            for cookie in 0..100 {
                let asked = reactor.now();
                modest.write(cookie, 60 << 20, &[2; 4096]).await;
                assert_eq!(modest.chunk().await.cookie, cookie);
                let waited_ms = (reactor.now() - asked) / 1_000_000;
                assert!(waited_ms <= 100, "{stalled} stalled: {waited_ms} ms");
                reactor.sleep(20_000_000).await;
            }
            // A large one waits until they are put out, which is soon and at once for all.
            let asked = reactor.now();
            modest.write(1000, 32 << 20, &[3; 4 * MIB as usize]).await;
            assert_eq!(modest.chunk().await.cookie, 1000);
            let waited_s = (reactor.now() - asked) / 1_000_000_000;
            assert!(waited_s <= 8, "{stalled} stalled: {waited_s} s");
        });
    }
}

#[test]
fn block_statuses_that_nobody_reads_hold_up_requests_and_end_when_others_wait() {
    let mut sim = SimLoop::new(8);
    let reactor = sim.handle();
    let export = SlowExport::new(&reactor, 128 << 20);
    let options = ServiceOptions { request_bytes_max: 32 << 20, ..ServiceOptions::default() };
    let service = Service::new(reactor.clone(), export.clone(), options);
    let (greedy, greedy_ended) = connect(&reactor, &service, ROOMY);
    let (modest, _ended) = connect(&reactor, &service, ROOMY);
    let ended = sim.run_until(async move {
        // Every other block is a hole: a reply has as many extents as it may.
        let block = AlignedBuf::zeroed(4096).freeze();
        for number in 0..16_384 {
            export.memory.write(ByteOffset(number * 8192), block.clone()).await.unwrap();
        }
        greedy.attach(true).await;
        modest.attach(true).await;
        for cookie in 0..256 {
            greedy.request(7, 0, cookie, 1 << 20, 127 * MIB).await;
        }
        reactor.sleep(1_000_000_000).await;
        // Half of the budget is what they may reply, and little of it is read meanwhile.
        let most = (16 << 20) / (limits::EXTENTS_MAX * limits::EXTENT_BYTES);
        assert!(export.under_way_max.get() <= most, "{}", export.under_way_max.get());
        let asked = reactor.now();
        modest.write(1000, 0, &vec![2; 20 * MIB as usize]).await;
        assert_eq!(modest.chunk().await.cookie, 1000);
        let waited_s = (reactor.now() - asked) / 1_000_000_000;
        assert!((2..=5).contains(&waited_s), "{waited_s} s");
        greedy_ended.await
    });
    assert_eq!(ended, ConnectionEnd::Stalled);
}

#[test]
fn a_request_refused_after_its_wait_lets_the_next_one_pass() {
    let mut sim = SimLoop::new(7);
    let reactor = sim.handle();
    let export = MemoryExport::new(64 << 20);
    let options = ServiceOptions { request_bytes_max: 32 << 20, ..ServiceOptions::default() };
    let exports = MemoryExports::new().with("disk", export.clone());
    let service = Service::new(reactor.clone(), exports, options);
    let (greedy, _greedy_ended) = connect(&reactor, &service, ROOMY);
    let (second, _second_ended) = connect(&reactor, &service, ROOMY);
    let (third, _third_ended) = connect(&reactor, &service, ROOMY);
    let done = sim.try_run_until(
        async move {
            for client in [&greedy, &second, &third] {
                client.attach(false).await;
            }
            greedy.send(&header(1, 0, 1, 0, 32 << 20)).await;
            reactor.sleep(1_000_000).await;
            second.write(2, 60 << 20, &[2; 32 << 10]).await;
            reactor.sleep(1_000_000).await;
            third.write(3, 0, &[3; 32 << 10]).await;
            reactor.sleep(1_000_000).await;
            export.resize(40 << 20);
            for _ in 0..32 {
                greedy.send(&vec![1; MIB as usize]).await;
            }
            assert_eq!(greedy.simple().await, (0, 1));
            assert_eq!(second.simple().await, (28, 2));
            assert_eq!(third.simple().await, (0, 3));
        },
        100_000,
    );
    assert!(done.is_some(), "a request waits for ever");
}

#[test]
fn a_silent_handshake_times_out_and_an_attached_client_may_be_silent() {
    let mut sim = SimLoop::new(4);
    let reactor = sim.handle();
    let service = memory_service(&reactor, &MemoryExport::new(1 << 20));
    let (silent, silent_ended) = connect(&reactor, &service, ROOMY);
    let (attached, _ended) = connect(&reactor, &service, ROOMY);
    let clock = reactor.clone();
    let ended = sim.run_until(async move {
        attached.attach(true).await;
        silent.send(b"\0\0\0").await;
        clock.sleep(3_600_000_000_000).await;
        attached.request(3, 0, 1, 0, 0).await;
        assert_eq!(attached.chunk().await.cookie, 1);
        silent_ended.await
    });
    assert_eq!(ended, ConnectionEnd::HandshakeTimeout);
}

async fn refused(client: &Client, request: &[u8], cookie: u64, errno: u32) {
    client.send(request).await;
    assert_eq!(client.simple().await, (errno, cookie));
}

#[test]
fn refused_writes_are_skipped_and_the_connection_goes_on() {
    let mut sim = SimLoop::new(5);
    let reactor = sim.handle();
    let export = MemoryExport::new(1 << 20);
    let service = memory_service(&reactor, &export);
    let (client, _ended) = connect(&reactor, &service, ROOMY);
    let clock = reactor.clone();
    sim.run_until(async move {
        client.attach(false).await;
        let over = (32 << 20) + 1;
        client.send(&header(3, 0, 1, 0, 0)).await;
        client.send(&header(1, 0, 2, 0, over)).await;
        for _ in 0..over / MIB {
            client.send(&vec![0x25; MIB as usize]).await;
        }
        assert_eq!(client.simple().await, (0, 1));
        let (answered, second) = (pin!(client.simple()), pin!(clock.sleep(1_000_000_000)));
        let early = matches!(select(answered, second).await, Either::Left(_));
        assert!(!early, "a write was answered before its payload was there");
        client.send(&[0x25]).await;
        assert_eq!(client.simple().await, (22, 2));
        refused(&client, &[header(1, 0, 2, 1 << 20, 4), vec![9; 4]].concat(), 2, 28).await;
        refused(&client, &[header(1, 1 << 9, 3, 0, 4), vec![9; 4]].concat(), 3, 22).await;
        refused(&client, &header(0, 0, 4, u64::MAX, 4), 4, 22).await;
        refused(&client, &header(0, 0, 5, 0, over), 5, 22).await;
        refused(&client, &header(6, 0, 6, 1 << 20, 1), 6, 28).await;
        refused(&client, &header(99, 0, 7, 0, 0), 7, 22).await;
        export.set_read_only(true);
        refused(&client, &[header(1, 0, 8, 0, 4), vec![9; 4]].concat(), 8, 1).await;
        refused(&client, &header(3, 0, 9, 0, 0), 9, 0).await;
    });
}

#[test]
fn a_wrong_magic_ends_the_connection_after_what_is_under_way() {
    let mut sim = SimLoop::new(6);
    let reactor = sim.handle();
    let export = SlowExport::new(&reactor, 64 << 20);
    let service = Service::new(reactor.clone(), export.clone(), ServiceOptions::default());
    let (client, ended) = connect(&reactor, &service, ROOMY);
    let ended = sim.run_until(async move {
        client.attach(false).await;
        client.write(1, 20 << 20, &[1; 512]).await;
        client.send(b"GET / HTTP/1.1").await;
        assert_eq!(client.simple().await, (0, 1));
        assert!(client.is_closed().await);
        ended.await
    });
    assert_eq!(ended, ConnectionEnd::BadMagic(0x4745_5420));
}
