//! Archives: a snapshot, or what changed between two, as one sequence of bytes. Types, encoders and decoders, no I/O.
//! `docs/archive.md` describes them.
//!
//! ```text
//!  header | record, payload | record, payload | … | end
//! ```
//!
//! ARCHIVE-1. The checksum of each record covers the one before it, the first the header's: nothing can be left out,
//!     repeated or moved.
//! ARCHIVE-2. Records stand in ascending order of their offsets and do not overlap, so the end of what is whole says
//!     where to go on.
//! ARCHIVE-3. Bytes of an archive are believed only when they are checked; no length is used before it was compared
//!     with its bound.

use varve_stdx::{DecodeError, Reader, Writer, checksum64, checksum64_seeded};
use varve_types::SnapshotIdentity;
use varve_types::limits::NAME_BYTES_MAX;

use crate::record::check_sizes;
use crate::{Error, Result};

/// What errors call the header.
const HEADER: &str = "Varve archive";

/// What errors call a record.
const RECORD: &str = "record of an archive";

const MAGIC: [u8; 8] = *b"VARVEARC";
const VERSION: u16 = 1;

/// Bytes of the header in front of the names.
const FIXED_LEN: usize = 80;
const CHECKSUM_LEN: usize = 8;

const WHOLE: u8 = 1;
const CHANGES: u8 = 2;

const DATA: u8 = 1;
const ZEROS: u8 = 2;
const END: u8 = 3;

/// What an archive is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveHeader {
    /// The snapshot's volume, where it was taken.
    pub volume: String,
    /// The snapshot's name, without the volume's.
    pub snapshot: String,
    /// The snapshot's identity.
    pub identity: SnapshotIdentity,
    /// The snapshot from which the changes count; `None` when the archive is the whole snapshot.
    pub from: Option<ArchiveBase>,
    /// Size of the snapshot in bytes.
    pub size_bytes: u64,
    /// Block size that clients are told to prefer, in bytes.
    pub block_size_bytes: u32,
    /// When the snapshot was taken, in ms since 1970.
    pub created_unix_ms: u64,
}

/// Where changes begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveBase {
    /// Name of the snapshot, without the volume's.
    pub snapshot: String,
    /// Its identity.
    pub identity: SnapshotIdentity,
}

impl ArchiveHeader {
    /// Bytes that tell how long the header is.
    pub const PREFIX_LEN: usize = 16;

    /// Longest header in bytes.
    pub const LEN_MAX: usize = FIXED_LEN + 3 * NAME_BYTES_MAX + CHECKSUM_LEN;

    /// Length of the header that begins with these bytes.
    ///
    /// # Errors
    /// [`Error::BadArchive`] when it is no archive, or of an unknown version.
    pub fn len_of(prefix: &[u8; Self::PREFIX_LEN]) -> Result<usize> {
        Self::read_len(prefix).map_err(bad_header)
    }

    fn read_len(prefix: &[u8; Self::PREFIX_LEN]) -> std::result::Result<usize, DecodeError> {
        let mut fields = Reader::new(HEADER, prefix);
        fields.magic(MAGIC)?;
        fields.version(VERSION)?;
        fields.bytes(2)?;
        let len = fields.u32()?;
        let bytes = usize::try_from(len).unwrap_or(usize::MAX);
        if !(FIXED_LEN + CHECKSUM_LEN..=Self::LEN_MAX).contains(&bytes) {
            return Err(fields.bad("length", u64::from(len)));
        }
        Ok(bytes)
    }

