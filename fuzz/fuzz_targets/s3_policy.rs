//! Policies of buckets: what a policy says is what its statements say together, however it is written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_access_s3::fuzz::bucket_policy;

fuzz_target!(|bytes: &[u8]| bucket_policy(bytes));
