//! Everything about a version, upload or part that a store does not look at, as one record.

use bytes::Bytes;

use crate::acl::Acl;
use crate::error::Result;
use crate::fields::{TaggedReader, TaggedWriter};

/// Checksums of parts are kept as long as they take no more than this, in bytes: 1,280 parts by SHA-512, 10,000 by
/// CRC64.
const PART_SUMS_MAX: usize = 80 << 10;

/// Attributes of an object, a delete marker, an upload or a part. Those that do not apply are empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attributes {
    /// Id of the user it belongs to.
    pub owner: String,
    /// Entity tag without its quotes.
    pub etag: String,
    /// Headers that come back as they were given, by lower-case name.
    pub headers: Vec<(String, String)>,
    /// User metadata, by lower-case name without prefix.
    pub metadata: Vec<(String, String)>,
    /// Tags.
    pub tags: Vec<(String, String)>,
    /// Checksum of the whole.
    pub checksum: Option<Checksum>,
    /// Parts it was made of.
    pub parts: Vec<PartEntry>,
    /// The upload it was completed from, so that completing it again finds it.
    pub upload: Option<u64>,
    /// Who may do what.
    pub acl: Acl,
    /// Until when it must stay.
    pub retention: Option<Retention>,
    /// It must stay while this is set.
    pub legal_hold: Option<bool>,
    /// How its bytes are encrypted.
    pub encryption: Option<Encryption>,
    /// Storage class asked for; empty: the standard one.
    pub storage_class: String,
}

/// Kinds of checksums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChecksumKind {
    /// CRC-32 of IEEE 802.3.
    Crc32,
    /// CRC-32 of Castagnoli.
    Crc32c,
    /// CRC-64 of NVMe.
    Crc64Nvme,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// MD5.
    Md5,
    /// XXH64 with seed 0.
    XxHash64,
    /// XXH3 of 64 bits, with seed 0.
    XxHash3,
    /// XXH3 of 128 bits, with seed 0.
    XxHash128,
}

/// A checksum of an object or part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checksum {
    /// Its kind.
    pub kind: ChecksumKind,
    /// Of the parts' checksums, not of all bytes.
    pub composite: bool,
    /// Its bytes; none while it is only promised, as in an upload.
    pub value: Vec<u8>,
}

/// A part of an object that was uploaded in parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartEntry {
    /// Its number.
    pub number: u16,
    /// Its length in bytes.
    pub size: u64,
    /// Its checksum, of the kind that the object has. Empty when there is none, or not room for all.
    pub checksum: Vec<u8>,
}

/// A time before which a version must not be deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// Nobody may shorten it; else those with the right to bypass may.
    pub compliance: bool,
    /// Until when, in milliseconds since 1970.
    pub until_ms: u64,
}

/// How bytes are encrypted: each body has a key of its own, which is stored sealed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Encryption {
    /// Who has the key that it is sealed with.
    pub holder: KeyHolder,
    /// The sealed key.
    pub sealed: Vec<u8>,
}

/// Whose key seals keys of bodies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyHolder {
    /// The gateway's.
    Gateway,
    /// The client's, known by its MD5 in base64.
    Client {
        /// The MD5.
        md5: String,
    },
    /// A named one of the gateway's.
    Named {
        /// Its name.
        id: String,
    },
}

const OWNER: u8 = 1;
const ETAG: u8 = 2;
const HEADER: u8 = 3;
const METADATA: u8 = 4;
const TAG: u8 = 5;
const CHECKSUM: u8 = 6;
const PARTS: u8 = 7;
const PART_SUMS: u8 = 8;
const ACL: u8 = 9;
const RETENTION: u8 = 10;
const LEGAL_HOLD: u8 = 11;
const ENCRYPTION: u8 = 12;
const KEY_ID: u8 = 13;
const STORAGE_CLASS: u8 = 14;
const UPLOAD: u8 = 15;

