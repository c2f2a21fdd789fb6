//! Reads return what was written last, whatever the replies look like and however the stream is cut. Method: random
//! requests, several under way at a time on disjoint ranges, checked against plain bytes, in the simulated loop.

use std::collections::BTreeMap;

use varve_access_block::memory::MemoryExport;
use varve_access_nbd::PipeOptions;
use varve_nbd::Framing;
use varve_reactor::{Reactor, SimLoop};

use crate::support::{Chunk, Client, connect, memory_service};

const LANES: u64 = 8;
const LANE_BYTES: u64 = 160 << 10;

#[derive(Clone, Copy, Debug)]
enum Sent {
    Read { offset: u64, len: u32 },
    Status { offset: u64, len: u32 },
    Change,
}

struct Model {
    bytes: Vec<u8>,
    sent: BTreeMap<u64, Sent>,
}

fn below(reactor: &Reactor, bound: u64) -> u64 {
    reactor.random_u64() % bound
}

/// Sends one request within its own lane and notes what it should do.
async fn send_one(
    reactor: &Reactor,
    client: &Client,
    model: &mut Model,
    structured: bool,
    cookie: u64,
) {
    let lane = cookie % LANES * LANE_BYTES;
    let unit = [1, 512, 4096][usize::try_from(below(reactor, 3)).unwrap()];
    let start = below(reactor, LANE_BYTES / unit) * unit;
    let longest = LANE_BYTES - start;
    let wanted = if below(reactor, 8) == 0 { longest } else { (below(reactor, 5) + 1) * unit };
    let len = u32::try_from(wanted.min(longest)).unwrap();
    let offset = lane + start;
    let range = usize::try_from(offset).unwrap()..usize::try_from(offset + u64::from(len)).unwrap();
    let fua = u16::from(below(reactor, 4) == 0);
    let sent = match below(reactor, 10) {
        0..3 => {
            let data: Vec<u8> = range
                .clone()
                .map(|i| u8::try_from((i as u64 * 7 + cookie) % 251).unwrap())
                .collect();
            client.write(cookie, offset, &data).await;
            model.bytes[range].copy_from_slice(&data);
            Sent::Change
        }
        3 => {
            client.request(4, fua, cookie, offset, len).await;
            model.bytes[range].fill(0);
            Sent::Change
        }
        4 => {
            let no_hole = u16::try_from(below(reactor, 2) * 2).unwrap();
            let fast = u16::try_from(below(reactor, 2) * 16).unwrap();
            client.request(6, fua | no_hole | fast, cookie, offset, len).await;
            model.bytes[range].fill(0);
            Sent::Change
        }
        5 => {
            client.request(3, fua, cookie, 0, 0).await;
            Sent::Change
        }
        6 => {
            client.request(5, 0, cookie, offset, len).await;
            Sent::Change
        }
        7 if structured => {
            let one = u16::try_from(below(reactor, 2) * 8).unwrap();
            client.request(7, one, cookie, offset, len).await;
            Sent::Status { offset, len }
        }
        _ => {
            let df = if structured { u16::try_from(below(reactor, 2) * 4).unwrap() } else { 0 };
            client.request(0, df | fua, cookie, offset, len).await;
            Sent::Read { offset, len }
        }
    };
    model.sent.insert(cookie, sent);
}

impl Model {
    fn expected(&self, offset: u64, len: u64) -> &[u8] {
        &self.bytes[usize::try_from(offset).unwrap()..usize::try_from(offset + len).unwrap()]
    }

    async fn simple_reply(&mut self, client: &Client) {
        let (error, cookie) = client.simple().await;
        assert_eq!(error, 0);
        if let Some(Sent::Read { offset, len }) = self.sent.remove(&cookie) {
            let data = client.take(len as usize).await;
            assert_eq!(data, self.expected(offset, u64::from(len)), "read at {offset}");
        }
    }

