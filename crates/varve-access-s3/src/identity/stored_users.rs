//! Users and access keys as they are stored, on their way from one pool to another.

use bytes::Bytes;

/// A page of users and keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredUsers {
    /// Records of users by their names.
    pub users: Vec<(String, Bytes)>,
    /// Records of access keys by their public halves.
    pub keys: Vec<(String, Bytes)>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// What came of adding users and keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddedUsers {
    /// Users that are new.
    pub users: Vec<String>,
    /// Access keys that are new.
    pub keys: Vec<String>,
    /// Users and access keys that were there, and differ.
    pub kept: Vec<String>,
}
