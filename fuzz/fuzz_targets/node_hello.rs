//! What begins a link between nodes: hello, answer, heads of frames, and messages about exports.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_fuzz::with_trailing_checksum;
use varve_relay::wire::{ExportQuestion, ExportReply, FrameHead, HELLO_BYTES, Hello, HelloReply};

fuzz_target!(|bytes: &[u8]| {
    with_trailing_checksum(bytes.get(..HELLO_BYTES).unwrap_or(bytes), |bytes| {
        if let Some(Ok(hello)) = bytes.first_chunk().map(Hello::decode) {
            let _printed = format!("{hello:?}");
            assert_eq!(Some(&hello.encode()), bytes.first_chunk());
        }
    });
    if let Some(Ok(answer)) = bytes.first_chunk().map(HelloReply::decode) {
        let _printed = format!("{answer}");
        if !matches!(answer, HelloReply::OtherVersion { .. }) {
            assert_eq!(Some(&answer.encode()), bytes.first_chunk());
        }
    }
    if let Ok(question) = ExportQuestion::decode(bytes) {
        assert_eq!(question.encode().as_deref(), Some(bytes));
    }
    if let Ok(reply) = ExportReply::decode(bytes) {
        assert_eq!(reply.encode().as_deref(), Some(bytes));
    }
    if let Some(head) = bytes.first_chunk().and_then(|bytes| FrameHead::decode(*bytes)) {
        assert!(head.rest() <= 1 << 16);
    }
});
