//! What clients are told when something fails: errors of the gateway and the store as codes of the protocol, and their
//! texts.

pub(crate) mod error;
pub(crate) mod wording;
