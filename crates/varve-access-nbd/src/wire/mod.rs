//! Bytes that a server reads and sends beside those that both sides know (`varve-nbd`): the options of clients, and
//! replies. No I/O.

pub(crate) mod option;
pub(crate) mod reply;
