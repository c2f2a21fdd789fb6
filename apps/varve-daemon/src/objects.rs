//! Users and buckets of S3 as the admin API sees them, over the gateway.

mod moving;

use std::net::SocketAddr;

use hyper::body::Bytes;
use varve_access_admin::v1::{
    AccessKey, AddedUsersAndKeys, Bucket, BucketChanges, BucketDeletion, BucketSettings,
    BucketVersioning, ChangeBucket, ChangeUser, CreateBucket, CreateKey, CreateUser, MoveBucket,
    NewKey, ReadParts, Receive, ReplaceSettings, Stage, StagedPiece, User, UsersAndKeys,
    VersionPage, VersionsWanted, VolumeMove,
};
use varve_access_admin::{AdminFuture, Error, ObjectBackend, Result};
use varve_access_s3::{
    self as s3, AddedUsers, BucketChange, BucketInfo, BucketQuota, ChangeLog, Gateway, KeyInfo,
    NewBucket, VersionQuery,
};
use varve_object::Error as StoreError;
use varve_types::ErrorKind;

use crate::moves::{shown_move, wanted_move};

/// What to do where users and buckets cannot be read.
pub(crate) const UNREAD: &str = "`varve check` says what is damaged, and `varve salvage` copies out what can be read; start the daemon again once the shard is whole";

/// Objects in this daemon.
pub(crate) enum Objects {
    /// S3 is not asked for.
    Off,
    /// S3 could not be served.
    Failed {
        /// Why.
        why: String,
        /// What to do.
        hint: Option<String>,
        /// Whether it was asked for.
        is_trouble: bool,
    },
    /// S3 is served.
    On(GatewayAdmin),
}

impl Objects {
    /// The gateway, where there is one.
    pub(crate) fn gateway(&self) -> Option<&GatewayAdmin> {
        match self {
            Self::On(gateway) => Some(gateway),
            Self::Off | Self::Failed { .. } => None,
        }
    }

    /// What is wrong with it, for the status.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self {
            Self::Failed { why, hint, is_trouble: true } => {
                let hint = hint.as_ref().map_or_else(String::new, |hint| format!("; try: {hint}"));
                Some(format!("S3 is not served: {why}{hint}"))
            }
            Self::On(GatewayAdmin { gateway, .. }) => {
                let unread = gateway.unread()?;
                Some(format!("S3 is served in part: {unread}; try: {UNREAD}"))
            }
            _ => None,
        }
    }

    /// What the admin API asks, or why it cannot.
    pub(crate) fn backend(&self) -> Result<&dyn ObjectBackend> {
        match self {
            Self::On(gateway) => Ok(gateway),
            Self::Off => Err(Error::NoS3),
            Self::Failed { why, hint, .. } => Err(Error::Backend {
                kind: ErrorKind::Unavailable,
                message: format!("S3 is not served: {why}"),
                hint: hint.clone(),
            }),
        }
    }
}

/// The gateway's operator.
pub(crate) struct GatewayAdmin {
    pub(crate) gateway: Gateway,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

/// Goes on to its end when the caller leaves, so that what is stored and what is in memory stay the same
/// (BUCKET-MOVING-3).
fn whole<T: Send + 'static>(
    work: impl Future<Output = s3::Result<T>> + Send + 'static,
) -> AdminFuture<'static, T> {
    Box::pin(async move {
        match tokio::spawn(work).await {
            Ok(done) => done.map_err(|error| refused(&error)),
            Err(_) => Err(Error::Backend {
                kind: ErrorKind::Internal,
                message: "the gateway panicked".to_owned(),
                hint: Some("the daemon's log has the message".to_owned()),
            }),
        }
    })
}

