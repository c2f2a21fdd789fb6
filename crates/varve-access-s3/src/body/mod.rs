//! Bytes of objects on their way in and out: received, hashed, encrypted, with the memory that they may take.

pub(crate) mod cipher;
pub(crate) mod md5_queue;
pub(crate) mod memory;
pub(crate) mod receive;
pub(crate) mod refusal;
pub(crate) mod seal;
pub(crate) mod sealing;
pub(crate) mod sums;
