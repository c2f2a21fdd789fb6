//! Buckets: an owner of a stream each, and an object in the gateway's bucket, whose attributes are its
//! [`BucketRecord`].

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use hashbrown::{HashMap, HashSet};
use tokio::sync::OwnedMutexGuard;
use varve_dataset::{
    BucketOwner, Move, NamelessOwner, bucket_owners, copy_bucket_owner, create_bucket_owner,
    nameless_owner, remove_bucket_owner,
};
use varve_types::{Dedup, Reduction, ShardId, StreamId};

use super::EngineStore;
use super::bucket_record::BucketRecord;
use super::caller::{Address, ShardClient};
use super::gate::{AdmittedChange, ChangeBarrier, ChangeScope};
use super::unread::{UnreadShards, is_out_of_reach};
use crate::moving::{Changer, check_deletion};
use crate::shelf::IncomingBody;
use crate::{
    Bucket, BucketId, BucketOptions, ChangeKey, ChangeRecord, Error, Item, KeyChange, KeyView,
    ListQuery, Marker, Result, Select, Version,
};

/// What keys of the objects of buckets begin with.
const BUCKET_PREFIX: &str = "bucket/";

/// The key of a bucket's object.
pub(super) fn bucket_key(name: &str) -> String {
    format!("{BUCKET_PREFIX}{name}")
}

/// Where owners are made and removed.
const FIRST: ShardId = ShardId(0);

/// Entries listed at once.
const PAGE: usize = 1000;

/// Buckets in memory, by name and by identity. The lock guards both and is never held across a pause.
pub(super) struct BucketTable {
    tables: RwLock<Tables>,
    /// How objects of a bucket are reduced, by its record.
    reduction_in: fn(&[u8]) -> Reduction,
}

#[derive(Default)]
struct Tables {
    by_name: BTreeMap<String, Arc<Bucket>>,
    by_id: HashMap<BucketId, BucketEntry>,
}

/// A bucket and what is let through to it.
#[derive(Clone)]
pub(super) struct BucketEntry {
    pub(super) bucket: Arc<Bucket>,
    pub(super) gate: Arc<ChangeBarrier>,
    /// As its record says.
    reduction: Reduction,
}

impl BucketTable {
    pub(super) fn new(reduction_in: fn(&[u8]) -> Reduction) -> Self {
        Self { tables: RwLock::default(), reduction_in }
    }

    fn reduction_of(&self, bucket: &Bucket) -> Reduction {
        let reduction = (self.reduction_in)(&bucket.record);
        if bucket.options.private_copy {
            return Reduction { dedup: Dedup::Off, ..reduction };
        }
        reduction
    }

    /// How blocks of a bucket are reduced from now on. What belongs to no bucket, or to one that is gone, shares no
    /// chunks.
    pub(super) fn reduction(&self, bucket: BucketId) -> Reduction {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let known = tables.by_id.get(&bucket).map(|entry| entry.reduction);
        known.unwrap_or(Reduction { dedup: Dedup::Off, ..Reduction::default() })
    }

    /// Enters a bucket that was made or loaded.
    fn enter(&self, bucket: &Arc<Bucket>) {
        let reduction = self.reduction_of(bucket);
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let gate = ChangeBarrier::new(bucket.moves.clone());
        tables.by_name.insert(bucket.name.clone(), Arc::clone(bucket));
        let entry = BucketEntry { bucket: Arc::clone(bucket), gate, reduction };
        tables.by_id.insert(bucket.id, entry);
    }

    /// Enters what a bucket is now, unless a newer revision of it is there, or none: it was removed.
    pub(super) fn renew(&self, bucket: &Arc<Bucket>) {
        let reduction = self.reduction_of(bucket);
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let Tables { by_name, by_id } = &mut *tables;
        if let Some(known) = by_id.get_mut(&bucket.id)
            && known.bucket.revision < bucket.revision
        {
            known.bucket = Arc::clone(bucket);
            known.reduction = reduction;
            by_name.insert(bucket.name.clone(), Arc::clone(bucket));
        }
    }

    fn remove(&self, bucket: &Bucket) {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        if tables.by_name.get(&bucket.name).is_some_and(|named| named.id == bucket.id) {
            tables.by_name.remove(&bucket.name);
        }
        tables.by_id.remove(&bucket.id);
    }

