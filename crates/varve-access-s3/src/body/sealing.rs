//! Where the sealing key is: in the pool, as a record of the gateway, with a copy in a file; or in the file alone.
//!
//! ```text
//!  pool   file   renewed   users
//!  key    any    –         any    the pool's; the file is written where it is absent, and left alone where it differs
//!  –      opens  –         any    the file's, which goes into the pool
//!  –      other  key       any    the renewed one: access keys that it does not open are deleted
//!  –      other  –         some   refused: the key is lost
//!  –      –      –         none   a new one
//! ```
//!
//! What it protects: secrets of access keys, and objects encrypted with SSE-S3 and SSE-KMS, from whoever sees records
//! without the key. A key in the pool does not protect them from whoever has the drives; one in the file alone does,
//! and everything is lost with the file.
//!
//! SEALING-1. A key is never made anew where users exist, and is durable where it is kept before anything is sealed
//!     with it.
//! SEALING-2. While records cannot be read, nothing follows from their absence, and nothing is written: the pool's key
//!     counts, or the one of the file if it opens an access key. No other is used, renewed or made.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use varve_object::{ObjectStore, RecordTable};

use crate::answers::error::{Error, Result};
use crate::body::seal::{self, KEY_LEN, MasterKey};
use crate::identity::users;

/// The record of the pool: a byte of version, then the key.
const RECORD: &str = "sealing-key";
const VERSION: u8 = 1;

/// Where the key is kept.
#[derive(Debug, Clone)]
pub struct KeyPlace {
    /// The file, with the key in base64.
    pub file: PathBuf,
    /// Whether it is in the pool, too.
    pub in_pool: bool,
}

impl KeyPlace {
    /// The file with a key that takes the place of a lost one.
    #[must_use]
    pub fn renewed(&self) -> PathBuf {
        let mut path = self.file.clone().into_os_string();
        path.push(".renewed");
        path.into()
    }

    /// The key, which is created for a gateway without users. Durable on return.
    ///
    /// # Errors
    /// `KeyLost`, `KeyUnread` (SEALING-2), `Key` for a file or record that holds none, `File`, those of the store.
    pub async fn load(&self, store: &dyn ObjectStore) -> Result<MasterKey> {
        if let Err(unread) = store.check_all_read() {
            return self.load_in_part(store, unread).await;
        }
        let kept = kept(store).await?;
        let file = read_key(&self.file)?;
        if let Some(key) = kept {
            return self.with_kept(store, key, file).await;
        }
        if let Some(key) = file {
            let master = MasterKey::of(key);
            if users::unopened(store, &master).await?.is_empty() {
                self.keep(store, key).await?;
                return Ok(master);
            }
        }
        if let Some(key) = read_key(&self.renewed())? {
            return self.renew(store, key).await;
        }
        if file.is_some() || users::exist(store).await? {
            return Err(Error::KeyLost { path: self.file.clone(), is_other: file.is_some() });
        }
        let key = seal::random::<KEY_LEN>();
        self.keep(store, key).await?; // SEALING-1
        write_key(&self.file, &key)?;
        Ok(MasterKey::of(key))
    }

    /// The key while records cannot be read (SEALING-2).
    async fn load_in_part(
        &self,
        store: &dyn ObjectStore,
        unread: varve_object::Error,
    ) -> Result<MasterKey> {
        match kept(store).await {
            Ok(Some(key)) => return Ok(MasterKey::of(key)),
            Ok(None) | Err(Error::Store(_)) => {}
            Err(error) => return Err(error),
        }
        if let Some(key) = read_key(&self.file)? {
            let master = MasterKey::of(key);
            if users::opens_any(store, &master).await? {
                return Ok(master);
            }
        }
        Err(Error::KeyUnread { path: self.file.clone(), unread: unread.to_string() })
    }

    /// The key of the pool counts.
    async fn with_kept(
        &self,
        store: &dyn ObjectStore,
        key: [u8; KEY_LEN],
        file: Option<[u8; KEY_LEN]>,
    ) -> Result<MasterKey> {
        let path = self.file.display();
        match file {
            None => write_key(&self.file, &key)?,
            Some(other) if other != key => {
                tracing::warn!(%path, "the file holds another key than the pool, whose key is used");
            }
            Some(_) if !self.in_pool => {
                let none = Box::new(|_: Option<&Bytes>| Ok(None));
                store.change_record(RecordTable::Gateway, RECORD, none).await?;
                tracing::warn!(%path, "the sealing key is no longer in the pool: keep a copy of the file");
            }
            Some(_) => {}
        }
        let renewed = self.renewed();
        if renewed.exists() {
            tracing::warn!(path = %renewed.display(), "the sealing key is not lost, and not renewed");
        }
        Ok(MasterKey::of(key))
    }

