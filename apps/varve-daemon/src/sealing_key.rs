//! The sealing key in the data directory, for commands: exported, brought back, or renewed at the next start.

use std::path::Path;

use varve_access_s3::{KeyPlace, new_key, read_key, write_key};
use varve_client::{Failure, Result};

use crate::lock::DataLock;
use crate::s3::KEY_FILE;

/// Copies the key to a file that does not exist.
pub fn export(data: &Path, to: &Path) -> Result<()> {
    let key = read_key(&data.join(KEY_FILE)).map_err(failed)?.ok_or_else(|| {
        Failure::new(format!("no {KEY_FILE} in {}", data.display()))
            .hint("a daemon that serves S3 writes it when it starts, if the key is in the pool")
    })?;
    if to.exists() {
        let what = format!("{} exists", to.display());
        return Err(Failure::new(what).hint("remove it, or choose another name"));
    }
    write_key(to, &key).map_err(failed)
}

/// Brings the key back from a file. One that is there already is kept beside it.
pub fn import(data: &Path, from: &Path) -> Result<()> {
    let key = read_key(from).map_err(failed)?;
    let key = key.ok_or_else(|| Failure::new(format!("no file {}", from.display())))?;
    let _lock = stopped(data)?;
    let path = data.join(KEY_FILE);
    if path.exists() && read_key(&path).ok().flatten() != Some(key) {
        let kept = path.with_extension("key.old");
        std::fs::rename(&path, &kept)
            .map_err(|error| Failure::new(format!("keep {}: {error}", path.display())))?;
    }
    write_key(&path, &key).map_err(failed)
}

/// Has the next start renew the key, if it is lost.
pub fn renew(data: &Path) -> Result<()> {
    let _lock = stopped(data)?;
    let place = KeyPlace { file: data.join(KEY_FILE), in_pool: true };
    write_key(&place.renewed(), &new_key()).map_err(failed)
}

/// Held as long as no daemon may serve the data directory.
fn stopped(data: &Path) -> Result<DataLock> {
    if !data.is_dir() {
        return Err(Failure::new(format!("no data directory {}", data.display()))
            .hint("name the one of the daemon with --data"));
    }
    DataLock::take(data)
}

fn failed(error: varve_access_s3::Error) -> Failure {
    Failure::new(error.to_string())
}
