//! One pure entry over everything that reads a peer's bytes, for fuzzing: no loop, no socket, no clock.

use std::rc::Rc;

use futures_util::FutureExt;
use varve_access_block::Export;
use varve_access_block::memory::MemoryExport;
use varve_nbd::constant::{SIMPLE_REPLY_MAGIC, cmd};
use varve_nbd::{DecodedHeader, Framing, RequestHeader};
use varve_stdx::Reader;

use crate::budget::Budget;
use crate::handshake::{
    Event, FoundExport, Handshake, NegotiatedExport, OpenRequest, Since, TlsMode,
};
use crate::inbox::Inbox;
use crate::limits::THREAD_BYTES_DEFAULT;
use crate::link::{Link, Parse};
use crate::serve::serve;
use crate::transport::SendPart;
use crate::usage::ClientUsage;

/// Bytes of the export that fuzzing talks to: small, so that ranges often lie across its end.
const EXPORT_BYTES: u64 = 1 << 20;

/// What a client sends to open the export `d`: its flags, and the option GO.
const ATTACH: &[u8] = b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x07\0\0\0\x01d\0\0";

/// Plays a connection whose peer sends `bytes`, the first of which chooses how they are cut. Returns what the server
/// sent.
///
/// # Panics
/// Never; that is what is tested.
#[must_use]
pub fn play(bytes: &[u8]) -> Vec<u8> {
    let Some((choice, bytes)) = bytes.split_first() else { return Vec::new() };
    let receive_max = usize::from(*choice) * 16 + 1;
    let mut sent = Vec::new();
    let export = Rc::new(MemoryExport::new(EXPORT_BYTES));
    let mut rest = bytes;
    let mut inbox = Inbox::new();
    let Some(negotiated) = shake_hands(&mut rest, receive_max, &mut inbox, &export, &mut sent)
    else {
        return sent;
    };
    let share = Budget::new(THREAD_BYTES_DEFAULT).share();
    let mut link = Link::new(Rc::clone(&export), negotiated, inbox, share, ClientUsage::default());
    loop {
        let parsed = link.parse();
        let has_ended = matches!(parsed, Parse::Ended);
        match parsed {
            Parse::Request(request) => {
                let done = serve(Rc::clone(&export), request).now_or_never();
                link.finished(done.expect("memory never waits"));
            }
            Parse::NeedInput => {
                let (mut buf, range) = link.lend();
                let target = buf.get_mut(range).expect("the range lies in the buffer");
                let count = receive(&mut rest, receive_max, target);
                link.received(Ok(count), buf);
            }
            Parse::NeedReplies => {}
            Parse::NeedBudget(_) => panic!("one connection never waits for the budget"),
            Parse::Ended => {} // What was refused just before is still to be told.
        }
        while let Some((parts, charge)) = link.outbox.take_batch() {
            collect(parts, &mut sent);
            link.sent(Ok(()), charge);
        }
        if has_ended {
            return sent;
        }
    }
}

/// Plays the requests that a client sends behind a good handshake, without structured replies. The first byte chooses
/// how they are cut.
///
/// Each whole request has one reply, in a form that clients can take apart; reads return what was written; how the
/// bytes are cut does not matter.
///
/// # Panics
/// When that does not hold.
pub fn play_requests(bytes: &[u8]) {
    let Some((choice, requests)) = bytes.split_first() else { return };
    let with = |choice: u8| play(&[&[choice], ATTACH, requests].concat());
    let sent = with(*choice);
    assert_eq!(sent, with(choice.wrapping_add(97)), "cut in another way");
    let greeting = play(&[&[255], ATTACH].concat()).len();
    let mut replies =
        Reader::big_endian("replies", sent.get(greeting..).expect("it begins with the greeting"));
    let mut contents = vec![0; usize::try_from(EXPORT_BYTES).expect("it is small")];
    let mut rest = requests;
    let framing = Framing::Simple;
    while let DecodedHeader::Header(header) = RequestHeader::decode(rest, framing) {
        rest = rest.get(framing.request_bytes()..).unwrap_or_default();
        let len = usize::try_from(header.len).expect("a compact request has 32 bits for it");
        let payload = if header.command == cmd::WRITE { len } else { 0 };
        let Some((payload, behind)) = rest.split_at_checked(payload) else { break };
        rest = behind;
        if header.command == cmd::DISC {
            break;
        }
        assert_eq!(replies.u32(), Ok(SIMPLE_REPLY_MAGIC));
        let error = replies.u32().expect("a whole reply");
        assert_eq!(replies.u64(), Ok(header.cookie));
        let start = usize::try_from(header.offset).unwrap_or(usize::MAX);
        let range = contents.get_mut(start..start.saturating_add(len));
        match (error, header.command) {
            (0, cmd::READ) => {
                assert_eq!(replies.bytes(len).ok(), range.as_deref(), "what was written")
            }
            (0, cmd::WRITE) => range.expect("inside").copy_from_slice(payload),
            (0, cmd::TRIM | cmd::WRITE_ZEROES) => range.expect("inside").fill(0),
            (0, cmd::FLUSH) => {}
            (0, cmd::CACHE) => assert!(range.is_some(), "outside"),
            (0, command) => panic!("command {command} needs structured replies"),
            (error, _) => assert!([1, 22, 28, 75, 95].contains(&error), "error {error}"),
        }
    }
    assert!(replies.is_empty(), "a reply without a request");
}

