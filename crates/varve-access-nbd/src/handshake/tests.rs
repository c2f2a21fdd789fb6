//! The handshake driven as a client would, option by option, hostile ones included.

use proptest::prelude::*;
use varve_nbd::constant::REPLY_MAGIC;

use super::*;
use crate::limits::CHANGES_MAX;

const INFO: ExportInfo =
    ExportInfo { size_bytes: 0x1234_0000, block_bytes: 4096, read_only: false, exclusive: false };
const FLAGS: u32 = (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES) as u32;

/// A handshake with a server that has the exports `disk` and `other`; `disk` is the default one.
struct Peer {
    handshake: Handshake,
    /// What the server sent and nobody looked at.
    out: Vec<u8>,
    end: Option<Event>,
    /// Of every export.
    snapshots: Vec<String>,
}

impl Peer {
    fn new(tls_mode: TlsMode) -> Self {
        let mut out = Vec::new();
        let handshake = Handshake::new(tls_mode, &mut out);
        assert_eq!(out.len(), 18);
        out.clear();
        let snapshots = vec!["mon".to_owned(), "tue".to_owned()];
        Self { handshake, out, end: None, snapshots }
    }

    fn fixed() -> Self {
        let mut peer = Self::new(TlsMode::Off);
        peer.send(&FLAGS.to_be_bytes());
        peer
    }

    /// Feeds `input`, answering questions; returns what was left when the handshake wanted more or ended.
    fn send<'a>(&mut self, mut input: &'a [u8]) -> &'a [u8] {
        while self.end.is_none() {
            let (consumed, event) = self.handshake.advance(input, &mut self.out);
            input = &input[consumed..];
            match event {
                Event::NeedInput => break,
                Event::List => {
                    let names = ["disk".to_owned(), "other".to_owned()];
                    self.handshake.answer_list(Ok(&names), &mut self.out);
                }
                Event::Open(OpenRequest { name, since }) => {
                    let name = if name.is_empty() { "disk".to_owned() } else { name };
                    let since: Vec<String> = match since {
                        Since::Named(since) => {
                            since.into_iter().filter(|s| self.snapshots.contains(s)).collect()
                        }
                        Since::Listed => self.snapshots.clone(),
                    };
                    let known = ["disk", "other", "own", "held"].contains(&name.as_str());
                    let info =
                        ExportInfo { exclusive: ["own", "held"].contains(&name.as_str()), ..INFO };
                    let holder = (name == "held").then_some("10.0.0.7:4711");
                    let found = if known {
                        Ok(FoundExport { name: &name, info, since: &since, holder })
                    } else {
                        Err(ErrorKind::NotFound)
                    };
                    self.end = self.handshake.answer_open(found, &mut self.out);
                }
                other => self.end = Some(other),
            }
        }
        input
    }

    fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let left = self.send(&option_bytes(option, data)).len();
        assert_eq!(left, 0);
        replies(option, &std::mem::take(&mut self.out))
    }

    fn kinds(&mut self, option: u32, data: &[u8]) -> Vec<u32> {
        self.option(option, data).into_iter().map(|(kind, _)| kind).collect()
    }
}

fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let len = u32::try_from(data.len()).unwrap();
    [&IHAVEOPT.to_be_bytes()[..], &option.to_be_bytes(), &len.to_be_bytes(), data].concat()
}

fn replies(option: u32, mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let mut fields = Reader::big_endian("reply", bytes);
        assert_eq!(fields.u64(), Ok(REPLY_MAGIC));
        assert_eq!(fields.u32(), Ok(option));
        let kind = fields.u32().unwrap();
        found.push((kind, fields.counted().unwrap().to_vec()));
        bytes = fields.rest();
    }
    found
}

fn counted(text: &[u8]) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text].concat()
}

fn info_request(name: &str, requests: &[u16]) -> Vec<u8> {
    let mut data = counted(name.as_bytes());
    data.extend(u16::try_from(requests.len()).unwrap().to_be_bytes());
    data.extend(requests.iter().flat_map(|request| request.to_be_bytes()));
    data
}

fn meta_request(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = counted(name.as_bytes());
    data.extend(u32::try_from(queries.len()).unwrap().to_be_bytes());
    queries.iter().for_each(|query| data.extend(counted(query.as_bytes())));
    data
}

