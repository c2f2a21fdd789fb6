//! Bodies in signed chunks with a changed byte: refused, or what was signed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_access_s3::fuzz::signed_body;

fuzz_target!(|bytes: &[u8]| signed_body(bytes));
