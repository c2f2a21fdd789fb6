//! What only the monitors know of a pool: how long its stripes are, as librados tells it only of pools that cannot be
//! overwritten, and how much room it has.

use std::ffi::{CStr, CString};
use std::ptr;

use super::ClusterConnection;
use super::context::accepted;
use crate::objects::Refusal;

const POOLS: &CStr = c"{\"prefix\": \"osd pool ls\", \"detail\": \"detail\", \"format\": \"json\"}";

const ROOM: &CStr = c"{\"prefix\": \"df\", \"format\": \"json\"}";

/// Data bytes of a stripe; 1 where objects are kept in copies.
///
/// # Errors
/// What the monitors refuse the question with; `NOT_FOUND` when they do not tell of the pool.
pub(super) fn stripe_bytes(connection: &ClusterConnection, pool: &str) -> Result<u64, Refusal> {
    let pools = ask(connection, POOLS.to_owned())?;
    let found = pools.as_array().into_iter().flatten().find(|found| found["pool_name"] == pool);
    let stripe = found.and_then(|found| found["stripe_width"].as_u64());
    stripe.map(|bytes| bytes.max(1)).ok_or(Refusal::NOT_FOUND)
}

/// Bytes that the pool may still take, its copies or parity not counted.
///
/// # Errors
/// As [`stripe_bytes`].
pub(super) fn free_bytes(connection: &ClusterConnection, pool: &str) -> Result<u64, Refusal> {
    let room = ask(connection, ROOM.to_owned())?;
    let pools = room["pools"].as_array();
    let found = pools.into_iter().flatten().find(|found| found["name"] == pool);
    found.and_then(|found| found["stats"]["max_avail"].as_u64()).ok_or(Refusal::NOT_FOUND)
}

/// Asks the monitors; blocks until they answer.
fn ask(connection: &ClusterConnection, question: CString) -> Result<serde_json::Value, Refusal> {
    let api = &connection.api;
    let mut questions = [question.as_ptr()];
    let (mut answer, mut len) = (ptr::null_mut(), 0);
    let (mut status, mut status_len) = (ptr::null_mut(), 0);
    // SAFETY: the connection is open; the question outlives the call; what is answered is freed below.
    #[expect(unsafe_code, reason = "calls librados")]
    let code = unsafe {
        (api.mon_command)(
            connection.handle.0,
            questions.as_mut_ptr(),
            questions.len(),
            ptr::null(),
            0,
            &raw mut answer,
            &raw mut len,
            &raw mut status,
            &raw mut status_len,
        )
    };
    let bytes = if answer.is_null() {
        Vec::new()
    } else {
        // SAFETY: librados answers with `len` bytes there.
        #[expect(unsafe_code, reason = "reads bytes of C")]
        let bytes = unsafe { std::slice::from_raw_parts(answer.cast::<u8>(), len) };
        bytes.to_vec()
    };
    for buffer in [answer, status] {
        // SAFETY: the buffer came from `rados_mon_command`, or is null, which is nothing to free.
        #[expect(unsafe_code, reason = "calls librados")]
        unsafe {
            (api.buffer_free)(buffer);
        }
    }
    accepted(code)?;
    serde_json::from_slice(&bytes).map_err(|_| Refusal::INVALID)
}
