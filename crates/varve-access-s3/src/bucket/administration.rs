//! Buckets as their operator sees them: beside the protocol, without rights to check.

use std::sync::Arc;

use varve_object::{Acl, Bucket, BucketOptions, BucketUsage, Settings, Versioning};
use varve_types::{Compression, Dedup};

use crate::answers::error::{Error, Result};
use crate::bucket::info::{BucketInfo, BucketQuota};
use crate::bucket::name::check_bucket_name;
use crate::clock::now_ms;
use crate::gateway::Gateway;
use crate::operations::bucket::all_of_owner;

/// What operators change of a bucket. What is absent stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BucketChange {
    /// Most bytes, 0 for no limit.
    pub quota_bytes: Option<u64>,
    /// Most objects, 0 for no limit.
    pub quota_objects: Option<u64>,
    /// Whether requests are logged.
    pub access_log: Option<bool>,
    /// Whether blocks written from now on are deduplicated.
    pub dedup: Option<Dedup>,
    /// How blocks written from now on are compressed.
    pub compression: Option<Compression>,
}

/// A bucket to be made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewBucket {
    /// Its name.
    pub name: String,
    /// Id of the user it is to belong to; none: the one made at the first start.
    pub owner: Option<String>,
    /// Overwritten objects stay as versions.
    pub versioning: bool,
    /// Objects may be locked; they stay as versions then.
    pub object_lock: bool,
    /// What it may hold.
    pub quota: BucketQuota,
    /// Whether its blocks are deduplicated; none: the default.
    pub dedup: Option<Dedup>,
    /// How its blocks are compressed; none: the default.
    pub compression: Option<Compression>,
}

impl Gateway {
    /// Makes a bucket. Durable on return.
    ///
    /// # Errors
    /// `Invalid` for the name, `NotFound` for the owner, those of the store.
    pub async fn create_bucket(&self, new: NewBucket) -> Result<BucketInfo> {
        check_bucket_name(&new.name)?;
        let owner = new.owner.unwrap_or_else(|| self.inner.options.owner.clone());
        self.inner.users.find(&owner)?;
        let versioned = new.versioning || new.object_lock;
        let settings = Settings {
            acl: Acl::private(&owner),
            owner,
            created_ms: now_ms(),
            versioning: if versioned { Versioning::Enabled } else { Versioning::Off },
            object_lock: new.object_lock,
            quota_bytes: new.quota.bytes,
            quota_objects: new.quota.objects,
            dedup: new.dedup,
            compression: new.compression,
            ..Settings::default()
        };
        let options = BucketOptions::default();
        let made = self.inner.store.create_bucket(&new.name, options, settings.encode()).await?;
        self.info(made).await
    }

    /// A bucket.
    ///
    /// # Errors
    /// `NoBucket`, those of the store.
    pub async fn bucket(&self, name: &str) -> Result<BucketInfo> {
        self.info(self.inner.store.bucket(name).await?).await
    }

