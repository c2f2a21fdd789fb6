//! Values of a shelf's keys. Described in `docs/format.md`.
//!
//! ```text
//! version, upload, part
//! 0         2       3      4            5          8      16         24     32
//! | version | flags | body | attributes | reserved | size | modified | link |
//! 32         40           48               52         56                 64
//! | body len | body place | attributes len | reserved | attributes place | attributes, body
//!
//! a reference, where the body of a record stands
//! 0      2     3       4          8                       16       24
//! | home | tag | depth | reserved | first block or upload | offset |
//! ```

use bytes::Bytes;
use varve_engine::BLOCK_BYTES;
use varve_stdx::{Reader, Writer};

use varve_types::ShardId;

use super::keys::BodyPlace;
use super::reference::{DEPTH_MAX, Reference, ReferenceTarget};
use crate::{Error, Result, UploadId, Version};

/// Version of the records.
const VERSION: u16 = 1;

const FLAG_NULL: u8 = 1;
const FLAG_MARKER: u8 = 2;

const BODY_NONE: u8 = 0;
const BODY_INLINE: u8 = 1;
const BODY_EXTENT: u8 = 2;
const BODY_PARTS: u8 = 3;
const BODY_REFERENCE: u8 = 4;

const TARGET_EXTENT: u8 = 1;
const TARGET_PARTS: u8 = 2;

/// Bytes of a reference in a record.
const REFERENCE_LEN: usize = 24;

const ATTRIBUTES_INLINE: u8 = 0;
const ATTRIBUTES_EXTENT: u8 = 1;

/// Blocks of a stream at most: addresses end at 2^56 bytes.
const BLOCKS_MAX: u64 = 1 << 44;

/// Bytes in blocks of the bucket's stream, from the begin of a block on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BodyExtent {
    /// First block.
    pub(crate) first: u64,
    /// Bytes.
    pub(crate) len: u64,
}

impl BodyExtent {
    /// Blocks that it takes.
    pub(crate) fn blocks(&self) -> u64 {
        self.len.div_ceil(BLOCK_BYTES as u64)
    }
}

/// Where a body is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StoredBody {
    /// There is none, or an empty one.
    None,
    /// In the record.
    Inline(Bytes),
    /// In blocks.
    Extent(BodyExtent),
    /// In the parts of an upload, one after another.
    Parts { upload: UploadId, len: u64 },
    /// In what a reference names, from an offset on. `depth`: how many references lie in each other there, this one
    /// included.
    Reference { reference: Reference, offset: u64, len: u64, depth: u8 },
}

impl StoredBody {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Extent(extent) => extent.len,
            Self::Parts { len, .. } | Self::Reference { len, .. } => *len,
        }
    }

    /// Bytes of it in its record.
    pub(crate) fn len_in_record(&self) -> usize {
        match self {
            Self::Inline(bytes) => bytes.len(),
            Self::Reference { .. } => REFERENCE_LEN,
            Self::None | Self::Extent(_) | Self::Parts { .. } => 0,
        }
    }

    /// What is freed with it.
    pub(crate) fn place(&self) -> Option<BodyPlace> {
        match self {
            Self::None | Self::Inline(_) => None,
            Self::Extent(extent) => Some(BodyPlace::Extent(extent.first)),
            Self::Parts { upload, .. } => Some(BodyPlace::Parts(*upload)),
            Self::Reference { reference, .. } => Some(BodyPlace::Reference(*reference)),
        }
    }
}

/// Where attributes are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StoredAttributes {
    /// In the record.
    Inline(Bytes),
    /// In blocks.
    Extent(BodyExtent),
}

impl StoredAttributes {
    /// What is freed with them.
    pub(crate) fn place(&self) -> Option<BodyPlace> {
        match self {
            Self::Inline(_) => None,
            Self::Extent(extent) => Some(BodyPlace::Extent(extent.first)),
        }
    }
}

/// A version, upload or part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ObjectRecord {
    /// Of a version: it has no id.
    pub(crate) is_null: bool,
    /// Of a version: it is a delete marker.
    pub(crate) is_marker: bool,
    /// Bytes that the client sees.
    pub(crate) size: u64,
    /// When it was made, in ms since 1970.
    pub(crate) modified_ms: u64,
    /// Of a version: the order of the older version that had no id when it was made, 0 if there was none. Of a part:
    /// its generation.
    pub(crate) link: u64,
    /// Its body.
    pub(crate) body: StoredBody,
    /// Everything else.
    pub(crate) attributes: StoredAttributes,
}

impl ObjectRecord {
    const FIXED_LEN: usize = 64;