    /// The header as bytes.
    ///
    /// # Panics
    /// When a name is longer than 255 bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let from = self.from.as_ref();
        let from_snapshot = from.map_or("", |from| from.snapshot.as_str());
        let names = [self.volume.as_str(), self.snapshot.as_str(), from_snapshot];
        assert!(names.iter().all(|name| name.len() <= NAME_BYTES_MAX), "names are bounded");
        let names_len: usize = names.iter().map(|name| name.len()).sum();
        let len = FIXED_LEN + names_len + CHECKSUM_LEN;
        let mut bytes = vec![0; len];
        let (body, end) = bytes.split_at_mut(len - CHECKSUM_LEN);
        let mut out = Writer::new(body);
        out.array(MAGIC);
        out.u16(VERSION);
        out.u8(if from.is_some() { CHANGES } else { WHOLE });
        out.u8(0);
        out.u32(u32::try_from(len).expect("at most LEN_MAX"));
        out.u64(self.size_bytes);
        out.u32(self.block_size_bytes);
        out.u32(0);
        out.array(self.identity.0);
        out.array(from.map_or([0; 16], |from| from.identity.0));
        out.u64(self.created_unix_ms);
        for name in names {
            out.u16(u16::try_from(name.len()).expect("at most 255"));
        }
        out.u16(0);
        names.iter().for_each(|name| out.bytes(name.as_bytes()));
        end.copy_from_slice(&checksum64(body).to_le_bytes());
        bytes
    }

    /// Reads a header that is there in full.
    ///
    /// # Errors
    /// [`Error::BadArchive`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        Self::read(bytes).map_err(bad_header)
    }

    fn read(bytes: &[u8]) -> std::result::Result<Self, DecodeError> {
        let len = Self::read_len(&Reader::new(HEADER, bytes).array()?)?;
        let mut whole = Reader::new(HEADER, bytes);
        let body = whole.bytes(len - CHECKSUM_LEN)?;
        let sum = whole.u64()?;
        whole.end()?;
        if sum != checksum64(body) {
            return Err(whole.inconsistent("its header is damaged"));
        }
        Self::read_body(Reader::new(HEADER, body))
    }

    fn read_body(mut fields: Reader<'_>) -> std::result::Result<Self, DecodeError> {
        fields.bytes(10)?;
        let is_changes = match fields.array()? {
            [WHOLE, 0] => false,
            [CHANGES, 0] => true,
            [kind, _] => return Err(fields.unknown(kind)),
        };
        fields.u32()?;
        let (size_bytes, block_size_bytes) = (fields.u64()?, fields.u32()?);
        check_sizes(&fields, block_size_bytes, size_bytes)?;
        fields.zeros(4)?;
        let identity = SnapshotIdentity(fields.array()?);
        let from_identity = SnapshotIdentity(fields.array()?);
        let created_unix_ms = fields.u64()?;
        let lens = [fields.u16()?, fields.u16()?, fields.u16()?];
        fields.zeros(2)?;
        let mut name = |field, len: u16| {
            let name = fields.text(field, usize::from(len))?;
            match name.len() <= NAME_BYTES_MAX {
                true => Ok(name.to_owned()),
                false => Err(fields.bad(field, u64::from(len))),
            }
        };
        let volume = name("name of the volume", lens[0])?;
        let snapshot = name("name of the snapshot", lens[1])?;
        let from_snapshot = name("name of the earlier snapshot", lens[2])?;
        fields.end()?;
        let nothing = from_snapshot.is_empty() && from_identity.0 == [0; 16];
        if !is_changes && !nothing {
            return Err(fields.inconsistent("a whole volume has no earlier snapshot"));
        }
        let from =
            is_changes.then_some(ArchiveBase { snapshot: from_snapshot, identity: from_identity });
        Ok(Self { volume, snapshot, identity, from, size_bytes, block_size_bytes, created_unix_ms })
    }
}

/// What a record of an archive says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArchiveRecord {
    /// Bytes from `offset` on are the payload.
    Data {
        /// First byte.
        offset: u64,
        /// Bytes of payload.
        len: u64,
    },
    /// Bytes from `offset` on are zeros.
    Zeros {
        /// First byte.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// Nothing follows.
    End,
}

/// The place in an archive up to which everything is whole: it makes the next record, or checks it.
#[derive(Clone, Debug)]
pub struct ArchiveChain {
    size_bytes: u64,
    checksum: u64,
    records: u64,
    data_bytes: u64,
    /// The next record may not begin before this.
    offset: u64,
    is_ended: bool,
}

impl ArchiveChain {
    /// Bytes of a record in front of its payload.
    pub const RECORD_LEN: usize = 32;

    /// Most bytes of payload of a record.
    pub const PAYLOAD_MAX: usize = 1 << 20;

    /// Right behind a header, as it was encoded.
    #[must_use]
    pub fn new(header: &ArchiveHeader) -> Self {
        let checksum = checksum64(&header.encode());
        let size_bytes = header.size_bytes;
        Self { size_bytes, checksum, records: 0, data_bytes: 0, offset: 0, is_ended: false }
    }

