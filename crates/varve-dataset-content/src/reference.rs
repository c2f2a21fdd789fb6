//! Contents that share bytes: a copy names the place where the bytes are, on the shard that wrote them, and a key there
//! says so (RFC 0024).
//!
//! ```text
//!  shard of the copy (taker)                                   shard of the bytes (home)
//!  orphan that names the reference, durable
//!       ────────────────────────────────────────────────────▶ key of the reference, durable
//!  transaction: record that names it, no orphan any more
//!  ...
//!  overwritten, removed: an orphan that names the reference ──▶ key removed, durable;
//!                                                               the place is freed if nothing else names it
//!  orphan removed
//! ```
//!
//! CONTENT-REFERENCE-1. Every key of a reference is named by a record or an orphan of its taker from before it is
//!     durable until after it is gone. So a crash leaves an orphan that the taker's sweep gives back, never a key that
//!     nobody knows.
//! CONTENT-REFERENCE-2. A record names a reference only once its key is durable, and the key stays as long as a record
//!     names it: a shard gives back only what a durable orphan names, for two shards have two journals.
//! CONTENT-REFERENCE-3. A place with a key of a reference is not freed: what is removed becomes an orphan, which waits
//!     until the last of them is gone. Adding a reference, giving one back and sweeping a place hold the lock of the
//!     place. A transaction that trims blocks itself looks for keys before, and sees that none was added since.
//! CONTENT-REFERENCE-4. A reference is added only to what cannot go meanwhile: a place that is held, or one that
//!     another reference names.
//! CONTENT-REFERENCE-5. One that was given back is not added later by a message that was on its way.
//! CONTENT-REFERENCE-6. What usage counts is at least half of what it keeps: a copy shares bytes only if it has half of
//!     their place, and where these are shared already, all that the source has.

use std::ops::Range;

use bytes::Bytes;
use varve_engine::planted::{Bug, planted};
use varve_types::ShardId;

use crate::content::{
    ContentExtent, ContentPlace, DEPTH_MAX, Reference, ReferenceTarget, StoredContent,
};
use crate::hold::HeldContent;
use crate::locks::KeyLock;
use crate::plan::TransactionPlan;
use crate::read::ContentPiece;
use crate::record::{decode_reference, encode_orphan, encode_reference};
use crate::shard::{BATCH, ContentShard};
use crate::written::{SharedBytes, StagedReference};
use crate::{Error, Result, keys};

/// References that were given back before they came, remembered (CONTENT-REFERENCE-5): each was left by a request that
/// failed half-way.
const EARLY_MAX: usize = 1024;

impl ContentShard {
    /// Finds out where the bytes of a range of a content are, for a copy that shares them; none where they are in a
    /// record.
    ///
    /// # Errors
    /// `Corrupt`; `Unavailable`, also when the shard was reopened since.
    pub async fn locate(
        &self,
        held: &HeldContent,
        range: Range<u64>,
    ) -> Result<Option<SharedBytes>> {
        self.check_known(held.hold())?;
        let found = match held.content() {
            StoredContent::Series { series, .. } => {
                let member = self.member_with(*series, &range).await?;
                let of_member = member
                    .and_then(|(content, begin)| self.share(&content, range.start - begin, &range));
                let is_whole = range.end - range.start == held.len();
                match of_member {
                    Some(bytes) => Some(bytes),
                    None if !is_whole
                        && self.depth_of(ReferenceTarget::Series(*series)).await? > 0 =>
                    {
                        None
                    }
                    None => self.share(held.content(), range.start, &range),
                }
            }
            whole => self.share(whole, range.start, &range),
        };
        Ok(found)
    }

    /// A range of the bytes of a content, `at` bytes from its begin; none where it is too small to keep them
    /// (CONTENT-REFERENCE-6).
    fn share(&self, content: &StoredContent, at: u64, range: &Range<u64>) -> Option<SharedBytes> {
        let len = range.end - range.start;
        let here = |target| {
            let home = self.shard.id();
            SharedBytes { home, target, offset: at, len, by: None }
        };
        let is_enough = match content {
            StoredContent::Reference { .. } => len == content.len(),
            _ => len >= content.len().div_ceil(2),
        };
        match content {
            _ if !is_enough => None,
            StoredContent::None | StoredContent::Inline(_) => None,
            StoredContent::Extent(extent) => Some(here(ReferenceTarget::Extent(extent.first()))),
            StoredContent::Series { series, .. } => Some(here(ReferenceTarget::Series(*series))),
            StoredContent::Reference { reference, offset, .. } => {
                let Reference { home, target, .. } = *reference;
                let by = Some((self.shard.id(), *reference));
                Some(SharedBytes { home, target, offset: offset + at, len, by })
            }
        }
    }

