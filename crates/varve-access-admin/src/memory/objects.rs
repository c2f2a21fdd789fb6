//! Users and buckets of the memory backend: names and numbers, with the refusals of the real one.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard};

use axum::body::Bytes;
use varve_types::{Dedup, ErrorKind, Reduction};

use super::bucket_moves::Contents;
use super::{CREATED_UNIX_MS, ready, refusal};
use crate::backend::AdminFuture;
use crate::error::{Error, Result};
use crate::objects::ObjectBackend;
use crate::v1::{
    AccessKey, AddedUsersAndKeys, Bucket, BucketChanges, BucketDeletion, BucketSettings,
    BucketSpace, BucketVersioning, ChangeBucket, ChangeUser, CreateBucket, CreateKey, CreateUser,
    MoveBucket, NewKey, ReadParts, Receive, ReplaceSettings, Stage, StagedPiece, User,
    UsersAndKeys, VersionPage, VersionsWanted, VolumeMove,
};

/// The user made at the first start.
const OWNER: &str = "owner";

/// A bucket of this name holds three objects of 1 MiB from the beginning.
const FULL: &str = "full";

/// A gateway that nobody reads from. The mutex guards all of it and is never held across an await.
pub(super) struct MemoryObjects {
    now: Mutex<State>,
}

pub(super) struct State {
    users: BTreeMap<String, User>,
    pub(super) buckets: BTreeMap<String, Bucket>,
    pub(super) contents: BTreeMap<String, Contents>,
    keys_made: u64,
}

impl Default for MemoryObjects {
    fn default() -> Self {
        let mut state = State {
            users: BTreeMap::new(),
            buckets: BTreeMap::new(),
            contents: BTreeMap::new(),
            keys_made: 0,
        };
        let owner = CreateUser { name: OWNER.to_owned(), admin: true, ..CreateUser::default() };
        let made = state.create_user(owner);
        assert!(made.is_ok(), "the owner is the first user");
        Self { now: Mutex::new(state) }
    }
}

impl State {
    fn user(&mut self, name: &str) -> Result<&mut User> {
        self.users.get_mut(name).ok_or_else(|| absent("user", name))
    }

    pub(super) fn bucket(&mut self, name: &str) -> Result<&mut Bucket> {
        self.buckets.get_mut(name).ok_or_else(|| absent("bucket", name))
    }

    fn create_user(&mut self, spec: CreateUser) -> Result<NewKey> {
        let CreateUser { name, display_name, email, admin, policy, access_key, secret_key, .. } =
            spec;
        if name.is_empty() || name.contains('/') {
            return Err(refusal(ErrorKind::Invalid, format!("invalid name `{name}`")));
        }
        check_policy(policy.as_deref().unwrap_or_default())?;
        if self.users.contains_key(&name) {
            return Err(refusal(ErrorKind::Exists, format!("user `{name}` already exists")));
        }
        self.check_key(access_key.as_deref())?;
        let user = User {
            display_name: display_name.unwrap_or_else(|| name.clone()),
            name: name.clone(),
            email,
            admin,
            policy: policy.filter(|policy| !policy.is_empty()),
            quota_bytes: spec.quota_bytes.filter(|bytes| *bytes > 0),
            quota_buckets: spec.quota_buckets.filter(|buckets| *buckets > 0),
            created_unix_ms: CREATED_UNIX_MS,
            access_keys: Vec::new(),
            keys_incomplete: false,
        };
        self.users.insert(name.clone(), user);
        self.create_key(&name, CreateKey { access_key, secret_key })
    }

    fn check_key(&self, access_key: Option<&str>) -> Result<()> {
        let mut keys = self.users.values().flat_map(|user| &user.access_keys);
        match keys.find(|key| Some(key.access_key.as_str()) == access_key) {
            Some(AccessKey { access_key, .. }) => {
                Err(refusal(ErrorKind::Exists, format!("access key `{access_key}` already exists")))
            }
            None => Ok(()),
        }
    }

    fn create_key(&mut self, user: &str, spec: CreateKey) -> Result<NewKey> {
        self.user(user)?;
        self.check_key(spec.access_key.as_deref())?;
        self.keys_made += 1;
        let number = self.keys_made;
        let access_key = spec.access_key.unwrap_or_else(|| format!("KEY{number:017}"));
        let secret_key = spec.secret_key.unwrap_or_else(|| format!("secret-{number:033}"));
        let known = AccessKey { access_key: access_key.clone(), created_unix_ms: CREATED_UNIX_MS };
        let keys = &mut self.user(user)?.access_keys;
        keys.push(known);
        keys.sort_by(|a, b| a.access_key.cmp(&b.access_key));
        Ok(NewKey { user: user.to_owned(), access_key, secret_key })
    }

    fn delete_key(&mut self, access_key: &str) -> Result<()> {
        let is_it = |key: &AccessKey| key.access_key == access_key;
        let mut users = self.users.values_mut();
        let user = users.find(|user| user.access_keys.iter().any(is_it));
        let user = user.ok_or_else(|| absent("access key", access_key))?;
        user.access_keys.retain(|key| !is_it(key));
        Ok(())
    }

