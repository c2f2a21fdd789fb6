//! Users and their access keys: in memory as a whole, replaced as a whole by each change, durable in the store before
//! that.
//!
//! USERS-1. Who is not known, and may be where the store could not read, is neither said not to exist nor created.
//! USERS-2. A change counts from when it is durable, whatever else cannot be read then: a key that was deleted signs
//!     nothing more.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::{Arc, PoisonError, RwLock};

use varve_object::{AccessKey, ObjectStore, RecordTable, User};

use crate::answers::error::{Error, Result};
use crate::body::seal::{MasterKey, random};
use crate::identity::policy::Policy;
use crate::identity::stored_users::{AddedUsers, StoredUsers};

/// Users loaded at once, and so the most there may be in one page.
const PAGE: usize = 1000;
/// Most users and keys: all are in memory.
pub(crate) const USERS_MAX: usize = 100_000;
/// Longest name for people and mail address, in bytes.
const TEXT_BYTES_MAX: usize = 256;
/// Longest record of a user, in bytes.
const RECORD_BYTES_MAX: usize = 64 << 10;
/// Random keys tried for one whose record can be kept: beside a damaged shard of two, every second one.
const KEYS_TRIED_MAX: usize = 64;
/// Lengths of secrets made elsewhere, in characters.
const SECRET_LENS: RangeInclusive<usize> = 8..=128;

/// Users and access keys.
pub struct Users {
    store: Arc<dyn ObjectStore>,
    master: Arc<MasterKey>,
    /// Guards the snapshot; held for moments.
    now: RwLock<Arc<UserSnapshot>>,
    /// One change at a time.
    changes: tokio::sync::Mutex<()>,
}

/// A user as requests see it.
#[derive(Debug)]
pub(crate) struct KnownUser {
    pub(crate) user: User,
    pub(crate) policy: Option<Policy>,
}

#[derive(Clone, Default)]
struct UserSnapshot {
    users: HashMap<String, Arc<KnownUser>>,
    keys: HashMap<String, KnownKey>,
    /// Users whose records cannot be read: they are not served, others are.
    unreadable: HashSet<String>,
}

#[derive(Clone)]
struct KnownKey {
    user: String,
    secret: Arc<str>,
    created_ms: u64,
}

/// The public half of an access key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// What requests name.
    pub access_key: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
}

/// An access key with its secret, as it is shown once.
#[derive(Clone, PartialEq, Eq)]
pub struct NewKey {
    /// Id of its user.
    pub user: String,
    /// The public half.
    pub access_key: String,
    /// The secret.
    pub secret_key: String,
}

impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewKey")
            .field("user", &self.user)
            .field("access_key", &self.access_key)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Users").finish_non_exhaustive()
    }
}

impl Users {
    /// Loads all users. Secrets that do not open with `master` are an error, so that a wrong key file is noticed at the
    /// start.
    pub(crate) async fn load(store: Arc<dyn ObjectStore>, master: Arc<MasterKey>) -> Result<Self> {
        let users =
            Self { store, master, now: RwLock::default(), changes: tokio::sync::Mutex::default() };
        users.reload().await?;
        Ok(users)
    }

    /// How many there are, those that cannot be read among them.
    pub(crate) fn count(&self) -> usize {
        let snapshot = self.snapshot();
        snapshot.users.len() + snapshot.unreadable.len()
    }

    /// Creates a user with an access key, which is `given`, or random. A crash may leave the user without the key.
    ///
    /// # Errors
    /// Those of [`create`](Self::create) and [`create_key`](Self::create_key), before anything is made.
    pub async fn create_with_key(
        &self,
        user: User,
        given: Option<(String, String)>,
    ) -> Result<NewKey> {
        let key = given.unwrap_or_else(|| self.generate());
        self.check_key(&key.0, &key.1)?;
        let id = user.id.clone();
        self.create(user).await?;
        self.create_key(&id, Some(key)).await
    }