    /// Goes on with another key than the lost one. A crash on the way leaves the file, and the next start goes on.
    async fn renew(&self, store: &dyn ObjectStore, key: [u8; KEY_LEN]) -> Result<MasterKey> {
        let master = MasterKey::of(key);
        let lost = users::unopened(store, &master).await?;
        for access_key in &lost {
            let none = Box::new(|_: Option<&Bytes>| Ok(None));
            store.change_record(RecordTable::AccessKey, access_key, none).await?;
        }
        self.keep(store, key).await?;
        let (from, to) = (self.renewed(), &self.file);
        seal::rename(&from, to).map_err(|source| failed("rename", &from, source))?;
        tracing::warn!(
            access_keys = lost.len(),
            "the sealing key was renewed: access keys that it does not open are deleted"
        );
        Ok(master)
    }

    async fn keep(&self, store: &dyn ObjectStore, key: [u8; KEY_LEN]) -> Result<()> {
        if self.in_pool {
            let record = Bytes::from([&[VERSION][..], &key].concat());
            let put = Box::new(move |_: Option<&Bytes>| Ok(Some(record)));
            store.change_record(RecordTable::Gateway, RECORD, put).await?;
        }
        Ok(())
    }
}

async fn kept(store: &dyn ObjectStore) -> Result<Option<[u8; KEY_LEN]>> {
    let Some(record) = store.record(RecordTable::Gateway, RECORD).await? else { return Ok(None) };
    let key = record.split_first().filter(|(version, _)| **version == VERSION);
    let key = key.and_then(|(_, key)| key.try_into().ok());
    key.map(Some).ok_or_else(|| Error::Key { what: "the sealing key of the pool".to_owned() })
}

/// The key of a file; `None` where there is no file.
///
/// # Errors
/// `Key` for a file that holds none, `File`.
pub fn read_key(path: &Path) -> Result<Option<[u8; KEY_LEN]>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path, error)),
    };
    let key = BASE64_STANDARD.decode(text.trim_ascii()).ok().and_then(|key| key.try_into().ok());
    key.map(Some).ok_or_else(|| Error::Key { what: path.display().to_string() })
}

/// Writes a key to a file, for its owner only. Durable on return.
///
/// # Errors
/// `File`.
pub fn write_key(path: &Path, key: &[u8; KEY_LEN]) -> Result<()> {
    seal::create(path, &BASE64_STANDARD.encode(key)).map_err(|source| failed("write", path, source))
}

/// A new key.
#[must_use]
pub fn new_key() -> [u8; KEY_LEN] {
    seal::random()
}