    /// Up to which offset of the volume the archive tells everything.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of payload so far.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Whether the end was reached.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    fn sum(&self, fields: &[u8], payload: &[u8]) -> u64 {
        let seed = checksum64_seeded(payload, self.checksum);
        checksum64_seeded(fields, seed)
    }

    /// The next record, without its payload, which follows it.
    ///
    /// # Panics
    /// When it does not come after the last one, or is too large.
    #[must_use]
    pub fn encode(&mut self, record: ArchiveRecord, payload: &[u8]) -> [u8; Self::RECORD_LEN] {
        let (kind, offset, len) = match record {
            ArchiveRecord::Data { offset, len } => (DATA, offset, len),
            ArchiveRecord::Zeros { offset, len } => (ZEROS, offset, len),
            ArchiveRecord::End => (END, self.records, self.data_bytes),
        };
        let mut bytes = [0; Self::RECORD_LEN];
        let (fields, end) = bytes.split_at_mut(Self::RECORD_LEN - CHECKSUM_LEN);
        let mut out = Writer::new(fields);
        out.u8(kind);
        out.zeros(7);
        out.u64(offset);
        out.u64(len);
        end.copy_from_slice(&self.sum(fields, payload).to_le_bytes());
        let accepted = self.accept(&bytes, payload);
        assert_eq!(accepted.ok(), Some(record), "records come in order");
        bytes
    }

    fn fields(&self, bytes: &[u8]) -> std::result::Result<ArchiveRecord, DecodeError> {
        let mut fields = Reader::new(RECORD, bytes);
        let kind = fields.u8()?;
        fields.zeros(7)?;
        let (offset, len) = (fields.u64()?, fields.u64()?);
        if kind == END {
            return Ok(ArchiveRecord::End);
        }
        let end = offset.checked_add(len); // ARCHIVE-2
        if len == 0 || offset < self.offset || end.is_none_or(|end| end > self.size_bytes) {
            let reason = "its place is not behind the one before it and inside the volume";
            return Err(fields.inconsistent(reason));
        }
        match kind {
            DATA if len > Self::PAYLOAD_MAX as u64 => Err(fields.bad("length", len)), // ARCHIVE-3
            DATA => Ok(ArchiveRecord::Data { offset, len }),
            ZEROS => Ok(ArchiveRecord::Zeros { offset, len }),
            kind => Err(fields.unknown(kind)),
        }
    }

    /// How many bytes of payload follow a record; at most [`Self::PAYLOAD_MAX`].
    ///
    /// # Errors
    /// [`Error::BadArchive`].
    pub fn payload_len(&self, bytes: &[u8; Self::RECORD_LEN]) -> Result<usize> {
        match self.fields(bytes).map_err(|cause| self.bad_record(cause))? {
            ArchiveRecord::Data { len, .. } => Ok(usize::try_from(len).expect("at most a MiB")),
            ArchiveRecord::Zeros { .. } | ArchiveRecord::End => Ok(0),
        }
    }

    fn bad_record(&self, cause: DecodeError) -> Error {
        Error::BadArchive { record: self.records + 1, cause }
    }

    /// Checks the next record and its payload, and goes behind it.
    ///
    /// # Errors
    /// [`Error::BadArchive`]; the place then stays as it is.
    pub fn accept(
        &mut self,
        bytes: &[u8; Self::RECORD_LEN],
        payload: &[u8],
    ) -> Result<ArchiveRecord> {
        let number = self.records + 1;
        let bad = |reason| Error::BadArchive {
            record: number,
            cause: DecodeError::Inconsistent { what: RECORD, reason },
        };
        if self.is_ended {
            return Err(bad("it stands behind the end"));
        }
        let record = self.fields(bytes).map_err(|cause| self.bad_record(cause))?;
        let (fields, end) = bytes.split_at(Self::RECORD_LEN - CHECKSUM_LEN);
        let sum = self.sum(fields, payload); // ARCHIVE-1
        if sum.to_le_bytes() != *end {
            return Err(bad("it is damaged, or something before it is missing"));
        }
        match record {
            ArchiveRecord::Data { offset, len } => {
                if payload.len() as u64 != len {
                    return Err(bad("its payload is of another length than it says"));
                }
                self.offset = offset + len;
                self.data_bytes += len;
            }
            ArchiveRecord::Zeros { offset, len } => self.offset = offset + len,
            ArchiveRecord::End => {
                let totals = [self.records.to_le_bytes(), self.data_bytes.to_le_bytes()].concat();
                if fields.get(8..) != Some(&totals[..]) {
                    return Err(bad("its totals are not those of the records before it"));
                }
                self.is_ended = true;
            }
        }
        self.records = number;
        self.checksum = sum;
        Ok(record)
    }
}

