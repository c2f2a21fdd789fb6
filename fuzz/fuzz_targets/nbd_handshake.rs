//! NBD handshakes: what a client says never panics, is answered within bounds, and is understood alike whether it comes
//! at once or byte by byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_access_block::ExportInfo;
use varve_access_nbd::limits::OPTION_BYTES_MAX;
use varve_access_nbd::{Event, FoundExport, Handshake, OpenRequest, Since, TlsMode};
use varve_types::ErrorKind;

/// Bytes of an option's header on the wire.
const OPTION_HEADER_BYTES: usize = 16;

const INFO: ExportInfo =
    ExportInfo { size_bytes: 1 << 30, block_bytes: 4096, read_only: false, exclusive: false };

/// Runs a handshake that sees `step` more bytes each time it wants some; returns all it sent and asked.
fn run(tls_mode: TlsMode, input: &[u8], step: usize) -> (Vec<u8>, Vec<Event>) {
    let (mut out, mut events) = (Vec::new(), Vec::new());
    let mut handshake = Handshake::new(tls_mode, &mut out);
    let (mut start, mut end) = (0, step.min(input.len()));
    loop {
        let (used, event) = handshake.advance(&input[start..end], &mut out);
        start += used;
        assert!(start <= end);
        if event == Event::NeedInput {
            assert!(end - start < OPTION_BYTES_MAX as usize + OPTION_HEADER_BYTES);
            if end == input.len() {
                return (out, events);
            }
            end = end.saturating_add(step).min(input.len());
            continue;
        }
        events.push(event.clone());
        match event {
            Event::NeedInput => {}
            Event::List => handshake.answer_list(Ok(&["one".to_owned()]), &mut out),
            Event::StartTls => handshake.tls_started(),
            Event::Ready(_) | Event::Close(_) => return (out, events),
            Event::Open(OpenRequest { name, since }) => {
                let since = match since {
                    Since::Named(since) => since,
                    Since::Listed => vec!["a".to_owned(), "b".to_owned()],
                };
                let found = match name.as_str() {
                    "" | "one" => {
                        Ok(FoundExport { name: "one", info: INFO, since: &since, holder: None })
                    }
                    _ => Err(ErrorKind::NotFound),
                };
                if let Some(end) = handshake.answer_open(found, &mut out) {
                    assert!(matches!(end, Event::Ready(_) | Event::Close(_)));
                    events.push(end);
                    return (out, events);
                }
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, input)) = bytes.split_first() else { return };
    let tls_mode = match choice % 3 {
        0 => TlsMode::Off,
        1 => TlsMode::Allow,
        _ => TlsMode::Require,
    };
    assert_eq!(run(tls_mode, input, usize::MAX), run(tls_mode, input, 1));
});