    /// Buckets by name, those after `after`, at most `limit`, without those that could not be read ([`Self::unread`]).
    /// Costs a question to all shards for each.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn buckets(&self, after: &str, limit: usize) -> Result<Vec<BucketInfo>> {
        let mut all = Vec::new();
        for bucket in self.inner.store.list_buckets(after, limit).await? {
            let usage = match self.inner.counted(bucket.id).await {
                // Deleted meanwhile: it was there when the page was taken.
                Err(varve_object::Error::NoBucket { .. }) => Some(BucketUsage::default()),
                usage => usage?,
            };
            all.push(self.with_usage(bucket, usage)?);
        }
        Ok(all)
    }

    /// Changes a bucket. Durable on return; counts for the next request.
    ///
    /// # Errors
    /// `NoBucket`, those of the store.
    pub async fn change_bucket(&self, name: &str, change: BucketChange) -> Result<BucketInfo> {
        let edit = move |settings: &mut Settings| {
            settings.quota_bytes = change.quota_bytes.unwrap_or(settings.quota_bytes);
            settings.quota_objects = change.quota_objects.unwrap_or(settings.quota_objects);
            settings.access_log = change.access_log.unwrap_or(settings.access_log);
            settings.dedup = change.dedup.or(settings.dedup);
            settings.compression = change.compression.or(settings.compression);
            Ok(())
        };
        let changed = self.inner.edit(name, edit).await?;
        self.info(changed).await
    }

    /// Deletes an empty bucket; its uploads go with it.
    ///
    /// # Errors
    /// `NoBucket`, `BucketNotEmpty`, those of the store.
    pub async fn delete_bucket(&self, name: &str) -> Result<()> {
        Ok(self.inner.store.delete_bucket(name).await?)
    }

    /// Deletes a user with its keys; one that owns buckets only if they may stay behind without an owner.
    ///
    /// # Errors
    /// `NotFound`, `OwnsBuckets`, `LastAdmin`, those of the store.
    pub async fn delete_user(&self, id: &str, leave_buckets: bool) -> Result<()> {
        if !leave_buckets {
            let owned = all_of_owner(&self.inner, id).await?.len();
            if owned > 0 {
                let buckets = u64::try_from(owned).unwrap_or(u64::MAX);
                return Err(Error::OwnsBuckets { name: id.to_owned(), buckets });
            }
        }
        self.inner.users.delete(id).await
    }

    pub(crate) async fn info(&self, bucket: Arc<Bucket>) -> Result<BucketInfo> {
        let usage = self.inner.counted(bucket.id).await?;
        self.with_usage(bucket, usage)
    }

    fn with_usage(&self, bucket: Arc<Bucket>, usage: Option<BucketUsage>) -> Result<BucketInfo> {
        let view = self.inner.parsed(bucket)?;
        let settings = &view.settings;
        Ok(BucketInfo {
            name: view.bucket.name.clone(),
            id: view.id().0,
            owner: settings.owner.clone(),
            created_ms: settings.created_ms,
            versioning: settings.versioning,
            object_lock: settings.object_lock,
            quota: quota_of(settings),
            access_log: settings.access_log,
            reduction: settings.reduction(),
            usage,
            moves: view.bucket.moves.clone(),
        })
    }
}

fn quota_of(settings: &Settings) -> BucketQuota {
    BucketQuota { bytes: settings.quota_bytes, objects: settings.quota_objects }
}

#[cfg(test)]
mod tests {
    use varve_object::{MemoryStore, User};
    use varve_types::{ErrorKind, Reduction};

    use super::*;
    use crate::body::seal::MasterKey;
    use crate::gateway::{OpenedGateway, Options};

    async fn gateway() -> Gateway {
        let store = Arc::new(MemoryStore::default());
        let opened = Gateway::open(store, MasterKey::of([7; 32]), Options::default()).await;
        let OpenedGateway { gateway, first_key } = opened.unwrap();
        assert_eq!(first_key.unwrap().user, "owner");
        gateway
    }

    fn named(name: &str) -> NewBucket {
        NewBucket { name: name.to_owned(), ..NewBucket::default() }
    }

    #[tokio::test]
    async fn a_bucket_is_what_was_asked_for() {
        let gateway = gateway().await;
        let quota = BucketQuota { bytes: 1 << 30, objects: 0 };
        let asked = NewBucket { object_lock: true, quota, ..named("photos") };
        let made = gateway.create_bucket(asked).await.unwrap();
        assert_eq!((made.owner.as_str(), made.versioning), ("owner", Versioning::Enabled));
        assert_eq!(
            (made.object_lock, made.quota, made.usage),
            (true, quota, Some(BucketUsage::default()))
        );
        let changed = gateway
            .change_bucket(
                "photos",
                BucketChange { quota_objects: Some(5), ..BucketChange::default() },
            )
            .await
            .unwrap();
        assert_eq!(changed.quota, BucketQuota { objects: 5, ..quota });
        assert!(!changed.access_log);
        let change = BucketChange { access_log: Some(true), ..BucketChange::default() };
        assert!(gateway.change_bucket("photos", change).await.unwrap().access_log);
        let of_bucket = gateway.bucket("photos").await.unwrap().reduction;
        assert_eq!(of_bucket, Reduction::default());
        let change = BucketChange { dedup: Some(Dedup::On), ..BucketChange::default() };
        gateway.change_bucket("photos", change).await.unwrap();
        let compression = Compression::Zstd(5);
        let change = BucketChange { compression: Some(compression), ..BucketChange::default() };
        let changed = gateway.change_bucket("photos", change).await.unwrap();
        assert_eq!(changed.reduction, Reduction { dedup: Dedup::On, compression });
        assert_eq!(gateway.bucket("photos").await.unwrap().quota.objects, 5);
        assert_eq!(gateway.buckets("", 10).await.unwrap().len(), 1);
        gateway.delete_bucket("photos").await.unwrap();
        assert!(gateway.bucket("photos").await.is_err());
    }

