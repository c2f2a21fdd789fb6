//! Look-ups of versions, and reads of bodies.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use varve_engine::{BLOCK_BYTES, ReadPart};
use varve_stdx::BufSlice;
use varve_types::ShardId;

use super::change::{StoredVersion, check_key};
use super::held::Hold;
use super::record::{BodyExtent, ObjectRecord, StoredAttributes, StoredBody};
use super::reference::Reference;
use super::{BucketShard, keys};
use crate::{Error, Result, SMALL_BODY_MAX, Select, UploadId, Version};

/// Bodies in parts whose places are remembered.
const PARTS_READ_MAX: usize = 4;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A version that was found.
#[derive(Debug)]
pub struct ShelfFound {
    /// The version.
    pub version: Version,
    /// It is the newest of its key.
    pub newest: bool,
    /// Its body.
    pub body: ShelfBody,
}

/// The body of a version that was found.
#[derive(Debug)]
pub enum ShelfBody {
    /// Here it is.
    Memory(Vec<Bytes>),
    /// In the store, which keeps it as long as it is held.
    Stored(StoredBodyRef),
}

/// A body in the store, held.
#[derive(Debug)]
pub struct StoredBodyRef {
    body: StoredBody,
    hold: Hold,
}

impl StoredBodyRef {
    /// Bytes of the body.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.body.len()
    }

    /// Whether there are none; never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn stored(&self) -> &StoredBody {
        &self.body
    }

    pub(super) fn hold(&self) -> &Hold {
        &self.hold
    }
}

/// A piece of a body.
#[derive(Debug)]
pub enum BodyPiece {
    /// Its bytes.
    Here(Bytes),
    /// On another shelf: that of the reference's home reads it. It stays there as long as the body that it belongs to
    /// is held.
    Elsewhere {
        /// The shard whose record names it.
        taker: ShardId,
        /// By what.
        reference: Reference,
        /// Of what the reference names.
        range: Range<u64>,
    },
}

/// The bytes of pieces that are all here.
fn all_here(pieces: Vec<BodyPiece>) -> Option<Vec<Bytes>> {
    let bytes = pieces.into_iter().map(|piece| match piece {
        BodyPiece::Here(bytes) => Some(bytes),
        BodyPiece::Elsewhere { .. } => None,
    });
    bytes.collect()
}

/// A part of a body: where it ends in it, and its bytes.
struct PartRead {
    end: u64,
    body: StoredBody,
}

/// Where the parts of bodies are that were read lately, the latest last.
#[derive(Default)]
pub(super) struct PartsRead(VecDeque<(UploadId, Rc<Vec<PartRead>>)>);

impl BucketShard {
    /// A version of a key. A body that is small is read at once.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`.
    pub async fn find(&self, key: &str, select: Select) -> Result<Option<ShelfFound>> {
        check_key(key)?;
        let (standing, newest, held) = {
            let _lock = self.locks.lock(key).await; // SHELF-3
            let Some(newest) = self.newest(key).await? else { return Ok(None) };
            let newest_order = newest.order;
            let standing = match select {
                Select::Newest => Some(newest),
                Select::Null => self.null_below(key, &newest).await?,
                Select::Order(order) if order == newest.order => Some(newest),
                Select::Order(order) => self.version(key, order).await?,
            };
            let Some(standing) = standing else { return Ok(None) };
            let places = [standing.record.body.place(), standing.record.attributes.place()];
            let held = places.map(|place| place.map(|place| self.hold(place)));
            let newest = standing.order == newest_order;
            (standing, newest, held)
        };
        let StoredVersion { order, record } = standing;
        let [body_hold, _attributes_hold] = held;
        let version = record.version(order, self.attributes(&record).await?);
        let body = match (record.body, body_hold) {
            (StoredBody::Inline(bytes), _) => ShelfBody::Memory(vec![bytes]),
            (body, Some(hold)) if body.len() > SMALL_BODY_MAX as u64 => {
                ShelfBody::Stored(StoredBodyRef { body, hold })
            }
            (body, hold) => match (all_here(self.read_all(&body).await?), hold) {
                (Some(bytes), _) => ShelfBody::Memory(bytes),
                (None, Some(hold)) => ShelfBody::Stored(StoredBodyRef { body, hold }),
                (None, None) => return Err(Error::State { reason: "what is elsewhere is held" }),
            },
        };
        Ok(Some(ShelfFound { version, newest, body }))
    }

    /// Bytes of a body that is held, in pieces.
    ///
    /// # Errors
    /// `Corrupt`; `Unavailable` when the shard was reopened since.
    ///
    /// # Panics
    /// When the range is not within the body.
    pub async fn read(&self, body: &StoredBodyRef, range: Range<u64>) -> Result<Vec<BodyPiece>> {
        self.check_known(&body.hold)?;
        let mut pieces = Vec::new();
        self.read_body(&body.body, range, &mut pieces).await?;
        Ok(pieces)
    }

    async fn read_all(&self, body: &StoredBody) -> Result<Vec<BodyPiece>> {
        let mut pieces = Vec::new();
        self.read_body(body, 0..body.len(), &mut pieces).await?;
        Ok(pieces)
    }