#[test]
fn go_describes_the_export_and_ends_the_handshake() {
    let mut peer = Peer::fixed();
    let sent = peer.option(opt::GO, &info_request("", &[1, 2, 3, 77]));
    let (kinds, data): (Vec<u32>, Vec<Vec<u8>>) = sent.into_iter().unzip();
    assert_eq!(kinds, [rep::INFO, rep::INFO, rep::INFO, rep::INFO, rep::ACK]);
    let flags = can::HAS_FLAGS
        | can::FLUSH
        | can::FUA
        | can::TRIM
        | can::WRITE_ZEROES
        | can::MULTI_CONN
        | can::CACHE
        | can::FAST_ZERO;
    let size = INFO.size_bytes.to_be_bytes();
    assert_eq!(data[0], [&[0, 0][..], &size, &flags.to_be_bytes()].concat());
    assert_eq!(data[1], b"\0\x01disk");
    assert_eq!(data[2], b"\0\x02Varve volume, 291.2 MiB");
    assert_eq!(data[3], [0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]);
    assert_eq!(peer.end, Some(Event::Ready(NegotiatedExport::default())));
}

#[test]
fn an_export_that_another_client_holds_is_refused_with_its_address() {
    let mut peer = Peer::fixed();
    assert_eq!(peer.kinds(opt::INFO, &info_request("held", &[])), [rep::INFO, rep::ACK], "a look");
    let sent = peer.option(opt::GO, &info_request("held", &[]));
    let [(rep::ERR_POLICY, why)] = sent.as_slice() else { panic!("{sent:?}") };
    let why = str::from_utf8(why).unwrap();
    assert!(why.contains("10.0.0.7:4711") && why.contains("disconnect held"), "{why}");
    assert_eq!(peer.kinds(opt::GO, &info_request("disk", &[])), [rep::INFO, rep::ACK]);
    let mut peer = Peer::fixed();
    peer.send(&option_bytes(opt::EXPORT_NAME, b"held"));
    assert_eq!(peer.end, Some(Event::Close(CloseReason::ExportRefused)));
    let mut peer = Peer::fixed();
    let sent = peer.option(opt::GO, &info_request("own", &[]));
    let flags = u16::from_be_bytes([sent[0].1[10], sent[0].1[11]]);
    assert_eq!(flags & can::MULTI_CONN, 0);
}

#[test]
fn info_leaves_the_choice_open() {
    let mut peer = Peer::fixed();
    assert_eq!(peer.kinds(opt::INFO, &info_request("other", &[])), [rep::INFO, rep::ACK]);
    assert_eq!(peer.kinds(opt::INFO, &info_request("absent", &[])), [rep::ERR_UNKNOWN]);
    assert_eq!(peer.kinds(opt::GO, &info_request("absent", &[])), [rep::ERR_UNKNOWN]);
    assert_eq!(peer.end, None);
}

#[test]
fn malformed_info_requests_are_invalid() {
    let good = info_request("disk", &[1]);
    let mut longer_name = good.clone();
    longer_name[3] += 1;
    let mut more_requests = good.clone();
    more_requests[9] += 1;
    let huge_name = [&u32::MAX.to_be_bytes()[..], b"disk"].concat();
    let cases = [
        (Vec::new(), rep::ERR_INVALID),
        (longer_name, rep::ERR_INVALID),
        (more_requests, rep::ERR_INVALID),
        (huge_name, rep::ERR_INVALID),
        ([good, vec![0]].concat(), rep::ERR_INVALID),
        (info_request("di\0sk", &[]), rep::ERR_INVALID),
        ([counted(b"\xff\xfe"), vec![0, 0]].concat(), rep::ERR_INVALID),
        (info_request(&"x".repeat(4097), &[]), rep::ERR_TOO_BIG),
    ];
    let mut peer = Peer::fixed();
    for (data, expected) in cases {
        for option in [opt::INFO, opt::GO] {
            assert_eq!(peer.kinds(option, &data), [expected], "{data:?}");
        }
    }
    assert_eq!(peer.kinds(opt::INFO, &info_request(&"x".repeat(4096), &[])), [rep::ERR_UNKNOWN]);
}

