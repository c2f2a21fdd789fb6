//! Clients that know less than the protocol offers today. Method: their bytes, scripted, against a service in the
//! simulated loop; the WNBD script follows `libwnbd/nbd_protocol.cpp` of WNBD 0.7.

use varve_access_block::memory::MemoryExport;
use varve_access_nbd::ConnectionEnd;
use varve_reactor::SimLoop;

use crate::support::{FIXED_NEWSTYLE, NO_ZEROES, ROOMY, connect, header, memory_service};

/// HAS_FLAGS, FLUSH, FUA, TRIM, WRITE_ZEROES, MULTI_CONN, CACHE, FAST_ZERO.
const FLAGS_WITHOUT_DF: u16 = 0x0d6d;

#[test]
fn export_name_without_no_zeroes() {
    for client_flags in [0, FIXED_NEWSTYLE] {
        let mut sim = SimLoop::new(1);
        let reactor = sim.handle();
        let service = memory_service(&reactor, &MemoryExport::new(1 << 20));
        let (client, ended) = connect(&reactor, &service, ROOMY);
        let ended = sim.run_until(async move {
            client.greet(client_flags).await;
            client.option(1, b"disk").await;
            assert_eq!(client.u64().await, 1 << 20);
            assert_eq!(client.u16().await, FLAGS_WITHOUT_DF);
            assert_eq!(client.take(124).await, [0; 124]);
            client.write(7, 4096, b"old").await;
            assert_eq!(client.simple().await, (0, 7));
            client.request(0, 0, 8, 4095, 5).await;
            assert_eq!(client.simple().await, (0, 8));
            assert_eq!(client.take(5).await, b"\0old\0");
            client.request(2, 0, 9, 0, 0).await;
            assert!(client.is_closed().await);
            ended.await
        });
        assert_eq!(ended, ConnectionEnd::Disconnected);
    }
}

#[test]
fn wnbd_negotiates_with_go_and_uses_simple_replies() {
    let mut sim = SimLoop::new(2);
    let reactor = sim.handle();
    let service = memory_service(&reactor, &MemoryExport::new(1 << 20));
    let (client, _ended) = connect(&reactor, &service, ROOMY);
    sim.run_until(async move {
        client.greet(FIXED_NEWSTYLE | NO_ZEROES).await;
        // It sends the option piece by piece, and asks for no information.
        client.send(b"IHAVEOPT\0\0\0\x07\0\0\0\x0a").await;
        client.send(&4u32.to_be_bytes()).await;
        client.send(b"disk").await;
        client.send(&0u16.to_be_bytes()).await;
        let replies = client.option_replies(7).await;
        let export = [&[0, 0][..], &(1u64 << 20).to_be_bytes(), &FLAGS_WITHOUT_DF.to_be_bytes()];
        assert_eq!(replies, [(3, export.concat()), (1, vec![])]);
        let data = vec![0x5a; 512 * 9];
        client.send(&[&header(1, 1, 1, 512, 512 * 9)[..], &data].concat()).await;
        assert_eq!(client.simple().await, (0, 1));
        client.request(0, 0, 2, 0, 512 * 11).await;
        assert_eq!(client.simple().await, (0, 2));
        assert_eq!(client.take(512 * 11).await, [vec![0; 512], data, vec![0; 512]].concat());
        // Its flush carries the range of the SCSI command.
        client.request(3, 0, 3, 512, 4096).await;
        assert_eq!(client.simple().await, (0, 3));
        client.request(4, 0, 4, 0, 1 << 20).await;
        assert_eq!(client.simple().await, (0, 4));
        client.request(0, 0, 5, 4096, 512).await;
        assert_eq!(client.simple().await, (0, 5));
        assert_eq!(client.take(512).await, [0; 512]);
        // Beyond the end: an error, no data, and the connection goes on.
        client.request(0, 0, 6, 1 << 20, 512).await;
        assert_eq!(client.simple().await, (22, 6));
        client.request(3, 0, 7, 0, 0).await;
        assert_eq!(client.simple().await, (0, 7));
    });
}

#[test]
fn wnbd_reports_the_refusal_of_an_unknown_export() {
    let mut sim = SimLoop::new(3);
    let reactor = sim.handle();
    let service = memory_service(&reactor, &MemoryExport::new(1 << 20));
    let (client, ended) = connect(&reactor, &service, ROOMY);
    let ended = sim.run_until(async move {
        client.greet(FIXED_NEWSTYLE | NO_ZEROES).await;
        client.option(7, b"\0\0\0\x04nope\0\0").await;
        let replies = client.option_replies(7).await;
        assert_eq!(replies[0].0, (1 << 31) + 6);
        drop(client);
        ended.await
    });
    assert_eq!(ended, ConnectionEnd::PeerClosed);
}

#[test]
fn an_oldstyle_client_sees_a_newstyle_greeting_and_is_let_go() {
    let mut sim = SimLoop::new(4);
    let reactor = sim.handle();
    let service = memory_service(&reactor, &MemoryExport::new(1 << 20));
    let (client, ended) = connect(&reactor, &service, ROOMY);
    let ended = sim.run_until(async move {
        assert_eq!(client.take(8).await, b"NBDMAGIC");
        // It expects 0x00420281861253 here, and gives up.
        assert_eq!(client.take(8).await, b"IHAVEOPT");
        // One that goes on all the same sends a request, which is no set of client flags.
        client.take(2).await;
        client.send(&header(0, 0, 1, 0, 512)).await;
        assert!(client.is_closed().await);
        ended.await
    });
    assert!(matches!(ended, ConnectionEnd::Handshake(_)), "{ended}");
}
