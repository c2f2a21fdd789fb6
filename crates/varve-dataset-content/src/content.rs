//! Where bytes are, and how a record says it. Described in `docs/format.md`.
//!
//! ```text
//! a reference, where the bytes of a content stand in its record
//! 0      2     3       4          8                       16       24
//! | home | tag | depth | reserved | first block or series | offset |
//! ```

use bytes::Bytes;
use varve_engine::BLOCK_BYTES;
use varve_stdx::{DecodeError, Reader, Writer};
use varve_types::ShardId;

const NONE: u8 = 0;
const INLINE: u8 = 1;
const EXTENT: u8 = 2;
const SERIES: u8 = 3;
const REFERENCE: u8 = 4;

const TARGET_EXTENT: u8 = 1;
const TARGET_SERIES: u8 = 2;

/// Bytes of a reference in a record.
const REFERENCE_LEN: usize = 24;

/// Blocks of a stream at most: addresses end at 2^56 bytes.
pub(crate) const BLOCKS_MAX: u64 = 1 << 44;

/// Series may have members that are copies of series, and so on, this deep. What would be deeper is copied
/// byte by byte.
pub const DEPTH_MAX: u8 = 8;

/// Number of a series in its stream and shard; given once ([`ContentShard::new_id`](crate::ContentShard::new_id)).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SeriesId(pub u64);

/// Bytes in blocks of a stream, from the begin of a block on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContentExtent {
    first: u64,
    len: u64,
}

impl ContentExtent {
    pub(crate) const fn new(first: u64, len: u64) -> Self {
        Self { first, len }
    }

    /// The extent of `len` bytes from a block on, if there can be one.
    #[must_use]
    pub fn checked(first: u64, len: u64) -> Option<Self> {
        let extent = Self { first, len };
        let end = first.checked_add(extent.blocks())?;
        (first > 0 && len > 0 && end <= BLOCKS_MAX).then_some(extent)
    }

    /// Its first block.
    #[must_use]
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Its bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "none is empty")]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Blocks that it takes.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.len.div_ceil(BLOCK_BYTES as u64)
    }

    /// What is freed with it.
    #[must_use]
    pub const fn place(&self) -> ContentPlace {
        ContentPlace::Extent(self.first)
    }
}

/// Where bytes are that belong together and are freed together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ContentPlace {
    /// Blocks of the stream, by the first.
    Extent(u64),
    /// The members of a series.
    Series(SeriesId),
    /// What another place, maybe of another shard, is named by.
    Reference(Reference),
}

impl ContentPlace {
    /// As what may be shared.
    #[must_use]
    pub fn target(self) -> Option<ReferenceTarget> {
        match self {
            Self::Extent(first) => Some(ReferenceTarget::Extent(first)),
            Self::Series(series) => Some(ReferenceTarget::Series(series)),
            Self::Reference(_) => None,
        }
    }
}

/// Where shared bytes are on their shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReferenceTarget {
    /// Blocks of the stream, by the first.
    Extent(u64),
    /// The members of a series.
    Series(SeriesId),
}

impl ReferenceTarget {
    /// As what is freed.
    #[must_use]
    pub fn place(self) -> ContentPlace {
        match self {
            Self::Extent(first) => ContentPlace::Extent(first),
            Self::Series(series) => ContentPlace::Series(series),
        }
    }
}

/// A reference, as its taker names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reference {
    /// The taker's number for it.
    pub(crate) number: u64,
    /// The shard of the bytes.
    pub(crate) home: ShardId,
    /// Where they are there.
    pub(crate) target: ReferenceTarget,
}

impl Reference {
    /// The shard of the bytes.
    #[must_use]
    pub fn home(&self) -> ShardId {
        self.home
    }
}

/// Where a content is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoredContent {
    /// There is none, or an empty one.
    None,
    /// In the record.
    Inline(Bytes),
    /// In blocks.
    Extent(ContentExtent),
    /// In the members of a series, one after another.
    Series {
        /// The series.
        series: SeriesId,
        /// Bytes of all.
        len: u64,
    },
    /// In what a reference names, from an offset on.
    Reference {
        /// The reference.
        reference: Reference,
        /// First byte there.
        offset: u64,
        /// Bytes.
        len: u64,
        /// How many references lie in each other there, this one included.
        depth: u8,
    },
}