#[test]
fn list_names_all_exports_and_takes_no_data() {
    let mut peer = Peer::fixed();
    let sent = peer.option(opt::LIST, &[]);
    let expected =
        [(rep::SERVER, counted(b"disk")), (rep::SERVER, counted(b"other")), (rep::ACK, vec![])];
    assert_eq!(sent, expected);
    assert_eq!(peer.kinds(opt::LIST, b"x"), [rep::ERR_INVALID]);
}

#[test]
fn export_name_is_answered_with_and_without_padding() {
    for (client_flags, padding) in [(FLAGS, 0), (u32::from(FLAG_FIXED_NEWSTYLE), 124), (0, 124)] {
        let mut peer = Peer::new(TlsMode::Off);
        peer.send(&client_flags.to_be_bytes());
        peer.send(&option_bytes(opt::EXPORT_NAME, b"other"));
        assert_eq!(peer.out.len(), 10 + padding);
        assert_eq!(peer.out[..8], INFO.size_bytes.to_be_bytes());
        assert_eq!(peer.end, Some(Event::Ready(NegotiatedExport::default())));
    }
}

#[test]
fn a_refused_export_name_closes() {
    let mut long = option_bytes(opt::EXPORT_NAME, &[]);
    long[12..].copy_from_slice(&u32::MAX.to_be_bytes());
    let cases = [
        option_bytes(opt::EXPORT_NAME, b"absent"),
        option_bytes(opt::EXPORT_NAME, b"\xff"),
        option_bytes(opt::EXPORT_NAME, &[b'x'; 5000]),
        long,
    ];
    for bytes in cases {
        let mut peer = Peer::fixed();
        peer.send(&bytes);
        assert_eq!(peer.out, []);
        assert_eq!(peer.end, Some(Event::Close(CloseReason::ExportRefused)));
    }
}

#[test]
fn meta_contexts_need_structured_replies_and_the_same_export() {
    let mut peer = Peer::fixed();
    let wanted = meta_request("disk", &["base:allocation"]);
    assert_eq!(peer.kinds(opt::SET_META_CONTEXT, &wanted), [rep::ERR_INVALID]);
    assert_eq!(peer.kinds(opt::LIST_META_CONTEXT, &wanted), [rep::ERR_INVALID]);
    assert_eq!(peer.kinds(opt::STRUCTURED_REPLY, b"x"), [rep::ERR_INVALID]);
    assert_eq!(peer.kinds(opt::STRUCTURED_REPLY, &[]), [rep::ACK]);
    let selected = (rep::META_CONTEXT, [&[0, 0, 0, 1], &b"base:allocation"[..]].concat());
    assert_eq!(peer.option(opt::SET_META_CONTEXT, &wanted), [selected, (rep::ACK, vec![])]);
    peer.option(opt::GO, &info_request("", &[]));
    let agreed = agreed(true, 0);
    assert_eq!(peer.end, Some(Event::Ready(agreed)), "the default export is `disk`");
}

#[test]
fn the_last_selection_counts_and_only_for_its_export() {
    let later: [(Vec<u8>, bool); 6] = [
        (meta_request("disk", &["base:allocation", "base:allocation"]), true),
        (meta_request("other", &["base:allocation"]), false),
        (meta_request("disk", &[]), false),
        (meta_request("disk", &["base:", "base:unknown", "qemu:dirty-bitmap:x", "nocolon"]), false),
        (meta_request("absent", &["base:allocation"]), false),
        (b"malformed".to_vec(), false),
    ];
    for (second, selected) in later {
        let mut peer = Peer::fixed();
        peer.option(opt::STRUCTURED_REPLY, &[]);
        peer.option(opt::SET_META_CONTEXT, &meta_request("disk", &["base:allocation"]));
        peer.option(opt::SET_META_CONTEXT, &second);
        peer.option(opt::GO, &info_request("disk", &[]));
        let agreed = agreed(selected, 0);
        assert_eq!(peer.end, Some(Event::Ready(agreed)), "{second:?}");
    }
}