    pub(super) fn named(&self, name: &str) -> Result<Arc<Bucket>> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let found = tables.by_name.get(name).cloned();
        found.ok_or_else(|| Error::NoBucket { name: name.to_owned() })
    }

    pub(super) fn get(&self, id: BucketId) -> Result<BucketEntry> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let found = tables.by_id.get(&id).cloned();
        found.ok_or_else(|| Error::NoBucket { name: format!("#{}", id.0) })
    }

    pub(super) fn entry(&self, name: &str) -> Result<BucketEntry> {
        self.get(self.named(name)?.id)
    }

    pub(super) fn after(&self, name: &str, limit: usize) -> Vec<Arc<Bucket>> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let behind = tables.by_name.range(format!("{name}\0")..);
        behind.take(limit).map(|(_, bucket)| Arc::clone(bucket)).collect()
    }
}

pub(super) fn decode(name: &str, version: &Version) -> Result<Bucket> {
    let stored = BucketRecord::decode(&version.attributes);
    let damaged = |cause| Error::Corrupt { what: format!("the record of bucket {name} ({cause})") };
    let BucketRecord { id, options, moves, shares_bodies, record } = stored.map_err(damaged)?;
    let (name, revision) = (name.to_owned(), version.order);
    Ok(Bucket { id, name, options, revision, record, moves, shares_bodies })
}

/// A version of an object that is all attributes.
pub(super) fn plain_version(order: u64, attributes: Bytes) -> Version {
    Version { order, null: true, marker: false, size: 0, modified_ms: 0, attributes }
}

/// The change that replaces the newest version by one with these attributes, or removes it.
pub(super) fn replaced(view: &KeyView, attributes: Option<Bytes>) -> KeyChange {
    let before = view.newest.as_ref().map(|version| version.order);
    let order = before.map_or(1, |order| order + 1);
    let put = attributes.map(|attributes| plain_version(order, attributes));
    KeyChange { remove: before, put, replace: None }
}

/// The gateway's bucket, and the shards that could not be asked for it. It is made when there is none, which all of
/// them have to say.
pub(super) async fn gateway(caller: &ShardClient) -> Result<(BucketId, UnreadShards)> {
    let asked = caller.shards().map(|shard| async move {
        let nameless = caller.on_thread(shard, move |dispatch| {
            Box::pin(async move { nameless_owner(&dispatch, shard).await.map_err(of_dataset) })
        });
        (shard, nameless.await)
    });
    let (mut found, mut unread) = (Vec::new(), UnreadShards::default());
    for (shard, owner) in join_all(asked).await {
        match owner {
            Ok(owner) => found.push((shard, owner)),
            Err(error) => unread.add(shard, error)?,
        }
    }
    let known = found.iter().filter_map(|(_, there)| match there {
        NamelessOwner::Known(owner) => Some(owner),
        NamelessOwner::Unreadable | NamelessOwner::Absent => None,
    });
    let owner = match known.min_by_key(|owner| owner.stream) {
        Some(owner) => owner.clone(),
        None => {
            for (shard, there) in &found {
                if *there == NamelessOwner::Unreadable {
                    let what = "the record of what S3 is found by, or of a bucket".to_owned();
                    unread.add(*shard, Error::Corrupt { what })?;
                }
            }
            unread.check_none(|| "users and buckets".to_owned())?; // UNREAD-2
            fresh(caller, String::new()).await?
        }
    };
    let whole = NamelessOwner::Known(owner.clone());
    let lacking = found.into_iter().filter(|(_, there)| *there != whole);
    join_all(lacking.map(|(shard, _)| copy_owner(caller, shard, owner.clone()))).await;
    Ok((BucketId(owner.stream.get()), unread))
}

/// Copies the owner of the gateway's bucket to a shard, so that it is found there when the first shard is damaged.
async fn copy_owner(caller: &ShardClient, shard: ShardId, owner: BucketOwner) {
    let copied = caller.on_thread(shard, move |dispatch| {
        Box::pin(
            async move { copy_bucket_owner(&dispatch, shard, &owner).await.map_err(of_dataset) },
        )
    });
    // Nothing depends on it now, and the next opening tries again.
    if let Err(error) = copied.await {
        tracing::warn!(shard = shard.0, %error, "what S3 is found by is not copied to this shard");
    }
}

async fn owners(caller: &ShardClient) -> Result<Vec<BucketOwner>> {
    let owners = caller.on_thread(FIRST, |dispatch| {
        Box::pin(async move { bucket_owners(&dispatch).await.map_err(of_dataset) })
    });
    owners.await
}