fn refused(error: &s3::Error) -> Error {
    let hint = match error {
        s3::Error::OwnsBuckets { .. } => {
            "delete its buckets first, or let them stay without an owner, with `--leave-buckets`"
        }
        s3::Error::LastAdmin { .. } => {
            "create another one first with `varve user create NAME --admin`"
        }
        s3::Error::Store(StoreError::Arrived { .. }) => {
            "`varve pool migrate` deletes it at its source, or removes the mark, and then this one can be deleted"
        }
        s3::Error::Store(StoreError::Moves { .. }) => {
            "it is used where it is, or comes back, with `varve pool migrate`"
        }
        s3::Error::Store(StoreError::BucketNotEmpty { .. }) => {
            "delete its objects with an S3 client first, all versions and delete markers too"
        }
        s3::Error::Store(StoreError::Unread { .. }) => UNREAD,
        s3::Error::NotFound { what: "user", .. } => "`varve user list` shows them",
        s3::Error::Store(error) if error.kind() == ErrorKind::NotFound => {
            "`varve bucket list` shows them"
        }
        _ => "",
    };
    let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
    Error::Backend { kind: error.kind(), message: error.to_string(), hint }
}

/// 0 is no limit.
fn limit(value: u64) -> Option<u64> {
    Some(value).filter(|value| *value > 0)
}

fn text(value: String) -> Option<String> {
    Some(value).filter(|value| !value.is_empty())
}

fn user_of(user: s3::User, keys: Vec<KeyInfo>, keys_incomplete: bool) -> User {
    let key =
        |key: KeyInfo| AccessKey { access_key: key.access_key, created_unix_ms: key.created_ms };
    User {
        name: user.id,
        display_name: user.name,
        email: text(user.email),
        admin: user.admin,
        policy: text(user.policy),
        quota_bytes: limit(user.quota_bytes),
        quota_buckets: limit(user.quota_buckets),
        created_unix_ms: user.created_ms,
        access_keys: keys.into_iter().map(key).collect(),
        keys_incomplete,
    }
}

fn bucket_of(bucket: BucketInfo) -> Bucket {
    let usage = bucket.usage.unwrap_or_default();
    Bucket {
        name: bucket.name,
        id: bucket.id,
        owner: bucket.owner,
        versioning: match bucket.versioning {
            s3::Versioning::Off => BucketVersioning::Off,
            s3::Versioning::Enabled => BucketVersioning::Enabled,
            s3::Versioning::Suspended => BucketVersioning::Suspended,
        },
        object_lock: bucket.object_lock,
        objects: usage.objects,
        object_bytes: usage.bytes,
        usage_unknown: bucket.usage.is_none(),
        quota_bytes: limit(bucket.quota.bytes),
        quota_objects: limit(bucket.quota.objects),
        access_log: bucket.access_log,
        dedup: bucket.reduction.dedup,
        compression: bucket.reduction.compression,
        created_unix_ms: bucket.created_ms,
        moves: bucket.moves.map(shown_move),
    }
}

fn key_of(key: s3::NewKey) -> NewKey {
    let s3::NewKey { user, access_key, secret_key } = key;
    NewKey { user, access_key, secret_key }
}

impl GatewayAdmin {
    fn user_now(&self, name: &str) -> Result<User> {
        let users = self.gateway.users();
        let user = users.find(name).map_err(|error| refused(&error))?;
        Ok(user_of(user, users.keys(name), self.incomplete().is_some()))
    }
}

impl ObjectBackend for GatewayAdmin {
    fn incomplete(&self) -> Option<String> {
        self.gateway.unread()
    }