    /// Makes a user, now. Durable on return.
    ///
    /// # Errors
    /// `Exists`, `Invalid` for names or policies that make no sense, those of the store: `Unread` where the user may
    /// exist (USERS-1).
    pub async fn create(&self, mut user: User) -> Result<()> {
        check_name(&user.id)?;
        check_text("name", &user.name)?;
        check_text("mail address", &user.email)?;
        check_policy(&user.policy)?;
        let policy = parse_policy(&user.policy)?;
        user.created_ms = crate::clock::now_ms();
        let _one = self.changes.lock().await;
        if self.snapshot().users.len() >= USERS_MAX {
            return Err(Error::Invalid { what: format!("{USERS_MAX} users are the most") });
        }
        let (id, taken) = (user.id.clone(), Error::Exists { what: "user", name: user.id.clone() });
        if self.known(&id)?.is_some() {
            return Err(taken);
        }
        let record = user.encode();
        self.store
            .change_record(RecordTable::User, &id, Box::new(move |_| Ok(Some(record))))
            .await?;
        self.enter(|now| {
            now.unreadable.remove(&id);
            now.users.insert(id, Arc::new(KnownUser { user, policy }));
        });
        Ok(())
    }

    /// Replaces a user's policy (empty: none), quotas and names. Durable on return.
    ///
    /// # Errors
    /// `NotFound`, `Invalid`, those of the store.
    pub async fn change(&self, id: &str, change: impl FnOnce(&mut User)) -> Result<()> {
        let _one = self.changes.lock().await;
        let mut user = self.find(id)?;
        let before = user.policy.clone();
        change(&mut user);
        id.clone_into(&mut user.id);
        if user.policy != before {
            check_policy(&user.policy)?;
        }
        let (policy, record) = (parse_policy(&user.policy)?, user.encode());
        self.store
            .change_record(RecordTable::User, id, Box::new(move |_| Ok(Some(record))))
            .await?;
        self.enter(|now| {
            now.users.insert(id.to_owned(), Arc::new(KnownUser { user, policy }));
        });
        Ok(())
    }

    /// Deletes a user with its keys. Its buckets stay, and belong to nobody until a user of that id is made again.
    ///
    /// # Errors
    /// `NotFound`, `LastAdmin`, those of the store: `Unread` where keys may exist that would outlive it.
    pub async fn delete(&self, id: &str) -> Result<()> {
        let _one = self.changes.lock().await;
        let user = self.find(id)?;
        self.check_all_read()?;
        if user.admin && !self.has_admin_beside(id) {
            return Err(Error::LastAdmin { name: user.id });
        }
        for KeyInfo { access_key, .. } in self.keys(id) {
            self.remove_key(&access_key).await?;
        }
        self.store.change_record(RecordTable::User, id, Box::new(|_| Ok(None))).await?;
        self.enter(|now| drop(now.users.remove(id)));
        Ok(())
    }

    fn has_admin_beside(&self, id: &str) -> bool {
        self.snapshot().users.values().any(|known| known.user.admin && known.user.id != id)
    }

    /// Makes an access key; the secret is told here and never again. `given` is a key made elsewhere.
    ///
    /// # Errors
    /// `NotFound` for the user, `Exists` for the key, `Invalid`, those of the store.
    pub async fn create_key(&self, user: &str, given: Option<(String, String)>) -> Result<NewKey> {
        let (access_key, secret_key) = given.unwrap_or_else(|| self.generate());
        let _one = self.changes.lock().await;
        self.find(user)?;
        self.check_key(&access_key, &secret_key)?;
        let created_ms = crate::clock::now_ms();
        let sealed = self.master.seal(&context(&access_key), secret_key.as_bytes());
        let record = AccessKey { user: user.to_owned(), sealed, created_ms }.encode();
        self.store
            .change_record(RecordTable::AccessKey, &access_key, Box::new(move |_| Ok(Some(record))))
            .await?;
        let known =
            KnownKey { user: user.to_owned(), secret: secret_key.as_str().into(), created_ms };
        self.enter(|now| drop(now.keys.insert(access_key.clone(), known)));
        Ok(NewKey { user: user.to_owned(), access_key, secret_key })
    }

    /// Deletes an access key. Requests signed with it are refused from now on.
    ///
    /// # Errors
    /// `NotFound`, those of the store.
    pub async fn delete_key(&self, access_key: &str) -> Result<()> {
        let _one = self.changes.lock().await;
        if !self.snapshot().keys.contains_key(access_key) {
            self.store.check_record_read(RecordTable::AccessKey, access_key)?;
            return Err(Error::NotFound { what: "access key", name: access_key.to_owned() });
        }
        self.remove_key(access_key).await
    }

    /// Removes an access key, which signs nothing from then on. The caller holds `changes`.
    async fn remove_key(&self, access_key: &str) -> Result<()> {
        self.store
            .change_record(RecordTable::AccessKey, access_key, Box::new(|_| Ok(None)))
            .await?;
        self.enter(|now| drop(now.keys.remove(access_key)));
        Ok(())
    }

