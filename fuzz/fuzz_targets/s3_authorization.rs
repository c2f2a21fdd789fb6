//! Headers of signatures: what passes is whole, and covers what it must.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_access_s3::fuzz::signed_header;

fuzz_target!(|bytes: &[u8]| signed_header(bytes));
