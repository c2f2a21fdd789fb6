//! Bytes of the replies, and how they are gathered.

use super::*;

use varve_access_block::{Change, Extent, ExtentKind};

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

const ECHO: Echo = Echo { cookie: 0x0102_0304_0506_0708, offset: 0x1000 };

/// Both forms of replies in chunks.
const CHUNKED: [Framing; 2] = [Framing::Structured, Framing::Extended];

fn read(len: u32, unfragmented: bool) -> ReadReply {
    ReadReply { echo: ECHO, len, unfragmented }
}

fn data(bytes: &[u8]) -> ReadPart {
    ReadPart::Data(BufSlice::copy_from(bytes))
}

/// Chunks as (type, done, payload).
fn chunks(framing: Framing, mut bytes: &[u8]) -> Vec<(u16, bool, Vec<u8>)> {
    let is_extended = framing == Framing::Extended;
    let magic: u32 = if is_extended { 0x6e8a_278c } else { 0x668e_33ef };
    let mut found = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(bytes[0..4], magic.to_be_bytes());
        assert_eq!(bytes[8..16], ECHO.cookie.to_be_bytes());
        let done = u16::from_be_bytes([bytes[4], bytes[5]]) == 1;
        let kind = u16::from_be_bytes([bytes[6], bytes[7]]);
        let (len, rest) = if is_extended {
            assert_eq!(bytes[16..24], ECHO.offset.to_be_bytes(), "the offset of the request");
            (u64::from_be_bytes(bytes[24..32].try_into().unwrap()), &bytes[32..])
        } else {
            let len = u32::from_be_bytes(bytes[16..20].try_into().unwrap());
            (u64::from(len), &bytes[20..])
        };
        let (payload, rest) = rest.split_at(usize::try_from(len).unwrap());
        found.push((kind, done, payload.to_vec()));
        bytes = rest;
    }
    found
}

fn content(offset: u64, rest: &[u8]) -> Vec<u8> {
    [&offset.to_be_bytes(), rest].concat()
}

#[test]
fn runs_become_chunks_and_the_last_one_is_done() {
    for framing in CHUNKED {
        let mut outbox = Outbox::new(framing);
        let parts = vec![
            data(b"ab"),
            data(b"cd"),
            ReadPart::Zero(3),
            ReadPart::Zero(5),
            ReadPart::Data(BufSlice::copy_from(b"")),
            data(b"e"),
        ];
        outbox.read(read(13, false), parts, RequestCost::default());
        let expected = vec![
            (1, false, content(0x1000, b"abcd")),
            (2, false, content(0x1004, &8u32.to_be_bytes())),
            (1, true, content(0x100c, b"e")),
        ];
        assert_eq!(chunks(framing, &bytes(&mut outbox)), expected);
    }
}

#[test]
fn an_unfragmented_read_is_one_chunk_with_its_zeros() {
    for framing in CHUNKED {
        let mut outbox = Outbox::new(framing);
        let zeros = ZEROS_BYTES * 2 + 5;
        let len = u32::try_from(zeros + 4).unwrap();
        let parts = vec![data(b"ab"), ReadPart::Zero(zeros), data(b"cd")];
        outbox.read(read(len, true), parts, RequestCost::default());
        let mut expected = content(0x1000, b"ab");
        expected.resize(expected.len() + zeros, 0);
        expected.extend_from_slice(b"cd");
        assert_eq!(chunks(framing, &bytes(&mut outbox)), [(1, true, expected)]);
    }
}

#[test]
fn an_empty_read_in_chunks_has_no_content() {
    for (framing, unfragmented) in CHUNKED.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let mut outbox = Outbox::new(framing);
        outbox.read(read(0, unfragmented), Vec::new(), RequestCost::default());
        assert_eq!(chunks(framing, &bytes(&mut outbox)), [(0, true, Vec::new())]);
    }
}