impl ChecksumKind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Crc32,
        Self::Crc32c,
        Self::Crc64Nvme,
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
        Self::Md5,
        Self::XxHash64,
        Self::XxHash3,
        Self::XxHash128,
    ];

    fn code(self) -> u8 {
        match self {
            Self::Crc32 => 1,
            Self::Crc32c => 2,
            Self::Crc64Nvme => 3,
            Self::Sha1 => 4,
            Self::Sha256 => 5,
            Self::Sha512 => 6,
            Self::Md5 => 7,
            Self::XxHash64 => 8,
            Self::XxHash3 => 9,
            Self::XxHash128 => 10,
        }
    }

    fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Length of its value, in bytes.
    pub fn size_bytes(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme | Self::XxHash64 | Self::XxHash3 => 8,
            Self::Md5 | Self::XxHash128 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

impl Attributes {
    /// As bytes: a record for [`Version::attributes`](crate::Version::attributes).
    pub fn encode(&self) -> Bytes {
        let mut out = TaggedWriter::new();
        out.text(OWNER, &self.owner);
        out.text(ETAG, &self.etag);
        self.headers.iter().for_each(|(name, value)| out.pair(HEADER, name, value));
        self.metadata.iter().for_each(|(name, value)| out.pair(METADATA, name, value));
        self.tags.iter().for_each(|(name, value)| out.pair(TAG, name, value));
        if let Some(sum) = &self.checksum {
            out.bytes(
                CHECKSUM,
                &[&[sum.kind.code(), u8::from(sum.composite)], sum.value.as_slice()].concat(),
            );
        }
        encode_parts(&self.parts, &mut out);
        if !self.acl.grants.is_empty() {
            out.bytes(ACL, &self.acl.encode());
        }
        if let Some(retention) = self.retention {
            out.bytes(
                RETENTION,
                &[&[u8::from(retention.compliance)], retention.until_ms.to_le_bytes().as_slice()]
                    .concat(),
            );
        }
        if let Some(hold) = self.legal_hold {
            out.bytes(LEGAL_HOLD, &[u8::from(hold)]);
        }
        if let Some(encryption) = &self.encryption {
            let (holder, id) = match &encryption.holder {
                KeyHolder::Gateway => (1, ""),
                KeyHolder::Client { md5 } => (2, md5.as_str()),
                KeyHolder::Named { id } => (3, id.as_str()),
            };
            out.bytes(ENCRYPTION, &[&[holder], encryption.sealed.as_slice()].concat());
            out.text(KEY_ID, id);
        }
        out.text(STORAGE_CLASS, &self.storage_class);
        self.upload.iter().for_each(|upload| out.number(UPLOAD, *upload));
        out.finish()
    }

    /// From bytes. Fails with `Corrupt`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut fields = TaggedReader::new(bytes, "an attribute record")?;
        let mut found = Self::default();
        let mut key_id = String::new();
        while let Some((tag, value)) = fields.next()? {
            match tag {
                OWNER => found.owner = fields.text(value)?,
                ETAG => found.etag = fields.text(value)?,
                HEADER => found.headers.push(fields.pair(value)?),
                METADATA => found.metadata.push(fields.pair(value)?),
                TAG => found.tags.push(fields.pair(value)?),
                CHECKSUM => {
                    found.checksum = Some(decode_checksum(value).ok_or_else(|| fields.damaged())?)
                }
                PARTS => found.parts = decode_parts(value).ok_or_else(|| fields.damaged())?,
                PART_SUMS => {
                    add_part_sums(&mut found.parts, value).ok_or_else(|| fields.damaged())?
                }
                ACL => found.acl = Acl::decode(value)?,
                RETENTION => {
                    found.retention = Some(decode_retention(value).ok_or_else(|| fields.damaged())?)
                }
                LEGAL_HOLD => found.legal_hold = Some(value.first().is_some_and(|hold| *hold != 0)),
                ENCRYPTION => {
                    found.encryption =
                        Some(decode_encryption(value).ok_or_else(|| fields.damaged())?)
                }
                KEY_ID => key_id = fields.text(value)?,
                UPLOAD => found.upload = Some(fields.number(value)?),
                STORAGE_CLASS => found.storage_class = fields.text(value)?,
                _ => return Err(fields.damaged()),
            }
        }
        match found.encryption.as_mut().map(|encryption| &mut encryption.holder) {
            Some(KeyHolder::Client { md5 }) => *md5 = key_id,
            Some(KeyHolder::Named { id }) => *id = key_id,
            Some(KeyHolder::Gateway) | None => {}
        }
        Ok(found)
    }

    /// A header by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// Runs of parts of one size with numbers that follow each other: first number, how many, size.
fn encode_parts(parts: &[PartEntry], out: &mut TaggedWriter) {
    if parts.is_empty() {
        return;
    }
    let mut runs: Vec<(u16, u16, u64)> = Vec::new();
    for part in parts {
        match runs.last_mut() {
            Some((first, count, size))
                if *size == part.size
                    && u32::from(*first) + u32::from(*count) == u32::from(part.number) =>
            {
                *count += 1
            }
            _ => runs.push((part.number, 1, part.size)),
        }
    }
    let encoded = runs.iter().flat_map(|(first, count, size)| {
        first.to_le_bytes().into_iter().chain(count.to_le_bytes()).chain(size.to_le_bytes())
    });
    out.bytes(PARTS, &encoded.collect::<Vec<u8>>());
    let sum = parts.first().map_or(0, |part| part.checksum.len());
    if sum > 0
        && parts.iter().all(|part| part.checksum.len() == sum)
        && sum * parts.len() <= PART_SUMS_MAX
    {
        out.bytes(
            PART_SUMS,
            &parts.iter().flat_map(|part| part.checksum.iter().copied()).collect::<Vec<u8>>(),
        );
    }
}

fn decode_parts(value: &[u8]) -> Option<Vec<PartEntry>> {
    let mut parts = Vec::new();
    for run in value.chunks(12) {
        let first = u16::from_le_bytes(run.get(..2)?.try_into().ok()?);
        let count = u16::from_le_bytes(run.get(2..4)?.try_into().ok()?);
        let size = u64::from_le_bytes(run.get(4..)?.try_into().ok()?);
        let end = first.checked_add(count)?;
        if end > 10_001 || parts.len() > 10_000 {
            return None;
        }
        parts.extend((first..end).map(|number| PartEntry { number, size, checksum: Vec::new() }));
    }
    Some(parts)
}

fn add_part_sums(parts: &mut [PartEntry], value: &[u8]) -> Option<()> {
    let sum = value.len().checked_div(parts.len())?;
    if sum == 0 || sum * parts.len() != value.len() {
        return None;
    }
    parts.iter_mut().zip(value.chunks(sum)).for_each(|(part, sum)| part.checksum = sum.to_vec());
    Some(())
}

fn decode_checksum(value: &[u8]) -> Option<Checksum> {
    let (&[kind, composite], value) = value.split_first_chunk::<2>()?;
    Some(Checksum {
        kind: ChecksumKind::of(kind)?,
        composite: composite != 0,
        value: value.to_vec(),
    })
}

fn decode_retention(value: &[u8]) -> Option<Retention> {
    let (&[compliance], until) = value.split_first_chunk::<1>()?;
    Some(Retention {
        compliance: compliance != 0,
        until_ms: u64::from_le_bytes(until.try_into().ok()?),
    })
}

fn decode_encryption(value: &[u8]) -> Option<Encryption> {
    let (&holder, sealed) = value.split_first()?;
    let holder = match holder {
        1 => KeyHolder::Gateway,
        2 => KeyHolder::Client { md5: String::new() },
        3 => KeyHolder::Named { id: String::new() },
        _ => return None,
    };
    Some(Encryption { holder, sealed: sealed.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::{Grant, Grantee, Permission};

    fn full() -> Attributes {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        Attributes {
            owner: "owner".to_owned(),
            etag: "d41d8cd98f00b204e9800998ecf8427e-3".to_owned(),
            headers: vec![pair("content-type", "text/plain"), pair("expires", "")],
            metadata: vec![pair("a", "b"), pair("empty", "")],
            tags: vec![pair("colour", "red")],
            checksum: Some(Checksum {
                kind: ChecksumKind::Crc64Nvme,
                composite: true,
                value: vec![7; 8],
            }),
            parts: [(1, 5), (2, 5), (4, 5), (5, 1)]
                .into_iter()
                .map(|(number, size)| PartEntry {
                    number,
                    size,
                    checksum: vec![u8::try_from(number).unwrap(); 8],
                })
                .collect(),
            upload: Some(77),
            acl: Acl {
                grants: vec![Grant { grantee: Grantee::Everyone, permission: Permission::Read }],
            },
            retention: Some(Retention { compliance: true, until_ms: 1 << 40 }),
            legal_hold: Some(true),
            encryption: Some(Encryption {
                holder: KeyHolder::Client { md5: "md5".to_owned() },
                sealed: vec![1, 2, 3],
            }),
            storage_class: "STANDARD_IA".to_owned(),
        }
    }

    #[test]
    fn records_come_back_as_they_were() {
        for attributes in [full(), Attributes::default()] {
            assert_eq!(Attributes::decode(&attributes.encode()).unwrap(), attributes);
        }
    }

    #[test]
    fn each_kind_of_checksum_has_a_code_of_its_own() {
        for kind in ChecksumKind::ALL {
            let checksum = Checksum { kind, composite: false, value: vec![9; kind.size_bytes()] };
            let attributes = Attributes { checksum: Some(checksum), ..Attributes::default() };
            assert_eq!(Attributes::decode(&attributes.encode()).unwrap(), attributes);
        }
    }

    #[test]
    fn cut_and_flipped_records_decode_or_are_refused() {
        let bytes = full().encode();
        for len in 0..bytes.len() {
            let _ = Attributes::decode(&bytes[..len]);
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let _ = Attributes::decode(&flipped);
        }
        assert!(Attributes::decode(&[]).is_err());
        assert!(Attributes::decode(&[1, 99, 0, 0, 0, 0]).is_err(), "an unknown field is refused");
    }

    #[test]
    fn ten_thousand_parts_stay_within_the_record_limit() {
        let part = |number: u16, len: usize| PartEntry {
            number,
            size: u64::from(number),
            checksum: vec![1; len],
        };
        let with = |len| Attributes {
            parts: (1..=10_000).map(|number| part(number, len)).collect(),
            ..full()
        };
        assert!(with(32).encode().len() <= 128 << 10);
        let even = Attributes {
            parts: (1..=10_000).map(|number| PartEntry { size: 5, ..part(number, 8) }).collect(),
            ..full()
        };
        assert_eq!(Attributes::decode(&even.encode()).unwrap(), even);
    }
}
