//! Extended headers: lengths of 64 bits, one form for all replies, and payload where the flag says so. Method: a
//! scripted client in the simulated loop, on exports of 64 PiB that hold little.

use std::ops::Range;
use std::pin::pin;

use futures_util::future::{Either, select};
use varve_access_block::memory::MemoryExport;
use varve_access_nbd::{ConnectionEnd, Service, ServiceOptions};
use varve_nbd::Framing;
use varve_reactor::SimLoop;

use crate::support::{
    Chunk, Client, PAYLOAD_LEN, ROOMY, SlowExport, connect, extended_header, header, memory_service,
};

const SIZE: u64 = 1 << 56;
const GIB: u64 = 1 << 30;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const WRITE_ZEROES: u16 = 6;
const BLOCK_STATUS: u16 = 7;

const FUA: u16 = 1;
const REQ_ONE: u16 = 8;
const FAST_ZERO: u16 = 16;

const OK: u32 = 0;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const EOVERFLOW: u32 = 75;

/// Runs a client with extended headers on an export of 64 PiB; returns how its connection ended.
fn run(work: impl AsyncFnOnce(&Client, &MemoryExport) + 'static) -> ConnectionEnd {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    let export = MemoryExport::new(SIZE);
    let service = memory_service(&reactor, &export);
    let (client, ended) = connect(&reactor, &service, ROOMY);
    sim.run_until(async move {
        assert_eq!(client.attach_with(Framing::Extended).await, SIZE);
        work(&client, &export).await;
        drop(client);
        ended.await
    })
}