    /// Bytes of a record with so many in it.
    pub(crate) const fn encoded_len(inline_bytes: usize) -> usize {
        Self::FIXED_LEN + inline_bytes
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let inline_attributes: &[u8] = match &self.attributes {
            StoredAttributes::Inline(bytes) => bytes,
            StoredAttributes::Extent(_) => &[],
        };
        let in_record = inline_attributes.len() + self.body.len_in_record();
        let mut out = vec![0; Self::encoded_len(in_record)];
        let mut fields = Writer::new(&mut out);
        fields.u16(VERSION);
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        fields.u8(flag(self.is_null, FLAG_NULL) | flag(self.is_marker, FLAG_MARKER));
        let (body, place) = match &self.body {
            StoredBody::None => (BODY_NONE, 0),
            StoredBody::Inline(_) => (BODY_INLINE, 0),
            StoredBody::Extent(extent) => (BODY_EXTENT, extent.first),
            StoredBody::Parts { upload, .. } => (BODY_PARTS, upload.0),
            StoredBody::Reference { reference, .. } => (BODY_REFERENCE, reference.number),
        };
        fields.u8(body);
        let (attributes, attributes_len, attributes_place) = match &self.attributes {
            StoredAttributes::Inline(bytes) => (ATTRIBUTES_INLINE, bytes.len() as u64, 0),
            StoredAttributes::Extent(extent) => (ATTRIBUTES_EXTENT, extent.len, extent.first),
        };
        fields.u8(attributes);
        fields.zeros(3);
        fields.u64(self.size);
        fields.u64(self.modified_ms);
        fields.u64(self.link);
        fields.u64(self.body.len());
        fields.u64(place);
        fields.u32(u32::try_from(attributes_len).expect("attributes are bounded"));
        fields.zeros(4);
        fields.u64(attributes_place);
        fields.bytes(inline_attributes);
        match &self.body {
            StoredBody::Inline(bytes) => fields.bytes(bytes),
            StoredBody::Reference {
                reference: Reference { home, target, .. },
                offset,
                depth,
                ..
            } => {
                let (tag, id) = match target {
                    ReferenceTarget::Extent(first) => (TARGET_EXTENT, *first),
                    ReferenceTarget::Parts(upload) => (TARGET_PARTS, upload.0),
                };
                fields.u16(home.0);
                fields.u8(tag);
                fields.u8(*depth);
                fields.zeros(4);
                fields.u64(id);
                fields.u64(*offset);
            }
            StoredBody::None | StoredBody::Extent(_) | StoredBody::Parts { .. } => {}
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        Self::fields(bytes).ok_or_else(|| damaged("a record of an object"))
    }

    fn fields(bytes: &[u8]) -> Option<Self> {
        let mut fields = Reader::new("record of an object", bytes);
        if fields.u16().ok()? != VERSION {
            return None;
        }
        let flags = fields.u8().ok()?;
        let body_kind = fields.u8().ok()?;
        let attributes_kind = fields.u8().ok()?;
        let reserved = fields.array::<3>().ok()?;
        let (size, modified_ms) = (fields.u64().ok()?, fields.u64().ok()?);
        let (link, body_len) = (fields.u64().ok()?, fields.u64().ok()?);
        let body_place = fields.u64().ok()?;
        let attributes_len = fields.u32().ok()?;
        let reserved_too = fields.u32().ok()?;
        let attributes_place = fields.u64().ok()?;
        if flags & !(FLAG_NULL | FLAG_MARKER) != 0 || reserved != [0; 3] || reserved_too != 0 {
            return None;
        }
        let attributes = match (attributes_kind, attributes_place) {
            (ATTRIBUTES_INLINE, 0) => {
                let len = usize::try_from(attributes_len).ok()?;
                StoredAttributes::Inline(Bytes::copy_from_slice(fields.bytes(len).ok()?))
            }
            (ATTRIBUTES_EXTENT, first) => {
                StoredAttributes::Extent(checked_extent(first, u64::from(attributes_len))?)
            }
            _ => return None,
        };
        let body = match (body_kind, body_place, body_len) {
            (BODY_NONE, 0, 0) => StoredBody::None,
            (BODY_INLINE, 0, 1..) => {
                let len = usize::try_from(body_len).ok()?;
                StoredBody::Inline(Bytes::copy_from_slice(fields.bytes(len).ok()?))
            }
            (BODY_EXTENT, first, len) => StoredBody::Extent(checked_extent(first, len)?),
            (BODY_PARTS, upload, len) => StoredBody::Parts { upload: UploadId(upload), len },
            (BODY_REFERENCE, number, len) => reference_of(&mut fields, number, len)?,
            _ => return None,
        };
        let (is_null, is_marker) = (flags & FLAG_NULL != 0, flags & FLAG_MARKER != 0);
        let record = Self { is_null, is_marker, size, modified_ms, link, body, attributes };
        fields.rest().is_empty().then_some(record)
    }

    /// What the layer above sees of a version.
    pub(crate) fn version(&self, order: u64, attributes: Bytes) -> Version {
        Version {
            order,
            null: self.is_null,
            marker: self.is_marker,
            size: self.size,
            modified_ms: self.modified_ms,
            attributes,
        }
    }
}

fn reference_of(fields: &mut Reader<'_>, number: u64, len: u64) -> Option<StoredBody> {
    let home = ShardId(fields.u16().ok()?);
    let (tag, depth) = (fields.u8().ok()?, fields.u8().ok()?);
    let reserved = fields.array::<4>().ok()?;
    let (id, offset) = (fields.u64().ok()?, fields.u64().ok()?);
    let target = match tag {
        TARGET_EXTENT => {
            ReferenceTarget::Extent(checked_extent(id, offset.checked_add(len)?)?.first)
        }
        TARGET_PARTS => ReferenceTarget::Parts(UploadId(id)),
        _ => return None,
    };
    offset.checked_add(len)?;
    if reserved != [0; 4] || number == 0 || len == 0 || !(1..=DEPTH_MAX).contains(&depth) {
        return None;
    }
    Some(StoredBody::Reference {
        reference: Reference { number, home, target },
        offset,
        len,
        depth,
    })
}

fn checked_extent(first: u64, len: u64) -> Option<BodyExtent> {
    let extent = BodyExtent { first, len };
    let end = first.checked_add(extent.blocks())?;
    (first > 0 && len > 0 && end <= BLOCKS_MAX).then_some(extent)
}

/// What a shelf holds, and which numbers it has given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BucketCounts {
    /// No block of the stream from this one on was ever used.
    pub(crate) next_block: u64,
    /// The next id of an upload, or generation of a part.
    pub(crate) next_id: u64,
    /// Versions that are no delete markers.
    pub(crate) objects: u64,
    /// Their sizes.
    pub(crate) bytes: u64,
    /// All versions.
    pub(crate) versions: u64,
}

