//! `varve user create`: makes a user of S3 with an access key, and prints its secret once.

use std::path::PathBuf;

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{CreateUser, NewKey};
use varve_client::{Client, Result, read_file};
use varve_types::ByteCount;

use super::{GivenKey, render_key};
use crate::cli::{self, Format};

/// Create an S3 user with an access key, and print its secret once
#[derive(Args, Debug)]
#[command(
    after_help = "A user may do what it likes with buckets of its own, and nothing else unless their policies, lists, or a policy of \
    its own say so. A user with a policy has only what policies and lists give."
)]
pub(crate) struct UserCreate {
    /// Name of the user in policies and access control lists
    name: String,

    /// Administrator: may do everything
    #[arg(long)]
    admin: bool,

    /// Display name [default: NAME]
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,

    /// Email address, which access control lists may use as well
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,

    /// File with a policy, JSON, - for standard input [default: none]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,

    /// Maximum data in all buckets of the user [default: none]
    #[arg(long, value_parser = cli::quota, value_name = "SIZE")]
    quota: Option<ByteCount>,

    /// Maximum number of buckets [default: none]
    #[arg(long, value_parser = cli::bound, value_name = "N")]
    buckets: Option<u64>,

    #[command(flatten)]
    key: GivenKey,

    #[command(flatten)]
    format: Format,
}

impl UserCreate {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let (access_key, secret_key) = self.key.read()?;
        let spec = CreateUser {
            name: self.name,
            display_name: self.display_name,
            email: self.email,
            admin: self.admin,
            policy: self.policy.as_deref().map(read_file).transpose()?,
            quota_bytes: self.quota.map(|quota| quota.0),
            quota_buckets: self.buckets,
            access_key,
            secret_key,
        };
        let answer = client.send::<NewKey>(Method::POST, "/v1/users", &spec)?;
        Ok(answer.print(self.format.json, |key| {
            format!("created user {}\n{}", key.user, render_key(&key))
        }))
    }
}
