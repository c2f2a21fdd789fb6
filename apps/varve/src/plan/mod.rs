//! What `varve plan` reads and prints; it computes nothing itself (`varve-tool-plan` does).

mod baseline;
pub(crate) mod catalogue;
mod form;
mod preset;
pub(crate) mod provision;
pub(crate) mod question;
pub(crate) mod search;
