//! `varve bucket create`: creates an empty bucket for a user.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{self, CreateBucket};
use varve_client::{Client, Result};
use varve_types::{ByteCount, Compression, Dedup};

use crate::cli::{self, Format};

/// Create a bucket
#[derive(Args, Debug)]
pub(crate) struct BucketCreate {
    /// Name of the bucket: 3 to 63 lower-case letters, digits, dots and hyphens
    name: String,

    /// Owner of the bucket [default: owner, the user created at the first start]
    #[arg(long, value_name = "USER")]
    owner: Option<String>,

    /// Keep overwritten and deleted objects as versions
    #[arg(long)]
    versioning: bool,

    /// Enable object lock, and versioning with it
    #[arg(long)]
    object_lock: bool,

    /// Maximum data [default: none]
    #[arg(long, value_parser = cli::quota, value_name = "SIZE")]
    quota: Option<ByteCount>,

    /// Maximum number of objects [default: none]
    #[arg(long, value_parser = cli::bound, value_name = "N")]
    objects: Option<u64>,

    /// Store identical blocks only once: where it pays (auto), always (on) or never (off) [default: auto]
    #[arg(long, value_parser = cli::dedup())]
    dedup: Option<Dedup>,

    /// How blocks are compressed: off, lz4, zstd or zstd:LEVEL, with a level from 1 to 19, 3 if not given
    /// [default: lz4]
    #[arg(long, value_parser = cli::compression(), hide_possible_values = true)]
    compression: Option<Compression>,

    #[command(flatten)]
    format: Format,
}

impl BucketCreate {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let spec = CreateBucket {
            name: self.name,
            owner: self.owner,
            versioning: self.versioning,
            object_lock: self.object_lock,
            quota_bytes: self.quota.map(|quota| quota.0),
            quota_objects: self.objects,
            dedup: self.dedup,
            compression: self.compression,
            arriving: None,
        };
        let answer = client.send::<v1::Bucket>(Method::POST, "/v1/buckets", &spec)?;
        Ok(answer.print(self.format.json, |bucket| {
            format!("created bucket {} of {}\n", bucket.name, bucket.owner)
        }))
    }
}