    #[tokio::test]
    async fn names_and_owners_are_checked() {
        let gateway = gateway().await;
        for name in ["", "ab", "Upper", "a..b", "a/b", "../up", "192.168.0.1", "a.-b"] {
            let refused = gateway.create_bucket(named(name)).await.unwrap_err();
            assert!(matches!(refused, Error::Invalid { .. }), "{name}: {refused}");
        }
        let stranger = NewBucket { owner: Some("nobody".to_owned()), ..named("good") };
        let refused = gateway.create_bucket(stranger).await.unwrap_err().to_string();
        assert_eq!(refused, "no user `nobody`");
        gateway.create_bucket(named("good")).await.unwrap();
        let again = gateway.create_bucket(named("good")).await.unwrap_err();
        assert_eq!(again.kind(), varve_types::ErrorKind::Exists);
    }

    #[tokio::test]
    async fn a_user_with_buckets_stays_unless_they_may_be_left() {
        let gateway = gateway().await;
        let user = User { id: "ann".to_owned(), ..User::default() };
        let key = gateway.users().create_with_key(user, None).await.unwrap();
        let asked = NewBucket { owner: Some("ann".to_owned()), ..named("hers") };
        gateway.create_bucket(asked).await.unwrap();
        let refused = gateway.delete_user("ann", false).await.unwrap_err();
        assert_eq!(refused.to_string(), "user `ann` owns 1 bucket");
        assert!(gateway.users().by_key(&key.access_key).is_some());
        gateway.delete_user("ann", true).await.unwrap();
        assert!(gateway.users().by_key(&key.access_key).is_none(), "its key goes with it");
        assert_eq!(gateway.bucket("hers").await.unwrap().owner, "ann");
    }

    #[tokio::test]
    async fn the_only_administrator_stays() {
        let gateway = gateway().await;
        let user = |id: &str, admin| User { id: id.to_owned(), admin, ..User::default() };
        gateway.users().create(user("ann", false)).await.unwrap();
        let refused = gateway.delete_user("owner", false).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
        assert_eq!(refused.to_string(), "user `owner` is the only administrator");
        assert_eq!(gateway.users().keys("owner").len(), 1, "its key stays");
        gateway.users().create(user("bob", true)).await.unwrap();
        gateway.delete_user("owner", false).await.unwrap();
        assert!(gateway.users().get("owner").is_none());
        assert!(gateway.delete_user("bob", false).await.is_err(), "now it is the only one");
        gateway.delete_user("ann", false).await.unwrap();
    }

    #[tokio::test]
    async fn users_and_keys_change_for_requests_while_a_shard_is_damaged() {
        let store = Arc::new(MemoryStore::default());
        let lists = Arc::clone(&store);
        let opened = Gateway::open(store, MasterKey::of([7; 32]), Options::default());
        let gateway = opened.await.unwrap().gateway;
        let users = gateway.users();
        let user = |id: &str| User { id: id.to_owned(), ..User::default() };
        let keys = [
            users.create_with_key(user("ann"), None).await.unwrap(),
            users.create_key("ann", None).await.unwrap(),
        ];
        lists.fail_lists();
        users.delete_key(&keys[0].access_key).await.unwrap();
        assert!(users.by_key(&keys[0].access_key).is_none(), "it signs nothing more");
        assert!(users.by_key(&keys[1].access_key).is_some());
        users.change("ann", |ann| ann.quota_buckets = 7).await.unwrap();
        let (known, _) = users.by_key(&keys[1].access_key).unwrap();
        assert_eq!(known.user.quota_buckets, 7);
        let made = users.create_with_key(user("ben"), None).await.unwrap();
        let (known, secret) = users.by_key(&made.access_key).unwrap();
        assert_eq!((known.user.id.as_str(), &*secret), ("ben", made.secret_key.as_str()));
        gateway.delete_user("ann", true).await.unwrap();
        assert!(users.get("ann").is_none() && users.by_key(&keys[1].access_key).is_none());
        assert_eq!((users.count(), users.keys("ben").len()), (2, 1), "with the owner");
    }