async fn fresh(caller: &ShardClient, name: String) -> Result<BucketOwner> {
    let owner = caller.on_thread(FIRST, move |dispatch| {
        Box::pin(async move { create_bucket_owner(&dispatch, &name).await.map_err(of_dataset) })
    });
    owner.await
}

fn of_dataset(error: varve_dataset::Error) -> Error {
    use varve_types::ErrorKind;
    if let varve_dataset::Error::Dispatch(failed) = &error
        && failed.is_read_failure()
    {
        return Error::Unavailable { what: error.to_string() };
    }
    match error.kind() {
        ErrorKind::NoSpace => Error::NoSpace,
        ErrorKind::Corrupt => Error::Corrupt { what: error.to_string() },
        ErrorKind::Unavailable | ErrorKind::Closed | ErrorKind::Fenced => {
            Error::Unavailable { what: error.to_string() }
        }
        ErrorKind::NotFound
        | ErrorKind::Exists
        | ErrorKind::Invalid
        | ErrorKind::Unsupported
        | ErrorKind::Denied
        | ErrorKind::Conflict
        | ErrorKind::Internal => Error::Internal { what: error.to_string() },
    }
}

impl EngineStore {
    /// Reads all buckets, and clears what is left of those that were being made or deleted (OBJECT-ENGINE-1). Their
    /// shelves are opened, so that what uploads that were cut off left is freed. Shards that cannot be read are left as
    /// they are (OBJECT-ENGINE-5).
    pub(super) async fn load_buckets(&mut self, is_read_only: bool) -> Result<()> {
        let mut unreadable = 0;
        for shard in self.read_shards() {
            match self.load_from(shard).await {
                Ok(count) => unreadable += count,
                Err(error) => self.unread.add(shard, error)?,
            }
        }
        let buckets = self.buckets.after("", usize::MAX);
        // What is of no bucket that is known may be of one that cannot be read.
        let is_known = unreadable == 0 && self.unread.check_none(String::new).is_ok();
        if is_known && !is_read_only {
            match self.clear_unknown(&buckets).await {
                Err(error) if is_out_of_reach(&error) => {
                    tracing::error!(%error, "what is left of deleted buckets stays until the next start");
                }
                cleared => cleared?,
            }
        }
        for bucket in &buckets {
            let opened = self
                .on_shards(self.read_shards(), bucket.id, |_| Box::pin(std::future::ready(Ok(()))))
                .await;
            if let Err(error) = opened {
                tracing::error!(bucket = bucket.name, %error, "a bucket cannot be opened; the others can be used");
            }
        }
        Ok(())
    }

    /// Shards whose records are known.
    pub(super) fn read_shards(&self) -> Vec<ShardId> {
        self.caller.shards().filter(|shard| !self.unread.contains(*shard)).collect()
    }

    /// Reads what a shard keeps in the gateway's bucket, records of users too, so that it can be read; enters the
    /// buckets. How many have records that make no sense.
    async fn load_from(&self, shard: ShardId) -> Result<usize> {
        let mut query = ListQuery { limit: PAGE, ..ListQuery::default() };
        let mut unreadable = 0;
        loop {
            let page = self.pages_on(vec![shard], self.gateway, &query).await?;
            for item in &page.items {
                let Item::Version { key, version, .. } = item else { continue };
                let Some(name) = key.strip_prefix(BUCKET_PREFIX) else { continue };
                match decode(name, version) {
                    Ok(bucket) => self.buckets.enter(&Arc::new(bucket)),
                    Err(error) => {
                        tracing::error!(%error, "a bucket is not served");
                        unreadable += 1;
                    }
                }
            }
            match page.items.last().filter(|_| page.more) {
                Some(last) => query.after = Marker::Key(last_key(last)),
                None => return Ok(unreadable),
            }
        }
    }

    /// Clears what is of no bucket, where all buckets are known.
    async fn clear_unknown(&self, buckets: &[Arc<Bucket>]) -> Result<()> {
        let known: HashSet<BucketId> = buckets.iter().map(|bucket| bucket.id).collect();
        for owner in owners(&self.caller).await? {
            let id = BucketId(owner.stream.get());
            if id != self.gateway && !known.contains(&id) {
                self.clear_remains(id, &owner.name).await?;
            }
        }
        Ok(())
    }

    /// A bucket by name; fails as unread where it may be.
    pub(super) fn named(&self, name: &str) -> Result<Arc<Bucket>> {
        let found = self.buckets.named(name);
        if found.is_err() {
            self.check_read(&bucket_key(name), || format!("bucket `{name}`"))?;
        }
        found
    }

