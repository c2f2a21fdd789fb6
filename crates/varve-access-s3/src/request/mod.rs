//! Requests from their connection to their operation, and the answers back: sockets, limits, what stands around the
//! protocol library, what a head says, counting and logging.

pub(crate) mod access_log;
pub(crate) mod account;
pub(crate) mod connections;
pub(crate) mod form;
pub(crate) mod front;
pub(crate) mod given;
pub(crate) mod health;
pub(crate) mod hosts;
pub(crate) mod preflight;
pub(crate) mod query;
pub(crate) mod server;
