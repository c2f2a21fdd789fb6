//! The protocol as clients see it, one behaviour a module.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod server;
mod support;

mod bounds;
mod carried;
mod concurrency;
mod drive_starts_early;
mod extended_headers;
mod graceful_shutdown;
mod old_clients;
mod own_client;
mod random_requests;
mod real_clients;
mod tls;