fn bad_header(cause: DecodeError) -> Error {
    Error::BadArchive { record: 0, cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(from: Option<ArchiveBase>) -> ArchiveHeader {
        ArchiveHeader {
            volume: "lab/vm1".to_owned(),
            snapshot: "tuesday".to_owned(),
            identity: SnapshotIdentity([7; 16]),
            from,
            size_bytes: 1 << 30,
            block_size_bytes: 4096,
            created_unix_ms: 1_700_000_000_000,
        }
    }

    fn base() -> Option<ArchiveBase> {
        Some(ArchiveBase { snapshot: "monday".to_owned(), identity: SnapshotIdentity([8; 16]) })
    }

    #[test]
    fn headers_round_trip_and_every_flipped_bit_shows() {
        for header in [header(None), header(base())] {
            let bytes = header.encode();
            assert!(bytes.len() <= ArchiveHeader::LEN_MAX);
            assert_eq!(ArchiveHeader::decode(&bytes).unwrap(), header);
            for len in 0..bytes.len() {
                assert!(ArchiveHeader::decode(&bytes[..len]).is_err(), "{len}");
            }
            for at in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[at / 8] ^= 1 << (at % 8);
                assert!(ArchiveHeader::decode(&flipped).is_err(), "bit {at}");
            }
        }
    }

    type Stored = ([u8; ArchiveChain::RECORD_LEN], Vec<u8>);

    fn records() -> Vec<Stored> {
        let mut chain = ArchiveChain::new(&header(None));
        let payload = vec![5; 4096];
        let data = |offset| ArchiveRecord::Data { offset, len: 4096 };
        vec![
            (chain.encode(data(0), &payload), payload.clone()),
            (chain.encode(data(4096), &payload), payload.clone()),
            (chain.encode(ArchiveRecord::Zeros { offset: 1 << 20, len: 1 << 29 }, &[]), vec![]),
            (chain.encode(ArchiveRecord::End, &[]), vec![]),
        ]
    }

    fn check(records: &[Stored]) -> Result<ArchiveChain> {
        let mut chain = ArchiveChain::new(&header(None));
        for (record, payload) in records {
            assert!(chain.payload_len(record).is_err() || payload.len() <= 4096);
            chain.accept(record, payload)?;
        }
        Ok(chain)
    }

    #[test]
    fn records_round_trip_and_every_flipped_bit_shows() {
        let records = records();
        let whole = check(&records).unwrap();
        assert!(whole.is_ended());
        assert_eq!((whole.data_bytes(), whole.offset()), (8192, (1 << 20) + (1 << 29)));
        assert!(!check(&records[..3]).unwrap().is_ended());
        for at in 0..records.len() {
            for bit in 0..ArchiveChain::RECORD_LEN * 8 {
                let mut flipped = records.clone();
                flipped[at].0[bit / 8] ^= 1 << (bit % 8);
                assert!(check(&flipped).is_err(), "record {at} bit {bit}");
            }
        }
        let mut flipped = records.clone();
        flipped[1].1[77] ^= 1;
        assert!(check(&flipped).is_err());
    }

    #[test]
    fn records_that_are_missing_repeated_or_moved_show() {
        let records = records();
        for at in 0..records.len() - 1 {
            let mut others = records.clone();
            others.remove(at);
            assert!(check(&others).is_err(), "{at} is missing");
            let mut others = records.clone();
            others.insert(at, records[at].clone());
            assert!(check(&others).is_err(), "{at} is repeated");
            let mut others = records.clone();
            others.swap(at, at + 1);
            assert!(check(&others).is_err(), "{at} is moved");
        }
        let again = [&records[..], &records[3..]].concat();
        assert!(check(&again).is_err(), "something behind the end");
        let mut other = ArchiveChain::new(&header(base()));
        assert!(other.accept(&records[0].0, &records[0].1).is_err(), "of another archive");
    }

    #[test]
    fn places_outside_the_volume_are_refused_before_anything_is_read() {
        let chain = ArchiveChain::new(&header(None));
        for (kind, offset, len) in [
            (DATA, 0, (1 << 20) + 1),
            (DATA, 0, 0),
            (DATA, (1 << 30) - 4095, 4096),
            (DATA, u64::MAX, 4096),
            (ZEROS, 1, 1 << 30),
            (ZEROS, 0, u64::MAX),
            (9, 0, 4096),
        ] {
            let mut bytes = [0; ArchiveChain::RECORD_LEN];
            let mut out = Writer::new(&mut bytes);
            out.u8(kind);
            out.zeros(7);
            out.u64(offset);
            out.u64(len);
            assert!(chain.payload_len(&bytes).is_err(), "{kind} {offset} {len}");
        }
    }
}
