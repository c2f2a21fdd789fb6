//! What a bucket is set to: its record.

use std::collections::BTreeMap;

use bytes::Bytes;
use varve_types::{Compression, Dedup, Reduction};

use crate::acl::Acl;
use crate::error::Result;
use crate::fields::{TaggedReader, TaggedWriter};

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
    /// Whether equal blocks of its objects are stored once; none: the default of [`Reduction`].
    pub dedup: Option<Dedup>,
    /// How blocks of its objects are compressed; none: the default of [`Reduction`].
    pub compression: Option<Compression>,
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
const DEDUP: u8 = 9;
const COMPRESSION: u8 = 10;
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

const DEDUP_OFF: u64 = 1;
const DEDUP_ON: u64 = 2;
const DEDUP_AUTO: u64 = 3;

const COMPRESSION_OFF: u64 = 1;
const COMPRESSION_LZ4: u64 = 2;
/// The level of Zstandard is added to it.
const COMPRESSION_ZSTD: u64 = 256;

fn compression_of(number: u64) -> Option<Compression> {
    match number {
        COMPRESSION_OFF => Some(Compression::Off),
        COMPRESSION_LZ4 => Some(Compression::Lz4),
        _ => {
            let level = u8::try_from(number.checked_sub(COMPRESSION_ZSTD)?).ok()?;
            let is_level = (1..=Compression::ZSTD_LEVEL_MAX).contains(&level);
            is_level.then_some(Compression::Zstd(level))
        }
    }
}

fn compression_number(compression: Compression) -> u64 {
    match compression {
        Compression::Off => COMPRESSION_OFF,
        Compression::Lz4 => COMPRESSION_LZ4,
        Compression::Zstd(level) => COMPRESSION_ZSTD + u64::from(level),
    }
}

impl Settings {
    /// How the bodies of its objects are reduced.
    #[must_use]
    pub fn reduction(&self) -> Reduction {
        let default = Reduction::default();
        Reduction {
            dedup: self.dedup.unwrap_or(default.dedup),
            compression: self.compression.unwrap_or(default.compression),
        }
    }

    /// The same, of a record; the default where the record cannot be read, which is reported where the record itself is
    /// used.
    #[must_use]
    pub fn reduction_in(record: &[u8]) -> Reduction {
        Self::decode(record).map(|settings| settings.reduction()).unwrap_or_default()
    }

    /// As bytes: a record for [`Bucket::record`](crate::Bucket::record).
    pub fn encode(&self) -> Bytes {
        let mut out = TaggedWriter::new();
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
        if let Some(dedup) = self.dedup {
            let number = match dedup {
                Dedup::Off => DEDUP_OFF,
                Dedup::On => DEDUP_ON,
                Dedup::Auto => DEDUP_AUTO,
            };
            out.number(DEDUP, number);
        }
        if let Some(compression) = self.compression {
            out.number(COMPRESSION, compression_number(compression));
        }
        self.documents.iter().for_each(|(document, bytes)| out.bytes(document.tag(), bytes));
        out.finish()
    }

    /// From bytes. Fails with `Corrupt`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut fields = TaggedReader::new(bytes, "a bucket record")?;
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
                DEDUP => {
                    found.dedup = match fields.number(value)? {
                        DEDUP_OFF => Some(Dedup::Off),
                        DEDUP_ON => Some(Dedup::On),
                        DEDUP_AUTO => Some(Dedup::Auto),
                        _ => return Err(fields.damaged()),
                    };
                }
                COMPRESSION => {
                    let compression = compression_of(fields.number(value)?);
                    found.compression = Some(compression.ok_or_else(|| fields.damaged())?);
                }
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
            dedup: Some(Dedup::On),
            compression: Some(Compression::Zstd(7)),
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

    #[test]
    fn reductions_come_back_and_what_is_not_set_is_the_default() {
        let default = Reduction::default();
        assert_eq!(Settings::reduction_in(&Settings::default().encode()), default);
        assert_eq!(Settings::reduction_in(b"damaged"), default);
        for dedup in [None, Some(Dedup::Off), Some(Dedup::On), Some(Dedup::Auto)] {
            for compression in
                [None, Some(Compression::Off), Some(Compression::Lz4), Some(Compression::Zstd(1))]
            {
                let settings = Settings { dedup, compression, ..Settings::default() };
                let read = Settings::decode(&settings.encode()).unwrap();
                assert_eq!(read, settings);
                let expected = Reduction {
                    dedup: dedup.unwrap_or(default.dedup),
                    compression: compression.unwrap_or(default.compression),
                };
                assert_eq!(read.reduction(), expected);
            }
        }
        for (tag, number) in [(DEDUP, 0), (DEDUP, 4), (COMPRESSION, 0), (COMPRESSION, 3)] {
            let mut out = TaggedWriter::new();
            out.number(tag, number);
            assert!(Settings::decode(&out.finish()).is_err(), "{tag} {number}");
        }
        for level in [0, 20, 256] {
            assert_eq!(compression_of(COMPRESSION_ZSTD + level), None);
        }
    }
}