    fn change_user(&mut self, name: &str, change: ChangeUser) -> Result<User> {
        check_policy(change.policy.as_deref().unwrap_or_default())?;
        let user = self.user(name)?;
        if let Some(policy) = change.policy {
            user.policy = Some(policy).filter(|policy| !policy.is_empty());
        }
        user.quota_bytes = change.quota_bytes.or(user.quota_bytes).filter(|bytes| *bytes > 0);
        let quota_buckets = change.quota_buckets.or(user.quota_buckets);
        user.quota_buckets = quota_buckets.filter(|buckets| *buckets > 0);
        Ok(user.clone())
    }

    fn delete_user(&mut self, name: &str, leave_buckets: bool) -> Result<()> {
        let is_admin = self.user(name)?.admin;
        let owned = self.buckets.values().filter(|bucket| bucket.owner == name).count();
        if owned > 0 && !leave_buckets {
            let message = format!("user `{name}` owns {owned} bucket");
            let hint = "delete its buckets first, or let them stay without an owner, with `--leave-buckets`";
            let hint = Some(hint.to_owned());
            return Err(Error::Backend { kind: ErrorKind::Conflict, message, hint });
        }
        if is_admin && !self.users.values().any(|user| user.admin && user.name != name) {
            let message = format!("user `{name}` is the only administrator");
            let hint = "create another one first with `varve user create NAME --admin`".to_owned();
            return Err(Error::Backend { kind: ErrorKind::Conflict, message, hint: Some(hint) });
        }
        self.users.remove(name);
        Ok(())
    }

    fn create_bucket(&mut self, spec: CreateBucket) -> Result<Bucket> {
        let CreateBucket { name, owner, versioning, object_lock, arriving, .. } = spec;
        if name.len() < 3 || name.contains(['/', '_']) {
            return Err(refusal(ErrorKind::Invalid, format!("invalid bucket name `{name}`")));
        }
        let owner = owner.unwrap_or_else(|| OWNER.to_owned());
        self.user(&owner)?;
        if self.buckets.contains_key(&name) {
            return Err(refusal(ErrorKind::Exists, format!("bucket `{name}` already exists")));
        }
        let objects = if name == FULL { 3 } else { 0 };
        let versioned = versioning || object_lock;
        let bucket = Bucket {
            name: name.clone(),
            id: 1 + self.buckets.len() as u64,
            owner,
            versioning: if versioned { BucketVersioning::Enabled } else { BucketVersioning::Off },
            object_lock,
            objects,
            object_bytes: objects << 20,
            usage_unknown: false,
            quota_bytes: spec.quota_bytes.filter(|bytes| *bytes > 0),
            quota_objects: spec.quota_objects.filter(|objects| *objects > 0),
            access_log: false,
            dedup: spec.dedup.unwrap_or(Reduction::default().dedup),
            compression: spec.compression.unwrap_or(Reduction::default().compression),
            created_unix_ms: CREATED_UNIX_MS,
            moves: arriving.as_ref().map(|arriving| arriving.moves.clone()),
        };
        if let Some(arriving) = &arriving {
            self.contents.insert(name.clone(), Contents::arriving(arriving));
        }
        self.buckets.insert(name, bucket.clone());
        Ok(bucket)
    }

    fn change_bucket(&mut self, name: &str, change: ChangeBucket) -> Result<Bucket> {
        let bucket = self.bucket(name)?;
        bucket.quota_bytes = change.quota_bytes.or(bucket.quota_bytes).filter(|bytes| *bytes > 0);
        let quota_objects = change.quota_objects.or(bucket.quota_objects);
        bucket.quota_objects = quota_objects.filter(|objects| *objects > 0);
        bucket.access_log = change.access_log.unwrap_or(bucket.access_log);
        bucket.dedup = change.dedup.unwrap_or(bucket.dedup);
        bucket.compression = change.compression.unwrap_or(bucket.compression);
        Ok(bucket.clone())
    }

    fn delete_bucket(&mut self, name: &str) -> Result<()> {
        if self.bucket(name)?.objects > 0 {
            let message = format!("bucket `{name}` is not empty");
            return Err(refusal(ErrorKind::Conflict, message));
        }
        self.buckets.remove(name);
        Ok(())
    }
}

fn page<T: Clone>(all: &BTreeMap<String, T>, after: Option<String>, limit: usize) -> Vec<T> {
    let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
    all.range((begin, Bound::Unbounded)).take(limit).map(|(_, one)| one.clone()).collect()
}

/// A policy is at least JSON.
fn check_policy(policy: &str) -> Result<()> {
    let parsed = serde_json::from_str::<serde_json::Value>(policy);
    match parsed {
        Err(error) if !policy.is_empty() => {
            Err(refusal(ErrorKind::Invalid, format!("policy: no JSON: {error}")))
        }
        _ => Ok(()),
    }
}

