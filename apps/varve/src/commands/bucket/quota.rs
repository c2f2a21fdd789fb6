//! `varve bucket quota`: bounds what a bucket holds.

use clap::Args;
use hyper::Method;
use varve_access_admin::bucket_path;
use varve_access_admin::v1::{self, ChangeBucket};
use varve_client::{Client, Failure, Result};
use varve_types::ByteCount;

use crate::cli::{self, Format};

/// Limit a bucket's size and number of objects
#[derive(Args, Debug)]
pub(crate) struct Quota {
    /// Name of the bucket
    name: String,

    /// Maximum data, including old versions; none removes the limit
    #[arg(long, value_parser = cli::quota, value_name = "SIZE|none")]
    size: Option<ByteCount>,

    /// Maximum number of objects, including old versions; none removes the limit
    #[arg(long, value_parser = cli::bound, value_name = "N|none")]
    objects: Option<u64>,

    #[command(flatten)]
    format: Format,
}

impl Quota {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let Self { name, size, objects, format } = self;
        let change = ChangeBucket {
            quota_bytes: size.map(|size| size.0),
            quota_objects: objects,
            ..ChangeBucket::default()
        };
        if change.is_empty() {
            return Err(Failure::misuse(format!("nothing to change in bucket `{name}`"))
                .hint("say --size SIZE|none, --objects N|none, or both"));
        }
        let answer = client.send::<v1::Bucket>(Method::PATCH, &bucket_path(&name), &change)?;
        Ok(answer.print(format.json, |bucket| {
            let size = cli::shown_quota(bucket.quota_bytes);
            let objects = cli::shown_bound(bucket.quota_objects);
            format!("bucket {}: size limit {size}, object limit {objects}\n", bucket.name)
        }))
    }
}
