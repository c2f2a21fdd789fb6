//! Round trips, truncations and flips of every message.

use varve_membership::NodeId;
use varve_engine::{BlockStatus, CutPair, DiffRun, Mapped, MarkWish};
use varve_types::{ByteRange, ChunkId, Compression, ErrorKind, PoolId, Reduction, ShardId, StreamId};

use super::*;
use crate::nodes::wire::{Farewell, ITEMS_MAX, Operation, Outcome, Part};

fn messages() -> Vec<Message> {
    let (stream, node) = (StreamId::new(77), NodeId(5 << 100));
    let reduction = |compression| Reduction { dedup: true, compression };
    let request = |operation| Message::Request {
        request: 9,
        connection: 3,
        epoch: 12,
        departures: 4,
        shard: ShardId(2),
        operation,
    };
    let answer = |outcome| Message::Answer { request: 9, outcome };
    let clear = |keep_allocated| {
        request(Operation::Clear {
            stream,
            range: ByteRange { start: 5, end: 900 },
            keep_allocated,
        })
    };
    let write = |compression, data: &[u8]| {
        request(Operation::Write {
            stream,
            offset: 4096,
            reduction: reduction(compression),
            data: data.to_vec(),
        })
    };
    let (key, range) = (b"a key".to_vec(), ByteRange { start: 4096, end: 1 << 40 });
    let chunks = vec![ChunkId::new(3), ChunkId::MAX];
    let mut all = vec![
        Message::Hello {
            pool: PoolId([7; 16]),
            from: node,
            to: NodeId(8),
            link: 4,
            versions: (1, 3),
        },
        Message::Welcome { version: 1 },
        Message::Closed { connection: 3 },
        request(Operation::Read { stream, offset: 512, len: 4096 }),
        write(Compression::Off, b""),
        write(Compression::Lz4, b"some data"),
        write(Compression::Zstd(19), b"others"),
        clear(None),
        clear(Some(false)),
        clear(Some(true)),
        answer(Outcome::Done),
        answer(Outcome::Read(vec![Part::Zero(512), Part::Data(b"found".to_vec())])),
        answer(Outcome::Read(Vec::new())),
        answer(Outcome::NotBegun { serves: None }),
        answer(Outcome::NotBegun { serves: Some(0) }),
        answer(Outcome::NoConnection),
        answer(Outcome::Failed { kind: ErrorKind::NoSpace, text: "it is full".to_owned() }),
        Message::Goodbye(Farewell::OldLink),
        Message::Barrier { request: 12 },
    ];
    all.extend(
        [
            Operation::Status { stream, range, max: 7 },
            Operation::Diff { from: stream, to: StreamId::new(78), range, max: 256 },
            Operation::KeyGet { key: key.clone() },
            Operation::KeyScan { prefix: key.clone(), after: None, max: 1 },
            Operation::KeyScan { prefix: Vec::new(), after: Some(key.clone()), max: 1 },
            Operation::KeyPut { key: key.clone(), value: b"its value".to_vec() },
            Operation::KeyDelete { key: key.clone() },
            Operation::DropStream { stream },
            Operation::CountBlocks { stream },
            Operation::MarkWish,
            Operation::Apply,
            Operation::Cut {
                id: 9,
                pairs: vec![CutPair { source: stream, copy: StreamId::new(99) }],
            },
            Operation::ReleaseCut { id: 9 },
            Operation::Reserve { stream, blocks: 5, pages: 1, is_fresh: true },
            Operation::ReleaseReservation { stream },
            Operation::PrepareCut { sources: vec![stream, StreamId::MAX] },
            Operation::ReadChunks { chunks: chunks.clone() },
            Operation::ChunkSizes { chunks },
        ]
        .map(request),
    );
    let mapped = [Mapped::Hole, Mapped::Zero, Mapped::Data];
    all.extend(
        [
            Outcome::Status(mapped.map(|mapped| BlockStatus { len: 512, mapped }).to_vec()),
            Outcome::Diff([true, false].map(|differs| DiffRun { len: 4096, differs }).to_vec()),
            Outcome::Value(None),
            Outcome::Value(Some(Vec::new())),
            Outcome::Keys(vec![(key.clone(), b"value".to_vec()), (key, Vec::new())]),
            Outcome::Number(77),
            Outcome::Wish(MarkWish::Urgent),
            Outcome::Chunks(vec![None, Some(b"what it holds".to_vec())]),
            Outcome::Sizes(vec![Some(512), None]),
        ]
        .map(answer),
    );
    all
}