/// What a record stores of a content at fixed places; more may follow ([`StoredContent::encode_tail`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContentHead {
    /// Which variant.
    pub kind: u8,
    /// Bytes of the content.
    pub len: u64,
    /// First block, series, or number of the reference.
    pub place: u64,
}

impl StoredContent {
    /// Bytes of the content.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Extent(extent) => extent.len,
            Self::Series { len, .. } | Self::Reference { len, .. } => *len,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of it in its record, beside its head.
    #[must_use]
    pub fn len_in_record(&self) -> usize {
        match self {
            Self::Inline(bytes) => bytes.len(),
            Self::Reference { .. } => REFERENCE_LEN,
            Self::None | Self::Extent(_) | Self::Series { .. } => 0,
        }
    }

    /// What is freed with it.
    #[must_use]
    pub fn place(&self) -> Option<ContentPlace> {
        match self {
            Self::None | Self::Inline(_) => None,
            Self::Extent(extent) => Some(extent.place()),
            Self::Series { series, .. } => Some(ContentPlace::Series(*series)),
            Self::Reference { reference, .. } => Some(ContentPlace::Reference(*reference)),
        }
    }

    /// Its blocks; 0 where they are not its own.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        match self {
            Self::Extent(extent) => extent.blocks(),
            Self::None | Self::Inline(_) | Self::Series { .. } | Self::Reference { .. } => 0,
        }
    }

    /// What its record stores at fixed places.
    #[must_use]
    pub fn head(&self) -> ContentHead {
        let (kind, place) = match self {
            Self::None => (NONE, 0),
            Self::Inline(_) => (INLINE, 0),
            Self::Extent(extent) => (EXTENT, extent.first),
            Self::Series { series, .. } => (SERIES, series.0),
            Self::Reference { reference, .. } => (REFERENCE, reference.number),
        };
        ContentHead { kind, len: self.len(), place }
    }

    /// Writes the [`Self::len_in_record`] bytes that stand at the end of its record.
    pub fn encode_tail(&self, out: &mut Writer<'_>) {
        match self {
            Self::Inline(bytes) => out.bytes(bytes),
            Self::Reference {
                reference: Reference { home, target, .. }, offset, depth, ..
            } => {
                let (tag, id) = match target {
                    ReferenceTarget::Extent(first) => (TARGET_EXTENT, *first),
                    ReferenceTarget::Series(series) => (TARGET_SERIES, series.0),
                };
                out.u16(home.0);
                out.u8(tag);
                out.u8(*depth);
                out.zeros(4);
                out.u64(id);
                out.u64(*offset);
            }
            Self::None | Self::Extent(_) | Self::Series { .. } => {}
        }
    }

    /// What was encoded: its head, and the bytes at the end of its record.
    ///
    /// # Errors
    /// What is wrong with it, and in which field.
    pub fn decode(head: ContentHead, fields: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match (head.kind, head.place, head.len) {
            (NONE, 0, 0) => Self::None,
            (INLINE, 0, len @ 1..) => {
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                Self::Inline(Bytes::copy_from_slice(fields.bytes(len)?))
            }
            (EXTENT, first, len) => {
                let extent = ContentExtent::checked(first, len);
                Self::Extent(extent.ok_or_else(|| fields.bad("first block", first))?)
            }
            (SERIES, series, len) => Self::Series { series: SeriesId(series), len },
            (REFERENCE, number, len) => decode_reference(number, len, fields)?,
            (NONE | INLINE, _, len) => return Err(fields.bad("length of content", len)),
            (kind, ..) => return Err(fields.unknown(kind)),
        })
    }
}

