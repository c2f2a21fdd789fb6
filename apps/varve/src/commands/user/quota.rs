//! `varve user quota`: bounds what a user's buckets hold together, and how many there are.

use clap::Args;
use hyper::Method;
use varve_access_admin::user_path;
use varve_access_admin::v1::{self, ChangeUser};
use varve_client::{Client, Failure, Result};
use varve_types::ByteCount;

use crate::cli::{self, Format};

/// Limit the size and number of a user's buckets
#[derive(Args, Debug)]
pub(crate) struct Quota {
    /// Name of the user
    name: String,

    /// Maximum data in all its buckets; none removes the limit
    #[arg(long, value_parser = cli::quota, value_name = "SIZE|none")]
    size: Option<ByteCount>,

    /// Maximum number of buckets; none removes the limit
    #[arg(long, value_parser = cli::bound, value_name = "N|none")]
    buckets: Option<u64>,

    #[command(flatten)]
    format: Format,
}

impl Quota {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let Self { name, size, buckets, format } = self;
        let quota_bytes = size.map(|size| size.0);
        let change = ChangeUser { quota_bytes, quota_buckets: buckets, ..ChangeUser::default() };
        if change.is_empty() {
            return Err(Failure::misuse(format!("nothing to change in user `{name}`"))
                .hint("say --size SIZE|none, --buckets N|none, or both"));
        }
        let answer = client.send::<v1::User>(Method::PATCH, &user_path(&name), &change)?;
        Ok(answer.print(format.json, |user| {
            let size = cli::shown_quota(user.quota_bytes);
            let buckets = cli::shown_bound(user.quota_buckets);
            format!("user {}: size limit {size}, bucket limit {buckets}\n", user.name)
        }))
    }
}