/// A frame with its checksum put right.
fn resealed(mut frame: Vec<u8>) -> Vec<u8> {
    let (header, body) = frame.split_at_mut(HEADER_BYTES);
    let checksum = checksum64_seeded(body, checksum64(&header[..COVERED_BYTES]));
    header[COVERED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
    frame
}

#[test]
fn what_is_sent_is_understood() {
    for message in messages() {
        let frame = encode(&message);
        assert_eq!(decode(&frame).unwrap(), Some((message.clone(), frame.len())));
        let mut more = frame.clone();
        more.extend([1, 2, 3]);
        assert_eq!(decode(&more).unwrap(), Some((message, frame.len())));
    }
}

#[test]
fn what_is_cut_off_is_waited_for_and_never_taken_for_whole() {
    for message in messages() {
        let frame = encode(&message);
        for len in 0..frame.len() {
            assert_eq!(decode(&frame[..len]), Ok(None), "{len} bytes of {message:?}");
        }
    }
}

#[test]
fn every_flip_is_refused_or_waits_for_more() {
    for message in messages() {
        let frame = encode(&message);
        for bit in 0..frame.len() * 8 {
            let mut frame = frame.clone();
            frame[bit / 8] ^= 1 << (bit % 8);
            let decoded = decode(&frame);
            assert!(!matches!(decoded, Ok(Some(_))), "bit {bit} of {message:?} counts for nothing");
        }
    }
}

/// A peer that writes nonsense puts a right checksum to it.
#[test]
fn what_is_understood_has_one_encoding() {
    for message in messages() {
        let frame = encode(&message);
        for bit in (0..frame.len() * 8).filter(|bit| !(64..96).contains(bit)) {
            let mut frame = frame.clone();
            frame[bit / 8] ^= 1 << (bit % 8);
            let frame = resealed(frame);
            if let Ok(Some((other, len))) = decode(&frame) {
                assert_eq!(encode(&other), frame[..len], "bit {bit} of {message:?}");
            }
        }
        for len in 0..frame.len() - HEADER_BYTES {
            let mut frame = frame[..HEADER_BYTES + len].to_vec();
            frame[8..12].copy_from_slice(&u32::try_from(len).unwrap().to_le_bytes());
            let frame = resealed(frame);
            if let Ok(Some((other, len))) = decode(&frame) {
                assert_eq!(encode(&other), frame[..len], "{len} bytes of {message:?}");
            }
        }
    }
}

#[test]
fn more_items_than_are_allowed_are_refused() {
    let operation = |count: u32| Operation::ReadChunks {
        chunks: (0..count).map(|id| ChunkId::new(id.into())).collect(),
    };
    for (count, is_taken) in [(ITEMS_MAX, true), (ITEMS_MAX + 1, false)] {
        let message = Message::Request {
            request: 1,
            connection: 0,
            epoch: 1,
            departures: 0,
            shard: ShardId(0),
            operation: operation(count),
        };
        assert_eq!(decode(&encode(&message)).is_ok(), is_taken, "{count} chunks");
    }
}

#[test]
fn limits_are_kept_before_anything_is_held() {
    let mut header: [u8; HEADER_BYTES] = *encode(&messages()[1]).first_chunk().unwrap();
    header[8..12].copy_from_slice(&(FRAME_BYTES_MAX + 1).to_le_bytes());
    let limit = FRAME_BYTES_MAX;
    assert_eq!(Header::decode(&header), Err(WireError::TooLong { len: limit + 1, limit }));
    header[8..12].copy_from_slice(&limit.to_le_bytes());
    assert_eq!(Header::decode(&header).unwrap().body_len(), limit as usize);
    header[4] = 2;
    assert_eq!(Header::decode(&header), Err(WireError::Version { found: 2, known: 1 }));
    let largest = Message::Request {
        request: u64::MAX,
        connection: u64::MAX,
        epoch: u64::MAX,
        departures: u64::MAX,
        shard: ShardId(u16::MAX),
        operation: Operation::Write {
            stream: StreamId::MAX,
            offset: 0,
            reduction: Reduction::OFF,
            data: vec![1; DATA_BYTES_MAX as usize],
        },
    };
    assert!(decode(&encode(&largest)).unwrap().is_some());
    let blocks = DATA_BYTES_MAX as usize / 4096;
    let parts = (0..blocks).map(|_| Part::Data(vec![1; 4096])).collect();
    let outcome = Outcome::Read(parts);
    assert!(decode(&encode(&Message::Answer { request: 1, outcome })).unwrap().is_some());
    let parts = vec![Part::Zero(DATA_BYTES_MAX), Part::Zero(1)];
    let outcome = Outcome::Read(parts);
    let over = decode(&encode(&Message::Answer { request: 1, outcome }));
    assert!(matches!(over, Err(WireError::Senseless { kind: 5, .. })));
}
