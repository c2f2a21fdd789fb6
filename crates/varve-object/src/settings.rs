//! What a bucket is set to: its record.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::acl::Acl;
use crate::error::Result;
use crate::fields::{Reader, Writer};

/// Settings of a bucket.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// Id of the user it belongs to.
    pub owner: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// Whether overwritten objects stay as versions.
    pub versioning: Versioning,
    /// Objects may be locked; fixed once set.
    pub object_lock: bool,
    /// Who may do what.
    pub acl: Acl,
    /// Most bytes, 0 for no limit.
    pub quota_bytes: u64,
    /// Most objects, 0 for no limit.
    pub quota_objects: u64,
    /// Requests are logged.
    pub access_log: bool,
    /// What clients configured, as they wrote it: checked XML or JSON.
    pub documents: BTreeMap<Document, Bytes>,
}

/// Whether overwritten and deleted objects stay as versions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Versioning {
    /// They do not, and never did.
    #[default]
    Off,
    /// They do.
    Enabled,
    /// They did once; those from then stay.
    Suspended,
}

/// Kinds of configurations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Document {
    /// Bucket policy, JSON.
    Policy,
    /// Cross-origin rules.
    Cors,
    /// Lifecycle rules.
    Lifecycle,
    /// Default encryption.
    Encryption,
    /// Tags of the bucket.
    Tagging,
    /// Ownership controls.
    Ownership,
    /// Public access block.
    PublicAccess,
    /// Default retention.
    ObjectLock,
    /// Access log.
    Logging,
    /// How it is served as a website.
    Website,
}

const OWNER: u8 = 1;
const CREATED: u8 = 2;
const VERSIONING: u8 = 3;
const OBJECT_LOCK: u8 = 4;
const ACL: u8 = 5;
const QUOTA_BYTES: u8 = 6;
const QUOTA_OBJECTS: u8 = 7;
const ACCESS_LOG: u8 = 8;
const DOCUMENT_BASE: u8 = 32;

impl Document {
    const ALL: [Self; 10] = [
        Self::Policy,
        Self::Cors,
        Self::Lifecycle,
        Self::Encryption,
        Self::Tagging,
        Self::Ownership,
        Self::PublicAccess,
        Self::ObjectLock,
        Self::Logging,
        Self::Website,
    ];

    fn tag(self) -> u8 {
        DOCUMENT_BASE
            + match self {
                Self::Policy => 0,
                Self::Cors => 1,
                Self::Lifecycle => 2,
                Self::Encryption => 3,
                Self::Tagging => 4,
                Self::Ownership => 5,
                Self::PublicAccess => 6,
                Self::ObjectLock => 7,
                Self::Logging => 8,
                Self::Website => 9,
            }
    }
}

impl Settings {
    /// As bytes: a record for [`Bucket::record`](crate::Bucket::record).
    pub fn encode(&self) -> Bytes {
        let mut out = Writer::new();
        out.text(OWNER, &self.owner);
        out.number(CREATED, self.created_ms);
        let versioning = match self.versioning {
            Versioning::Off => 0,
            Versioning::Enabled => 1,
            Versioning::Suspended => 2,
        };
        out.number(VERSIONING, versioning);
        out.number(OBJECT_LOCK, u64::from(self.object_lock));
        out.bytes(ACL, &self.acl.encode());
        out.number(QUOTA_BYTES, self.quota_bytes);
        out.number(QUOTA_OBJECTS, self.quota_objects);
        if self.access_log {
            out.number(ACCESS_LOG, 1);
        }
        self.documents.iter().for_each(|(document, bytes)| out.bytes(document.tag(), bytes));
        out.finish()
    }

    /// From bytes. Fails with `Corrupt`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut fields = Reader::new(bytes, "a bucket record")?;
        let mut found = Self::default();
        while let Some((tag, value)) = fields.next()? {
            match tag {
                OWNER => found.owner = fields.text(value)?,
                CREATED => found.created_ms = fields.number(value)?,
                VERSIONING => {
                    found.versioning = match fields.number(value)? {
                        0 => Versioning::Off,
                        1 => Versioning::Enabled,
                        2 => Versioning::Suspended,
                        _ => return Err(fields.damaged()),
                    };
                }
                OBJECT_LOCK => found.object_lock = fields.number(value)? != 0,
                ACL => found.acl = Acl::decode(value)?,
                QUOTA_BYTES => found.quota_bytes = fields.number(value)?,
                QUOTA_OBJECTS => found.quota_objects = fields.number(value)?,
                ACCESS_LOG => found.access_log = fields.number(value)? != 0,
                _ => {
                    let document = Document::ALL.into_iter().find(|document| document.tag() == tag);
                    found.documents.insert(
                        document.ok_or_else(|| fields.damaged())?,
                        Bytes::copy_from_slice(value),
                    );
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were_and_damaged_ones_do_not_panic() {
        let settings = Settings {
            owner: "o".to_owned(),
            created_ms: 5,
            versioning: Versioning::Suspended,
            object_lock: true,
            acl: Acl::private("o"),
            quota_bytes: 1 << 40,
            quota_objects: 7,
            access_log: true,
            documents: Document::ALL
                .into_iter()
                .map(|document| (document, Bytes::from(vec![document.tag()])))
                .collect(),
        };
        let bytes = settings.encode();
        assert_eq!(Settings::decode(&bytes).unwrap(), settings);
        for len in 0..bytes.len() {
            let _ = Settings::decode(&bytes[..len]);
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let _ = Settings::decode(&flipped);
        }
    }
}
