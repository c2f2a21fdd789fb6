//! What a store of objects promises. Front-ends call it from tasks of their own runtime; the in-memory twin and the
//! engine implement it.
//!
//! A store has no opinions: it keeps buckets, versions of keys, uploads and records, and changes each of them
//! atomically. What a PUT does to a versioned bucket, which conditions hold and what a lock forbids is decided above,
//! in closures that the store runs while nobody else changes the key ([`ObjectStore::change_key`]).
//!
//! STORE-1. What a method that changes something has answered is durable; a crash leaves all of a change or nothing of
//!     it.
//! STORE-2. Changes of one key happen one after another; a read sees a key before or after a change, never between.
//! STORE-3. Versions of a key are ordered by [`Version::order`], the highest is the newest.
//! STORE-4. A body handed in but not taken by a change, or staged and dropped, leaves nothing that the store does not
//!     find again.
//! STORE-5. Ids of buckets and uploads are never reused, so late writes meet an error, not a namesake.
//! STORE-6. Memory is bounded per request: bodies and listings pass in pieces.
//! STORE-7. A bucket moves between two pools in steps, each of which compares the durable state
//!     ([`ObjectStore::move_bucket`]). One that leaves, left or arrives refuses every change but those of the run that
//!     it arrives by; before the answer of a step to leaving, or from arriving, what was let through before has ended.
//!     The state outlives crashes. What clients may read is decided above.
//! STORE-8. What could not be read when the store was opened stays unread, and is never taken for what does not exist:
//!     lists leave it out ([`ObjectStore::check_all_read`] says so), and what is asked for or created under a name that
//!     it may have fails with `Unread`.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use varve_dataset::Move;

use crate::error::Result;
use crate::listing::{ListPage, ListQuery};

/// The longest body handed over as one piece, in bytes: up to here a body and its key become durable together, with one
/// write of the journal.
pub const SMALL_BODY_MAX: usize = 64 << 10;

/// Identity of a bucket, never reused (STORE-5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BucketId(pub u64);

/// Identity of a multipart upload, never reused for the same key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UploadId(pub u64);

/// What is fixed when a bucket is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BucketOptions {
    /// Bodies share no chunks with anything else, and have a key of their own that is destroyed with the bucket.
    pub private_copy: bool,
}

/// A bucket. Cheap to look up: a store keeps all of them in memory, or as many as are in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Its identity.
    pub id: BucketId,
    /// Its name.
    pub name: String,
    /// What was fixed when it was made.
    pub options: BucketOptions,
    /// Grows with every change of `record`, so that what was parsed from it can be kept.
    pub revision: u64,
    /// Owner and settings, as the layer above encodes them; at most 1 MiB.
    pub record: Bytes,
    /// Where it is on its way between two pools.
    pub moves: Option<Move>,
    /// Bodies in it share bytes, or did once.
    pub shares_bodies: bool,
}

/// A step of a bucket's move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoveStep {
    /// Where it has to be.
    pub before: Option<Move>,
    /// Where it is then.
    pub after: Option<Move>,
    /// Which bucket it has to be; none: any of the name.
    pub bucket: Option<BucketId>,
}

/// Ends when nobody waits any longer.
pub type Patience = BoxFuture<'static, ()>;

/// Told of a key whose versions may have changed, or of the bucket's record (none): once that can be seen, and before
/// whoever changed it is answered. Must be quick, on any thread.
pub type Watch = Arc<dyn Fn(Option<&str>) + Send + Sync>;

/// A version of a key: an object or a delete marker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    /// Its place among the versions of its key: the highest is the newest (STORE-3).
    pub order: u64,
    /// The version without an id, made while the bucket was not versioned; at most one a key.
    pub null: bool,
    /// A delete marker: no body, size 0.
    pub marker: bool,
    /// Length of the object as its client sees it, in bytes; counted in [`BucketUsage`].
    pub size: u64,
    /// When it was made, in milliseconds since 1970.
    pub modified_ms: u64,
    /// Everything else, as the layer above encodes it; at most 128 KiB, mostly below 1 KiB.
    pub attributes: Bytes,
}

/// A version to be made.
pub type NewVersion = Version;

/// Which version of a key is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Select {
    /// The one with the highest order, delete marker or not.
    Newest,
    /// The one without an id.
    Null,
    /// The one with this order.
    Order(u64),
}