    /// Adds users and keys as they are stored elsewhere, those that are not here. Durable on return.
    ///
    /// # Errors
    /// `Invalid` for what could not be loaded, and keys of no user; those of the store.
    pub(crate) async fn add_stored(&self, all: StoredUsers) -> Result<AddedUsers> {
        let _one = self.changes.lock().await;
        self.check_all_read()?;
        let mut added = AddedUsers::default();
        for (id, record) in &all.users {
            self.check_stored_user(id, record)?;
        }
        let is_user =
            |id: &str| self.user(id).is_some() || all.users.iter().any(|(other, _)| other == id);
        for (access_key, record) in &all.keys {
            let user = self.check_stored_key(access_key, record)?;
            if !is_user(&user) {
                let what = format!("access key `{access_key}` of user `{user}`, who is not here");
                return Err(Error::Invalid { what });
            }
        }
        let new = all.users.iter().filter(|(id, _)| self.user(id).is_none()).count();
        if new > 0 && self.snapshot().users.len() + new > USERS_MAX {
            return Err(Error::Invalid { what: format!("{USERS_MAX} users are the most") });
        }
        for (id, record) in all.users {
            let AddedUsers { users, kept, .. } = &mut added;
            self.add_record(RecordTable::User, id, record, users, kept).await?;
        }
        for (access_key, record) in all.keys {
            let AddedUsers { keys, kept, .. } = &mut added;
            self.add_record(RecordTable::AccessKey, access_key, record, keys, kept).await?;
        }
        self.reload().await?;
        Ok(added)
    }

    /// Adds a record unless one is there; its key goes to `added`, or to `kept` where another record is there.
    async fn add_record(
        &self,
        table: RecordTable,
        key: String,
        record: bytes::Bytes,
        added: &mut Vec<String>,
        kept: &mut Vec<String>,
    ) -> Result<()> {
        match self.store.record(table, &key).await? {
            Some(there) if there == record => {}
            Some(_) => kept.push(key),
            None => {
                self.store.change_record(table, &key, Box::new(move |_| Ok(Some(record)))).await?;
                added.push(key);
            }
        }
        Ok(())
    }

    fn check_stored_user(&self, id: &str, record: &[u8]) -> Result<()> {
        check_name(id)?;
        let user = User::decode(record)
            .map_err(|error| Error::Invalid { what: format!("user `{id}`: {error}") })?;
        parse_policy(&user.policy)?;
        if user.id != id || record.len() > RECORD_BYTES_MAX {
            return Err(Error::Invalid { what: format!("the record of user `{id}`") });
        }
        Ok(())
    }

    /// The user of a key that this gateway can load.
    fn check_stored_key(&self, access_key: &str, record: &[u8]) -> Result<String> {
        check_name(access_key)?;
        let wrong = |what: &str| {
            let what = format!("the record of access key `{access_key}`: {what}");
            Error::Invalid { what }
        };
        let key = AccessKey::decode(record).map_err(|error| wrong(&error.to_string()))?;
        self.opened(access_key, &key.sealed).ok_or_else(|| wrong("its secret does not open"))?;
        Ok(key.user)
    }

    fn opened(&self, access_key: &str, sealed: &[u8]) -> Option<String> {
        let secret = self.master.open(&context(access_key), sealed)?;
        String::from_utf8(secret).ok()
    }

    /// Users by id with their keys, those after `after`, at most `limit`. Costs a look at all users and keys.
    pub fn page(&self, after: &str, limit: usize) -> Vec<(User, Vec<KeyInfo>)> {
        let snapshot = self.snapshot();
        let mut known: Vec<_> =
            snapshot.users.values().filter(|known| known.user.id.as_str() > after).collect();
        known.sort_by(|a, b| a.user.id.cmp(&b.user.id));
        known.truncate(limit);
        let mut page: BTreeMap<&str, (User, Vec<KeyInfo>)> = known
            .into_iter()
            .map(|known| (known.user.id.as_str(), (known.user.clone(), Vec::new())))
            .collect();
        for (name, key) in &snapshot.keys {
            if let Some((_, keys)) = page.get_mut(key.user.as_str()) {
                keys.push(KeyInfo { access_key: name.clone(), created_ms: key.created_ms });
            }
        }
        let sorted = |(user, mut keys): (User, Vec<KeyInfo>)| {
            keys.sort_by(|a, b| a.access_key.cmp(&b.access_key));
            (user, keys)
        };
        page.into_values().map(sorted).collect()
    }

