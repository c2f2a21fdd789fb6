//! Changes of a bucket that are sent together: small bodies are read and received by the batch, long ones staged in
//! pieces before.

use hyper::body::Bytes;
use varve_access_admin::v1::{
    PartRead, PartWanted, Receive, ReceivedBody, ReceivedChange, ReceivedVersion, Stage,
    StoredVersion, VersionName, bulk,
};
use varve_client::{Failure, Result};

use super::carry::BucketCarrier;
use super::listing::Difference;

/// Most bytes of bodies in a request, or of a piece of a long one: memory is that of a few of them for each thread.
pub(super) const PIECE_BYTES: u64 = 2 << 20;

const _: () = assert!(PIECE_BYTES <= bulk::BODIES_BYTES_MAX);

/// What a stored body may have more than its object: so much more is asked for, and what is longer yet is staged.
const SEAL_BYTES_MAX: u64 = 256;

/// Most bytes of a request's head: the rest is for bodies.
const HEAD_BYTES_MAX: u64 = 768 << 10;

/// What a change has in a head beside its key and attributes, at most.
const CHANGE_BYTES_MAX: u64 = 320;

/// Most changes of a request: those of one key are made one after another, each durable, while the daemon's time for
/// the request runs.
const CHANGES_MAX: usize = 256;

const _: () = assert!(CHANGES_MAX <= bulk::CHANGES_MAX);

/// Most staged bodies that wait for their versions.
const STAGED_MAX: usize = 8;

/// Bodies and changes that are collected, in order.
pub(super) struct CarriedBatch<'a> {
    carrying: &'a BucketCarrier<'a>,
    changes: Vec<BatchedChange>,
    head_bytes: u64,
    wanted_bytes: u64,
    staged: usize,
}

enum BatchedChange {
    Remove(VersionName),
    Marker(StoredVersion),
    /// Its body is read when the batch is sent.
    Small(StoredVersion),
    /// With what its body is called.
    Staged(StoredVersion, u64),
}

/// The same name and order.
fn part_request(version: &StoredVersion, offset: u64, bytes: u64) -> PartWanted {
    PartWanted { key: version.key.clone(), order: version.order, offset, bytes }
}

/// How many bytes of a body are asked for that is taken to be small.
fn small_bytes(version: &StoredVersion) -> u64 {
    version.size.saturating_add(SEAL_BYTES_MAX)
}

impl<'a> CarriedBatch<'a> {
    pub(super) fn new(carrying: &'a BucketCarrier<'a>) -> Self {
        Self { carrying, changes: Vec::new(), head_bytes: 0, wanted_bytes: 0, staged: 0 }
    }

    /// Adds what is to be done with a key; sends what does not fit into one request.
    pub(super) fn add(&mut self, found: Difference) -> Result<()> {
        for order in found.removed {
            self.push(BatchedChange::Remove(VersionName { key: found.key.clone(), order }))?;
        }
        for version in found.sent {
            self.carrying.stopped()?;
            if version.marker {
                self.push(BatchedChange::Marker(version))?;
            } else if small_bytes(&version) <= bulk::INLINE_BYTES_MAX {
                self.push(BatchedChange::Small(version))?;
            } else {
                self.add_long(version)?;
            }
        }
        Ok(())
    }

    /// Stages a body. One that takes long lets none wait: they would be dropped.
    fn add_long(&mut self, version: StoredVersion) -> Result<()> {
        let is_longest = version.size > PIECE_BYTES;
        if is_longest {
            self.send()?;
        }
        let id = self.stage(&version, None)?;
        self.push(BatchedChange::Staged(version, id))?;
        self.staged += 1;
        if is_longest || self.staged >= STAGED_MAX { self.send() } else { Ok(()) }
    }

    fn push(&mut self, change: BatchedChange) -> Result<()> {
        let (head, wanted) = match &change {
            // A byte of a key may need six in JSON.
            BatchedChange::Remove(name) => (name.key.len() * 6, 0),
            BatchedChange::Marker(version) | BatchedChange::Staged(version, _) => {
                (in_head(version), 0)
            }
            BatchedChange::Small(version) => (in_head(version), small_bytes(version)),
        };
        let head = head as u64 + CHANGE_BYTES_MAX;
        let is_full = self.changes.len() >= CHANGES_MAX
            || self.head_bytes + head > HEAD_BYTES_MAX
            || self.wanted_bytes + wanted > PIECE_BYTES;
        if is_full {
            self.send()?;
        }
        self.head_bytes += head;
        self.wanted_bytes += wanted;
        self.changes.push(change);
        Ok(())
    }