    /// The same with its gate.
    fn entry(&self, name: &str) -> Result<BucketEntry> {
        self.named(name)?;
        self.buckets.entry(name)
    }

    /// Fails where an object of the gateway's bucket may be unread (UNREAD-2).
    pub(super) fn check_read(&self, key: &str, what: impl FnOnce() -> String) -> Result<()> {
        self.unread.check(self.caller.home(self.gateway, key), what)
    }

    /// Clears what is left of a deleted bucket. One with objects was not deleted (OBJECT-ENGINE-2): it stays, for
    /// whoever looks into it.
    async fn clear_remains(&self, id: BucketId, name: &str) -> Result<()> {
        let versions =
            self.on_all(id, |shelf| Box::pin(std::future::ready(Ok(shelf.versions())))).await?;
        let objects: u64 = versions.iter().sum();
        if objects > 0 {
            tracing::error!(
                bucket = name,
                objects,
                "a bucket with objects has no record; it is left as it is"
            );
            return Ok(());
        }
        tracing::info!(bucket = name, "what is left of a deleted bucket is cleared");
        self.clear(id).await
    }

    /// Runs `work` on all shelves of a bucket.
    pub(super) async fn on_all<T: Send + 'static>(
        &self,
        bucket: BucketId,
        work: impl Fn(std::rc::Rc<crate::shelf::BucketShard>) -> super::caller::ShelfFuture<T>
        + Clone
        + Send
        + 'static,
    ) -> Result<Vec<T>> {
        self.on_shards(self.caller.shards().collect(), bucket, work).await
    }

    /// The same on the shelves of these shards.
    async fn on_shards<T: Send + 'static>(
        &self,
        shards: Vec<ShardId>,
        bucket: BucketId,
        work: impl Fn(std::rc::Rc<crate::shelf::BucketShard>) -> super::caller::ShelfFuture<T>
        + Clone
        + Send
        + 'static,
    ) -> Result<Vec<T>> {
        let calls = shards.into_iter().map(|shard| {
            let at = Address { shard, bucket };
            self.caller.on_shelf(at, work.clone())
        });
        try_join_all(calls).await
    }

    fn gateway_at(&self, shard: ShardId) -> Address {
        Address { shard, bucket: self.gateway }
    }

    /// An object of the gateway's bucket.
    pub(super) async fn own(&self, key: &str) -> Result<Option<Version>> {
        let at = self.gateway_at(self.caller.home(self.gateway, key));
        Ok(self.find_at(at, key, Select::Newest).await?.map(|found| found.version))
    }

    /// Changes an object of the gateway's bucket.
    pub(super) async fn change_own(&self, key: String, change: ChangeKey) -> Result<KeyChange> {
        self.change_held(key, change, None).await
    }

    /// The same, as a change that was let through.
    pub(super) async fn change_held(
        &self,
        key: String,
        change: ChangeKey,
        changing: Option<AdmittedChange>,
    ) -> Result<KeyChange> {
        let at = self.gateway_at(self.caller.home(self.gateway, &key));
        let changed = self.caller.on_shelf(at, move |shelf| {
            Box::pin(async move {
                let body = IncomingBody::Small(Bytes::new());
                let changed = shelf.change_key(&key, None, body, change).await;
                drop(changing); // OBJECT-GATE-1
                changed
            })
        });
        changed.await
    }

    pub(super) async fn make_bucket(
        &self,
        name: &str,
        options: BucketOptions,
        record: Bytes,
        moves: Option<Move>,
    ) -> Result<Arc<Bucket>> {
        match self.named(name) {
            Ok(_) => return Err(Error::BucketExists { name: name.to_owned() }),
            Err(Error::NoBucket { .. }) => {}
            Err(error) => return Err(error), // UNREAD-2
        }
        let owner = fresh(&self.caller, name.to_owned()).await?;
        let id = BucketId(owner.stream.get());
        let stored = BucketRecord { id, options, moves, shares_bodies: false, record };
        let (taken, attributes) = (name.to_owned(), stored.encode());
        let change: ChangeKey = Box::new(move |view| match view.newest {
            Some(_) => Err(Error::BucketExists { name: taken }),
            None => Ok(replaced(view, Some(attributes))),
        });
        match self.change_own(bucket_key(name), change).await {
            Ok(_) => {
                let BucketRecord { id, options, moves, shares_bodies, record } = stored;
                let (name, revision) = (name.to_owned(), 1);
                let bucket =
                    Arc::new(Bucket { id, name, options, revision, record, moves, shares_bodies });
                self.buckets.enter(&bucket);
                Ok(bucket)
            }
            Err(error) => {
                if matches!(error, Error::BucketExists { .. }) {
                    self.clear(id).await?;
                }
                Err(error)
            }
        }
    }

    /// Replaces the record of a bucket.
    pub(super) async fn change_record_of(
        &self,
        name: &str,
        changer: Changer<'_>,
        change: ChangeRecord,
    ) -> Result<Arc<Bucket>> {
        let BucketEntry { gate, .. } = self.entry(name)?;
        let changing = gate.begin(name, changer, ChangeScope::Record)?;
        let gone = name.to_owned();
        let expects = match changer {
            Changer::Client => None,
            Changer::Run(expects) => Some(expects.clone()),
        };
        let change: ChangeKey = Box::new(move |view| {
            let Some(version) = &view.newest else {
                return Err(Error::NoBucket { name: gone });
            };
            let bucket = decode(&gone, version)?;
            let changer = expects.as_ref().map_or(Changer::Client, Changer::Run);
            changer.check(&gone, bucket.moves.as_ref())?;
            let record = change(Some(&bucket.record))?
                .ok_or(Error::State { reason: "a bucket has a record" })?;
            Ok(replaced(view, Some(BucketRecord { record, ..BucketRecord::of(bucket) }.encode())))
        });
        let changed = self.change_held(bucket_key(name), change, Some(changing)).await?;
        let version = changed.put.ok_or(Error::State { reason: "a bucket has a record" })?;
        let bucket = Arc::new(decode(name, &version)?);
        self.buckets.renew(&bucket);
        Ok(bucket)
    }

    /// A bucket whose steps are the caller's.
    pub(super) async fn held(&self, name: &str) -> Result<(BucketEntry, OwnedMutexGuard<()>)> {
        let entry = self.entry(name)?;
        let one = Arc::clone(&entry.gate.steps).lock_owned().await;
        match self.buckets.entry(name)? {
            now if now.bucket.id == entry.bucket.id => Ok((now, one)),
            _ => Err(Error::NoBucket { name: name.to_owned() }), // It was deleted, and another one made.
        }
    }

    pub(super) async fn remove_bucket(&self, name: &str) -> Result<()> {
        let (BucketEntry { bucket, gate, .. }, _one) = self.held(name).await?;
        check_deletion(name, gate.moves().as_ref())?;
        self.remove_empty(&bucket, None).await
    }

    /// Removes a bucket that is empty and where it is taken to be on its way. For who holds its steps.
    pub(super) async fn remove_empty(&self, bucket: &Bucket, moves: Option<&Move>) -> Result<()> {
        // A shard that cannot be asked may hold some of it; nothing is closed for that.
        self.unread.check_none(|| format!("objects of bucket `{}`", bucket.name))?;
        let set_closed = async |is_closed| {
            self.on_all(bucket.id, move |shelf| {
                shelf.set_closed(is_closed);
                Box::pin(std::future::ready(Ok(shelf.versions())))
            })
            .await
        };
        let removed = async {
            // OBJECT-ENGINE-2: none of them takes a change when the last one is asked.
            set_closed(true).await?;
            if set_closed(true).await?.into_iter().any(|versions| versions > 0) {
                return Err(Error::BucketNotEmpty { name: bucket.name.clone() });
            }
            let (gone, id, expected) = (bucket.name.clone(), bucket.id, moves.cloned());
            let change: ChangeKey = Box::new(move |view| {
                let stored = view.newest.as_ref().map(|version| decode(&gone, version));
                match stored.transpose()? {
                    Some(stored) if stored.id != id => Err(Error::NoBucket { name: gone }),
                    Some(stored) if stored.moves == expected => Ok(replaced(view, None)),
                    Some(Bucket { moves, .. }) => Err(Error::MovesOtherwise { name: gone, moves }),
                    None => Err(Error::NoBucket { name: gone }),
                }
            });
            self.change_own(bucket_key(&bucket.name), change).await // OBJECT-ENGINE-1
        };
        // An error does not say that it is still there.
        if let Err(error) = removed.await
            && self.has_record(bucket).await?
        {
            set_closed(false).await?;
            return Err(error);
        }
        self.buckets.remove(bucket);
        self.clear(bucket.id).await
    }

    async fn has_record(&self, bucket: &Bucket) -> Result<bool> {
        match self.own(&bucket_key(&bucket.name)).await? {
            Some(version) => Ok(decode(&bucket.name, &version)?.id == bucket.id),
            None => Ok(false),
        }
    }

    /// Removes everything of a bucket that does not exist any more, or never came to.
    async fn clear(&self, id: BucketId) -> Result<()> {
        let clear =
            |shelf: std::rc::Rc<crate::shelf::BucketShard>| -> super::caller::ShelfFuture<()> {
                shelf.set_closed(true);
                Box::pin(async move { shelf.clear().await })
            };
        let cleared = self
            .caller
            .shards()
            .map(|shard| self.caller.on_shelf_at_length(Address { shard, bucket: id }, clear));
        try_join_all(cleared).await?;
        for shard in self.caller.shards() {
            self.caller.forget(Address { shard, bucket: id }).await?;
        }
        let stream = StreamId::new(id.0);
        let removed = self.caller.on_thread(FIRST, move |dispatch| {
            Box::pin(
                async move { remove_bucket_owner(&dispatch, stream).await.map_err(of_dataset) },
            )
        });
        removed.await
    }
}