fn shake_hands(
    rest: &mut &[u8],
    receive_max: usize,
    inbox: &mut Inbox,
    export: &MemoryExport,
    sent: &mut Vec<u8>,
) -> Option<NegotiatedExport> {
    let mut handshake = Handshake::new(TlsMode::Allow, sent);
    loop {
        let (consumed, event) = handshake.advance(inbox.bytes(), sent);
        inbox.consume(consumed);
        let event = match event {
            Event::Open(OpenRequest { name, since }) if name.len() < 8 => {
                let since = match since {
                    Since::Named(since) => since,
                    Since::Listed => vec!["snapshot".to_owned()],
                };
                let found =
                    FoundExport { name: &name, info: export.info(), since: &since, holder: None };
                handshake.answer_open(Ok(found), sent)
            }
            Event::Open(_) => handshake.answer_open(Err(varve_types::ErrorKind::NotFound), sent),
            other => Some(other),
        };
        match event {
            None => {}
            Some(Event::Ready(negotiated)) => return Some(negotiated),
            Some(Event::List) => handshake.answer_list(Ok(&["disk".to_owned()]), sent),
            Some(Event::StartTls) => handshake.tls_started(),
            Some(Event::Close(_)) => return None,
            Some(Event::Open(_)) => panic!("answered above"),
            Some(Event::NeedInput) => {
                let (mut buf, range) = inbox.lend();
                let target = buf.get_mut(range).expect("the range lies in the buffer");
                let count = receive(rest, receive_max, target);
                inbox.give_back(buf, count);
                if count == 0 {
                    return None;
                }
            }
        }
    }
}

fn receive(rest: &mut &[u8], receive_max: usize, target: &mut [u8]) -> usize {
    let count = rest.len().min(receive_max).min(target.len());
    let (now, later) = rest.split_at(count);
    target.get_mut(..count).expect("bounded by its length").copy_from_slice(now);
    *rest = later;
    count
}