    fn users(&self, after: Option<String>, limit: usize) -> AdminFuture<'_, Vec<User>> {
        let page = self.gateway.users().page(&after.unwrap_or_default(), limit);
        let is_incomplete = self.incomplete().is_some();
        let users = page.into_iter().map(|(user, keys)| user_of(user, keys, is_incomplete));
        Box::pin(std::future::ready(Ok(users.collect())))
    }

    fn user(&self, name: String) -> AdminFuture<'_, User> {
        Box::pin(std::future::ready(self.user_now(&name)))
    }

    fn create_user(&self, spec: CreateUser) -> AdminFuture<'_, NewKey> {
        let gateway = self.gateway.clone();
        whole(async move {
            let user = s3::User {
                name: spec.display_name.unwrap_or_else(|| spec.name.clone()),
                id: spec.name,
                email: spec.email.unwrap_or_default(),
                admin: spec.admin,
                policy: spec.policy.unwrap_or_default(),
                quota_bytes: spec.quota_bytes.unwrap_or(0),
                quota_buckets: spec.quota_buckets.unwrap_or(0),
                created_ms: 0, // The gateway has the clock.
            };
            let given = spec.access_key.zip(spec.secret_key);
            gateway.users().create_with_key(user, given).await.map(key_of)
        })
    }

    fn change_user(&self, name: String, change: ChangeUser) -> AdminFuture<'_, User> {
        let (gateway, id) = (self.gateway.clone(), name.clone());
        let changed = whole(async move {
            let ChangeUser { policy, quota_bytes, quota_buckets } = change;
            let change = |user: &mut s3::User| {
                user.policy = policy.unwrap_or_else(|| std::mem::take(&mut user.policy));
                user.quota_bytes = quota_bytes.unwrap_or(user.quota_bytes);
                user.quota_buckets = quota_buckets.unwrap_or(user.quota_buckets);
            };
            gateway.users().change(&id, change).await
        });
        Box::pin(async move {
            changed.await?;
            self.user_now(&name)
        })
    }

    fn delete_user(&self, name: String, leave_buckets: bool) -> AdminFuture<'_, ()> {
        let gateway = self.gateway.clone();
        whole(async move { gateway.delete_user(&name, leave_buckets).await })
    }

    fn create_key(&self, user: String, spec: CreateKey) -> AdminFuture<'_, NewKey> {
        let gateway = self.gateway.clone();
        whole(async move {
            let given = spec.access_key.zip(spec.secret_key);
            gateway.users().create_key(&user, given).await.map(key_of)
        })
    }

    fn delete_key(&self, access_key: String) -> AdminFuture<'_, ()> {
        let gateway = self.gateway.clone();
        whole(async move { gateway.users().delete_key(&access_key).await })
    }

    fn buckets(&self, after: Option<String>, limit: usize) -> AdminFuture<'_, Vec<Bucket>> {
        let gateway = self.gateway.clone();
        whole(async move {
            let page = gateway.buckets(&after.unwrap_or_default(), limit).await?;
            Ok(page.into_iter().map(bucket_of).collect())
        })
    }

    fn bucket(&self, name: String) -> AdminFuture<'_, Bucket> {
        let gateway = self.gateway.clone();
        whole(async move { gateway.bucket(&name).await.map(bucket_of) })
    }

    fn create_bucket(&self, spec: CreateBucket) -> AdminFuture<'_, Bucket> {
        let gateway = self.gateway.clone();
        whole(async move {
            if let Some(arriving) = spec.arriving {
                return gateway
                    .create_arriving(moving::arriving_of(spec.name, arriving))
                    .await
                    .map(bucket_of);
            }
            let quota = BucketQuota {
                bytes: spec.quota_bytes.unwrap_or(0),
                objects: spec.quota_objects.unwrap_or(0),
            };
            let CreateBucket { name, owner, versioning, object_lock, dedup, compression, .. } =
                spec;
            let new = NewBucket { name, owner, versioning, object_lock, quota, dedup, compression };
            gateway.create_bucket(new).await.map(bucket_of)
        })
    }

    fn change_bucket(&self, name: String, change: ChangeBucket) -> AdminFuture<'_, Bucket> {
        let gateway = self.gateway.clone();
        whole(async move {
            let ChangeBucket { quota_bytes, quota_objects, access_log, dedup, compression } =
                change;
            let change =
                BucketChange { quota_bytes, quota_objects, access_log, dedup, compression };
            gateway.change_bucket(&name, change).await.map(bucket_of)
        })
    }

    fn delete_bucket(&self, name: String) -> AdminFuture<'_, ()> {
        let gateway = self.gateway.clone();
        whole(async move { gateway.delete_bucket(&name).await })
    }

    fn move_bucket(&self, name: String, step: MoveBucket) -> AdminFuture<'_, Bucket> {
        let gateway = self.gateway.clone();
        whole(async move { moving::step(&gateway, &name, step).await.map(bucket_of) })
    }

    fn bucket_settings(&self, name: String) -> AdminFuture<'_, BucketSettings> {
        let gateway = self.gateway.clone();
        whole(async move { gateway.settings(&name).await.map(moving::settings_of) })
    }

    fn replace_settings(&self, name: String, new: ReplaceSettings) -> AdminFuture<'_, Bucket> {
        let gateway = self.gateway.clone();
        whole(async move {
            let ReplaceSettings { expects, record } = new;
            let (expects, record) = (wanted_move(expects), record.0.into());
            gateway.replace_settings(&name, &expects, record).await.map(bucket_of)
        })
    }

    fn versions(&self, name: String, wanted: VersionsWanted) -> AdminFuture<'_, VersionPage> {
        Box::pin(async move {
            let VersionsWanted { key, after, limit } = wanted;
            let found = self.gateway.versions(&name, VersionQuery { key, after, limit }).await;
            let (versions, more) = found.map_err(|error| refused(&error))?;
            let versions = versions
                .into_iter()
                .map(|(key, version)| moving::stored_version(key, version))
                .collect();
            Ok(VersionPage { versions, more })
        })
    }

    fn read_parts(&self, name: String, wanted: ReadParts) -> AdminFuture<'_, Vec<(u64, Bytes)>> {
        Box::pin(async move {
            let parts = wanted.parts.into_iter().map(moving::part_of).collect();
            self.gateway.read_parts(&name, parts).await.map_err(|error| refused(&error))
        })
    }

    fn receive(&self, name: String, receive: Receive, bodies: Vec<Bytes>) -> AdminFuture<'_, ()> {
        let gateway = self.gateway.clone();
        whole(async move {
            let Receive { expects, changes } = receive;
            let changes = moving::changes_of(changes, bodies);
            gateway.receive(&name, wanted_move(expects), changes).await
        })
    }

    fn stage(&self, name: String, stage: Stage, piece: Bytes) -> AdminFuture<'_, StagedPiece> {
        let gateway = self.gateway.clone();
        whole(async move {
            let Stage { expects, key, total_bytes, id, offset, .. } = stage;
            let (expects, bytes) = (wanted_move(expects), piece);
            let piece = s3::NextPiece { expects, key, total_bytes, id, offset, bytes };
            let s3::StagedSoFar { id, received_bytes } = gateway.stage(&name, piece).await?;
            Ok(StagedPiece { id, received_bytes })
        })
    }

    fn changes(&self, name: String, since: Option<String>) -> AdminFuture<'_, BucketChanges> {
        let gateway = self.gateway.clone();
        whole(async move {
            let noted = gateway.changes(&name, since.as_deref()).await?;
            let ChangeLog { token, whole, keys, settings_changed } = noted;
            Ok(BucketChanges { token, whole, keys, settings_changed })
        })
    }

    fn delete_left(&self, name: String, expects: VolumeMove) -> AdminFuture<'_, BucketDeletion> {
        let gateway = self.gateway.clone();
        whole(async move {
            let left = gateway.delete_left(&name, &wanted_move(expects)).await?;
            Ok(BucketDeletion { left, done: left == 0 })
        })
    }

    fn users_and_keys(&self, after: Option<String>) -> AdminFuture<'_, UsersAndKeys> {
        Box::pin(async move {
            let page = self.gateway.users_and_keys(after.as_deref()).await;
            let page = page.map_err(|error| refused(&error))?;
            Ok(moving::users_of(self.gateway.key_check(), page))
        })
    }

    fn add_users_and_keys(&self, all: UsersAndKeys) -> AdminFuture<'_, AddedUsersAndKeys> {
        let gateway = self.gateway.clone();
        whole(async move {
            let (key_check, all) = moving::stored_users(all);
            let added = gateway.add_users_and_keys(&key_check, all).await?;
            let AddedUsers { users, keys, kept } = added;
            Ok(AddedUsersAndKeys { added_users: users, added_keys: keys, kept })
        })
    }
}