pub(super) fn last_key(item: &Item) -> String {
    match item {
        Item::Version { key, .. } | Item::Group(key) => key.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(id: u64, revision: u64) -> Arc<Bucket> {
        let (id, name, record) = (BucketId(id), "b".to_owned(), Bytes::new());
        let options = BucketOptions::default();
        let (moves, shares_bodies) = (None, false);
        Arc::new(Bucket { id, name, options, revision, record, moves, shares_bodies })
    }

    /// Records of these tests say `d` for deduplication.
    fn reduction_in(record: &[u8]) -> Reduction {
        let dedup = if record == b"d" { Dedup::On } else { Dedup::Off };
        Reduction { dedup, ..Reduction::OFF }
    }

    #[test]
    fn a_bucket_is_reduced_as_its_newest_record_says_unless_it_is_private() {
        let table = BucketTable::new(reduction_in);
        let unknown = Reduction { dedup: Dedup::Off, ..Reduction::default() };
        assert_eq!(table.reduction(BucketId(1)), unknown);
        for private_copy in [false, true] {
            let of = |revision_, record: &'static [u8]| {
                let options = BucketOptions { private_copy };
                let id = BucketId(1 + u64::from(private_copy));
                let (record, name) = (Bytes::from_static(record), format!("b{private_copy}"));
                let bucket = Bucket::clone(&revision(id.0, revision_));
                Arc::new(Bucket { options, record, name, ..bucket })
            };
            let id = of(1, b"").id;
            let wanted = if private_copy { Dedup::Off } else { Dedup::On };
            table.enter(&of(1, b"d"));
            assert_eq!(table.reduction(id).dedup, wanted);
            table.renew(&of(3, b""));
            assert_eq!(table.reduction(id).dedup, Dedup::Off);
            table.renew(&of(2, b"d"));
            assert_eq!(table.reduction(id).dedup, Dedup::Off, "an older record does not count");
            table.renew(&of(4, b"d"));
            assert_eq!(table.reduction(id).dedup, wanted);
            table.remove(&of(4, b"d"));
            assert_eq!(table.reduction(id), unknown);
        }
    }

    #[test]
    fn a_bucket_that_was_removed_does_not_come_back_by_a_late_answer() {
        let table = BucketTable::new(reduction_in);
        table.enter(&revision(1, 1));
        table.renew(&revision(1, 3));
        table.renew(&revision(1, 2));
        assert_eq!(table.named("b").map(|bucket| bucket.revision), Ok(3));
        let gate = table.entry("b").map(|entry| Arc::as_ptr(&entry.gate));
        table.renew(&revision(1, 4));
        assert!(table.entry("b").map(|entry| Arc::as_ptr(&entry.gate)) == gate);
        table.remove(&revision(1, 4));
        table.renew(&revision(1, 5));
        let none = Err(Error::NoBucket { name: "b".to_owned() });
        assert_eq!(table.named("b").map(|bucket| bucket.id), none);
        assert!(table.get(BucketId(1)).is_err() && table.after("", 10).is_empty());
        table.enter(&revision(2, 1));
        table.renew(&revision(1, 6));
        assert_eq!(table.named("b").map(|bucket| bucket.id), Ok(BucketId(2)));
    }
}
