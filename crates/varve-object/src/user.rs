//! Records of users and of their access keys.

use bytes::Bytes;

use crate::error::Result;
use crate::fields::{TaggedReader, TaggedWriter};

/// A user.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct User {
    /// Identity in access control lists and policies.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Mail address, by which lists may name it too.
    pub email: String,
    /// May do everything.
    pub admin: bool,
    /// What it may do beside what it owns, JSON; empty: there is no such policy.
    pub policy: String,
    /// Most bytes in its buckets, 0 for no limit.
    pub quota_bytes: u64,
    /// Most buckets, 0 for no limit.
    pub quota_buckets: u64,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
}

/// An access key: its secret is sealed, as signatures need it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccessKey {
    /// Id of its user.
    pub user: String,
    /// The sealed secret.
    pub sealed: Vec<u8>,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
}

impl User {
    /// As bytes: a record of [`RecordTable::User`](crate::RecordTable::User).
    pub fn encode(&self) -> Bytes {
        let mut out = TaggedWriter::new();
        out.text(1, &self.id);
        out.text(2, &self.name);
        out.text(3, &self.email);
        out.number(4, u64::from(self.admin));
        out.text(5, &self.policy);
        out.number(6, self.quota_bytes);
        out.number(7, self.quota_buckets);
        out.number(8, self.created_ms);
        out.finish()
    }

    /// From bytes. Fails with `Corrupt`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut fields = TaggedReader::new(bytes, "a user record")?;
        let mut found = Self::default();
        while let Some((tag, value)) = fields.next()? {
            match tag {
                1 => found.id = fields.text(value)?,
                2 => found.name = fields.text(value)?,
                3 => found.email = fields.text(value)?,
                4 => found.admin = fields.number(value)? != 0,
                5 => found.policy = fields.text(value)?,
                6 => found.quota_bytes = fields.number(value)?,
                7 => found.quota_buckets = fields.number(value)?,
                8 => found.created_ms = fields.number(value)?,
                _ => return Err(fields.damaged()),
            }
        }
        Ok(found)
    }
}

impl AccessKey {
    /// As bytes: a record of [`RecordTable::AccessKey`](crate::RecordTable::AccessKey).
    pub fn encode(&self) -> Bytes {
        let mut out = TaggedWriter::new();
        out.text(1, &self.user);
        out.bytes(2, &self.sealed);
        out.number(3, self.created_ms);
        out.finish()
    }

    /// From bytes. Fails with `Corrupt`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut fields = TaggedReader::new(bytes, "an access key record")?;
        let mut found = Self::default();
        while let Some((tag, value)) = fields.next()? {
            match tag {
                1 => found.user = fields.text(value)?,
                2 => found.sealed = value.to_vec(),
                3 => found.created_ms = fields.number(value)?,
                _ => return Err(fields.damaged()),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were() {
        let user = User {
            id: "i".into(),
            name: "n".into(),
            admin: true,
            policy: "{}".into(),
            quota_bytes: 1,
            ..User::default()
        };
        assert_eq!(User::decode(&user.encode()).unwrap(), user);
        let key = AccessKey { user: "i".into(), sealed: vec![0, 255], created_ms: 9 };
        assert_eq!(AccessKey::decode(&key.encode()).unwrap(), key);
        for len in 0..key.encode().len() {
            let _ = AccessKey::decode(&key.encode()[..len]);
        }
        assert!(User::decode(&[1, 77, 0, 0, 0, 0]).is_err());
    }
}
