//! Policies of HTML forms: what they let pass meets every condition.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_access_s3::fuzz::post_policy;

fuzz_target!(|bytes: &[u8]| post_policy(bytes));
