//! Bodies in chunks: cut alike whatever pieces they come in; only what is exactly in chunks passes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_access_s3::fuzz::chunked_body;

fuzz_target!(|bytes: &[u8]| chunked_body(bytes));
