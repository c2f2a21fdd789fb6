//! Buckets of the memory backend on their way: their versions in maps, with the refusals of the real one.

use std::collections::BTreeMap;

use axum::body::Bytes;
use varve_types::ErrorKind;

use super::objects::State;
use super::refusal;
use crate::error::Result;
use crate::v1::{
    AddedUsersAndKeys, ArrivingBucket, Base64, Bucket, BucketChanges, BucketDeletion,
    BucketSettings, MoveBucket, MoveState, ReadParts, Receive, ReceivedBody, ReceivedChange,
    ReplaceSettings, Stage, StagedPiece, StoredVersion, UsersAndKeys, VersionPage, VersionsWanted,
    VolumeMove,
};

/// What is in a bucket, beside its numbers.
#[derive(Default)]
pub(super) struct Contents {
    record: Base64,
    private_copy: bool,
    /// Versions by key, and by order from the newest on.
    versions: BTreeMap<(String, u64), (StoredVersion, Bytes)>,
    staged: BTreeMap<u64, Vec<u8>>,
}

fn conflict(message: String) -> crate::Error {
    refusal(ErrorKind::Conflict, message)
}

fn place(key: &str, order: u64) -> (String, u64) {
    (key.to_owned(), u64::MAX - order)
}

impl Contents {
    pub(super) fn arriving(arriving: &ArrivingBucket) -> Self {
        let ArrivingBucket { record, private_copy, .. } = arriving.clone();
        Self { record, private_copy, ..Self::default() }
    }

    fn put(&mut self, version: StoredVersion, body: Bytes) -> Result<()> {
        let StoredVersion { key, order, .. } = &version;
        let newest = self.versions.range(place(key, u64::MAX)..=place(key, 0)).next();
        if newest.is_some_and(|(_, (newest, _))| newest.order >= *order) {
            return Err(conflict(format!("a version of `{key}` is there that is not older")));
        }
        self.versions.insert(place(key, *order), (version, body));
        Ok(())
    }
}

impl State {
    fn contents(&mut self, name: &str) -> &mut Contents {
        self.contents.entry(name.to_owned()).or_default()
    }

    fn expect(&mut self, name: &str, expects: &VolumeMove) -> Result<()> {
        if self.bucket(name)?.moves.as_ref() == Some(expects) {
            return Ok(());
        }
        Err(conflict(format!("bucket `{name}` moves otherwise")))
    }

    pub(super) fn move_bucket(&mut self, name: &str, step: MoveBucket) -> Result<Bucket> {
        let MoveBucket { before, after, number, from_number } = step;
        let bucket = self.bucket(name)?;
        if bucket.moves != before || number.is_some_and(|number| number != bucket.id) {
            return Err(conflict(format!("bucket `{name}` moves otherwise")));
        }
        let is_arriving =
            |moves: &VolumeMove| moves.state == MoveState::Arriving && after.is_none();
        let arrived = before.filter(is_arriving).zip(from_number);
        let arrived = arrived.map(|(moves, number)| VolumeMove {
            state: MoveState::Arrived,
            bucket: Some(number),
            ..moves
        });
        bucket.moves = arrived.or(after);
        Ok(bucket.clone())
    }

    pub(super) fn settings(&mut self, name: &str) -> Result<BucketSettings> {
        let number = self.bucket(name)?.id;
        let Contents { record, private_copy, .. } = self.contents(name);
        let (record, private_copy) = (record.clone(), *private_copy);
        Ok(BucketSettings { number, private_copy, record, uploads: 0 })
    }

    pub(super) fn replace_settings(&mut self, name: &str, new: ReplaceSettings) -> Result<Bucket> {
        self.expect(name, &new.expects)?;
        self.contents(name).record = new.record;
        Ok(self.bucket(name)?.clone())
    }

