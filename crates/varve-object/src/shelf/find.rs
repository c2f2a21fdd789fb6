//! Look-ups of versions, and reads of bodies.

use bytes::Bytes;
use varve_dataset_content::{ContentPiece, HeldContent, StoredContent};

use super::BucketShard;
use super::change::{StoredVersion, check_key};
use super::record::{ObjectRecord, StoredAttributes};
use crate::{Error, Result, SMALL_BODY_MAX, Select, Version};

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
    Stored(HeldContent),
}

/// The bytes of pieces that are all here.
fn all_here(pieces: Vec<ContentPiece>) -> Option<Vec<Bytes>> {
    let bytes = pieces.into_iter().map(|piece| match piece {
        ContentPiece::Here(bytes) => Some(bytes),
        ContentPiece::Elsewhere { .. } => None,
    });
    bytes.collect()
}

impl BucketShard {
    /// A version of a key. A body that is small is read at once.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`.
    pub async fn find(&self, key: &str, select: Select) -> Result<Option<ShelfFound>> {
        check_key(key)?;
        let (standing, newest, held) = {
            let _lock = self.locks.lock(key).await; // SHELF-1
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
            let held = places.map(|place| place.map(|place| self.content.hold(place)));
            let newest = standing.order == newest_order;
            (standing, newest, held)
        };
        let StoredVersion { order, record } = standing;
        let [body_hold, _attributes_hold] = held;
        let version = record.version(order, self.attributes(&record).await?);
        let body = match (record.body, body_hold) {
            (StoredContent::Inline(bytes), _) => ShelfBody::Memory(vec![bytes]),
            (body, Some(hold)) if body.len() > SMALL_BODY_MAX as u64 => {
                ShelfBody::Stored(HeldContent::new(body, hold))
            }
            (body, hold) => match (all_here(self.content.read_all(&body).await?), hold) {
                (Some(bytes), _) => ShelfBody::Memory(bytes),
                (None, Some(hold)) => ShelfBody::Stored(HeldContent::new(body, hold)),
                (None, None) => return Err(Error::State { reason: "what is elsewhere is held" }),
            },
        };
        Ok(Some(ShelfFound { version, newest, body }))
    }

    /// The attributes of a record that is held, or whose key is locked.
    pub(super) async fn attributes(&self, record: &ObjectRecord) -> Result<Bytes> {
        match &record.attributes {
            StoredAttributes::Inline(bytes) => Ok(bytes.clone()),
            StoredAttributes::Extent(extent) => {
                Ok(self.content.read_extent(extent, 0..extent.len()).await?.concat().into())
            }
        }
    }
}