#[test]
fn changes_are_numbered_in_the_order_they_were_selected_in() {
    let queries = ["qemu:dirty-bitmap:tue", "qemu:dirty-bitmap:wed", "qemu:dirty-bitmap:mon"];
    let select = |peer: &mut Peer| {
        peer.option(opt::STRUCTURED_REPLY, &[]);
        peer.option(opt::SET_META_CONTEXT, &meta_request("disk", &queries))
    };
    let mut peer = Peer::fixed();
    let context =
        |id: u8, name: &str| (rep::META_CONTEXT, [&[0, 0, 0, id], name.as_bytes()].concat());
    let expected = [context(2, queries[0]), context(3, queries[2]), (rep::ACK, vec![])];
    assert_eq!(select(&mut peer), expected);
    peer.option(opt::GO, &info_request("disk", &[]));
    assert_eq!(peer.end, Some(Event::Ready(agreed(false, 2))));

    let mut other = Peer::fixed();
    select(&mut other);
    other.option(opt::GO, &info_request("other", &[]));
    assert_eq!(other.end, Some(Event::Ready(agreed(false, 0))), "another export");

    let mut late = Peer::fixed();
    select(&mut late);
    late.snapshots.remove(0);
    late.option(opt::GO, &info_request("disk", &[]));
    assert_eq!(late.end, Some(Event::Ready(agreed(false, 0))), "one was deleted meanwhile");

    let many: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let queries: Vec<String> =
        many.iter().map(|name| format!("qemu:dirty-bitmap:{name}")).collect();
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let mut peer = Peer::fixed();
    peer.snapshots = many;
    peer.option(opt::STRUCTURED_REPLY, &[]);
    let kinds = peer.kinds(opt::SET_META_CONTEXT, &meta_request("disk", &queries));
    assert_eq!(kinds.len(), CHANGES_MAX + 1, "what is beyond the bound is ignored");
}

#[test]
fn extended_headers_are_negotiated_in_any_order_and_stay() {
    let context = meta_request("disk", &["base:allocation"]);
    let (structured, extended) =
        ((opt::STRUCTURED_REPLY, rep::ACK), (opt::EXTENDED_HEADERS, rep::ACK));
    let too_late = (opt::STRUCTURED_REPLY, rep::ERR_EXT_HEADER_REQD);
    let orders: [&[(u32, u32)]; 4] = [
        &[extended],
        &[structured, extended],
        &[extended, too_late],
        &[structured, extended, extended, too_late],
    ];
    for order in orders {
        let mut peer = Peer::fixed();
        for (option, reply) in order {
            assert_eq!(peer.kinds(*option, &[]), [*reply], "{order:?}");
        }
        let selected = [rep::META_CONTEXT, rep::ACK];
        assert_eq!(peer.kinds(opt::SET_META_CONTEXT, &context), selected);
        let described = peer.option(opt::GO, &info_request("disk", &[]));
        let flags = u16::from_be_bytes([described[0].1[10], described[0].1[11]]);
        assert_ne!(flags & can::DF, 0);
        assert_eq!(flags & (1 << 12), 0, "BLOCK_STATUS_PAYLOAD is not offered");
        let agreed = NegotiatedExport { framing: Framing::Extended, ..agreed(true, 0) };
        assert_eq!(peer.end, Some(Event::Ready(agreed)));
    }
}

#[test]
fn contexts_that_were_selected_before_extended_headers_stay_selected() {
    let mut peer = Peer::fixed();
    peer.option(opt::STRUCTURED_REPLY, &[]);
    peer.option(opt::SET_META_CONTEXT, &meta_request("disk", &["base:allocation"]));
    assert_eq!(peer.kinds(opt::EXTENDED_HEADERS, b"x"), [rep::ERR_INVALID], "it has no data");
    assert_eq!(peer.kinds(opt::EXTENDED_HEADERS, &[]), [rep::ACK]);
    peer.option(opt::GO, &info_request("disk", &[]));
    let agreed = NegotiatedExport { framing: Framing::Extended, ..agreed(true, 0) };
    assert_eq!(peer.end, Some(Event::Ready(agreed)));
}

#[test]
fn export_name_after_extended_headers_closes() {
    let mut peer = Peer::fixed();
    assert_eq!(peer.kinds(opt::EXTENDED_HEADERS, &[]), [rep::ACK]);
    peer.send(&option_bytes(opt::EXPORT_NAME, b"disk"));
    assert_eq!(peer.out, []);
    assert_eq!(peer.end, Some(Event::Close(CloseReason::ExportRefused)));
}

