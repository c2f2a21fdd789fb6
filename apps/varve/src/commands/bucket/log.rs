//! `varve bucket log`: switches the access log of a bucket.

use clap::Args;
use hyper::Method;
use varve_access_admin::bucket_path;
use varve_access_admin::v1::{self, ChangeBucket};
use varve_client::{Client, Result};

use crate::cli::{self, Format};

/// Turn a bucket's access log on or off
#[derive(Args, Debug)]
#[command(
    after_help = "The log is DATA/s3-log/NAME.log, with the fields of Amazon's server access logs; full files are set aside as \
    NAME.log.1 to NAME.log.3, of 16 MiB each."
)]
pub(crate) struct Log {
    /// Name of the bucket
    name: String,

    /// Whether to log requests from now on
    #[arg(value_parser = cli::switch(), action = clap::ArgAction::Set)]
    switch: bool,

    #[command(flatten)]
    format: Format,
}

impl Log {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let change = ChangeBucket { access_log: Some(self.switch), ..ChangeBucket::default() };
        let answer = client.send::<v1::Bucket>(Method::PATCH, &bucket_path(&self.name), &change)?;
        Ok(answer.print(self.format.json, |bucket| {
            let state = if bucket.access_log { "on" } else { "off" };
            format!("access log of bucket {}: {state}\n", bucket.name)
        }))
    }
}