    /// Begins a reference of this shard to those bytes. Durable on return: whatever happens, it is found
    /// (CONTENT-REFERENCE-1).
    ///
    /// # Errors
    /// `NoSpace`, `Closed`, `Unavailable`.
    pub async fn stage_reference(&self, bytes: &SharedBytes) -> Result<StagedReference> {
        self.check_open()?;
        let SharedBytes { home, target, .. } = *bytes;
        let reference = Reference { number: self.new_id(), home, target };
        let place = ContentPlace::Reference(reference);
        let mut plan = TransactionPlan::taking_space();
        if !planted(Bug::ReferenceWithoutOrphan) {
            plan.put(keys::orphan(self.stream, place), encode_orphan(0));
        }
        let hold = self.hold_staged_place(place);
        let committed = self.commit(plan).await?;
        self.settle(committed).await?;
        Ok(StagedReference { hold, reference })
    }

    /// Adds the reference of a taker, on the shard of the bytes, for which `held` is held. Durable on return. Returns
    /// how deep contents lie in each other then; none, and nothing is added, where that would be too deep.
    ///
    /// # Errors
    /// `Corrupt`, `NoSpace`; `Unavailable`, also when shards were reopened meanwhile.
    pub async fn refer(
        &self,
        taker: ShardId,
        staged: &StagedReference,
        bytes: &SharedBytes,
        held: &HeldContent,
    ) -> Result<Option<u8>> {
        let reference = staged.reference;
        assert_eq!(reference.home, self.shard.id(), "added where the bytes are");
        let gone = || Error::Unavailable { what: "content whose shard was reopened".to_owned() };
        let committed = {
            let _lock = self.lock_place(reference.target).await; // CONTENT-REFERENCE-3
            match &bytes.by {
                None => self.check_known(held.hold())?, // CONTENT-REFERENCE-4
                Some((taker, by)) => {
                    let key = keys::reference(self.stream, *taker, by);
                    self.shard.key_get(&key).await?.ok_or_else(gone)?;
                }
            }
            if self.gave_back_early.borrow().contains(&(taker, reference)) {
                return Err(gone()); // CONTENT-REFERENCE-5
            }
            let depth = 1 + self.depth_of(reference.target).await?;
            if depth > DEPTH_MAX {
                return Ok(None);
            }
            let key = keys::reference(self.stream, taker, &reference);
            let mut plan = TransactionPlan::taking_space();
            plan.put(key, encode_reference());
            let committed = self.commit(plan).await?;
            self.references_added.set(self.references_added.get() + 1);
            self.has_references.set(true);
            (committed, depth)
        };
        let (committed, depth) = committed;
        self.settle(committed).await?; // CONTENT-REFERENCE-2
        Ok(Some(depth))
    }

    /// Takes the reference of a taker away, on the shard of the bytes; it may be gone already. Durable on return.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`.
    pub async fn give_back(&self, taker: ShardId, reference: Reference) -> Result<()> {
        let committed = {
            let _lock = self.lock_place(reference.target).await; // CONTENT-REFERENCE-3
            let key = keys::reference(self.stream, taker, &reference);
            match self.shard.key_get(&key).await? {
                Some(value) => decode_reference(&value)?,
                None => {
                    let mut early = self.gave_back_early.borrow_mut();
                    if early.len() == EARLY_MAX {
                        early.pop_front();
                    }
                    early.push_back((taker, reference)); // CONTENT-REFERENCE-5
                    return Ok(());
                }
            }
            let mut plan = TransactionPlan::default();
            plan.delete(key);
            self.commit(plan).await?
        };
        self.settle(committed).await?;
        let place = reference.target.place();
        let waited = self.waiting.borrow_mut().remove(&place);
        if let Some(blocks) = waited {
            self.orphans.borrow_mut().insert(place, blocks);
            self.released.wake();
        }
        Ok(())
    }

