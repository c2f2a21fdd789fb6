//! `varve bucket set`: changes how new objects of a bucket are reduced.

use clap::Args;
use hyper::Method;
use varve_access_admin::bucket_path;
use varve_access_admin::v1::{self, ChangeBucket};
use varve_client::{Client, Failure, Result};

use crate::cli::{Format, ReductionChange};

/// Change how new objects of a bucket are deduplicated and compressed
#[derive(Args, Debug)]
#[command(
    after_help = "The change applies to new objects; stored data is not rewritten. Encrypted objects neither deduplicate nor compress."
)]
pub(crate) struct BucketSet {
    /// Name of the bucket
    name: String,

    #[command(flatten)]
    reduction: ReductionChange,

    #[command(flatten)]
    format: Format,
}

impl BucketSet {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let Self { name, reduction: ReductionChange { dedup, compression }, format } = self;
        let change = ChangeBucket { dedup, compression, ..ChangeBucket::default() };
        if change.is_empty() {
            return Err(Failure::misuse(format!("nothing to change in bucket `{name}`"))
                .hint("give --dedup auto|on|off, --compression off|lz4|zstd[:LEVEL], or both"));
        }
        let answer = client.send::<v1::Bucket>(Method::PATCH, &bucket_path(&name), &change)?;
        Ok(answer.print(format.json, |bucket| {
            let v1::Bucket { name, dedup, compression, .. } = bucket;
            format!("bucket {name}: dedup {dedup}, compression {compression}\n")
        }))
    }
}