    /// Reads the small bodies and sends all changes.
    pub(super) fn send(&mut self) -> Result<()> {
        let changes = std::mem::take(&mut self.changes);
        (self.head_bytes, self.wanted_bytes, self.staged) = (0, 0, 0);
        if changes.is_empty() {
            return Ok(());
        }
        let BucketCarrier { run, bucket, .. } = *self.carrying;
        let parts: Vec<PartWanted> = changes
            .iter()
            .filter_map(|change| match change {
                BatchedChange::Small(version) => {
                    Some(part_request(version, 0, small_bytes(version)))
                }
                _ => None,
            })
            .collect();
        let read = match parts.is_empty() {
            true => Vec::new(),
            false => run.source.read_parts(bucket, parts)?,
        };
        let (mut read, mut bodies, mut received) = (read.into_iter(), Vec::new(), Vec::new());
        let mut sent_bytes = 0;
        for change in changes {
            let put = |version, body| ReceivedChange::Put(ReceivedVersion { version, body });
            received.push(match change {
                BatchedChange::Remove(name) => ReceivedChange::Remove(name),
                BatchedChange::Marker(version) => put(version, None),
                BatchedChange::Staged(version, id) => {
                    put(version, Some(ReceivedBody::Staged { id }))
                }
                BatchedChange::Small(version) => {
                    let (part, bytes) = read.next().expect("as many came as were asked for");
                    sent_bytes += version.size;
                    let body = self.small(&version, part, bytes, &mut bodies)?;
                    put(version, Some(body))
                }
            });
        }
        let head = Receive { expects: run.arriving(), changes: received };
        run.target.receive(bucket, &head, &bodies)?;
        self.carrying.did(sent_bytes);
        Ok(())
    }

    /// The body of a version that is small, or is not, though its object is.
    fn small(
        &self,
        version: &StoredVersion,
        part: PartRead,
        bytes: Bytes,
        bodies: &mut Vec<Bytes>,
    ) -> Result<ReceivedBody> {
        if part.total_bytes > bulk::INLINE_BYTES_MAX || part.total_bytes != part.bytes {
            let id = self.stage(version, Some((part, bytes)))?;
            return Ok(ReceivedBody::Staged { id });
        }
        bodies.push(bytes);
        Ok(ReceivedBody::Inline { bytes: part.bytes, crc32c: part.crc32c })
    }

    /// Carries a body in pieces, of which the first may be there; what it is called.
    fn stage(&self, version: &StoredVersion, first: Option<(PartRead, Bytes)>) -> Result<u64> {
        let BucketCarrier { run, bucket, .. } = *self.carrying;
        let is_counted = first.is_none();
        let (mut next, mut id, mut offset, mut total) = (first, None, 0, None);
        loop {
            self.carrying.stopped()?;
            let (part, bytes) = match next.take() {
                Some(first) => first,
                None => {
                    let parts = vec![part_request(version, offset, PIECE_BYTES)];
                    let mut read = run.source.read_parts(bucket, parts)?;
                    read.pop().expect("as many came as were asked for")
                }
            };
            let total_bytes = *total.get_or_insert(part.total_bytes);
            let end = offset + part.bytes;
            if part.total_bytes != total_bytes || (part.bytes == 0 && end < total_bytes) {
                let what = format!("{} in bucket {bucket} was another one meanwhile", version.key);
                return Err(Failure::new(what).of_kind("not_found")); // As if it were gone.
            }
            let (key, crc32c) = (version.key.clone(), part.crc32c);
            let expects = run.arriving();
            let head = Stage { expects, key, total_bytes, id, offset, bytes: part.bytes, crc32c };
            let staged = run.target.stage(bucket, &head, &bytes)?;
            if is_counted {
                self.carrying.did(part.bytes);
            }
            if end >= total_bytes {
                return Ok(staged.id);
            }
            (id, offset) = (Some(staged.id), end);
        }
    }
}

/// Bytes of a version in a head, but what each has.
fn in_head(version: &StoredVersion) -> usize {
    version.key.len() * 6 + version.attributes.0.len().div_ceil(3) * 4
}
