//! Bodies that share bytes: a copy names the place where the bytes are, on the shelf that wrote them, and a key there
//! says so (RFC 0024).
//!
//! ```text
//!  shelf of the copy (taker)                                   shelf of the bytes (home)
//!  orphan that names the reference, durable
//!       ────────────────────────────────────────────────────▶ key of the reference, durable
//!  transaction: record that names it, no orphan any more
//!  ...
//!  overwritten, removed: an orphan that names the reference ──▶ key removed, durable;
//!                                                               the place is freed if nothing else names it
//!  orphan removed
//! ```
//!
//! SHELF-REFERENCE-1. Every key of a reference is named by a record or an orphan of its taker from before it is durable
//!     until after it is gone. So a crash leaves an orphan that the taker's sweep gives back, never a key that nobody
//!     knows.
//! SHELF-REFERENCE-2. A record names a reference only once its key is durable, and the key stays as long as a record
//!     names it: a shard gives back only what a durable orphan names, for two shards have two journals.
//! SHELF-REFERENCE-3. A place with a key of a reference is not freed: what is removed becomes an orphan, which waits
//!     until the last of them is gone. Adding a reference, giving one back and sweeping a place hold the lock of the
//!     place. A transaction that trims blocks itself looks for keys before, and sees that none was added since.
//! SHELF-REFERENCE-4. A reference is added only to what cannot go meanwhile: a place that somebody holds, or one that
//!     another reference names.
//! SHELF-REFERENCE-5. One that was given back is not added later by a message that was on its way.
//! SHELF-REFERENCE-6. What usage counts is at least half of what it keeps: a copy shares bytes only if it has half of
//!     their place, and where these are shared already, all that the source has.

use std::ops::Range;

use bytes::Bytes;
use varve_engine::planted::{Bug, planted};
use varve_types::ShardId;

use super::find::{BodyPiece, StoredBodyRef};
use super::held::Hold;
use super::keys::BodyPlace;
use super::record::{
    BodyExtent, ObjectRecord, StoredBody, damaged, decode_reference, encode_reference,
};
use super::{BucketShard, TransactionPlan, keys};
use crate::{Error, Result, UploadId};

/// Bodies in parts may have parts that are copies of such bodies, and so on, this deep. What would be deeper is copied
/// byte by byte.
pub(crate) const DEPTH_MAX: u8 = 8;

/// References that were given back before they came, remembered (SHELF-REFERENCE-5): each was left by a request that
/// failed half-way.
const EARLY_MAX: usize = 1024;

/// Where shared bytes are on their shelf.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum ReferenceTarget {
    /// Blocks of the bucket's stream, by the first.
    Extent(u64),
    /// The parts of an upload.
    Parts(UploadId),
}

impl ReferenceTarget {
    /// As what is freed.
    pub(crate) fn place(self) -> BodyPlace {
        match self {
            Self::Extent(first) => BodyPlace::Extent(first),
            Self::Parts(upload) => BodyPlace::Parts(upload),
        }
    }
}

