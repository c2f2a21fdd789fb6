//! The archive of one bucket: the newest versions of its objects as a tar file, and the list of what of them cannot be
//! read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use tar::{Builder, EntryType, Header};
use varve_client::Result;
use varve_object::shelf::{BucketShard, ContentPiece, ShelfBody};
use varve_object::{
    Attributes, BucketId, Error, Item, ListQuery, Marker, Result as ObjectResult, Select, Version,
};
use varve_reactor::Reactor;
use varve_types::{ShardId, StreamId};

use super::report::{CopyOutcome, SalvageReport};
use super::unreadable::Unreadable;
use super::{OpenedPool, failed};

/// Keys of a page of a listing.
const PAGE_KEYS: usize = 1000;

/// Bytes read at once, and what is tried piece by piece where that fails.
const READ_BYTES: u64 = 1 << 20;
const PIECE_BYTES: u64 = 4096;

static ZEROS: [u8; 4096] = [0; 4096];

/// A bucket that is to be copied.
pub(super) struct BucketTarget {
    pub(super) name: String,
    pub(super) stream: StreamId,
}

/// An archive that is being written.
struct Archive {
    name: String,
    path: PathBuf,
    tar: Builder<File>,
    data_bytes: u64,
    unreadable: Unreadable,
}

/// The bucket's part of each shard that opened.
type Shelves = BTreeMap<ShardId, Rc<BucketShard>>;

impl Archive {
    fn create(to: &Path, target: &BucketTarget) -> Result<Self> {
        let BucketTarget { name, stream } = target;
        // As the gateway makes them, names of buckets are names of files.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let is_plain = name.bytes().all(is_plain) && !name.starts_with('.') && name.len() < 200;
        let plain = if is_plain { name.as_str() } else { "bucket" };
        let mut path = to.join(format!("{plain}.tar"));
        if path.exists() {
            // Another bucket had the name and is still being deleted.
            path = to.join(format!("{plain}~{}.tar", stream.get()));
        }
        let file = File::create_new(&path).map_err(|error| failed(&path, &error))?;
        let unreadable = Unreadable::new(path.with_extension("tar.unreadable"));
        Ok(Self { name: name.clone(), path, tar: Builder::new(file), data_bytes: 0, unreadable })
    }

    /// Copies an object. What of it cannot be read is zeros, and listed.
    async fn add(&mut self, shelves: &Shelves, object: &Object<'_>) -> Result<()> {
        let Object { key, version, shelf } = object;
        let mut lost = |why: &str| self.unreadable.add_whole(key, version.size, why);
        match Attributes::decode(&version.attributes) {
            Ok(attributes) if attributes.encryption.is_some() => {
                return lost("encrypted: its key is not in the pool alone");
            }
            Ok(_) => {}
            Err(error) => return lost(&error.to_string()),
        }
        let found = match shelf.find(key, Select::Order(version.order)).await {
            Ok(Some(found)) => found.body,
            Ok(None) => return lost("it is not where it is listed"),
            Err(error) => return lost(&error.to_string()),
        };
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_mtime(version.modified_ms / 1000);
        header.set_size(0);
        let mut path = path_of(key);
        if version.size > 0 && path.ends_with('/') {
            path.push('%'); // Directories hold no bytes.
        }
        if version.size == 0 && key.ends_with('/') {
            header.set_entry_type(EntryType::Directory);
            let added = self.tar.append_data(&mut header, path, io::empty());
            return added.map_err(|error| failed(&self.path, &error));
        }
        let label = format!("{key}: bytes ");
        let entry = self.tar.append_writer(&mut header, path);
        let mut entry = entry.map_err(|error| failed(&self.path, &error))?;
        let mut written = 0;
        while written < version.size {
            let end = (written + READ_BYTES).min(version.size);
            let read = read(shelves, shelf, &found, written..end).await;
            for (range, piece) in read {
                let bytes = match piece {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        let len = range.end - range.start;
                        self.unreadable.add(&label, range, &error.to_string())?;
                        let zeros = ZEROS.get(..usize::try_from(len).unwrap_or(0));
                        vec![Bytes::from_static(zeros.unwrap_or(&ZEROS))]
                    }
                };
                let all = bytes.iter().try_for_each(|bytes| entry.write_all(bytes));
                all.map_err(|error| failed(&self.path, &error))?;
            }
            written = end;
        }
        entry.finish().map_err(|error| failed(&self.path, &error))?;
        self.data_bytes += version.size;
        Ok(())
    }

    fn end(self) -> Result<CopyOutcome> {
        let Self { name, path, tar, data_bytes, unreadable } = self;
        let file = tar.into_inner().and_then(|file| file.sync_all());
        file.map_err(|error| failed(&path, &error))?;
        let unreadable_bytes = unreadable.end()?;
        Ok(CopyOutcome { name: format!("bucket {name}"), data_bytes, unreadable_bytes })
    }
}

/// An object that was listed, and where.
struct Object<'a> {
    key: &'a str,
    version: &'a Version,
    shelf: &'a BucketShard,
}

/// Bytes of a body: as a whole, or in pieces where that fails.
async fn read(
    shelves: &Shelves,
    shelf: &BucketShard,
    body: &ShelfBody,
    range: Range<u64>,
) -> Vec<(Range<u64>, ObjectResult<Vec<Bytes>>)> {
    let whole = read_whole(shelves, shelf, body, range.clone()).await;
    if whole.is_ok() {
        return vec![(range, whole)];
    }
    let mut pieces = Vec::new();
    let mut start = range.start;
    while start < range.end {
        let end = (start + PIECE_BYTES).min(range.end);
        pieces.push((start..end, read_whole(shelves, shelf, body, start..end).await));
        start = end;
    }
    pieces
}

