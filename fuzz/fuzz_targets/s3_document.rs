//! XML documents of buckets: of one kind at most, and stored as what they are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_access_s3::fuzz::document;

fuzz_target!(|bytes: &[u8]| document(bytes));
