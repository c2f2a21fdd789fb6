//! Records of versions, uploads and parts. Described in `docs/format.md`.
//!
//! ```text
//! version, upload, part
//! 0         2       3      4            5          8      16         24     32
//! | version | flags | body | attributes | reserved | size | modified | link |
//! 32         40           48               52         56                 64
//! | body len | body place | attributes len | reserved | attributes place | attributes, body
//! ```

use bytes::Bytes;
use varve_dataset_content::{
    ContentExtent, ContentHead, ContentPlace, RecordContent, StoredContent,
};
use varve_stdx::{DecodeError, Reader, Writer};

use crate::{Error, Version};

/// Version of the records.
const VERSION: u16 = 1;

const FLAG_NULL: u8 = 1;
const FLAG_MARKER: u8 = 2;

const ATTRIBUTES_INLINE: u8 = 0;
const ATTRIBUTES_EXTENT: u8 = 1;

/// Where attributes are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StoredAttributes {
    /// In the record.
    Inline(Bytes),
    /// In blocks.
    Extent(ContentExtent),
}

impl StoredAttributes {
    /// What is freed with them.
    pub(crate) fn place(&self) -> Option<ContentPlace> {
        match self {
            Self::Inline(_) => None,
            Self::Extent(extent) => Some(extent.place()),
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
    pub(crate) body: StoredContent,
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
        let ContentHead { kind, len, place } = self.body.head();
        fields.u8(kind);
        let (attributes, attributes_len, attributes_place) = match &self.attributes {
            StoredAttributes::Inline(bytes) => (ATTRIBUTES_INLINE, bytes.len() as u64, 0),
            StoredAttributes::Extent(extent) => (ATTRIBUTES_EXTENT, extent.len(), extent.first()),
        };
        fields.u8(attributes);
        fields.zeros(3);
        fields.u64(self.size);
        fields.u64(self.modified_ms);
        fields.u64(self.link);
        fields.u64(len);
        fields.u64(place);
        fields.u32(u32::try_from(attributes_len).expect("attributes are bounded"));
        fields.zeros(4);
        fields.u64(attributes_place);
        fields.bytes(inline_attributes);
        self.body.encode_tail(&mut fields);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<Self, DecodeError> {
        let mut fields = Reader::new("record of an object", bytes);
        fields.version(VERSION)?;
        let flags = fields.u8()?;
        if flags & !(FLAG_NULL | FLAG_MARKER) != 0 {
            return Err(fields.bad("flags", u64::from(flags)));
        }
        let (kind, attributes_kind) = (fields.u8()?, fields.u8()?);
        fields.zeros(3)?;
        let (size, modified_ms, link) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (len, place) = (fields.u64()?, fields.u64()?);
        let attributes_len = fields.u32()?;
        fields.zeros(4)?;
        let attributes = match (attributes_kind, fields.u64()?) {
            (ATTRIBUTES_INLINE, 0) => {
                let len = usize::try_from(attributes_len).unwrap_or(usize::MAX);
                StoredAttributes::Inline(Bytes::copy_from_slice(fields.bytes(len)?))
            }
            (ATTRIBUTES_EXTENT, first) => {
                let extent = ContentExtent::checked(first, u64::from(attributes_len));
                let extent =
                    extent.ok_or_else(|| fields.bad("first block of attributes", first))?;
                StoredAttributes::Extent(extent)
            }
            (kind, _) => return Err(fields.bad("kind of attributes", u64::from(kind))),
        };
        let body = StoredContent::decode(ContentHead { kind, len, place }, &mut fields)?;
        fields.end()?;
        let (is_null, is_marker) = (flags & FLAG_NULL != 0, flags & FLAG_MARKER != 0);
        Ok(Self { is_null, is_marker, size, modified_ms, link, body, attributes })
    }

    /// What it names, and frees with it.
    pub(crate) fn content(&self) -> RecordContent {
        let extra = match self.attributes {
            StoredAttributes::Inline(_) => None,
            StoredAttributes::Extent(extent) => Some(extent),
        };
        RecordContent { main: self.body.clone(), extra }
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

pub(crate) fn damaged(what: &str) -> Error {
    Error::Corrupt { what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use varve_dataset_content::SeriesId;

    use super::*;

    fn record() -> impl Strategy<Value = ObjectRecord> {
        let extent = || {
            (1_u64..1 << 43, 1_u64..1 << 30)
                .prop_map(|(first, len)| ContentExtent::checked(first, len).unwrap())
        };
        let bytes = |least| prop::collection::vec(any::<u8>(), least..300).prop_map(Bytes::from);
        let body = prop_oneof![
            Just(StoredContent::None),
            bytes(1).prop_map(StoredContent::Inline),
            extent().prop_map(StoredContent::Extent),
            any::<(u64, u64)>()
                .prop_map(|(upload, len)| StoredContent::Series { series: SeriesId(upload), len }),
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
    }

    #[test]
    fn a_record_of_a_copy_is_stored_as_ever() {
        let reference =
            [&[2, 0, 1, 1, 0, 0, 0, 0, 9][..], &[0; 7], &[7, 0, 0, 0, 0, 0, 0, 0]].concat();
        let mut bytes = vec![0; 64];
        // Version, body, its length, number of the reference.
        (bytes[0], bytes[3], bytes[32], bytes[40]) = (1, 4, 5, 6);
        bytes.extend_from_slice(&reference);
        let record = ObjectRecord::decode(&bytes).unwrap();
        let StoredContent::Reference { reference, offset, len, depth } = &record.body else {
            panic!("{record:?}")
        };
        assert_eq!((reference.home().0, *offset, *len, *depth), (2, 7, 5, 1));
        assert_eq!(record.encode(), bytes);
    }
}