impl BucketCounts {
    const LEN: usize = 48;

    /// Of a shelf that holds nothing and never did.
    pub(crate) const EMPTY: Self =
        Self { next_block: 1, next_id: 1, objects: 0, bytes: 0, versions: 0 };

    /// Addresses for so many blocks; `None` when all were used.
    pub(crate) fn take_blocks(&mut self, blocks: u64) -> Option<u64> {
        let first = self.next_block;
        let end = first.checked_add(blocks).filter(|end| *end <= BLOCKS_MAX)?;
        self.next_block = end;
        Some(first)
    }

    pub(crate) fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; Self::LEN];
        let mut fields = Writer::new(&mut out);
        fields.u16(VERSION);
        fields.zeros(6);
        fields.u64(self.next_block);
        fields.u64(self.next_id);
        fields.u64(self.objects);
        fields.u64(self.bytes);
        fields.u64(self.versions);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        Self::fields(bytes).ok_or_else(|| damaged("the account of a bucket"))
    }

    fn fields(bytes: &[u8]) -> Option<Self> {
        let mut fields = Reader::new("account of a bucket", bytes);
        if fields.u16().ok()? != VERSION || fields.array::<6>().ok()? != [0; 6] {
            return None;
        }
        let counts = Self {
            next_block: fields.u64().ok()?,
            next_id: fields.u64().ok()?,
            objects: fields.u64().ok()?,
            bytes: fields.u64().ok()?,
            versions: fields.u64().ok()?,
        };
        (fields.rest().is_empty() && counts.next_block > 0 && counts.next_id > 0).then_some(counts)
    }
}

/// An orphan of blocks: how many they are. Of parts: nothing.
pub(crate) fn encode_orphan(blocks: u64) -> Vec<u8> {
    let mut out = vec![0; 16];
    let mut fields = Writer::new(&mut out);
    fields.u16(VERSION);
    fields.zeros(6);
    fields.u64(blocks);
    out
}

