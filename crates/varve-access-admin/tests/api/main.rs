//! The API as its clients see it, one behaviour a module.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod peer;

mod bucket_moves;
mod hostile_peers;
mod objects;
mod openapi;
mod snapshots;
mod space;
mod volumes;
