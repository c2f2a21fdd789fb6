//! The API as its clients see it, one behaviour a module.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod peer;

mod bucket_moves;
mod drives;
mod hostile_peers;
mod objects;
mod openapi;
mod snapshots;
mod space;
mod volumes;

/// Where something is on its way between two pools, by one of the runs.
fn moves(state: &str, run: u8) -> serde_json::Value {
    serde_json::json!({
        "state": state,
        "pool": "12121212-1212-1212-1212-121212121212",
        "address": "there",
        "run": format!("{run:032x}"),
    })
}

/// The same as a query says it.
fn expects(moves: &serde_json::Value) -> String {
    let json = moves.to_string();
    let encoded: String = json.bytes().map(|byte| format!("%{byte:02x}")).collect();
    format!("expects={encoded}")
}