fn agreed(allocation: bool, changes: u8) -> NegotiatedExport {
    NegotiatedExport { framing: Framing::Structured, contexts: Contexts { allocation, changes } }
}

#[test]
fn listing_meta_contexts_understands_wildcards() {
    let mut peer = Peer::fixed();
    peer.option(opt::STRUCTURED_REPLY, &[]);
    let found = [rep::META_CONTEXT, rep::ACK];
    let all = [rep::META_CONTEXT, rep::META_CONTEXT, rep::META_CONTEXT, rep::ACK];
    let cases: [(&[&str], &[u32]); 9] = [
        (&[], &all),
        (&["base:", "qemu:"], &all),
        (&["qemu:dirty-bitmap:"], &all[1..]),
        (&["qemu:dirty-bitmap:tue", "qemu:dirty-bitmap:tue"], &found),
        (&["base:"], &found),
        (&["x:y", "base:allocation"], &found),
        (&["base:alloc"], &[rep::ACK]),
        (&["qemu:dirty-bitmap:wed"], &[rep::ACK]),
        (&["qemu:allocation-depth"], &[rep::ACK]),
    ];
    for (queries, expected) in cases {
        assert_eq!(peer.kinds(opt::LIST_META_CONTEXT, &meta_request("disk", queries)), expected);
    }
    let mut lying = meta_request("disk", &["base:"]);
    lying[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(peer.kinds(opt::LIST_META_CONTEXT, &lying), [rep::ERR_INVALID]);
    assert_eq!(peer.kinds(opt::LIST_META_CONTEXT, &meta_request("no", &[])), [rep::ERR_UNKNOWN]);
}

#[test]
fn unknown_options_are_unsupported_and_long_ones_too_big() {
    let mut peer = Peer::fixed();
    for option in [0, 4, 12, u32::MAX] {
        assert_eq!(peer.kinds(option, b"data"), [rep::ERR_UNSUP]);
    }
    let long = vec![0; OPTION_BYTES_MAX as usize + 1];
    assert_eq!(peer.kinds(opt::GO, &long), [rep::ERR_TOO_BIG]);
    assert_eq!(peer.kinds(opt::GO, &info_request("disk", &[])), [rep::INFO, rep::ACK]);
}

#[test]
fn abort_is_acknowledged_then_the_server_closes() {
    let mut peer = Peer::fixed();
    assert_eq!(peer.kinds(opt::ABORT, b"ignored"), [rep::ACK]);
    assert_eq!(peer.end, Some(Event::Close(CloseReason::Aborted)));
}

#[test]
fn peers_that_speak_something_else_are_closed() {
    let mut peer = Peer::new(TlsMode::Off);
    peer.send(b"GET / HTTP/1.1\r\n");
    assert_eq!(peer.end, Some(Event::Close(CloseReason::BadClientFlags(0x4745_5420))));
    let mut peer = Peer::fixed();
    peer.send(b"NBDMAGICnonsense");
    assert_eq!(peer.end, Some(Event::Close(CloseReason::BadMagic)));
    let mut peer = Peer::fixed();
    while peer.end.is_none() {
        peer.send(&option_bytes(99, &[]));
    }
    assert_eq!(peer.end, Some(Event::Close(CloseReason::TooManyOptions)));
}

#[test]
fn without_tls_configured_starttls_is_refused() {
    assert_eq!(Peer::fixed().kinds(opt::STARTTLS, &[]), [rep::ERR_POLICY]);
}

#[test]
fn required_tls_comes_before_everything_else() {
    let mut peer = Peer::new(TlsMode::Require);
    peer.send(&FLAGS.to_be_bytes());
    for option in [opt::LIST, opt::INFO, opt::GO, opt::STRUCTURED_REPLY, opt::SET_META_CONTEXT, 99]
    {
        assert_eq!(peer.kinds(option, &info_request("disk", &[])), [rep::ERR_TLS_REQD], "{option}");
    }
    let long = vec![0; OPTION_BYTES_MAX as usize + 1];
    assert_eq!(peer.kinds(opt::GO, &long), [rep::ERR_TLS_REQD]);
    assert_eq!(peer.kinds(opt::STARTTLS, b"x"), [rep::ERR_INVALID]);
    assert_eq!(peer.kinds(opt::STARTTLS, &[]), [rep::ACK]);
    assert_eq!(peer.end.take(), Some(Event::StartTls));
    peer.handshake.tls_started();
    assert_eq!(peer.kinds(opt::STARTTLS, &[]), [rep::ERR_INVALID]);
    assert_eq!(peer.kinds(opt::GO, &info_request("disk", &[])), [rep::INFO, rep::ACK]);

    let mut peer = Peer::new(TlsMode::Require);
    peer.send(&FLAGS.to_be_bytes());
    peer.send(&option_bytes(opt::EXPORT_NAME, b"disk"));
    assert_eq!(peer.end, Some(Event::Close(CloseReason::ExportRefused)));
}

#[test]
fn nothing_said_before_tls_counts_afterwards() {
    let mut peer = Peer::new(TlsMode::Allow);
    peer.send(&FLAGS.to_be_bytes());
    peer.option(opt::EXTENDED_HEADERS, &[]);
    peer.option(opt::SET_META_CONTEXT, &meta_request("disk", &["base:allocation"]));
    let injected = option_bytes(opt::GO, &info_request("disk", &[]));
    let left = peer.send(&[option_bytes(opt::STARTTLS, &[]), injected.clone()].concat()).len();
    assert_eq!(left, injected.len(), "what follows STARTTLS belongs to TLS");
    peer.end = None;
    peer.out.clear();
    peer.handshake.tls_started();
    peer.option(opt::GO, &info_request("disk", &[]));
    assert_eq!(peer.end, Some(Event::Ready(NegotiatedExport::default())));
}

/// A handshake that uses every option.
fn long_script() -> Vec<u8> {
    [
        FLAGS.to_be_bytes().to_vec(),
        option_bytes(opt::STRUCTURED_REPLY, &[]),
        option_bytes(opt::LIST, &[]),
        option_bytes(opt::STARTTLS, &[]),
        option_bytes(opt::EXTENDED_HEADERS, &[]),
        option_bytes(opt::INFO, &info_request("other", &[1, 2, 3])),
        option_bytes(77, &vec![1; OPTION_BYTES_MAX as usize + 9]),
        option_bytes(opt::LIST_META_CONTEXT, &meta_request("disk", &["base:"])),
        option_bytes(opt::SET_META_CONTEXT, &meta_request("disk", &["base:allocation"])),
        option_bytes(opt::GO, &info_request("disk", &[3])),
    ]
    .concat()
}

#[test]
fn the_way_bytes_arrive_makes_no_difference() {
    let script = long_script();
    let mut whole = Peer::new(TlsMode::Off);
    assert_eq!(whole.send(&script).len(), 0);
    assert!(matches!(whole.end, Some(Event::Ready(_))));
    let mut dripped = Peer::new(TlsMode::Off);
    let mut waiting = Vec::new();
    for byte in script {
        waiting.push(byte);
        let left = dripped.send(&waiting).len();
        waiting.drain(..waiting.len() - left);
        assert!(waiting.len() <= OPTION_BYTES_MAX as usize + OptionHeader::BYTES); // HANDSHAKE-1
    }
    assert_eq!(dripped.out, whole.out);
    assert_eq!(dripped.end, whole.end);
}

#[test]
fn a_truncated_handshake_waits_for_more() {
    let script = long_script();
    let short = script.len() - 200..script.len();
    for len in (0..400).chain(short) {
        let mut peer = Peer::new(TlsMode::Off);
        peer.send(&script[..len]);
        assert_eq!(peer.end, None, "after {len} bytes");
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(flags in any::<bool>(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut peer = if flags { Peer::fixed() } else { Peer::new(TlsMode::Allow) };
        peer.send(&bytes);
    }

    #[test]
    fn random_options_never_panic(options in prop::collection::vec((0u32..13, prop::collection::vec(any::<u8>(), 0..40)), 0..20)) {
        let mut peer = Peer::fixed();
        for (option, data) in options {
            peer.send(&option_bytes(option, &data));
        }
    }

    #[test]
    fn a_flipped_bit_never_panics(at in 0usize..420, bit in 0u8..8) {
        let mut script = long_script();
        script[at] ^= 1 << bit;
        Peer::new(TlsMode::Off).send(&script);
    }
}