fn absent(what: &str, name: &str) -> Error {
    refusal(ErrorKind::NotFound, format!("no {what} `{name}`"))
}

impl MemoryObjects {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.now.lock().expect("no holder of the lock panics")
    }
}

impl MemoryObjects {
    /// What buckets hold: half of it twice where it is deduplicated, and all compresses to three quarters.
    pub(super) fn spaces(&self) -> Vec<BucketSpace> {
        let space = |bucket: &Bucket| {
            let logical_bytes = bucket.object_bytes;
            let distinct_bytes = logical_bytes / if bucket.dedup == Dedup::On { 2 } else { 1 };
            BucketSpace {
                name: bucket.name.clone(),
                logical_bytes,
                distinct_bytes,
                referenced_bytes: logical_bytes / 4 * 3,
                freed_bytes: distinct_bytes / 4 * 3,
            }
        };
        self.lock().buckets.values().map(space).collect()
    }
}

impl ObjectBackend for MemoryObjects {
    fn incomplete(&self) -> Option<String> {
        None
    }

    fn users(&self, after: Option<String>, limit: usize) -> AdminFuture<'_, Vec<User>> {
        ready(Ok(page(&self.lock().users, after, limit)))
    }

    fn user(&self, name: String) -> AdminFuture<'_, User> {
        ready(self.lock().user(&name).map(|user| user.clone()))
    }

    fn create_user(&self, spec: CreateUser) -> AdminFuture<'_, NewKey> {
        ready(self.lock().create_user(spec))
    }

    fn change_user(&self, name: String, change: ChangeUser) -> AdminFuture<'_, User> {
        ready(self.lock().change_user(&name, change))
    }

    fn delete_user(&self, name: String, leave_buckets: bool) -> AdminFuture<'_, ()> {
        ready(self.lock().delete_user(&name, leave_buckets))
    }

    fn create_key(&self, user: String, spec: CreateKey) -> AdminFuture<'_, NewKey> {
        ready(self.lock().create_key(&user, spec))
    }

    fn delete_key(&self, access_key: String) -> AdminFuture<'_, ()> {
        ready(self.lock().delete_key(&access_key))
    }

    fn buckets(&self, after: Option<String>, limit: usize) -> AdminFuture<'_, Vec<Bucket>> {
        ready(Ok(page(&self.lock().buckets, after, limit)))
    }

    fn bucket(&self, name: String) -> AdminFuture<'_, Bucket> {
        ready(self.lock().bucket(&name).map(|bucket| bucket.clone()))
    }

    fn create_bucket(&self, spec: CreateBucket) -> AdminFuture<'_, Bucket> {
        ready(self.lock().create_bucket(spec))
    }

    fn change_bucket(&self, name: String, change: ChangeBucket) -> AdminFuture<'_, Bucket> {
        ready(self.lock().change_bucket(&name, change))
    }

    fn delete_bucket(&self, name: String) -> AdminFuture<'_, ()> {
        ready(self.lock().delete_bucket(&name))
    }

    fn move_bucket(&self, name: String, step: MoveBucket) -> AdminFuture<'_, Bucket> {
        ready(self.lock().move_bucket(&name, step))
    }

    fn bucket_settings(&self, name: String) -> AdminFuture<'_, BucketSettings> {
        ready(self.lock().settings(&name))
    }

    fn replace_settings(&self, name: String, new: ReplaceSettings) -> AdminFuture<'_, Bucket> {
        ready(self.lock().replace_settings(&name, new))
    }

    fn versions(&self, name: String, wanted: VersionsWanted) -> AdminFuture<'_, VersionPage> {
        ready(self.lock().versions(&name, &wanted))
    }

    fn read_parts(&self, name: String, wanted: ReadParts) -> AdminFuture<'_, Vec<(u64, Bytes)>> {
        ready(self.lock().read(&name, wanted))
    }

    fn receive(&self, name: String, receive: Receive, bodies: Vec<Bytes>) -> AdminFuture<'_, ()> {
        ready(self.lock().receive(&name, receive, bodies))
    }

    fn stage(&self, name: String, stage: Stage, piece: Bytes) -> AdminFuture<'_, StagedPiece> {
        ready(self.lock().stage(&name, &stage, &piece))
    }

    fn changes(&self, name: String, since: Option<String>) -> AdminFuture<'_, BucketChanges> {
        ready(self.lock().changes(&name, since.as_deref()))
    }

    fn delete_left(&self, name: String, expects: VolumeMove) -> AdminFuture<'_, BucketDeletion> {
        ready(self.lock().delete_left(&name, &expects))
    }

    fn users_and_keys(&self, _: Option<String>) -> AdminFuture<'_, UsersAndKeys> {
        ready(Ok(UsersAndKeys::default()))
    }

    fn add_users_and_keys(&self, all: UsersAndKeys) -> AdminFuture<'_, AddedUsersAndKeys> {
        ready(State::add_users(all))
    }
}
