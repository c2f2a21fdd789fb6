//! What `varve plan` reads and prints; it computes nothing itself (`varve-tool-plan` does).

pub(crate) mod catalogue;
mod form;
pub(crate) mod question;
pub(crate) mod search;