/// The number that the one chunk of an answer to a request has; it repeats cookie and offset.
async fn answer(client: &Client, request: &[u8]) -> u32 {
    client.send(request).await;
    let chunk = client.chunk().await;
    let sent = |range: Range<usize>| number(&request[range]);
    assert_eq!((chunk.cookie, chunk.offset), (sent(8..16), Some(sent(16..24))));
    assert!(chunk.done);
    match chunk.kind {
        0 => OK,
        0x8001 => u32::try_from(number(&chunk.payload[..4])).expect("four bytes"),
        kind => panic!("a chunk of type {kind}"),
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

/// What `base:allocation` says of a range, as (length, flags).
async fn status(client: &Client, flags: u16, offset: u64, len: u64) -> Vec<(u64, u64)> {
    client.send(&extended_header(BLOCK_STATUS, flags, 7, offset, len)).await;
    let Chunk { kind, done, payload, .. } = client.chunk().await;
    assert_eq!((kind, done, number(&payload[..4])), (6, true, 1));
    let extents = payload[8..].chunks_exact(16);
    assert_eq!(number(&payload[4..8]), extents.len() as u64, "the count of extents");
    extents.map(|extent| (number(&extent[..8]), number(&extent[8..]))).collect()
}

#[test]
fn every_reply_has_an_extended_header_with_the_offset_of_its_request() {
    let ended = run(async |client, _| {
        client.write(1, 4093, b"text").await;
        let done = client.chunk().await;
        assert_eq!((done.kind, done.done, done.cookie, done.offset), (0, true, 1, Some(4093)));
        client.request(READ, 0, 2, 4092, 6).await;
        let data = client.chunk().await;
        assert_eq!((data.kind, data.done, data.cookie, data.offset), (1, true, 2, Some(4092)));
        assert_eq!(data.payload, [&4092u64.to_be_bytes()[..], b"\0text\0"].concat());
        // Data, then a hole: both chunks repeat the request's offset, and have their own in the payload.
        client.request(READ, 0, 3, 4096, 8192).await;
        let (data, hole) = (client.chunk().await, client.chunk().await);
        assert_eq!((data.kind, data.done, data.offset), (1, false, Some(4096)));
        assert_eq!((hole.kind, hole.done, hole.offset), (2, true, Some(4096)));
        assert_eq!(hole.payload, [&8192u64.to_be_bytes()[..], &4096u32.to_be_bytes()].concat());
        assert_eq!(answer(client, &extended_header(FLUSH, 0, 4, 512, 1 << 40)).await, OK);
        assert_eq!(answer(client, &extended_header(99, 0, 5, 77, 1)).await, EINVAL);
        client.request(2, 0, 6, 0, 0).await;
        assert!(client.is_closed().await);
    });
    assert_eq!(ended, ConnectionEnd::Disconnected);
}

#[test]
fn one_request_covers_what_the_export_has() {
    run(async |client, _| {
        assert_eq!(status(client, 0, 0, SIZE).await, [(SIZE, 3)]);
        let at = 1 << 50;
        client.write(1, at, &[7; 4096]).await;
        assert!(client.chunk().await.done);
        let rest = SIZE - at - 4096;
        assert_eq!(status(client, 0, 0, SIZE).await, [(at, 3), (4096, 0), (rest, 3)]);
        assert_eq!(status(client, REQ_ONE, 0, SIZE).await, [(at, 3)]);
        assert_eq!(status(client, 0, at + 1, 5 * GIB).await, [(4095, 0), (5 * GIB - 4095, 3)]);
        // The low 32 bits of this length are zeros.
        let zeroes = extended_header(WRITE_ZEROES, FUA | FAST_ZERO, 2, at - GIB, 4 * GIB);
        assert_eq!(answer(client, &zeroes).await, OK);
        assert_eq!(status(client, 0, 0, SIZE).await, [(SIZE, 3)]);
        client.write(3, at, &[7; 8192]).await;
        assert!(client.chunk().await.done);
        assert_eq!(answer(client, &extended_header(TRIM, FUA, 4, 100, SIZE - 100)).await, OK);
        assert_eq!(status(client, 0, at, SIZE - at).await, [(SIZE - at, 3)]);
    });
}

#[test]
fn ranges_beyond_the_end_or_beyond_64_bits_are_refused() {
    run(async |client, export| {
        let ranges =
            [(0, SIZE + 1), (SIZE, 1), (1, SIZE), (4096, u64::MAX - 4095), (u64::MAX, u64::MAX)];
        for (offset, len) in ranges {
            for (command, errno) in [
                (READ, EINVAL),
                (TRIM, EINVAL),
                (CACHE, EINVAL),
                (BLOCK_STATUS, EINVAL),
                (WRITE_ZEROES, ENOSPC),
            ] {
                let request = extended_header(command, 0, 1, offset, len);
                assert_eq!(answer(client, &request).await, errno, "{command} {offset} {len}");
            }
        }
        for len in [(32 << 20) + 1, (1 << 32) + 512, SIZE] {
            let read = extended_header(READ, 0, 2, 0, len);
            assert_eq!(answer(client, &read).await, EOVERFLOW, "a read of {len}");
        }
        assert_eq!(answer(client, &extended_header(BLOCK_STATUS, 0, 3, 0, 0)).await, EINVAL);
        export.set_read_only(true);
        assert_eq!(answer(client, &extended_header(TRIM, 0, 4, 0, SIZE)).await, 1);
    });
}

#[test]
fn payload_is_where_the_flag_says_and_is_dropped_where_it_does_not_belong() {
    run(async |client, _| {
        // Without the flag nothing follows, so the next request does.
        assert_eq!(answer(client, &extended_header(WRITE, 0, 1, 0, 4096)).await, EINVAL);
        let commands = [READ, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS, 99];
        for (cookie, command) in (2..).zip(commands) {
            for len in [0, 16, 100_000] {
                let request = extended_header(command, PAYLOAD_LEN, cookie, 0, len);
                let payload = vec![0x21; usize::try_from(len).unwrap()];
                let request = [request, payload].concat();
                assert_eq!(answer(client, &request).await, EINVAL, "{command} {len}");
            }
        }
        let beyond = [extended_header(WRITE, PAYLOAD_LEN, 10, SIZE - 3, 4), vec![9; 4]].concat();
        assert_eq!(answer(client, &beyond).await, ENOSPC);
        let nothing = extended_header(WRITE, PAYLOAD_LEN, 11, 0, 0);
        assert_eq!(answer(client, &nothing).await, OK);
        assert_eq!(status(client, 0, 0, SIZE).await, [(SIZE, 3)], "nothing was written");
    });
}

#[test]
fn a_refused_payload_is_answered_once_it_is_there() {
    let mut sim = SimLoop::new(2);
    let reactor = sim.handle();
    let service = memory_service(&reactor, &MemoryExport::new(SIZE));
    let (client, _ended) = connect(&reactor, &service, ROOMY);
    sim.run_until(async move {
        client.attach_with(Framing::Extended).await;
        let filter = extended_header(BLOCK_STATUS, PAYLOAD_LEN, 1, 0, 12);
        client.send(&[&filter[..], &[0; 11]].concat()).await;
        {
            let (answered, second) = (pin!(client.chunk()), pin!(reactor.sleep(1_000_000_000)));
            let early = matches!(select(answered, second).await, Either::Left(_));
            assert!(!early, "answered before its payload was there");
        }
        client.send(&[0]).await;
        let refused = client.chunk().await;
        assert_eq!((refused.kind, refused.cookie, refused.offset), (0x8001, 1, Some(0)));
        client.request(READ, 0, 2, 0, 512).await;
        assert_eq!(client.chunk().await.cookie, 2);
    });
}

#[test]
fn a_payload_longer_than_any_may_be_ends_the_connection() {
    for (command, len) in [(WRITE, (32 << 20) + 1), (TRIM, 1 << 40), (BLOCK_STATUS, u64::MAX)] {
        let ended = run(async move |client, _| {
            client.write(1, 0, b"before").await;
            client.send(&extended_header(command, PAYLOAD_LEN, 2, 0, len)).await;
            assert_eq!(client.chunk().await.cookie, 1, "what came before is answered");
            assert!(client.is_closed().await);
        });
        assert_eq!(ended, ConnectionEnd::LongPayload(len));
    }
}

#[test]
fn a_compact_header_ends_the_connection() {
    let ended = run(async |client, _| {
        client.send(&header(READ, 0, 1, 0, 512)).await;
        assert!(client.is_closed().await);
    });
    assert_eq!(ended, ConnectionEnd::BadMagic(0x2560_9513));
}

#[test]
fn clients_old_and_new_share_an_export() {
    let mut sim = SimLoop::new(3);
    let reactor = sim.handle();
    let service = memory_service(&reactor, &MemoryExport::new(SIZE));
    let mut clients = Vec::new();
    for framing in [Framing::Simple, Framing::Structured, Framing::Extended] {
        clients.push((framing, connect(&reactor, &service, ROOMY).0));
    }
    sim.run_until(async move {
        for (framing, client) in &clients {
            client.attach_with(*framing).await;
        }
        for (writer, (framing, client)) in (1..).zip(&clients) {
            let text = [writer; 4096];
            client.write(u64::from(writer), SIZE - 4096, &text).await;
            match framing {
                Framing::Simple => assert_eq!(client.simple().await, (0, u64::from(writer))),
                Framing::Structured | Framing::Extended => assert!(client.chunk().await.done),
            }
            for (framing, reader) in &clients {
                reader.request(READ, 0, 9, SIZE - 4096, 4096).await;
                let read = match framing {
                    Framing::Simple => {
                        assert_eq!(reader.simple().await, (0, 9));
                        reader.take(4096).await
                    }
                    Framing::Structured | Framing::Extended => {
                        reader.chunk().await.payload.split_off(8)
                    }
                };
                assert_eq!(read, text, "{framing:?}");
            }
        }
    });
}

#[test]
fn a_cache_request_reads_a_bounded_part_of_its_range() {
    let mut sim = SimLoop::new(4);
    let reactor = sim.handle();
    let export = SlowExport::new(&reactor, SIZE);
    let service = Service::new(reactor.clone(), export, ServiceOptions::default());
    let (client, _ended) = connect(&reactor, &service, ROOMY);
    let cached = sim.try_run_until(
        async move {
            client.attach_with(Framing::Extended).await;
            answer(&client, &extended_header(CACHE, 0, 1, 0, SIZE)).await
        },
        1_000_000,
    );
    assert_eq!(cached, Some(OK), "None: it reads on and on");
}