fn decode_reference(
    number: u64,
    len: u64,
    fields: &mut Reader<'_>,
) -> Result<StoredContent, DecodeError> {
    let home = ShardId(fields.u16()?);
    let (tag, depth) = (fields.u8()?, fields.u8()?);
    fields.zeros(4)?;
    let (id, offset) = (fields.u64()?, fields.u64()?);
    let end = offset.checked_add(len).ok_or_else(|| fields.bad("offset of reference", offset))?;
    let target = match tag {
        TARGET_EXTENT => {
            let extent = ContentExtent::checked(id, end);
            let extent = extent.ok_or_else(|| fields.bad("first block of reference", id))?;
            ReferenceTarget::Extent(extent.first)
        }
        TARGET_SERIES => ReferenceTarget::Series(SeriesId(id)),
        _ => return Err(fields.bad("tag of reference", u64::from(tag))),
    };
    if number == 0 || len == 0 {
        return Err(fields.inconsistent("a reference has no number, or no bytes"));
    }
    if !(1..=DEPTH_MAX).contains(&depth) {
        return Err(fields.bad("depth of reference", u64::from(depth)));
    }
    let reference = Reference { number, home, target };
    Ok(StoredContent::Reference { reference, offset, len, depth })
}

/// The contents that a record of the layer above names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordContent {
    /// What the record is for.
    pub main: StoredContent,
    /// Blocks that hold more of the record itself.
    pub extra: Option<ContentExtent>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content() -> impl Strategy<Value = StoredContent> {
        let extent = || (1_u64..1 << 43, 1_u64..1 << 30);
        prop_oneof![
            Just(StoredContent::None),
            prop::collection::vec(any::<u8>(), 1..300)
                .prop_map(|bytes| StoredContent::Inline(bytes.into())),
            extent().prop_map(|(first, len)| StoredContent::Extent(ContentExtent::new(first, len))),
            any::<(u64, u64)>()
                .prop_map(|(id, len)| StoredContent::Series { series: SeriesId(id), len }),
            (1_u64.., any::<u16>(), any::<bool>(), extent(), 1..=DEPTH_MAX).prop_map(
                |(number, home, is_extent, (first, len), depth)| {
                    let target = match is_extent {
                        true => ReferenceTarget::Extent(first),
                        false => ReferenceTarget::Series(SeriesId(first)),
                    };
                    let reference = Reference { number, home: ShardId(home), target };
                    StoredContent::Reference { reference, offset: first >> 14, len, depth }
                }
            ),
        ]
    }

    fn tail_of(content: &StoredContent) -> Vec<u8> {
        let mut tail = vec![0; content.len_in_record()];
        content.encode_tail(&mut Writer::new(&mut tail));
        tail
    }

    proptest! {
        #[test]
        fn contents_come_back_and_cut_ones_are_refused(content in content(), cut: prop::sample::Index) {
            let (head, tail) = (content.head(), tail_of(&content));
            let mut fields = Reader::new("a record", &tail);
            prop_assert_eq!(StoredContent::decode(head, &mut fields), Ok(content));
            prop_assert!(fields.is_empty());
            if !tail.is_empty() {
                let mut cut_off = Reader::new("a record", &tail[..cut.index(tail.len())]);
                prop_assert!(StoredContent::decode(head, &mut cut_off).is_err());
            }
        }

        #[test]
        fn any_bytes_are_a_content_or_none(kind in 0_u8..6, len in 0_u64..60, place: u64, tail in prop::collection::vec(0_u8..3, 0..60)) {
            let head = ContentHead { kind, len, place };
            let mut fields = Reader::new("a record", &tail);
            if let Ok(content) = StoredContent::decode(head, &mut fields) {
                prop_assert_eq!(content.head(), head);
                prop_assert_eq!(&tail_of(&content)[..], &tail[..fields.position()]);
            }
        }
    }

    #[test]
    fn a_reference_is_24_bytes_and_extents_end_where_addresses_do() {
        let target = ReferenceTarget::Series(SeriesId(5));
        let reference = Reference { number: 9, home: ShardId(258), target };
        let content = StoredContent::Reference { reference, offset: 7, len: 3, depth: 4 };
        let expected = [2, 1, 2, 4, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(tail_of(&content), expected);
        assert_eq!(content.head(), ContentHead { kind: 4, len: 3, place: 9 });
        assert_eq!(ContentExtent::checked(BLOCKS_MAX, 1), None);
        assert!(ContentExtent::checked(BLOCKS_MAX - 1, 1).is_some());
        assert_eq!((ContentExtent::checked(0, 1), ContentExtent::checked(1, 0)), (None, None));
    }
}
