//! `varve bucket show`: one bucket and what it holds.

use clap::Args;
use varve_access_admin::bucket_path;
use varve_access_admin::v1::{self, BucketVersioning};
use varve_client::{Client, Result, age, table};
use varve_types::ByteCount;

use crate::cli::{self, Format};
use crate::commands::volume::on_its_way;

/// Show a bucket, its objects and size
#[derive(Args, Debug)]
pub(crate) struct BucketShow {
    /// Name of the bucket
    name: String,

    #[command(flatten)]
    format: Format,
}

impl BucketShow {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let answer = client.get::<v1::Bucket>(&bucket_path(&self.name))?;
        Ok(answer.print(self.format.json, |bucket| table::labelled(&properties(bucket))))
    }
}

fn properties(bucket: v1::Bucket) -> Vec<(&'static str, String)> {
    let versioning = match bucket.versioning {
        BucketVersioning::Off => "off",
        BucketVersioning::Enabled => "enabled",
        BucketVersioning::Suspended => "suspended",
    };
    let moves = bucket.moves.as_ref().map(on_its_way);
    let counted = |count: String| match bucket.usage_unknown {
        true => "unknown: a shard that may hold some is damaged".to_owned(),
        false => count,
    };
    let mut pairs = vec![
        ("bucket", bucket.name),
        ("id", bucket.id.to_string()),
        ("owner", bucket.owner),
        ("objects", counted(bucket.objects.to_string())),
        ("size", counted(ByteCount(bucket.object_bytes).to_string())),
        ("quota", cli::shown_quota(bucket.quota_bytes)),
        ("object limit", cli::shown_bound(bucket.quota_objects)),
        ("versioning", versioning.to_owned()),
        ("object lock", table::on_off(bucket.object_lock).to_owned()),
        ("dedup", bucket.dedup.to_string()),
        ("compression", bucket.compression.to_string()),
        ("access log", table::on_off(bucket.access_log).to_owned()),
        ("created", age::since(bucket.created_unix_ms)),
    ];
    pairs.extend(moves);
    pairs
}