    #[tokio::test]
    async fn what_may_be_unread_is_neither_listed_nor_made_again() {
        let store = Arc::new(MemoryStore::default());
        let open = async || {
            let store = Arc::clone(&store) as Arc<dyn varve_object::ObjectStore>;
            let opened = Gateway::open(store, MasterKey::of([7; 32]), Options::default());
            opened.await.unwrap().gateway
        };
        let before = open().await;
        assert_eq!(before.unread(), None);
        for id in ["ann", "lost-user"] {
            let given = (format!("key-of-{id}"), "12345678".to_owned());
            let user = User { id: id.to_owned(), ..User::default() };
            before.users().create_with_key(user, Some(given)).await.unwrap();
        }
        for name in ["lost-bucket", "photos"] {
            before.create_bucket(named(name)).await.unwrap();
        }
        // Half of the random keys would be lost, too.
        store.lose(|name| name.starts_with("lost") || matches!(name.as_bytes()[0], b'A'..b'Q'));
        let gateway = open().await;
        assert!(gateway.unread().unwrap().contains("may be on shard 1"));
        let listed = gateway.buckets("", 10).await.unwrap();
        assert_eq!(
            listed.iter().map(|bucket| bucket.name.as_str()).collect::<Vec<_>>(),
            ["photos"]
        );
        let unavailable = |error: Error| {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        };
        unavailable(gateway.bucket("lost-bucket").await.unwrap_err());
        unavailable(gateway.create_bucket(named("lost-bucket")).await.unwrap_err());
        unavailable(gateway.delete_bucket("lost-bucket").await.unwrap_err());
        let owner = Some("lost-user".to_owned());
        let asked = NewBucket { owner, ..named("new") };
        unavailable(gateway.create_bucket(asked).await.unwrap_err());
        let users = gateway.users();
        let user = User { id: "lost-user".to_owned(), ..User::default() };
        unavailable(users.find("lost-user").unwrap_err());
        unavailable(users.create_with_key(user, None).await.unwrap_err());
        unavailable(users.create_key("lost-user", None).await.unwrap_err());
        unavailable(users.delete_key("lost-key").await.unwrap_err());
        unavailable(gateway.delete_user("ann", true).await.unwrap_err());
        unavailable(gateway.users_and_keys(None).await.unwrap_err());
        assert_eq!(users.find("nobody").unwrap_err().to_string(), "no user `nobody`");
        for _ in 0..20 {
            let key = users.create_key("ann", None).await.unwrap();
            assert!(users.by_key(&key.access_key).is_some(), "{}", key.access_key);
        }
        assert!(gateway.create_bucket(named("more")).await.is_ok());
    }

    #[tokio::test]
    async fn keys_made_elsewhere_are_checked_before_anything_is_made() {
        let gateway = gateway().await;
        let users = gateway.users();
        let ann = || User { id: "ann".to_owned(), ..User::default() };
        let given = |access: &str, secret: &str| Some((access.to_owned(), secret.to_owned()));
        for (access, secret) in
            [("", "12345678"), ("a b", "12345678"), ("k", "short"), ("k", "with spaces")]
        {
            let refused = users.create_with_key(ann(), given(access, secret)).await.unwrap_err();
            assert!(matches!(refused, Error::Invalid { .. }), "{access} {secret}: {refused}");
        }
        assert!(users.get("ann").is_none());
        let made = users.create_with_key(ann(), given("k", "12345678")).await.unwrap();
        assert_eq!((made.access_key.as_str(), made.secret_key.as_str()), ("k", "12345678"));
        let taken = users.create_key("owner", given("k", "12345678")).await.unwrap_err();
        assert_eq!(taken.to_string(), "access key `k` already exists");
        let page = users.page("", 10);
        assert_eq!((page.len(), &page[0].1), (2, &users.keys("ann")));
        assert_eq!(users.page("ann", 10).len(), 1);
        let (made, key) = (users.get("ann").unwrap(), users.keys("ann"));
        assert!(made.created_ms > 0 && key[0].created_ms >= made.created_ms);
    }
}