    async fn chunked_reply(&mut self, client: &Client) {
        let mut covered = 0;
        loop {
            let chunk = client.chunk().await;
            let sent = *self.sent.get(&chunk.cookie).expect("a reply to something sent");
            let word =
                |at: usize| u32::from_be_bytes(chunk.payload[at..at + 4].try_into().unwrap());
            let place = || u64::from_be_bytes(chunk.payload[..8].try_into().unwrap());
            if let Sent::Read { offset, .. } | Sent::Status { offset, .. } = sent {
                assert!(chunk.offset.is_none_or(|echo| echo == offset));
            }
            match (chunk.kind, sent) {
                (0, Sent::Change) => {}
                (1, Sent::Read { .. }) => {
                    let data = &chunk.payload[8..];
                    assert_eq!(data, self.expected(place(), data.len() as u64));
                    covered += data.len() as u64;
                }
                (2, Sent::Read { .. }) => {
                    let size = u64::from(word(8));
                    assert!(self.expected(place(), size).iter().all(|byte| *byte == 0));
                    covered += size;
                }
                (5 | 6, Sent::Status { offset, len }) => {
                    assert_eq!(word(0), 1);
                    let mut at = offset;
                    for (size, flags) in extents(&chunk) {
                        let zero = flags & 2 != 0;
                        assert!(!zero || self.expected(at, size).iter().all(|byte| *byte == 0));
                        at += size;
                    }
                    assert!(at > offset && at <= offset + u64::from(len));
                }
                other => panic!("chunk does not belong to its request: {other:?}"),
            }
            if chunk.done {
                if let Sent::Read { len, .. } = sent {
                    assert_eq!(covered, u64::from(len));
                }
                self.sent.remove(&chunk.cookie);
                return;
            }
        }
    }
}

/// The extents of a block status, as (length, flags).
fn extents(chunk: &Chunk) -> Vec<(u64, u64)> {
    let word = |bytes: &[u8]| u64::from(u32::from_be_bytes(bytes.try_into().unwrap()));
    let long = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
    if chunk.kind == 5 {
        let extents = chunk.payload[4..].chunks_exact(8);
        return extents.map(|extent| (word(&extent[..4]), word(&extent[4..]))).collect();
    }
    let extents = chunk.payload[8..].chunks_exact(16);
    assert_eq!(word(&chunk.payload[4..8]), extents.len() as u64);
    extents.map(|extent| (long(&extent[..8]), long(&extent[8..]))).collect()
}

fn run(seed: u64) {
    let mut sim = SimLoop::new(seed);
    let reactor = sim.handle();
    let export = MemoryExport::new(LANES * LANE_BYTES);
    let service = memory_service(&reactor, &export);
    let receive_max = [1 << 20, 4096, 1000, 29][usize::try_from(seed % 4).unwrap()];
    let capacity = [1 << 20, 300_000][usize::try_from(seed / 4 % 2).unwrap()];
    let (client, _ended) = connect(&reactor, &service, PipeOptions { capacity, receive_max });
    let framings = [Framing::Simple, Framing::Structured, Framing::Extended];
    let framing = framings[usize::try_from(seed % 3).unwrap()];
    let structured = framing.has_chunks();
    sim.run_until(async move {
        let size = client.attach_with(framing).await;
        let mut model =
            Model { bytes: vec![0; usize::try_from(size).unwrap()], sent: BTreeMap::new() };
        for round in 0..60 {
            let count = 1 + below(&reactor, LANES);
            for i in 0..count {
                send_one(&reactor, &client, &mut model, structured, round * LANES + i).await;
            }
            while !model.sent.is_empty() {
                if structured {
                    model.chunked_reply(&client).await;
                } else {
                    model.simple_reply(&client).await;
                }
            }
        }
    });
}

#[test]
fn replies_agree_with_plain_bytes() {
    for seed in 0..24 {
        run(seed);
    }
}