/// What a change of a key is decided by.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyView {
    /// The newest version, delete marker or not.
    pub newest: Option<Version>,
    /// The version without an id.
    pub null: Option<Version>,
    /// The version that the caller named.
    pub named: Option<Version>,
}

/// What happens to a key, as a whole. Nothing set: nothing happens, and the body is dropped.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyChange {
    /// The version of this order goes, with its body.
    pub remove: Option<u64>,
    /// This version comes, with the body handed in (a delete marker has none). Its order exceeds that of every version
    /// there is, unless it has the order of the one in `remove`.
    pub put: Option<NewVersion>,
    /// The version of this order gets these attributes; body, size and time stay.
    pub replace: Option<(u64, Bytes)>,
}

/// Decides a change. Runs at most once, without pause, on any thread; must be quick. An error is passed on, and changes
/// nothing.
pub type ChangeKey = Box<dyn FnOnce(&KeyView) -> Result<KeyChange> + Send>;

/// Decides what becomes of a record, by what it is: the new value, or none to delete it.
pub type ChangeRecord = Box<dyn FnOnce(Option<&Bytes>) -> Result<Option<Bytes>> + Send>;

/// A stored body. While it is held it can be read, whatever happens to its version meanwhile, or reading fails; other
/// bytes never come.
pub trait Body: Send + Sync + std::fmt::Debug {
    /// Length in bytes.
    fn len(&self) -> u64;
    /// Nothing in it.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The bytes of `range`, in order, in pieces of at most 1 MiB. What does not lie within the body is an error, or
    /// does not come.
    fn read(&self, range: Range<u64>) -> BodyReader;
    /// For the store that made it.
    fn as_any(&self) -> &(dyn std::any::Any + Send + Sync);
}

/// Bytes of a body in order. An error ends it.
pub type BodyReader = BoxStream<'static, Result<Bytes>>;

/// A body on its way into the store.
#[async_trait]
pub trait BodyWriter: Send {
    /// Appends. Returns when the store takes more: a slow store slows its client down (STORE-6).
    async fn write(&mut self, data: Bytes) -> Result<()>;
    /// Ends the body; it is durable once a change or part that takes it is.
    async fn finish(self: Box<Self>) -> Result<StagedBody>;
}

/// A body that lies in the store and belongs to nothing yet. Dropped, its space comes back (STORE-4).
pub struct StagedBody {
    /// Length in bytes.
    pub len: u64,
    /// What the store knows it by.
    pub handle: Box<dyn std::any::Any + Send + Sync>,
}

/// The body of a version or part to be made.
pub enum NewBody {
    /// The bytes themselves, at most [`SMALL_BODY_MAX`] bytes. Delete markers and empty objects: no bytes.
    Small(Bytes),
    /// What was staged before.
    Staged(StagedBody),
    /// The named parts of an upload of this key, one after another. The change takes the upload away with all its
    /// parts; it fails with `NoUpload` or `NoPart` when it is gone, or a part is not the one named.
    Parts {
        /// The upload.
        upload: UploadId,
        /// Its parts, in order.
        parts: Vec<PartRef>,
    },
}

/// Names one writing of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartRef {
    /// Number of the part, 1 to 10,000.
    pub number: u16,
    /// Which of the writings under that number.
    pub generation: u64,
}

/// A version, and its body where it has one.
#[derive(Debug, Clone)]
pub struct FoundVersion {
    /// The version.
    pub version: Version,
    /// It is the newest of its key.
    pub newest: bool,
    /// Its body; empty for a delete marker. A small one is in memory already.
    pub body: Arc<dyn Body>,
}

/// A multipart upload under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Upload {
    /// Key of the object it will be.
    pub key: String,
    /// Its identity.
    pub id: UploadId,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// Everything else, as the layer above encodes it; at most 128 KiB, mostly below 1 KiB.
    pub attributes: Bytes,
}

/// A part of an upload.
#[derive(Debug, Clone)]
pub struct UploadPart {
    /// Number, 1 to 10,000.
    pub number: u16,
    /// Which of the writings under that number: given by the store, never repeated within the upload.
    pub generation: u64,
    /// Length as its client sees it, in bytes.
    pub size: u64,
    /// When it was written, in milliseconds since 1970.
    pub modified_ms: u64,
    /// Everything else, as the layer above encodes it; at most 4 KiB.
    pub attributes: Bytes,
}