impl BodyPlace {
    /// As what may be shared.
    pub(crate) fn target(self) -> Option<ReferenceTarget> {
        match self {
            Self::Extent(first) => Some(ReferenceTarget::Extent(first)),
            Self::Parts(upload) => Some(ReferenceTarget::Parts(upload)),
            Self::Reference(_) => None,
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

/// Where the bytes of a range of a body are.
#[derive(Clone, Copy, Debug)]
pub struct SharedBytes {
    home: ShardId,
    target: ReferenceTarget,
    offset: u64,
    len: u64,
    /// The reference by which they are known so far, and its taker; none: the body that is held has them.
    by: Option<(ShardId, Reference)>,
}

impl SharedBytes {
    /// The shard that has them.
    #[must_use]
    pub fn home(&self) -> ShardId {
        self.home
    }
}

/// A reference that is being made. Dropped everywhere, it is given back.
#[derive(Debug)]
pub struct StagedReference {
    pub(super) hold: Hold,
    reference: Reference,
}

impl BucketShard {
    /// Finds out where the bytes of a range of a body are, for a copy that shares them; none where they are in a
    /// record.
    ///
    /// # Errors
    /// `Corrupt`; `Unavailable`, also when the shard was reopened since.
    pub async fn locate(
        &self,
        body: &StoredBodyRef,
        range: Range<u64>,
    ) -> Result<Option<SharedBytes>> {
        self.check_known(body.hold())?;
        let found = match body.stored() {
            StoredBody::Parts { upload, .. } => {
                let part = self.part_with(*upload, &range).await?;
                let of_part =
                    part.and_then(|(part, begin)| self.share(&part, range.start - begin, &range));
                let is_whole = range.end - range.start == body.len();
                match of_part {
                    Some(bytes) => Some(bytes),
                    None if !is_whole
                        && self.depth_of(ReferenceTarget::Parts(*upload)).await? > 0 =>
                    {
                        None
                    }
                    None => self.share(body.stored(), range.start, &range),
                }
            }
            whole => self.share(whole, range.start, &range),
        };
        Ok(found)
    }

    /// A range of the bytes of a body, `at` bytes from its begin; none where it is too small to keep them
    /// (SHELF-REFERENCE-6).
    fn share(&self, body: &StoredBody, at: u64, range: &Range<u64>) -> Option<SharedBytes> {
        let len = range.end - range.start;
        let here = |target| {
            let home = self.shard.id();
            SharedBytes { home, target, offset: at, len, by: None }
        };
        let is_enough = match body {
            StoredBody::Reference { .. } => len == body.len(),
            _ => len >= body.len().div_ceil(2),
        };
        match body {
            _ if !is_enough => None,
            StoredBody::None | StoredBody::Inline(_) => None,
            StoredBody::Extent(extent) => Some(here(ReferenceTarget::Extent(extent.first))),
            StoredBody::Parts { upload, .. } => Some(here(ReferenceTarget::Parts(*upload))),
            StoredBody::Reference { reference, offset, .. } => {
                let Reference { home, target, .. } = *reference;
                let by = Some((self.shard.id(), *reference));
                Some(SharedBytes { home, target, offset: offset + at, len, by })
            }
        }
    }

    /// Begins a reference of this shelf to those bytes. Durable on return: whatever happens, it is found
    /// (SHELF-REFERENCE-1).
    ///
    /// # Errors
    /// `NoSpace`, `NoBucket`, `Unavailable`.
    pub async fn stage_reference(&self, bytes: &SharedBytes) -> Result<StagedReference> {
        self.check_open()?;
        let SharedBytes { home, target, .. } = *bytes;
        let reference = Reference { number: self.fresh_id(), home, target };
        let place = BodyPlace::Reference(reference);
        let orphan = (keys::orphan(self.bucket, place), super::record::encode_orphan(0));
        let puts = if planted(Bug::ReferenceWithoutOrphan) { Vec::new() } else { vec![orphan] };
        let plan = TransactionPlan { puts, takes_space: true, ..TransactionPlan::default() };
        let hold = self.hold_staged_place(place);
        let committed = self.carry_out(plan).await?;
        self.shard.settle_transaction(committed).await?;
        Ok(StagedReference { hold, reference })
    }

    /// Adds the reference of a taker, on the shelf of the bytes, for which `body` is held. Durable on return. Returns
    /// how deep bodies lie in each other then; none, and nothing is added, where that would be too deep.
    ///
    /// # Errors
    /// `Corrupt`, `NoSpace`; `Unavailable`, also when shards were reopened meanwhile.
    pub async fn refer(
        &self,
        taker: ShardId,
        staged: &StagedReference,
        bytes: &SharedBytes,
        body: &StoredBodyRef,
    ) -> Result<Option<u8>> {
        let reference = staged.reference;
        assert_eq!(reference.home, self.shard.id(), "added where the bytes are");
        let gone = || Error::Unavailable { what: "a body whose shard was reopened".to_owned() };
        let committed = {
            let _lock = self.lock_place(reference.target).await; // SHELF-REFERENCE-3
            match &bytes.by {
                None => self.check_known(body.hold())?, // SHELF-REFERENCE-4
                Some((taker, by)) => {
                    let key = keys::reference(self.bucket, *taker, by);
                    self.shard.key_get(&key).await?.ok_or_else(gone)?;
                }
            }
            if self.gave_back_early.borrow().contains(&(taker, reference)) {
                return Err(gone()); // SHELF-REFERENCE-5
            }
            let depth = 1 + self.depth_of(reference.target).await?;
            if depth > DEPTH_MAX {
                return Ok(None);
            }
            let key = keys::reference(self.bucket, taker, &reference);
            let puts = vec![(key, encode_reference())];
            let plan = TransactionPlan { puts, takes_space: true, ..TransactionPlan::default() };
            let committed = self.carry_out(plan).await?;
            self.references_added.set(self.references_added.get() + 1);
            self.has_references.set(true);
            (committed, depth)
        };
        let (committed, depth) = committed;
        self.shard.settle_transaction(committed).await?; // SHELF-REFERENCE-2
        Ok(Some(depth))
    }

    /// Takes the reference of a taker away, on the shelf of the bytes; it may be gone already. Durable on return.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`.
    pub async fn give_back(&self, taker: ShardId, reference: Reference) -> Result<()> {
        let committed = {
            let _lock = self.lock_place(reference.target).await; // SHELF-REFERENCE-3
            let key = keys::reference(self.bucket, taker, &reference);
            match self.shard.key_get(&key).await? {
                Some(value) => decode_reference(&value)?,
                None => {
                    let mut early = self.gave_back_early.borrow_mut();
                    if early.len() == EARLY_MAX {
                        early.pop_front();
                    }
                    early.push_back((taker, reference)); // SHELF-REFERENCE-5
                    return Ok(());
                }
            }
            self.carry_out(TransactionPlan { deletes: vec![key], ..TransactionPlan::default() })
                .await?
        };
        self.shard.settle_transaction(committed).await?;
        let place = reference.target.place();
        let waited = self.waiting.borrow_mut().remove(&place);
        if let Some(blocks) = waited {
            self.orphans.borrow_mut().insert(place, blocks);
            self.released.wake();
        }
        Ok(())
    }

    /// Lets an orphan wait until a reference to it is given back; the sweep does not look at it meanwhile.
    pub(super) fn wait_for_references(&self, place: BodyPlace) {
        let orphan = self.orphans.borrow_mut().remove(&place);
        self.waiting.borrow_mut().extend(orphan.map(|blocks| (place, blocks)));
    }

    /// Whether a reference names a place.
    pub(super) async fn is_referenced(&self, target: ReferenceTarget) -> Result<bool> {
        if !self.has_references.get() || planted(Bug::ReferencedIsFreed) {
            return Ok(false);
        }
        let range = keys::references_to(self.bucket, target);
        Ok(!self.shard.key_range(&range.start, Some(&range.end), 1).await?.is_empty())
    }

    /// Learns whether there are references, and which orphans wait for them: those of both that stand in the same order
    /// are walked together.
    pub(super) async fn find_references(&self) -> Result<()> {
        let Range { start: mut from, end } = keys::references(self.bucket);
        loop {
            let found = self.shard.key_range(&from, Some(&end), super::BATCH).await?;
            let Some((last, _)) = found.last() else { return Ok(()) };
            self.has_references.set(true);
            from = [last.as_slice(), &[0]].concat();
            let mut walked = None;
            for (key, _) in &found {
                let (_, reference) = keys::decode_reference(key, self.shard.id())
                    .ok_or_else(|| damaged("the key of a reference"))?;
                let place = reference.target.place();
                self.wait_for_references(place);
                walked = Some(place);
            }
            let next = walked.and_then(|place| {
                self.orphans.borrow().range(place..).next().and_then(|(place, _)| place.target())
            });
            let Some(next) = next else { return Ok(()) };
            from = from.max(keys::references_to(self.bucket, next).start);
        }
    }

    /// Bytes of a place of this shelf that a reference names, for whoever holds the reference.
    ///
    /// # Errors
    /// `Corrupt`, also when there is no such reference; `Unavailable`.
    pub async fn read_shared(
        &self,
        taker: ShardId,
        reference: Reference,
        range: Range<u64>,
    ) -> Result<Vec<BodyPiece>> {
        self.check_referenced(taker, &reference).await?;
        let mut pieces = Vec::new();
        self.read_target(reference.target, range, &mut pieces).await?;
        Ok(pieces)
    }

    /// Refuses a reference without its key: what it names may be freed, and would be read as zeros or as something
    /// else.
    pub(super) async fn check_referenced(
        &self,
        taker: ShardId,
        reference: &Reference,
    ) -> Result<()> {
        let key = keys::reference(self.bucket, taker, reference);
        match self.shard.key_get(&key).await? {
            Some(value) => decode_reference(&value),
            None => Err(damaged("a body whose bytes nobody keeps")),
        }
    }

    pub(super) async fn read_target(
        &self,
        target: ReferenceTarget,
        range: Range<u64>,
        pieces: &mut Vec<BodyPiece>,
    ) -> Result<()> {
        match target {
            ReferenceTarget::Extent(first) => {
                let extent = BodyExtent { first, len: range.end };
                let read: Vec<Bytes> = self.read_extent(&extent, range).await?;
                pieces.extend(read.into_iter().map(BodyPiece::Here));
                Ok(())
            }
            ReferenceTarget::Parts(upload) => self.read_parts(upload, range, pieces).await,
        }
    }

    /// How deep bodies lie in each other at a place.
    async fn depth_of(&self, target: ReferenceTarget) -> Result<u8> {
        let ReferenceTarget::Parts(upload) = target else { return Ok(0) };
        let range = keys::parts(self.bucket, upload);
        let (mut from, mut deepest) = (range.start, 0);
        loop {
            let found = self.shard.key_range(&from, Some(&range.end), super::BATCH).await?;
            let Some((last, _)) = found.last() else { return Ok(deepest) };
            from = [last.as_slice(), &[0]].concat();
            for (_, value) in &found {
                if let StoredBody::Reference { depth, .. } = ObjectRecord::decode(value)?.body {
                    deepest = deepest.max(depth);
                }
            }
        }
    }

    /// Refuses a body whose hold is of a shelf before this one (SHELF-6).
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn check_held(&self, body: &StoredBodyRef) -> Result<()> {
        self.check_known(body.hold())
    }

    pub(super) async fn lock_place(&self, target: ReferenceTarget) -> super::locks::KeyLock<'_> {
        self.places.lock(&format!("{target:?}")).await
    }
}

impl StagedReference {
    /// What it refers to.
    #[must_use]
    pub fn reference(&self) -> Reference {
        self.reference
    }

    /// The body that it makes of these bytes.
    pub(super) fn body(&self, bytes: &SharedBytes, depth: u8) -> StoredBody {
        let SharedBytes { offset, len, .. } = *bytes;
        StoredBody::Reference { reference: self.reference, offset, len, depth }
    }
}
