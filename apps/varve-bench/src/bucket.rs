//! A bucket that loads are put on: the folder in it that is theirs, what they know of its objects, and their removal at
//! the end.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use varve_client::{Failure, Progress, Result};
use varve_tool_bench::s3::Bodies;
use varve_tool_bench::{DataSpec, HeldContent, Ledger};

use super::objects::salt;
use super::s3::{S3Client, S3Server, listing};

/// Where objects go when no folder is named.
const FOLDER: &str = "varve-bench";

/// Most connections that remove objects at the end.
const REMOVERS_MAX: usize = 64;

/// `s3://BUCKET(/FOLDER)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketName {
    bucket: String,
    folder: String,
}

impl BucketName {
    /// Reads what stands behind `s3://`.
    pub(super) fn read(text: &str) -> std::result::Result<Self, String> {
        let (bucket, folder) = text.split_once('/').unwrap_or((text, ""));
        let folder = folder.trim_end_matches('/');
        if bucket.is_empty() || folder.contains("//") || folder.starts_with('/') {
            return Err(format!(
                "invalid bucket `s3://{text}`: must be s3://BUCKET or s3://BUCKET/FOLDER"
            ));
        }
        let folder = if folder.is_empty() { FOLDER } else { folder };
        Ok(Self { bucket: bucket.to_owned(), folder: folder.to_owned() })
    }
}

impl fmt::Display for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.folder)
    }
}

/// A bucket at a server.
#[derive(Debug)]
pub struct BenchBucket {
    name: BucketName,
    pub(super) server: S3Server,
    pub(super) ledger: Ledger,
    pub(super) bodies: Bodies,
    /// Tells its bodies from those of other runs.
    pub(super) salt: u64,
}

impl fmt::Display for BenchBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at http://{}", self.name, self.server.host)
    }
}

impl BenchBucket {
    /// The bucket `name` of a server, for objects of such data; it is not called yet.
    pub fn new(name: BucketName, server: S3Server, data: DataSpec) -> Self {
        let ledger = Ledger::default();
        Self { name, server, ledger, bodies: Bodies::new(data), salt: salt() }
    }

    /// Path of an object.
    pub(super) fn path(&self, object: &str) -> String {
        format!("/{}/{}/{object}", self.name.bucket, self.name.folder)
    }

    /// Path of the bucket.
    pub(super) fn root(&self) -> String {
        format!("/{}", self.name.bucket)
    }

    /// What stands behind the question mark of a listing of a container.
    pub(super) fn listing(&self, container: &str) -> String {
        listing(&format!("{}/{container}/", self.name.folder), 1000)
    }

    /// That the server answers, knows the key and has the bucket, and that nothing lies in the folder unless
    /// `may_hold`.
    pub fn check(&self, may_hold: bool) -> Result<()> {
        let (mut client, mut said) = (S3Client::new(&self.server), Vec::new());
        let query = listing(&format!("{}/", self.name.folder), 1);
        let at = format!("http://{}", self.server.host);
        let answered =
            client.ask("GET", &self.root(), &query, |piece| said.extend_from_slice(piece));
        let answered = answered.map_err(|error| {
            Failure::new(format!("cannot reach {at}: {error}"))
                .hint("see whether an S3 server runs there, and speaks plain HTTP")
        })?;
        let why = answered.why();
        match answered.status {
            200 if !may_hold && String::from_utf8_lossy(&said).contains("<Key>") => {
                let what = format!("{} holds objects, which this load would overwrite", self.name);
                let hint = "say --overwrite if nobody needs them, or name another folder: s3://BUCKET/FOLDER";
                Err(Failure::misuse(what).hint(hint))
            }
            200 => Ok(()),
            404 => Err(Failure::new(format!("{at} has no bucket `{}`", self.name.bucket))
                .hint(format!("make it: `varve bucket create {}`", self.name.bucket))),
            403 => Err(Failure::new(format!("{at} refuses the key `{}`: {why}", self.server.access_key))
                .hint("see key and secret, and whether it may list, read, write and remove objects of the bucket")),
            _ => Err(Failure::new(format!("{at} does not list {}: {why}", self.name))),
        }
    }

    /// Removes every object that a load wrote, also after Ctrl-C.
    pub(super) fn clean(&self, watch: &Progress) -> Result<()> {
        let is_there = |(object, held): (String, HeldContent)| {
            (held != HeldContent::Nothing).then_some(object)
        };
        let objects: Vec<String> = self.ledger.objects().into_iter().filter_map(is_there).collect();
        let (all, left, removed) =
            (objects.len(), Mutex::new(objects.into_iter()), AtomicU64::new(0));
        let failed = Mutex::new(None);
        let remove = || {
            let mut client = S3Client::new(&self.server);
            loop {
                let next = left.lock().ok().and_then(|mut left| left.next());
                let Some(object) = next else { return };
                if let Err(why) = self.remove(&mut client, &object) {
                    failed.lock().expect("nobody panics with it").get_or_insert(why);
                    return;
                }
                let removed = removed.fetch_add(1, Ordering::Relaxed) + 1;
                watch.say(format!("remove objects  {removed} of {all}"));
            }
        };
        thread::scope(|scope| {
            (0..all.min(REMOVERS_MAX)).for_each(|_| drop(scope.spawn(remove)));
        });
        match failed.into_inner().ok().flatten() {
            None => Ok(()),
            Some(why) => {
                let left = all as u64 - removed.into_inner();
                let what = format!("{left} objects are left under {}: {why}", self.name);
                Err(Failure::new(what).hint("remove what is in that folder with any S3 client"))
            }
        }
    }

    fn remove(&self, client: &mut S3Client, object: &str) -> std::result::Result<(), String> {
        let path = self.path(object);
        let answered = client.ask("DELETE", &path, "", |_| {});
        let answered = answered.map_err(|error| format!("DELETE {path}: {error}"))?;
        match answered.status {
            200 | 204 | 404 => Ok(()),
            _ => Err(format!("DELETE {path}: {}", answered.why())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_a_folder() {
        let name = |text: &str| BucketName::read(text).map(|name| name.to_string());
        assert_eq!(name("b"), Ok("s3://b/varve-bench".to_owned()));
        assert_eq!(name("b/"), Ok("s3://b/varve-bench".to_owned()));
        assert_eq!(name("b/a/c/"), Ok("s3://b/a/c".to_owned()));
        for wrong in ["", "/a", "b//a", "b/a//c"] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
