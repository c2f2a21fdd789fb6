//! HTML forms: read alike whatever pieces they come in, and as the same when written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_access_s3::fuzz::post_form;

fuzz_target!(|bytes: &[u8]| post_form(bytes));
