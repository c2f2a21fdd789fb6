//! The first user and its key, which is handed over in a file.
//!
//! ```text
//!  FILE.pending: key ──▶ user ──▶ access key ──▶ FILE: key
//! ```
//!
//! OWNER-1. The key is durable in the file before it is in the store, so that no crash leaves a user whose key nobody
//!     knows: the next start goes on with the key of the pending file.
//! OWNER-2. The file is written once. Whoever deletes it, or the key, gets neither back.
//! OWNER-3. Nothing is made while there may be users that could not be read.

use std::path::{Path, PathBuf};

use varve_object::User;

use crate::answers::error::{Error, Result};
use crate::body::seal;
use crate::identity::users::{NewKey, Users, generate};

/// Lines of the file, in the form that Amazon's tools read (`AWS_SHARED_CREDENTIALS_FILE`).
const ACCESS: &str = "aws_access_key_id = ";
const SECRET: &str = "aws_secret_access_key = ";

/// Creates the user `name`, who may do everything, with a key, if there is no user yet, and none that could not be read
/// (OWNER-3).
///
/// # Errors
/// Those of the store, `File`.
pub(crate) async fn create(
    users: &Users,
    name: &str,
    file: Option<&Path>,
) -> Result<Option<NewKey>> {
    if users.check_all_read().is_err() {
        return Ok(None);
    }
    let pending = file.map(pending);
    let begun = pending.as_deref().filter(|path| path.exists());
    if users.count() > 0 && begun.is_none() {
        return Ok(None); // OWNER-2
    }
    let key = match begun.and_then(read) {
        Some(key) => key,
        None => generate(),
    };
    if let Some(path) = &pending {
        write(path, name, &key.0, &key.1)?; // OWNER-1
    }
    if users.get(name).is_none() {
        let user =
            User { id: name.to_owned(), name: name.to_owned(), admin: true, ..User::default() };
        users.create(user).await?;
    }
    let made = if users.by_key(&key.0).is_some() {
        NewKey { user: name.to_owned(), access_key: key.0, secret_key: key.1 }
    } else {
        users.create_key(name, Some(key)).await?
    };
    if let (Some(from), Some(to)) = (&pending, file) {
        seal::rename(from, to).map_err(|source| failed("rename", from, source))?;
    }
    Ok(Some(made))
}

fn pending(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".pending");
    path.into()
}

/// The key of a file; `None` where it holds none.
fn read(path: &Path) -> Option<(String, String)> {
    let text = std::fs::read_to_string(path).ok()?;
    let value = |name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    Some((value(ACCESS)?, value(SECRET)?))
}

fn write(path: &Path, user: &str, access: &str, secret: &str) -> Result<()> {
    let text = format!(
        "# First access key of user `{user}`. Keep it, or create another one: varve user key create {user}\n\
         [default]\n{ACCESS}{access}\n{SECRET}{secret}"
    );
    seal::create(path, &text).map_err(|source| failed("write", path, source))
}

fn failed(what: &str, path: &Path, source: std::io::Error) -> Error {
    Error::File { what: format!("{what} the owner's key {}", path.display()), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use varve_object::{MemoryStore, ObjectStore};

    use super::*;
    use crate::body::seal::MasterKey;

    async fn users(store: &Arc<dyn ObjectStore>) -> Users {
        Users::load(Arc::clone(store), Arc::new(MasterKey::of([7; 32]))).await.unwrap()
    }

    #[tokio::test]
    async fn the_key_is_in_its_file_only_and_only_once() {
        let store: Arc<dyn ObjectStore> = Arc::new(MemoryStore::default());
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("owner.key");
        let made = create(&users(&store).await, "owner", Some(&file)).await.unwrap().unwrap();
        assert_eq!(read(&file), Some((made.access_key, made.secret_key)));
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        std::fs::remove_file(&file).unwrap();
        assert!(create(&users(&store).await, "owner", Some(&file)).await.unwrap().is_none());
        assert!(!file.exists());
    }

    #[tokio::test]
    async fn nobody_is_made_while_users_may_be_unread() {
        let memory = Arc::new(MemoryStore::default());
        let store: Arc<dyn ObjectStore> = Arc::clone(&memory) as Arc<dyn ObjectStore>;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("owner.key");
        memory.lose(|name| name == "somebody");
        for is_begun in [false, true] {
            if is_begun {
                let (access, secret) = generate();
                write(&pending(&file), "owner", &access, &secret).unwrap();
            }
            let users = users(&store).await;
            assert!(create(&users, "owner", Some(&file)).await.unwrap().is_none());
            assert!(users.get("owner").is_none() && !file.exists());
        }
    }

    #[tokio::test]
    async fn a_start_that_was_cut_off_anywhere_leaves_a_key_that_works() {
        for steps in 0..4 {
            let store: Arc<dyn ObjectStore> = Arc::new(MemoryStore::default());
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("owner.key");
            let cut = users(&store).await;
            let key = generate();
            write(&pending(&file), "owner", &key.0, &key.1).unwrap();
            if steps > 0 {
                let user = User { id: "owner".to_owned(), admin: true, ..User::default() };
                cut.create(user).await.unwrap();
            }
            if steps > 1 {
                cut.create_key("owner", Some(key.clone())).await.unwrap();
            }
            if steps > 2 {
                seal::rename(&pending(&file), &file).unwrap();
            }
            let again = users(&store).await;
            let made = create(&again, "owner", Some(&file)).await.unwrap();
            assert_eq!(made.is_some(), steps < 3, "step {steps}");
            assert_eq!(read(&file), Some(key.clone()), "step {steps}");
            let known = again.by_key(&key.0).map(|(user, secret)| (user.user.admin, secret));
            assert_eq!(known, Some((true, key.1.into())), "step {steps}");
            assert_eq!(again.keys("owner").len(), 1, "step {steps}");
        }
    }
}