/// What a bucket holds. May lag behind by changes under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BucketUsage {
    /// Versions that are no delete markers.
    pub objects: u64,
    /// Their sizes, in bytes.
    pub bytes: u64,
}

/// Tables of small records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RecordTable {
    /// Users by name.
    User,
    /// Access keys by their public half.
    AccessKey,
    /// What belongs to the gateway as a whole.
    Gateway,
}

/// A store of buckets and objects. Keys of objects are 1 to 1,024 bytes of UTF-8 and ordered by their bytes; names of
/// buckets are 3 to 63 bytes. Every method may fail with `Unavailable`, `Unread`, `Corrupt` or `Internal`, those that
/// add something with `NoSpace`, and those that take a bucket with `NoBucket` when it is gone. Those that change
/// something in a bucket fail with `Moves` while it is not here (STORE-7).
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// Fails with `Unread` when buckets or records could not be read when the store was opened: lists may lack some
    /// (STORE-8).
    fn check_all_read(&self) -> Result<()>;
    /// Fails with `Unread` when a record of this key may be one of them.
    fn check_record_read(&self, table: RecordTable, key: &str) -> Result<()>;

    /// Makes a bucket. Fails with `BucketExists`.
    async fn create_bucket(
        &self,
        name: &str,
        options: BucketOptions,
        record: Bytes,
    ) -> Result<Arc<Bucket>>;
    /// A bucket by name. Fails with `NoBucket`.
    async fn bucket(&self, name: &str) -> Result<Arc<Bucket>>;
    /// A bucket as its durable record says it is, also where an answer was lost. Costs a read. Fails with `NoBucket`.
    async fn stored_bucket(&self, name: &str) -> Result<Arc<Bucket>>;
    /// Makes a bucket that arrives from another pool (STORE-7). Fails with `BucketExists`, `BadMove`.
    async fn create_arriving(
        &self,
        name: &str,
        options: BucketOptions,
        record: Bytes,
        moves: Move,
    ) -> Result<Arc<Bucket>>;
    /// Takes a bucket a step further on its way (STORE-7). The caller sees to it that this runs to its end. Fails with
    /// `BadMove` for a step that there is not; with `MovesOtherwise` and `OtherBucket` when it is not what it has to
    /// be; with `StillChanging` when changes that are under way outlast `patience`.
    async fn move_bucket(
        &self,
        name: &str,
        step: MoveStep,
        patience: Patience,
    ) -> Result<Arc<Bucket>>;
    /// Replaces the record of a bucket that arrives, as `expects` says. Fails with `MovesOtherwise`.
    async fn replace_record(
        &self,
        name: &str,
        expects: &Move,
        record: Bytes,
    ) -> Result<Arc<Bucket>>;
    /// Deletes about `versions_max` versions a shard of a bucket that left, as `expects` says, and the bucket when none
    /// is left. Returns how many are left. Fails with `MovesOtherwise`.
    async fn delete_left(&self, name: &str, expects: &Move, versions_max: usize) -> Result<u64>;
    /// Tells `watch` what changes in a bucket from now on, instead of whom it told before; none: nobody.
    async fn watch(&self, bucket: BucketId, watch: Option<Watch>) -> Result<()>;
    /// Replaces a bucket's record by what `change` makes of it; none is an error of the caller.
    async fn change_bucket(&self, name: &str, change: ChangeRecord) -> Result<Arc<Bucket>>;
    /// Deletes an empty bucket; its uploads go with it. Fails with `BucketNotEmpty`, and with `Arrived` and `Moves`
    /// while it moves.
    async fn delete_bucket(&self, name: &str) -> Result<()>;
    /// Buckets by name, those after `after`, at most `limit`, without those that could not be read (STORE-8).
    async fn list_buckets(&self, after: &str, limit: usize) -> Result<Vec<Arc<Bucket>>>;
    /// What a bucket holds.
    async fn usage(&self, bucket: BucketId) -> Result<BucketUsage>;

    /// A version of a key with its body; none when there is none. Delete markers are found like objects.
    async fn find(
        &self,
        bucket: BucketId,
        key: &str,
        select: Select,
    ) -> Result<Option<FoundVersion>>;
    /// Changes a key as `change` decides; `named` is what it finds in [`KeyView::named`]. Returns what was done
    /// (STORE-1, STORE-2).
    async fn change_key(
        &self,
        bucket: BucketId,
        key: &str,
        named: Option<Select>,
        body: NewBody,
        change: ChangeKey,
    ) -> Result<KeyChange>;
    /// The same for a bucket that arrives, as `expects` says. Fails with `MovesOtherwise`.
    async fn change_arriving(
        &self,
        bucket: BucketId,
        expects: &Move,
        key: &str,
        named: Option<Select>,
        body: NewBody,
        change: ChangeKey,
    ) -> Result<KeyChange>;
    /// One page of keys or versions. [`Lister`](crate::Lister) does the work over any ordered cursor.
    async fn list(&self, bucket: BucketId, query: &ListQuery) -> Result<ListPage>;

    /// Begins a body for this key, a version of it or a part of an upload, that is longer than [`SMALL_BODY_MAX`] or
    /// may be. It takes at most `room` bytes; what is left of them costs no space, only addresses.
    async fn stage(&self, bucket: BucketId, key: &str, room: u64) -> Result<Box<dyn BodyWriter>>;
    /// The same for a bucket that arrives, as `expects` says. Fails with `MovesOtherwise`.
    async fn stage_arriving(
        &self,
        bucket: BucketId,
        expects: &Move,
        key: &str,
        room: u64,
    ) -> Result<Box<dyn BodyWriter>>;
    /// Copies part of a body of this store for this key. Within a bucket no data are moved: both bodies share the
    /// bytes, until the last of them goes.
    async fn stage_copy(
        &self,
        bucket: BucketId,
        key: &str,
        source: &dyn Body,
        range: Range<u64>,
    ) -> Result<StagedBody>;

    /// Begins an upload.
    async fn create_upload(
        &self,
        bucket: BucketId,
        key: &str,
        started_ms: u64,
        attributes: Bytes,
    ) -> Result<Upload>;
    /// An upload under way. Fails with `NoUpload`.
    async fn upload(&self, bucket: BucketId, key: &str, upload: UploadId) -> Result<Upload>;
    /// Writes a part, instead of one of that number if there is one. `part.generation` is ignored. Fails with
    /// `NoUpload`.
    async fn put_part(
        &self,
        bucket: BucketId,
        key: &str,
        upload: UploadId,
        part: UploadPart,
        body: NewBody,
    ) -> Result<UploadPart>;
    /// Parts by number, those after `after`, at most `limit`. Fails with `NoUpload`.
    async fn list_parts(
        &self,
        bucket: BucketId,
        key: &str,
        upload: UploadId,
        after: u16,
        limit: usize,
    ) -> Result<Vec<UploadPart>>;
    /// Ends an upload and drops its parts. Fails with `NoUpload`.
    async fn abort_upload(&self, bucket: BucketId, key: &str, upload: UploadId) -> Result<()>;
    /// Uploads by key and id whose key begins with `prefix`, those after `after` (of one key: those with higher ids;
    /// without an id: none of that key), at most `limit`.
    async fn list_uploads(
        &self,
        bucket: BucketId,
        prefix: &str,
        after: Option<(&str, Option<UploadId>)>,
        limit: usize,
    ) -> Result<Vec<Upload>>;

    /// A record.
    async fn record(&self, table: RecordTable, key: &str) -> Result<Option<Bytes>>;
    /// Replaces a record (at most 64 KiB) by what `change` makes of it, and returns that.
    async fn change_record(
        &self,
        table: RecordTable,
        key: &str,
        change: ChangeRecord,
    ) -> Result<Option<Bytes>>;
    /// Records by key, those after `after`, at most `limit`, without those that could not be read (STORE-8).
    async fn list_records(
        &self,
        table: RecordTable,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Bytes)>>;
}

impl std::fmt::Debug for StagedBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StagedBody").field("len", &self.len).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for NewBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Small(bytes) => f.debug_tuple("Small").field(&bytes.len()).finish(),
            Self::Staged(staged) => f.debug_tuple("Staged").field(&staged.len).finish(),
            Self::Parts { upload, parts } => f
                .debug_struct("Parts")
                .field("upload", upload)
                .field("parts", &parts.len())
                .finish(),
        }
    }
}
