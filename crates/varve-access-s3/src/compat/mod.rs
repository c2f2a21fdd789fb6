//! What the protocol library (`s3s`) does otherwise than Amazon, or than is safe, and how it is corrected: before it
//! sees a request, within its streams, and behind its answers. Each file opens with what it corrects.

pub(crate) mod answer;
pub(crate) mod body_end;
pub(crate) mod checksum_names;
pub(crate) mod digests;
pub(crate) mod frames;
pub(crate) mod head;
pub(crate) mod misdirected;
pub(crate) mod repair;
pub(crate) mod signed;
pub(crate) mod unframed;
pub(crate) mod xml;
