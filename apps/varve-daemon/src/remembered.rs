//! Small files of the data directory that remember where its pool is: JSON with a version.

use std::fs;
use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use varve_client::{Failure, Result};

use crate::lock::replace_durably;

const VERSION: u32 = 1;

#[derive(Deserialize)]
struct FileVersion {
    version: u32,
}

#[derive(Serialize)]
struct VersionedFile<'a, T> {
    version: u32,
    #[serde(flatten)]
    contents: &'a T,
}

/// What a file remembers; `None` where there is none. `mend` says what to do with a damaged one.
pub(crate) fn load<T: DeserializeOwned>(path: &Path, mend: &str) -> Result<Option<T>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::new(format!("read {}: {error}", path.display()))),
    };
    let damaged = |error: serde_json::Error| {
        Failure::new(format!("{} is damaged: {error}", path.display())).hint(mend)
    };
    let FileVersion { version } = serde_json::from_slice(&text).map_err(damaged)?;
    if version != VERSION {
        return Err(Failure::new(format!("{} has version {version}", path.display()))
            .hint("serve this data directory with the version of varve that wrote it"));
    }
    serde_json::from_slice(&text).map(Some).map_err(damaged)
}

/// Remembers something. Durable on return.
pub(crate) fn remember(path: &Path, contents: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec_pretty(&VersionedFile { version: VERSION, contents });
    replace_durably(path, &text.expect("paths and names are plain JSON"))
        .map_err(|error| Failure::new(format!("write {}: {error}", path.display())))
}

/// Forgets what a file remembers. Durable on return.
pub(crate) fn forget(path: &Path) -> Result<()> {
    let removed = fs::remove_file(path).and_then(|()| match path.parent() {
        Some(directory) => fs::File::open(directory)?.sync_all(),
        None => Ok(()),
    });
    removed.map_err(|error| Failure::new(format!("remove {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_returns_and_other_versions_are_refused() {
        #[derive(Serialize, Deserialize, PartialEq, Debug)]
        struct Place {
            path: String,
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("place.json");
        let load = || load::<Place>(&path, "remove it").map_err(|failure| failure.to_string());
        assert_eq!(load(), Ok(None));
        let place = Place { path: "/drive".to_owned() };
        remember(&path, &place).unwrap();
        assert_eq!(load(), Ok(Some(place)));
        forget(&path).unwrap();
        assert_eq!(load(), Ok(None));
        for (text, expected) in [
            ("{\"version\": 2, \"other\": 1}", "has version 2"),
            ("{\"version\": 1, \"other\": 1}", "is damaged"),
            ("{\"version\": 1", "is damaged"),
        ] {
            fs::write(&path, text).unwrap();
            let refused = load().unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