    /// A user.
    ///
    /// # Errors
    /// `NotFound`, `Unread` (USERS-1).
    pub fn find(&self, id: &str) -> Result<User> {
        let known = self.known(id)?;
        known.map(|known| known.user.clone()).ok_or_else(|| no_user(id))
    }

    /// A user, if it is known.
    pub fn get(&self, id: &str) -> Option<User> {
        self.user(id).map(|known| known.user.clone())
    }

    /// Public halves of a user's keys, in order. Costs a look at all keys.
    pub fn keys(&self, user: &str) -> Vec<KeyInfo> {
        let snapshot = self.snapshot();
        let own = snapshot.keys.iter().filter(|(_, key)| key.user == user);
        let mut keys: Vec<KeyInfo> = own
            .map(|(name, key)| KeyInfo { access_key: name.clone(), created_ms: key.created_ms })
            .collect();
        keys.sort_by(|a, b| a.access_key.cmp(&b.access_key));
        keys
    }

    /// A key made elsewhere must be one that clients can use, and new.
    fn check_key(&self, access_key: &str, secret_key: &str) -> Result<()> {
        check_name(access_key)?;
        let printable = secret_key.bytes().all(|byte| byte.is_ascii_graphic());
        if !printable || !SECRET_LENS.contains(&secret_key.len()) {
            let (least, most) = (SECRET_LENS.start(), SECRET_LENS.end());
            let what = format!("a secret key has {least} to {most} printable ASCII characters");
            return Err(Error::Invalid { what });
        }
        if self.snapshot().keys.contains_key(access_key) {
            return Err(Error::Exists { what: "access key", name: access_key.to_owned() });
        }
        Ok(self.store.check_record_read(RecordTable::AccessKey, access_key)?)
    }

    /// A random pair whose record can be kept.
    fn generate(&self) -> (String, String) {
        let can_be_kept = |(access_key, _): &(String, String)| {
            self.store.check_record_read(RecordTable::AccessKey, access_key).is_ok()
        };
        let mut pairs = std::iter::repeat_with(generate).take(KEYS_TRIED_MAX);
        pairs.find(can_be_kept).unwrap_or_else(generate)
    }

    /// Fails with `Unread` when there may be users or keys that are not known.
    pub(crate) fn check_all_read(&self) -> Result<()> {
        Ok(self.store.check_all_read()?)
    }

    /// A user, if there is one; fails with `Unread` where there may be (USERS-1).
    pub(crate) fn known(&self, id: &str) -> varve_object::Result<Option<Arc<KnownUser>>> {
        let known = self.user(id);
        if known.is_none() {
            self.store.check_record_read(RecordTable::User, id)?;
        }
        Ok(known)
    }

    pub(crate) fn user(&self, id: &str) -> Option<Arc<KnownUser>> {
        self.snapshot().users.get(id).cloned()
    }

    pub(crate) fn by_email(&self, email: &str) -> Option<Arc<KnownUser>> {
        self.snapshot()
            .users
            .values()
            .find(|known| !email.is_empty() && known.user.email.eq_ignore_ascii_case(email))
            .cloned()
    }

    /// User and secret of an access key, if there is one; fails with `Unread` where there may be (USERS-1).
    pub(crate) fn signer(
        &self,
        access_key: &str,
    ) -> varve_object::Result<Option<(Arc<KnownUser>, Arc<str>)>> {
        let snapshot = self.snapshot();
        let Some(key) = snapshot.keys.get(access_key) else {
            self.store.check_record_read(RecordTable::AccessKey, access_key)?;
            return Ok(None);
        };
        let Some(known) = snapshot.users.get(&key.user) else {
            self.store.check_record_read(RecordTable::User, &key.user)?;
            return Ok(None);
        };
        Ok(Some((Arc::clone(known), Arc::clone(&key.secret))))
    }

    /// The same, if they are known.
    pub(crate) fn by_key(&self, access_key: &str) -> Option<(Arc<KnownUser>, Arc<str>)> {
        self.signer(access_key).ok().flatten()
    }

    fn snapshot(&self) -> Arc<UserSnapshot> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces what requests see by what `change` makes of it, which is durable (USERS-2). The caller holds `changes`.
    fn enter(&self, change: impl FnOnce(&mut UserSnapshot)) {
        let mut next = UserSnapshot::clone(&self.snapshot());
        change(&mut next);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }

