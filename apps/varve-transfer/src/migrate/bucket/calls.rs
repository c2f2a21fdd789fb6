//! The calls that a migration of buckets makes to each daemon.

use hyper::Method;
use hyper::body::Bytes;
use varve_access_admin::v1::{
    ArrivingBucket, Bucket, BucketChanges, BucketDeletion, BucketPage, BucketSettings,
    CreateBucket, MoveBucket, PartRead, PartWanted, PartsRead, ReadParts, Receive, ReplaceSettings,
    Stage, StagedPiece, VersionPage, VolumeMove, bulk,
};
use varve_access_admin::{bucket_path, percent_encoded};
use varve_client::{Failure, Result};
use varve_types::ErrorKind;

use super::super::side::{MigrationSide, query};

/// Most buckets in a page.
const PAGE: usize = 1000;

/// Most versions in a page.
const VERSIONS: usize = 1000;

impl MigrationSide {
    pub(super) fn buckets(&self) -> Result<Vec<Bucket>> {
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            let path = format!("/v1/buckets?limit={PAGE}{after}");
            let page = self.client.get::<BucketPage>(&path)?.value;
            if let Some(reason) = page.incomplete {
                return Err(Failure::new(format!("not all buckets can be listed: {reason}"))
                    .hint("`varve status` of that pool says which shard is damaged"));
            }
            all.extend(page.buckets);
            let Some(next) = page.next else { return Ok(all) };
            after = format!("&after={}", percent_encoded(&next));
        }
    }

    pub(super) fn bucket(&self, name: &str) -> Result<Option<Bucket>> {
        self.found(&bucket_path(name))
    }

    /// Takes a bucket a step further (MIGRATE-3).
    pub(super) fn step_bucket(
        &self,
        name: &str,
        before: Option<&VolumeMove>,
        after: Option<VolumeMove>,
    ) -> Result<()> {
        let before = before.cloned();
        self.send_bucket_step(name, &MoveBucket { before, after, ..MoveBucket::default() })
    }

    /// The step of a bucket that does not move to leaving, if it has this number.
    pub(super) fn fence_bucket(&self, name: &str, number: u64, after: VolumeMove) -> Result<()> {
        let (after, number) = (Some(after), Some(number));
        self.send_bucket_step(name, &MoveBucket { after, number, ..MoveBucket::default() })
    }

    /// The step after which clients use a bucket, with the number that it has at its source.
    pub(super) fn arrive_bucket(
        &self,
        name: &str,
        before: VolumeMove,
        from_number: u64,
    ) -> Result<()> {
        let (before, from_number) = (Some(before), Some(from_number));
        self.send_bucket_step(name, &MoveBucket { before, from_number, ..MoveBucket::default() })
    }

    /// Once, for what is not answered may be carried out later.
    fn send_bucket_step(&self, name: &str, step: &MoveBucket) -> Result<()> {
        let path = format!("{}/move", bucket_path(name));
        self.client.send::<Bucket>(Method::POST, &path, step).map(drop)
    }

    /// Deletes some of a bucket that is at `expects` on its way; whether it is gone.
    pub(super) fn delete_bucket(&self, name: &str, expects: &VolumeMove) -> Result<bool> {
        let path = format!("{}?{}", bucket_path(name), query(expects));
        let nothing = serde_json::Map::new();
        match self.client.send::<BucketDeletion>(Method::DELETE, &path, &nothing) {
            Ok(deletion) => Ok(deletion.value.done),
            Err(failure) if failure.is(ErrorKind::NotFound) => Ok(true),
            Err(failure) => Err(failure),
        }
    }

    pub(super) fn settings(&self, name: &str) -> Result<BucketSettings> {
        self.client.page(&format!("{}/settings", bucket_path(name)))
    }

    /// Makes a bucket that arrives.
    pub(super) fn create_arriving(
        &self,
        name: &str,
        like: BucketSettings,
        arriving: VolumeMove,
    ) -> Result<()> {
        let BucketSettings { record, private_copy, .. } = like;
        let arriving = ArrivingBucket { moves: arriving, record, private_copy };
        let spec = CreateBucket {
            name: name.to_owned(),
            arriving: Some(arriving),
            ..CreateBucket::default()
        };
        self.client.send::<Bucket>(Method::POST, "/v1/buckets", &spec).map(drop)
    }

    /// Replaces the settings of a bucket that arrives.
    pub(super) fn replace_settings(&self, name: &str, new: &ReplaceSettings) -> Result<()> {
        let path = format!("{}/settings", bucket_path(name));
        self.client.send::<Bucket>(Method::PUT, &path, new).map(drop)
    }

    /// Versions behind one, or of one key.
    fn versions(&self, name: &str, which: &str) -> Result<VersionPage> {
        let path = format!("{}/versions?limit={VERSIONS}{which}", bucket_path(name));
        self.client.page(&path)
    }

    /// A page of all versions, behind one.
    pub(super) fn versions_after(
        &self,
        name: &str,
        after: Option<(&str, u64)>,
    ) -> Result<VersionPage> {
        let after = after.map_or_else(String::new, |(key, order)| {
            format!("&after_key={}&after_order={order}", percent_encoded(key))
        });
        self.versions(name, &after)
    }

    /// A page of the versions of a key, behind one.
    pub(super) fn versions_of(
        &self,
        name: &str,
        key: &str,
        after: Option<u64>,
    ) -> Result<VersionPage> {
        let key = percent_encoded(key);
        let after = after.map_or_else(String::new, |order| format!("&after_order={order}"));
        self.versions(name, &format!("&key={key}{after}"))
    }

    /// What changed since a token was given.
    pub(super) fn changes(&self, name: &str, since: Option<&str>) -> Result<BucketChanges> {
        let since =
            since.map_or_else(String::new, |since| format!("?since={}", percent_encoded(since)));
        self.client.page(&format!("{}/changes{since}", bucket_path(name)))
    }

    /// Parts of bodies, each with what is said of it and compared with its checksum (MIGRATE-BUCKET-4).
    pub(super) fn read_parts(
        &self,
        name: &str,
        parts: Vec<PartWanted>,
    ) -> Result<Vec<(PartRead, Bytes)>> {
        let wanted = parts.len();
        let path = format!("{}/read", bucket_path(name));
        let answer = self.client.read_bulk(&path, &ReadParts { parts })?;
        let unexpected = |what: String| self.client.unexpected(&what);
        let (head, mut rest) = bulk::split::<PartsRead>(&answer).map_err(unexpected)?;
        if head.parts.len() != wanted {
            return Err(self.client.unexpected("it has not as many parts as were asked for"));
        }
        let mut all = Vec::with_capacity(wanted);
        for part in head.parts {
            let len = usize::try_from(part.bytes).unwrap_or(usize::MAX);
            if len > rest.len() {
                return Err(self.client.unexpected("it broke off"));
            }
            let bytes = rest.split_to(len);
            if bulk::crc32c(&bytes) != part.crc32c {
                return Err(Failure::new(format!(
                    "what was read of bucket {name} has another checksum than {} says",
                    self.client.address()
                ))
                .hint("run the command again; `varve check` at the source says whether its drives are whole"));
            }
            all.push((part, bytes));
        }
        Ok(all)
    }

    /// Changes a bucket that arrives.
    pub(super) fn receive(&self, name: &str, head: &Receive, bodies: &[Bytes]) -> Result<()> {
        let path = format!("{}/receive", bucket_path(name));
        let body = bulk::with_bodies(head, bodies);
        self.client.send_bulk::<serde_json::Value>(&path, body).map(drop)
    }

    /// Sends a piece of a body.
    pub(super) fn stage(&self, name: &str, head: &Stage, bytes: &[u8]) -> Result<StagedPiece> {
        let path = format!("{}/stage", bucket_path(name));
        let body = bulk::with_bodies(head, &[bytes]);
        self.client.send_bulk(&path, body)
    }
}
