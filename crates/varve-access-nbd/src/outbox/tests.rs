//! Bytes of the replies, and how they are gathered.

use super::*;

use crate::export::{Change, Extent, ExtentKind};
use crate::wire::reply::StatusRun;

fn bytes(outbox: &mut Outbox) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some((parts, _)) = outbox.take_batch() {
        for part in parts {
            match part {
                SendPart::Small(bytes) => all.extend_from_slice(&bytes),
                SendPart::Slice(slice) => all.extend_from_slice(&slice),
            }
        }
    }
    all
}

fn read(len: u32, unfragmented: bool) -> ReadReply {
    ReadReply { cookie: 0x0102_0304_0506_0708, offset: 0x1000, len, unfragmented }
}

fn data(bytes: &[u8]) -> ReadPart {
    ReadPart::Data(BufSlice::copy_from(bytes))
}

/// Chunks as (type, done, payload).
fn chunks(mut bytes: &[u8]) -> Vec<(u16, bool, Vec<u8>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(bytes[0..4], 0x668e_33ef_u32.to_be_bytes());
        assert_eq!(bytes[8..16], 0x0102_0304_0506_0708_u64.to_be_bytes());
        let done = u16::from_be_bytes([bytes[4], bytes[5]]) == 1;
        let len = u32::from_be_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]) as usize;
        found.push((u16::from_be_bytes([bytes[6], bytes[7]]), done, bytes[20..20 + len].to_vec()));
        bytes = &bytes[20 + len..];
    }
    found
}

fn content(offset: u64, rest: &[u8]) -> Vec<u8> {
    [&offset.to_be_bytes(), rest].concat()
}

#[test]
fn runs_become_chunks_and_the_last_one_is_done() {
    let mut outbox = Outbox::new(true);
    let parts = vec![
        data(b"ab"),
        data(b"cd"),
        ReadPart::Zero(3),
        ReadPart::Zero(5),
        ReadPart::Data(BufSlice::copy_from(b"")),
        data(b"e"),
    ];
    outbox.read(read(13, false), parts, Charge::default());
    let expected = vec![
        (1, false, content(0x1000, b"abcd")),
        (2, false, content(0x1004, &8u32.to_be_bytes())),
        (1, true, content(0x100c, b"e")),
    ];
    assert_eq!(chunks(&bytes(&mut outbox)), expected);
}

#[test]
fn an_unfragmented_read_is_one_chunk_with_its_zeros() {
    let mut outbox = Outbox::new(true);
    let zeros = ZEROS_BYTES * 2 + 5;
    let len = u32::try_from(zeros + 4).unwrap();
    outbox.read(
        read(len, true),
        vec![data(b"ab"), ReadPart::Zero(zeros), data(b"cd")],
        Charge::default(),
    );
    let mut expected = content(0x1000, b"ab");
    expected.resize(expected.len() + zeros, 0);
    expected.extend_from_slice(b"cd");
    assert_eq!(chunks(&bytes(&mut outbox)), [(1, true, expected)]);
}

#[test]
fn an_empty_structured_read_has_no_content() {
    for unfragmented in [false, true] {
        let mut outbox = Outbox::new(true);
        outbox.read(read(0, unfragmented), Vec::new(), Charge::default());
        assert_eq!(chunks(&bytes(&mut outbox)), [(0, true, Vec::new())]);
    }
}

#[test]
fn simple_reads_are_a_header_and_bare_data() {
    let mut outbox = Outbox::new(false);
    outbox.read(
        read(304, false),
        vec![data(b"ab"), ReadPart::Zero(300), data(b"cd")],
        Charge::default(),
    );
    let sent = bytes(&mut outbox);
    assert_eq!(sent[..4], 0x6744_6698_u32.to_be_bytes());
    assert_eq!(sent[4..8], [0; 4]);
    assert_eq!(sent[8..16], 0x0102_0304_0506_0708_u64.to_be_bytes());
    assert_eq!(sent.len(), 16 + 304);
    assert!(sent.ends_with(b"\0cd"));
}

#[test]
fn errors_take_the_form_that_was_negotiated() {
    let mut outbox = Outbox::new(false);
    outbox.error(5, Errno::NoSpc, Charge::default());
    assert_eq!(bytes(&mut outbox)[4..8], 28u32.to_be_bytes());
    let mut outbox = Outbox::new(true);
    outbox.error(0x0102_0304_0506_0708, Errno::NoSpc, Charge::default());
    let sent = chunks(&bytes(&mut outbox));
    assert_eq!((sent[0].0, sent[0].1), (0x8001, true));
    assert_eq!(sent[0].2[..4], 28u32.to_be_bytes());
    assert_eq!(&sent[0].2[6..], Errno::NoSpc.message().as_bytes());
}

#[test]
fn block_status_is_clipped_to_the_request() {
    let mut outbox = Outbox::new(true);
    let extents = [
        Extent { len: 10, kind: ExtentKind::Data },
        Extent { len: 20, kind: ExtentKind::Zero },
        Extent { len: 1 << 40, kind: ExtentKind::Hole },
        Extent { len: 1, kind: ExtentKind::Data },
    ];
    let changes = [Change { len: 60, dirty: true }, Change { len: 60, dirty: false }];
    let contexts = [
        ContextStatus { context: 1, runs: extents.iter().map(StatusRun::from).collect() },
        ContextStatus { context: 2, runs: changes.iter().map(StatusRun::from).collect() },
    ];
    outbox.block_status(0x0102_0304_0506_0708, 100, &contexts, Charge::default());
    let words = |words: &[u32]| words.iter().copied().flat_map(u32::to_be_bytes).collect();
    let allocation: Vec<u8> = words(&[1, 10, 0, 20, 2, 70, 3]);
    let changes: Vec<u8> = words(&[2, 60, 1, 40, 0]);
    assert_eq!(chunks(&bytes(&mut outbox)), [(5, false, allocation), (5, true, changes)]);
}

#[test]
fn a_full_batch_is_followed_by_another_and_charges_add_up() {
    let mut outbox = Outbox::new(true);
    let block = AlignedBuf::zeroed(512 << 10).freeze();
    let charge = Charge { requests: 1, payload_bytes: 512 << 10 };
    for _ in 0..5 {
        outbox.read(read(512 << 10, false), vec![ReadPart::Data(block.clone())], charge);
    }
    let mut charges = Vec::new();
    while let Some((_, charge)) = outbox.take_batch() {
        charges.push(charge.requests);
    }
    assert_eq!(charges, [2, 2, 1]);
}

#[test]
#[should_panic(expected = "another length")]
fn a_short_read_is_never_sent() {
    Outbox::new(true).read(read(10, false), vec![ReadPart::Zero(9)], Charge::default());
}