async fn read_whole(
    shelves: &Shelves,
    shelf: &BucketShard,
    body: &ShelfBody,
    range: Range<u64>,
) -> ObjectResult<Vec<Bytes>> {
    match body {
        ShelfBody::Memory(pieces) => {
            let all = pieces.concat();
            let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
            let bytes = all.get(at(range.start)..at(range.end)).map(Bytes::copy_from_slice);
            Ok(vec![bytes.ok_or(Error::State { reason: "the body is shorter than it should be" })?])
        }
        ShelfBody::Stored(stored) if range.end <= stored.len() => {
            let pieces = shelf.content().read(stored, range).await?;
            gathered(shelves, pieces).await
        }
        ShelfBody::Stored(_) => {
            Err(Error::State { reason: "the body is shorter than it should be" })
        }
    }
}

/// The bytes of pieces, those of copies from the shards that keep them.
fn gathered(
    shelves: &Shelves,
    pieces: Vec<ContentPiece>,
) -> LocalBoxFuture<'_, ObjectResult<Vec<Bytes>>> {
    Box::pin(async move {
        let mut bytes = Vec::new();
        for piece in pieces {
            match piece {
                ContentPiece::Here(here) => bytes.push(here),
                ContentPiece::Elsewhere { taker, reference, range } => {
                    let shelf = shelves.get(&reference.home());
                    let shelf = shelf
                        .ok_or(Error::State { reason: "the shard that keeps it is not open" })?;
                    let pieces = shelf.content().read_shared(taker, reference, range).await?;
                    bytes.extend(gathered(shelves, pieces).await?);
                }
            }
        }
        Ok(bytes)
    })
}

impl OpenedPool {
    /// Copies a bucket.
    pub(super) async fn copy_bucket(
        &self,
        reactor: &Reactor,
        target: &BucketTarget,
        to: &Path,
        report: &mut SalvageReport,
    ) -> Result<()> {
        let mut archive = match Archive::create(to, target) {
            Ok(archive) => archive,
            Err(failure) => {
                report.note(format!("bucket {:?}: {}", target.name, failure.what()));
                return Ok(());
            }
        };
        let shelves = self.shelves(reactor, target, report).await;
        for (home, shelf) in &shelves {
            let mut query =
                ListQuery { limit: PAGE_KEYS, after: Marker::Start, ..ListQuery::default() };
            loop {
                let page = match shelf.list(&query).await {
                    Ok(page) => page,
                    Err(error) => {
                        let (name, after) = (&target.name, &query.after);
                        report.note(format!(
                            "objects of bucket {name} on shard {home} behind {after:?}: {error}"
                        ));
                        break;
                    }
                };
                for item in &page.items {
                    if let Item::Version { key, version, .. } = item {
                        let object = Object { key, version, shelf };
                        archive.add(&shelves, &object).await?;
                    }
                }
                match page.items.last() {
                    Some(last) if page.more => query.after = last.marker(),
                    _ => break,
                }
            }
        }
        report.add(archive.end()?);
        Ok(())
    }

    async fn shelves(
        &self,
        reactor: &Reactor,
        target: &BucketTarget,
        report: &mut SalvageReport,
    ) -> Shelves {
        let mut shelves = Shelves::new();
        for (id, shard) in (0..).map(ShardId).zip(&self.shards) {
            let opened = match shard {
                Some(shard) => {
                    let (reactor, shard) = (reactor.clone(), Rc::clone(shard));
                    let bucket = BucketId(target.stream.get());
                    let opened = BucketShard::open_to_read(reactor, shard, bucket).await;
                    opened.map_err(|error| error.to_string())
                }
                None => Err("the shard cannot be read".to_owned()),
            };
            match opened {
                Ok(shelf) => {
                    shelves.insert(id, shelf);
                }
                Err(why) => {
                    report.note(format!("objects of bucket {} on shard {id}: {why}", target.name));
                }
            }
        }
        shelves
    }
}

/// The path of an object in the archive: its key, but for parts that file systems do not take as they are.
fn path_of(key: &str) -> String {
    let dotted = |part: &str| match part {
        "" => "%".to_owned(),
        "." | ".." => part.replace('.', "%2E"),
        _ => {
            let part = match part.strip_prefix('%') {
                Some(rest) => &format!("%25{rest}"),
                None => part,
            };
            part.replace('\0', "%00")
        }
    };
    let (body, end) = key.strip_suffix('/').map_or((key, ""), |body| (body, "/"));
    let parts: Vec<String> = body.split('/').map(dotted).collect();
    parts.join("/") + end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_paths_that_stay_inside() {
        for (key, path) in [
            ("a/b.txt", "a/b.txt"),
            ("/etc/passwd", "%/etc/passwd"),
            ("../../up", "%2E%2E/%2E%2E/up"),
            ("a//b", "a/%/b"),
            ("dir/", "dir/"),
            ("a/%/b", "a/%25/b"),
            ("a\0b", "a%00b"),
            ("%\0b/\0", "%25%00b/%00"),
            ("/", "%/"),
        ] {
            assert_eq!(path_of(key), path);
        }
    }
}