    pub(super) fn versions(&mut self, name: &str, wanted: &VersionsWanted) -> Result<VersionPage> {
        self.bucket(name)?;
        let is_wanted = |version: &&StoredVersion| {
            let behind = match &wanted.after {
                None => true,
                Some((key, None)) => version.key > *key,
                Some((key, Some(order))) => place(&version.key, version.order) > place(key, *order),
            };
            behind && wanted.key.as_ref().is_none_or(|key| *key == version.key)
        };
        let all = self.contents(name).versions.values().map(|(version, _)| version);
        let mut versions: Vec<_> = all.filter(is_wanted).cloned().collect();
        let more = versions.len() > wanted.limit;
        versions.truncate(wanted.limit);
        Ok(VersionPage { versions, more })
    }

    pub(super) fn read(&mut self, name: &str, wanted: ReadParts) -> Result<Vec<(u64, Bytes)>> {
        self.bucket(name)?;
        let versions = &self.contents(name).versions;
        let read = |part: &crate::v1::PartWanted| {
            let absent =
                || refusal(ErrorKind::NotFound, format!("no such version of `{}`", part.key));
            let (_, body) = versions.get(&place(&part.key, part.order)).ok_or_else(absent)?;
            let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(body.len());
            let range = at(part.offset)..at(part.offset.saturating_add(part.bytes));
            Ok((body.len() as u64, body.slice(range)))
        };
        wanted.parts.iter().map(read).collect()
    }

    pub(super) fn receive(
        &mut self,
        name: &str,
        receive: Receive,
        bodies: Vec<Bytes>,
    ) -> Result<()> {
        self.expect(name, &receive.expects)?;
        let contents = self.contents(name);
        let mut bodies = bodies.into_iter();
        for change in receive.changes {
            match change {
                ReceivedChange::Remove(gone) => {
                    contents.versions.remove(&place(&gone.key, gone.order));
                }
                ReceivedChange::Put(put) => {
                    let body = match put.body {
                        None => Bytes::new(),
                        Some(ReceivedBody::Inline { .. }) => bodies.next().unwrap_or_default(),
                        Some(ReceivedBody::Staged { id }) => {
                            let staged = contents.staged.remove(&id);
                            staged.ok_or_else(|| conflict("no such body".to_owned()))?.into()
                        }
                    };
                    contents.put(put.version, body)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn stage(
        &mut self,
        name: &str,
        stage: &Stage,
        piece: &Bytes,
    ) -> Result<StagedPiece> {
        self.expect(name, &stage.expects)?;
        let staged = &mut self.contents(name).staged;
        let id = stage.id.unwrap_or(1 + staged.len() as u64);
        let body = staged.entry(id).or_default();
        if stage.offset != body.len() as u64 {
            return Err(conflict(format!("{} bytes were received so far", body.len())));
        }
        body.extend_from_slice(piece);
        Ok(StagedPiece { id, received_bytes: body.len() as u64 })
    }

    /// Notes nothing, and says so.
    pub(super) fn changes(&mut self, name: &str, since: Option<&str>) -> Result<BucketChanges> {
        self.bucket(name)?;
        let token = "1".to_owned();
        let whole = since.is_some();
        Ok(BucketChanges { token, whole, keys: Vec::new(), settings_changed: false })
    }

    pub(super) fn delete_left(
        &mut self,
        name: &str,
        expects: &VolumeMove,
    ) -> Result<BucketDeletion> {
        self.expect(name, expects)?;
        if expects.state != MoveState::Left {
            return Err(refusal(ErrorKind::Invalid, format!("bucket `{name}` has not left")));
        }
        self.buckets.remove(name);
        self.contents.remove(name);
        Ok(BucketDeletion { left: 0, done: true })
    }

    /// It keeps no secrets, and so has no key.
    pub(super) fn add_users(all: UsersAndKeys) -> Result<AddedUsersAndKeys> {
        if all.key_check != UsersAndKeys::default().key_check {
            return Err(conflict("secrets are sealed with another key there".to_owned()));
        }
        Ok(AddedUsersAndKeys::default())
    }
}
