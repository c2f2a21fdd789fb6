//! `varve bucket delete`: deletes an empty bucket.

use clap::Args;
use varve_access_admin::bucket_path;
use varve_client::{Client, Result};

use crate::cli::Format;

/// Delete a bucket; refused while it has objects, versions or delete markers
#[derive(Args, Debug)]
#[command(
    after_help = "S3 clients empty buckets: `aws s3 rm --recursive`, `rclone purge`. Uploads under way go with the bucket."
)]
pub(crate) struct BucketDelete {
    /// Name of the bucket
    name: String,

    #[command(flatten)]
    format: Format,
}

impl BucketDelete {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        client.delete(&bucket_path(&self.name))?;
        Ok(self.format.deleted("bucket", &[self.name]))
    }
}