/// Blocks of an orphan.
pub(crate) fn decode_orphan(bytes: &[u8]) -> Result<u64> {
    let blocks = || {
        let mut fields = Reader::new("record of an orphan", bytes);
        let head = (fields.u16().ok()?, fields.array::<6>().ok()?);
        let blocks = fields.u64().ok()?;
        (head == (VERSION, [0; 6]) && fields.rest().is_empty() && blocks <= BLOCKS_MAX)
            .then_some(blocks)
    };
    blocks().ok_or_else(|| damaged("the record of an orphan"))
}

/// The value of a reference's key.
pub(crate) fn encode_reference() -> Vec<u8> {
    let mut out = vec![0; 8];
    Writer::new(&mut out).u16(VERSION);
    out
}

/// Refuses values that no reference has.
pub(crate) fn decode_reference(bytes: &[u8]) -> Result<()> {
    match bytes == encode_reference() {
        true => Ok(()),
        false => Err(damaged("the record of a reference")),
    }
}

pub(crate) fn damaged(what: &str) -> Error {
    Error::Corrupt { what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record() -> impl Strategy<Value = ObjectRecord> {
        let extent =
            || (1_u64..1 << 43, 1_u64..1 << 30).prop_map(|(first, len)| BodyExtent { first, len });
        let bytes = |least| prop::collection::vec(any::<u8>(), least..300).prop_map(Bytes::from);
        let body = prop_oneof![
            Just(StoredBody::None),
            bytes(1).prop_map(StoredBody::Inline),
            extent().prop_map(StoredBody::Extent),
            any::<(u64, u64)>()
                .prop_map(|(upload, len)| StoredBody::Parts { upload: UploadId(upload), len }),
            (1_u64.., any::<u16>(), any::<bool>(), extent(), 1..=DEPTH_MAX).prop_map(
                |(number, home, is_extent, BodyExtent { first, len }, depth)| {
                    let target = match is_extent {
                        true => ReferenceTarget::Extent(first),
                        false => ReferenceTarget::Parts(UploadId(first)),
                    };
                    let reference = Reference { number, home: ShardId(home), target };
                    StoredBody::Reference { reference, offset: first >> 14, len, depth }
                }
            ),
        ];
        let attributes = prop_oneof![
            bytes(0).prop_map(StoredAttributes::Inline),
            extent().prop_map(StoredAttributes::Extent),
        ];
        let fixed = any::<(bool, bool, u64, u64, u64)>();
        (fixed, body, attributes).prop_map(|(fixed, body, attributes)| {
            let (is_null, is_marker, size, modified_ms, link) = fixed;
            ObjectRecord { is_null, is_marker, size, modified_ms, link, body, attributes }
        })
    }

    proptest! {
            #[test]
            fn records_round_trip_and_cut_ones_are_refused(record in record(), cut: prop::sample::Index) {
                let bytes = record.encode();
                prop_assert_eq!(ObjectRecord::decode(&bytes), Ok(record));
                prop_assert!(ObjectRecord::decode(&bytes[..cut.index(bytes.len())]).is_err());
            }

            #[test]
            fn any_bytes_are_a_record_or_none(mut bytes in prop::collection::vec(any::<u8>(), 60..200), looks: bool) {
                if looks {
    let head = [1, 0, bytes[2] & 3, bytes[3] % 5, bytes[4] & 1, 0, 0, 0];
                    bytes[..8].copy_from_slice(&head);
                    bytes[52..56].fill(0);
                }
                if let Ok(record) = ObjectRecord::decode(&bytes) {
                    prop_assert_eq!(record.encode(), bytes);
                }
            }

            #[test]
            fn accounts_and_orphans_round_trip(numbers: [u32; 5], flipped: prop::sample::Index) {
                let [next_block, next_id, objects, bytes, versions] = numbers.map(u64::from);
                let counts = BucketCounts { next_block: next_block + 1, next_id: next_id + 1, objects, bytes, versions };
                let encoded = counts.encode();
                prop_assert_eq!(BucketCounts::decode(&encoded), Ok(counts));
                prop_assert!(BucketCounts::decode(&encoded[..flipped.index(encoded.len())]).is_err());
                let mut orphan = encode_orphan(objects);
                prop_assert_eq!(decode_orphan(&orphan), Ok(objects));
                orphan[flipped.index(8)] ^= 4;
                prop_assert!(decode_orphan(&orphan).is_err());
            }
        }

    #[test]
    fn addresses_end() {
        let mut counts = BucketCounts { next_block: BLOCKS_MAX - 2, ..BucketCounts::EMPTY };
        assert_eq!(counts.take_blocks(3), None);
        assert_eq!(counts.take_blocks(2), Some(BLOCKS_MAX - 2));
        assert_eq!(counts.take_blocks(1), None);
    }
}