    /// The attributes of a record that is held, or whose key is locked.
    pub(super) async fn attributes(&self, record: &ObjectRecord) -> Result<Bytes> {
        match &record.attributes {
            StoredAttributes::Inline(bytes) => Ok(bytes.clone()),
            StoredAttributes::Extent(extent) => {
                Ok(self.read_extent(extent, 0..extent.len).await?.concat().into())
            }
        }
    }

    async fn read_body(
        &self,
        body: &StoredBody,
        range: Range<u64>,
        pieces: &mut Vec<BodyPiece>,
    ) -> Result<()> {
        assert!(range.end <= body.len(), "inside the body");
        if range.is_empty() {
            return Ok(());
        }
        match body {
            StoredBody::None => Ok(()),
            StoredBody::Inline(bytes) => {
                let at = |offset: u64| usize::try_from(offset).expect("inside the record");
                pieces.push(BodyPiece::Here(bytes.slice(at(range.start)..at(range.end))));
                Ok(())
            }
            StoredBody::Extent(extent) => {
                let read = self.read_extent(extent, range).await?;
                pieces.extend(read.into_iter().map(BodyPiece::Here));
                Ok(())
            }
            StoredBody::Parts { upload, .. } => self.read_parts(*upload, range, pieces).await,
            StoredBody::Reference { reference, offset, .. } => {
                let (reference, range) = (*reference, offset + range.start..offset + range.end);
                let taker = self.shard.id();
                if reference.home() == taker {
                    self.check_referenced(taker, &reference).await?;
                    return Box::pin(self.read_target(reference.target, range, pieces)).await;
                }
                pieces.push(BodyPiece::Elsewhere { taker, reference, range });
                Ok(())
            }
        }
    }

    pub(super) async fn read_extent(
        &self,
        extent: &BodyExtent,
        range: Range<u64>,
    ) -> Result<Vec<Bytes>> {
        let at = extent.first * BLOCK_BYTES as u64 + range.start;
        let len = usize::try_from(range.end - range.start)
            .map_err(|_| Error::State { reason: "more bytes than memory" })?;
        let parts = self.shard.read(self.stream(), at, len).await?;
        let mut pieces = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                ReadPart::Data(data) => pieces.push(Bytes::from_owner(OwnedBytes(data))),
                ReadPart::Zero(len) => {
                    let whole = std::iter::repeat_n(ZEROS.len(), len / ZEROS.len());
                    let rest = Some(len % ZEROS.len()).filter(|rest| *rest > 0);
                    pieces.extend(whole.chain(rest).map(|len| Bytes::from_static(&ZEROS[..len])));
                }
            }
        }
        Ok(pieces)
    }

    /// The part that a range of a body in parts lies in, if that is one, and where it begins.
    pub(super) async fn part_with(
        &self,
        upload: UploadId,
        range: &Range<u64>,
    ) -> Result<Option<(StoredBody, u64)>> {
        let parts = self.parts_of(upload).await?;
        let at = parts.partition_point(|part| part.end <= range.start);
        let begin = at.checked_sub(1).map_or(0, |before| parts[before].end);
        let part = parts.get(at).filter(|part| range.end <= part.end);
        Ok(part.map(|part| (part.body.clone(), begin)))
    }

    pub(super) async fn read_parts(
        &self,
        upload: UploadId,
        range: Range<u64>,
        pieces: &mut Vec<BodyPiece>,
    ) -> Result<()> {
        let parts = self.parts_of(upload).await?;
        let first = parts.partition_point(|part| part.end <= range.start);
        let mut begin = first.checked_sub(1).map_or(0, |before| parts[before].end);
        for part in &parts[first..] {
            if begin >= range.end {
                break;
            }
            let inside = range.start.max(begin) - begin..range.end.min(part.end) - begin;
            Box::pin(self.read_body(&part.body, inside, pieces)).await?;
            begin = part.end;
        }
        if begin < range.end {
            return Err(super::record::damaged("a body of which parts are missing"));
        }
        Ok(())
    }

    /// Where the parts of a body are. They do not change any more.
    async fn parts_of(&self, upload: UploadId) -> Result<Rc<Vec<PartRead>>> {
        let known = self.parts_read.borrow().0.iter().find(|(known, _)| *known == upload).cloned();
        if let Some((_, parts)) = known {
            return Ok(parts);
        }
        let range = keys::parts(self.bucket, upload);
        let (mut from, mut parts, mut end) = (range.start, Vec::new(), 0);
        loop {
            let found = self.shard.key_range(&from, Some(&range.end), super::BATCH).await?;
            let Some((last, _)) = found.last() else { break };
            from = [last.as_slice(), &[0]].concat();
            for (_, value) in &found {
                let body = ObjectRecord::decode(value)?.body;
                end += body.len();
                parts.push(PartRead { end, body });
            }
        }
        let parts = Rc::new(parts);
        let mut read = self.parts_read.borrow_mut();
        if read.0.len() == PARTS_READ_MAX {
            read.0.pop_front();
        }
        read.0.push_back((upload, Rc::clone(&parts)));
        Ok(parts)
    }
}

/// Bytes that stay where they were read to.
struct OwnedBytes(BufSlice);

impl AsRef<[u8]> for OwnedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
