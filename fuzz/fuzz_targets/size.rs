//! Sizes as users write them: never panics, and a size that is printed exactly is read back as itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_types::{ByteCount, parse_size};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(size) = parse_size(text) else { return };
    assert_eq!(parse_size(&format!("{}B", size.0)), Ok(ByteCount(size.0)));
});