fn collect(parts: Vec<SendPart>, sent: &mut Vec<u8>) {
    for part in parts {
        match part {
            SendPart::Small(bytes) => sent.extend_from_slice(&bytes),
            SendPart::Slice(slice) => sent.extend_from_slice(&slice),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use varve_nbd::constant::{IHAVEOPT, flag, opt};

    const FRAMINGS: [Framing; 3] = [Framing::Simple, Framing::Structured, Framing::Extended];

    fn attach(framing: Framing) -> Vec<u8> {
        let mut bytes = vec![255];
        bytes.extend(3u32.to_be_bytes());
        let mut option = |number: u32, data: &[u8]| {
            bytes.extend(IHAVEOPT.to_be_bytes());
            bytes.extend(number.to_be_bytes());
            bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
            bytes.extend(data);
        };
        match framing {
            Framing::Simple => {}
            Framing::Structured => option(opt::STRUCTURED_REPLY, &[]),
            Framing::Extended => option(opt::EXTENDED_HEADERS, &[]),
        }
        if framing.has_chunks() {
            option(opt::SET_META_CONTEXT, b"\0\0\0\x01d\0\0\0\x01\0\0\0\x0fbase:allocation");
        }
        option(opt::GO, b"\0\0\0\x01d\0\0");
        bytes
    }

    /// A header that fits both forms, what to make of its length and flags in the extended one, and a payload.
    fn request() -> impl Strategy<Value = (RequestHeader, bool, Vec<u8>)> {
        let offset = prop_oneof![0..EXPORT_BYTES, any::<u64>(), Just(EXPORT_BYTES - 512)];
        let len = prop_oneof![0u32..9000, any::<u32>(), Just(512u32), 60_000u32..140_000];
        (0u16..10, 0u16..66, offset, len, any::<bool>(), 0usize..140_000).prop_map(
            |(command, flags, offset, len, is_long, payload)| {
                let whole = usize::try_from(len).unwrap();
                let len = u64::from(len);
                let header = RequestHeader { flags, command, cookie: 9, offset, len };
                let payload = if command == cmd::WRITE { payload.min(whole) } else { 0 };
                let payload = if payload > 4000 { whole.min(140_000) } else { payload };
                (header, is_long, vec![7; payload])
            },
        )
    }

    /// The bytes of a request. Every other write of an extended one says that it has a payload, and other commands may.
    fn bytes_of(framing: Framing, request: (RequestHeader, bool, Vec<u8>)) -> Vec<u8> {
        let (mut header, is_long, payload) = request;
        if framing == Framing::Extended {
            match header.command {
                cmd::WRITE if !is_long => header.flags |= flag::PAYLOAD_LEN,
                _ if is_long => header.len = header.len << 24 | header.len,
                _ => {}
            }
        }
        [header.encode(framing), payload].concat()
    }

    proptest! {
        #[test]
        fn random_requests_never_panic(framing in 0usize..3, requests in prop::collection::vec(request(), 0..20)) {
            let framing = FRAMINGS[framing];
            let mut bytes = attach(framing);
            for request in requests {
                bytes.extend(bytes_of(framing, request));
            }
            let _ = play(&bytes);
            if framing == Framing::Simple {
                play_requests(&[&bytes[..1], &bytes[1 + ATTACH.len()..]].concat());
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = play(&bytes);
        }

        #[test]
        fn garbage_after_the_handshake_never_panics(framing in 0usize..3, bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = play(&[attach(FRAMINGS[framing]), bytes].concat());
        }
    }

    fn header(command: u16, flags: u16, cookie: u64, len: u64) -> RequestHeader {
        RequestHeader { flags, command, cookie, offset: 0, len }
    }

    #[test]
    fn an_oversized_write_is_refused_and_skipped() {
        let framing = Framing::Simple;
        let mut bytes = attach(framing);
        let before = play(&bytes).len();
        bytes.extend(header(cmd::WRITE, 0, 1, (32 << 20) + 1).encode(framing));
        bytes.resize(bytes.len() + (32 << 20) + 1, 0x25);
        bytes.extend(header(cmd::READ, 0, 2, 4).encode(framing));
        let sent = play(&bytes).split_off(before);
        assert_eq!(sent[4..8], 22u32.to_be_bytes());
        assert_eq!(sent[16 + 8..16 + 16], 2u64.to_be_bytes());
        assert_eq!(sent.len(), 16 + 16 + 4);
    }

    #[test]
    fn an_extended_payload_is_skipped_up_to_the_largest_and_ends_the_connection_beyond() {
        let framing = Framing::Extended;
        let mut bytes = attach(framing);
        let before = play(&bytes).len();
        bytes.extend(header(cmd::TRIM, flag::PAYLOAD_LEN, 1, 32 << 20).encode(framing));
        bytes.resize(bytes.len() + (32 << 20), 0x25);
        bytes.extend(header(cmd::FLUSH, 0, 2, 0).encode(framing));
        let sent = play(&bytes).split_off(before);
        let refused = 32 + 6 + crate::errno::Errno::Inval.message().len();
        assert_eq!(sent[8..16], 1u64.to_be_bytes());
        assert_eq!(sent[32..36], 22u32.to_be_bytes());
        assert_eq!(sent[refused + 8..refused + 16], 2u64.to_be_bytes());
        assert_eq!(sent.len(), refused + 32);
        bytes.extend(header(cmd::WRITE, flag::PAYLOAD_LEN, 3, (32 << 20) + 1).encode(framing));
        bytes.resize(bytes.len() + (32 << 20) + 1, 0x25);
        bytes.extend(header(cmd::FLUSH, 0, 4, 0).encode(framing));
        assert_eq!(play(&bytes).split_off(before), sent, "nothing more is read");
    }
}