    /// Lets an orphan wait until a reference to it is given back; the sweep does not look at it meanwhile.
    pub(crate) fn wait_for_references(&self, place: ContentPlace) {
        let orphan = self.orphans.borrow_mut().remove(&place);
        self.waiting.borrow_mut().extend(orphan.map(|blocks| (place, blocks)));
    }

    /// Whether a reference names a place.
    pub(crate) async fn is_referenced(&self, target: ReferenceTarget) -> Result<bool> {
        if !self.has_references.get() || planted(Bug::ReferencedIsFreed) {
            return Ok(false);
        }
        let range = keys::references_to(self.stream, target);
        Ok(!self.shard.key_range(&range.start, Some(&range.end), 1).await?.is_empty())
    }

    /// Learns whether there are references, and which orphans wait for them: those of both that stand in the same order
    /// are walked together.
    pub(crate) async fn find_references(&self) -> Result<()> {
        let Range { start: mut from, end } = keys::references(self.stream);
        loop {
            let found = self.shard.key_range(&from, Some(&end), BATCH).await?;
            let Some((last, _)) = found.last() else { return Ok(()) };
            self.has_references.set(true);
            from = [last.as_slice(), &[0]].concat();
            let mut walked = None;
            for (key, _) in &found {
                let (_, reference) = keys::decode_reference(key, self.shard.id())
                    .ok_or_else(|| Error::damaged("the key of a reference"))?;
                let place = reference.target.place();
                self.wait_for_references(place);
                walked = Some(place);
            }
            let next = walked.and_then(|place| {
                self.orphans.borrow().range(place..).next().and_then(|(place, _)| place.target())
            });
            let Some(next) = next else { return Ok(()) };
            from = from.max(keys::references_to(self.stream, next).start);
        }
    }

    /// Bytes of a place of this shard that a reference names, for whoever holds the reference.
    ///
    /// # Errors
    /// `Corrupt`, also when there is no such reference; `Unavailable`.
    pub async fn read_shared(
        &self,
        taker: ShardId,
        reference: Reference,
        range: Range<u64>,
    ) -> Result<Vec<ContentPiece>> {
        self.check_referenced(taker, &reference).await?;
        let mut pieces = Vec::new();
        self.read_target(reference.target, range, &mut pieces).await?;
        Ok(pieces)
    }

    /// Refuses a reference without its key: what it names may be freed, and would be read as zeros or as something
    /// else.
    pub(crate) async fn check_referenced(
        &self,
        taker: ShardId,
        reference: &Reference,
    ) -> Result<()> {
        let key = keys::reference(self.stream, taker, reference);
        match self.shard.key_get(&key).await? {
            Some(value) => Ok(decode_reference(&value)?),
            None => Err(Error::damaged("a content whose bytes nobody keeps")),
        }
    }

    pub(crate) async fn read_target(
        &self,
        target: ReferenceTarget,
        range: Range<u64>,
        pieces: &mut Vec<ContentPiece>,
    ) -> Result<()> {
        match target {
            ReferenceTarget::Extent(first) => {
                let extent = ContentExtent::new(first, range.end);
                let read: Vec<Bytes> = self.read_extent(&extent, range).await?;
                pieces.extend(read.into_iter().map(ContentPiece::Here));
                Ok(())
            }
            ReferenceTarget::Series(series) => self.read_series(series, range, pieces).await,
        }
    }

    /// How deep contents lie in each other at a place.
    async fn depth_of(&self, target: ReferenceTarget) -> Result<u8> {
        let ReferenceTarget::Series(series) = target else { return Ok(0) };
        let range = keys::members(self.stream, series);
        let (mut from, mut deepest) = (range.start, 0);
        loop {
            let found = self.shard.key_range(&from, Some(&range.end), BATCH).await?;
            let Some((last, _)) = found.last() else { return Ok(deepest) };
            from = [last.as_slice(), &[0]].concat();
            for (_, value) in &found {
                if let StoredContent::Reference { depth, .. } = (self.read_record)(value)?.main {
                    deepest = deepest.max(depth);
                }
            }
        }
    }

    /// Refuses a content whose hold is of an opening before this one (CONTENT-5).
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn check_held(&self, held: &HeldContent) -> Result<()> {
        self.check_known(held.hold())
    }

    pub(crate) async fn lock_place(&self, target: ReferenceTarget) -> KeyLock<'_> {
        self.places.lock(&format!("{target:?}")).await
    }
}
