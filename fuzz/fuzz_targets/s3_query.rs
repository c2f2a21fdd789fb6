//! Queries of presigned URLs, of both versions: checked alike however they are escaped, and covering what they must.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_access_s3::fuzz::signed_query;

fuzz_target!(|bytes: &[u8]| signed_query(bytes));