#[test]
fn success_without_data_is_a_simple_reply_but_with_extended_headers() {
    for framing in [Framing::Simple, Framing::Structured] {
        let mut outbox = Outbox::new(framing);
        outbox.done(ECHO, RequestCost::default());
        let expected = [&0x6744_6698_u32.to_be_bytes()[..], &[0; 4], &ECHO.cookie.to_be_bytes()];
        assert_eq!(bytes(&mut outbox), expected.concat());
    }
    let mut outbox = Outbox::new(Framing::Extended);
    outbox.done(ECHO, RequestCost::default());
    assert_eq!(chunks(Framing::Extended, &bytes(&mut outbox)), [(0, true, Vec::new())]);
}

#[test]
fn simple_reads_are_a_header_and_bare_data() {
    let mut outbox = Outbox::new(Framing::Simple);
    outbox.read(
        read(304, false),
        vec![data(b"ab"), ReadPart::Zero(300), data(b"cd")],
        RequestCost::default(),
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
    let mut outbox = Outbox::new(Framing::Simple);
    outbox.error(ECHO, Errno::NoSpc, RequestCost::default());
    assert_eq!(bytes(&mut outbox)[4..8], 28u32.to_be_bytes());
    for framing in CHUNKED {
        let mut outbox = Outbox::new(framing);
        outbox.error(ECHO, Errno::NoSpc, RequestCost::default());
        let sent = chunks(framing, &bytes(&mut outbox));
        assert_eq!((sent[0].0, sent[0].1), (0x8001, true));
        assert_eq!(sent[0].2[..4], 28u32.to_be_bytes());
        assert_eq!(&sent[0].2[6..], Errno::NoSpc.message().as_bytes());
    }
}

/// What two contexts say of more than a request asked for.
fn statuses() -> [ContextStatus; 2] {
    let extents = [
        Extent { len: 10, kind: ExtentKind::Data },
        Extent { len: 20, kind: ExtentKind::Zero },
        Extent { len: 1 << 60, kind: ExtentKind::Hole },
        Extent { len: 1, kind: ExtentKind::Data },
    ];
    let changes = [Change { len: 60, dirty: true }, Change { len: 1 << 60, dirty: false }];
    [
        ContextStatus { context: 1, runs: extents.iter().map(StatusRun::from).collect() },
        ContextStatus { context: 2, runs: changes.iter().map(StatusRun::from).collect() },
    ]
}

#[test]
fn block_status_is_clipped_to_the_request() {
    let mut outbox = Outbox::new(Framing::Structured);
    outbox.block_status(ECHO, 100, &statuses(), RequestCost::default());
    let words = |words: &[u32]| words.iter().copied().flat_map(u32::to_be_bytes).collect();
    let allocation: Vec<u8> = words(&[1, 10, 0, 20, 2, 70, 3]);
    let changes: Vec<u8> = words(&[2, 60, 1, 40, 0]);
    let sent = chunks(Framing::Structured, &bytes(&mut outbox));
    assert_eq!(sent, [(5, false, allocation), (5, true, changes)]);
}

#[test]
fn block_status_in_extended_headers_counts_its_extents_and_has_64_bits() {
    let mut outbox = Outbox::new(Framing::Extended);
    let len = 1 << 56;
    outbox.block_status(ECHO, len, &statuses(), RequestCost::default());
    let content = |context: u32, count: u32, numbers: &[u64]| -> Vec<u8> {
        let numbers = numbers.iter().copied().flat_map(u64::to_be_bytes);
        [context, count].into_iter().flat_map(u32::to_be_bytes).chain(numbers).collect()
    };
    let allocation = content(1, 3, &[10, 0, 20, 2, len - 30, 3]);
    let changes = content(2, 2, &[60, 1, len - 60, 0]);
    let sent = chunks(Framing::Extended, &bytes(&mut outbox));
    assert_eq!(sent, [(6, false, allocation), (6, true, changes)]);
}

#[test]
fn a_full_batch_is_followed_by_another_and_charges_add_up() {
    let mut outbox = Outbox::new(Framing::Structured);
    let block = AlignedBuf::zeroed(512 << 10).freeze();
    let charge = RequestCost { requests: 1, payload_bytes: 512 << 10 };
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
    Outbox::new(Framing::Structured).read(
        read(10, false),
        vec![ReadPart::Zero(9)],
        RequestCost::default(),
    );
}