fn failed(what: &str, path: &Path, source: std::io::Error) -> Error {
    Error::File { what: format!("{what} key file {}", path.display()), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use varve_object::{MemoryStore, User};

    use super::*;
    use crate::identity::users::Users;

    struct Rig {
        memory: Arc<MemoryStore>,
        store: Arc<dyn ObjectStore>,
        place: KeyPlace,
        _dir: tempfile::TempDir,
    }

    impl Rig {
        fn new(in_pool: bool) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let place = KeyPlace { file: dir.path().join("s3.key"), in_pool };
            let memory = Arc::new(MemoryStore::default());
            let store = Arc::clone(&memory) as Arc<dyn ObjectStore>;
            Self { memory, store, place, _dir: dir }
        }

        async fn load(&self) -> Result<MasterKey> {
            self.place.load(&*self.store).await
        }

        /// A user `ann` with an access key.
        async fn add_user(&self) {
            let users = self.users().await;
            users.create(User { id: "ann".to_owned(), ..User::default() }).await.unwrap();
            users.create_key("ann", None).await.unwrap();
        }

        async fn users(&self) -> Users {
            let master = Arc::new(self.load().await.unwrap());
            Users::load(Arc::clone(&self.store), master).await.unwrap()
        }
    }

    #[tokio::test]
    async fn a_lost_file_is_written_again() {
        let rig = Rig::new(true);
        rig.add_user().await;
        let key = std::fs::read(&rig.place.file).unwrap();
        std::fs::remove_file(&rig.place.file).unwrap();
        assert_eq!(rig.users().await.keys("ann").len(), 1);
        assert_eq!(std::fs::read(&rig.place.file).unwrap(), key);
        let mode = std::fs::metadata(&rig.place.file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        write_key(&rig.place.file, &[1; KEY_LEN]).unwrap();
        assert_eq!(rig.users().await.keys("ann").len(), 1, "the pool's key counts");
    }

    #[tokio::test]
    async fn the_file_of_an_earlier_version_goes_into_the_pool() {
        let earlier = Rig::new(false);
        earlier.add_user().await;
        assert_eq!(kept(&*earlier.store).await.unwrap(), None);
        let place = KeyPlace { in_pool: true, ..earlier.place.clone() };
        let rig = Rig { place, ..earlier };
        rig.load().await.unwrap();
        std::fs::remove_file(&rig.place.file).unwrap();
        assert_eq!(rig.users().await.keys("ann").len(), 1);
    }

    #[tokio::test]
    async fn a_key_is_never_made_anew_where_users_exist() {
        let rig = Rig::new(false);
        rig.add_user().await;
        std::fs::remove_file(&rig.place.file).unwrap();
        assert!(matches!(rig.load().await, Err(Error::KeyLost { is_other: false, .. })));
        assert!(!rig.place.file.exists(), "nothing stands in for the lost file");
        write_key(&rig.place.file, &[1; KEY_LEN]).unwrap();
        assert!(matches!(rig.load().await, Err(Error::KeyLost { is_other: true, .. })));
        std::fs::write(&rig.place.file, "short").unwrap();
        assert!(matches!(rig.load().await, Err(Error::Key { .. })));
    }

    #[tokio::test]
    async fn no_key_is_made_or_renewed_while_users_may_be_unread() {
        for in_pool in [false, true] {
            let rig = Rig::new(in_pool);
            rig.memory.lose(|name| name == "bob");
            write_key(&rig.place.renewed(), &new_key()).unwrap();
            for file in [None, Some([1; KEY_LEN])] {
                if let Some(key) = file {
                    write_key(&rig.place.file, &key).unwrap();
                }
                assert!(matches!(rig.load().await, Err(Error::KeyUnread { .. })));
                assert_eq!(read_key(&rig.place.file).unwrap(), file);
                assert!(rig.place.renewed().exists());
            }
        }
    }

    #[tokio::test]
    async fn the_key_is_used_that_the_pool_has_or_an_access_key_proves() {
        for in_pool in [false, true] {
            let rig = Rig::new(in_pool);
            rig.add_user().await;
            let key = read_key(&rig.place.file).unwrap();
            rig.memory.lose(|name| name == "sealing-key");
            assert_eq!(rig.users().await.keys("ann").len(), 1);
            write_key(&rig.place.file, &[1; KEY_LEN]).unwrap();
            assert!(matches!(rig.load().await, Err(Error::KeyUnread { .. })));
            rig.memory.lose(|name| name == "bob");
            let loaded = rig.load().await;
            assert_eq!(loaded.is_ok(), in_pool, "the pool's key needs no proof");
            std::fs::remove_file(&rig.place.file).unwrap();
            assert_eq!(rig.load().await.is_ok(), in_pool);
            assert!(!rig.place.file.exists(), "nothing is written");
            write_key(&rig.place.file, &key.unwrap()).unwrap();
            assert_eq!(rig.users().await.keys("ann").len(), 1);
        }
    }

    #[tokio::test]
    async fn a_lost_key_is_renewed_and_one_that_is_not_is_kept() {
        let rig = Rig::new(false);
        rig.add_user().await;
        write_key(&rig.place.renewed(), &new_key()).unwrap();
        assert_eq!(rig.users().await.keys("ann").len(), 1, "it is not lost");
        write_key(&rig.place.file, &[1; KEY_LEN]).unwrap();
        let users = rig.users().await;
        assert!(users.get("ann").is_some() && users.keys("ann").is_empty());
        assert!(!rig.place.renewed().exists());
        users.create_key("ann", None).await.unwrap();
        assert_eq!(rig.users().await.keys("ann").len(), 1);
    }

    #[tokio::test]
    async fn the_pool_forgets_a_key_that_is_to_be_in_the_file_alone() {
        let before = Rig::new(true);
        before.add_user().await;
        let place = KeyPlace { in_pool: false, ..before.place.clone() };
        let rig = Rig { place, ..before };
        rig.load().await.unwrap();
        assert_eq!(kept(&*rig.store).await.unwrap(), None);
        std::fs::remove_file(&rig.place.file).unwrap();
        assert!(matches!(rig.load().await, Err(Error::KeyLost { .. })));
    }
}