    async fn reload(&self) -> Result<()> {
        let mut new = UserSnapshot::default();
        for (id, record) in records(&*self.store, RecordTable::User).await? {
            let decoded = User::decode(&record).map_err(Error::from);
            let decoded = decoded.and_then(|user| Ok((parse_policy(&user.policy)?, user)));
            let Ok((policy, user)) = decoded.inspect_err(|error| {
                tracing::error!(%error, user = id, "a user cannot be read: create it again");
            }) else {
                new.unreadable.insert(id);
                continue;
            };
            new.users.insert(id, Arc::new(KnownUser { user, policy }));
        }
        for (access_key, record) in records(&*self.store, RecordTable::AccessKey).await? {
            let Ok(key) = AccessKey::decode(&record).inspect_err(|error| {
                tracing::error!(%error, access_key, "an access key cannot be read");
            }) else {
                continue;
            };
            let secret = self.opened(&access_key, &key.sealed).ok_or_else(|| Error::Key {
                what: format!("the secret of access key `{access_key}`"),
            })?;
            let AccessKey { user, created_ms, .. } = key;
            new.keys.insert(access_key, KnownKey { user, secret: secret.into(), created_ms });
        }
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        Ok(())
    }
}

/// Whether there are any users or access keys.
pub(crate) async fn exist(store: &dyn ObjectStore) -> Result<bool> {
    for table in [RecordTable::User, RecordTable::AccessKey] {
        if !store.list_records(table, "", 1).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether `master` opens the secret of any access key.
pub(crate) async fn opens_any(store: &dyn ObjectStore, master: &MasterKey) -> Result<bool> {
    let keys = records(store, RecordTable::AccessKey).await?;
    Ok(keys.iter().any(|(access_key, record)| {
        AccessKey::decode(record)
            .is_ok_and(|key| master.open(&context(access_key), &key.sealed).is_some())
    }))
}

/// Access keys whose secrets do not open with `master`.
pub(crate) async fn unopened(store: &dyn ObjectStore, master: &MasterKey) -> Result<Vec<String>> {
    let mut unopened = Vec::new();
    for (access_key, record) in records(store, RecordTable::AccessKey).await? {
        let sealed = AccessKey::decode(&record)?.sealed;
        if master.open(&context(&access_key), &sealed).is_none() {
            unopened.push(access_key);
        }
    }
    Ok(unopened)
}

async fn records(
    store: &dyn ObjectStore,
    table: RecordTable,
) -> Result<Vec<(String, bytes::Bytes)>> {
    let mut all = Vec::new();
    loop {
        let after = all.last().map_or("", |(key, _): &(String, _)| key.as_str());
        let page = store.list_records(table, after, PAGE).await?;
        let end = page.len() < PAGE || all.len() >= 4 * USERS_MAX;
        all.extend(page);
        if end {
            return Ok(all);
        }
    }
}

fn context(access_key: &str) -> String {
    format!("secret of {access_key}")
}

fn no_user(id: &str) -> Error {
    Error::NotFound { what: "user", name: id.to_owned() }
}

fn parse_policy(text: &str) -> Result<Option<Policy>> {
    if text.is_empty() {
        return Ok(None);
    }
    Policy::parse_for_user(text.as_bytes())
        .map(Some)
        .map_err(|what| Error::Invalid { what: format!("policy: {what}") })
}

/// Refuses a new policy that may not mean what its author wrote.
fn check_policy(text: &str) -> Result<()> {
    let checked = parse_policy(text)?.map_or(Ok(()), |policy| policy.check_members());
    checked.map_err(|what| Error::Invalid { what: format!("policy: {what}") })
}

fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.@$+=".contains(c);
    if name.is_empty() || name.len() > 128 || !name.chars().all(good) {
        return Err(Error::Invalid {
            what: format!("invalid name `{name}`: 1 to 128 letters, digits and -_.@$+="),
        });
    }
    Ok(())
}

fn check_text(what: &str, text: &str) -> Result<()> {
    if text.len() > TEXT_BYTES_MAX || text.chars().any(char::is_control) {
        let what = format!(
            "{what} {text:?} is longer than {TEXT_BYTES_MAX} bytes, or has control characters"
        );
        return Err(Error::Invalid { what });
    }
    Ok(())
}

/// A random pair, in the alphabets and lengths that clients know.
pub(crate) fn generate() -> (String, String) {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let access: String =
        random::<20>().iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect();
    let secret = base64::Engine::encode(&base64::prelude::BASE64_STANDARD_NO_PAD, random::<30>());
    (access, secret)
}
