//! Targets of requests: served or not alike however they are escaped, and nothing that their operation does not have.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_access_s3::fuzz::request_target;

fuzz_target!(|bytes: &[u8]| request_target(bytes));
