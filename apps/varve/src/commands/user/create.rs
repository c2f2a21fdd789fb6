//! `varve user create`: makes a user of S3 with an access key, and prints its secret once.

use std::path::PathBuf;

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{CreateUser, NewKey};
use varve_types::ByteCount;

use super::{GivenKey, read_file, shown};
use crate::cli::{self, Format};
use crate::client::Client;
use crate::failure::Result;

/// Make a user of S3 with an access key, and print its secret, once
#[derive(Args, Debug)]
#[command(
    after_help = "A user may do what it likes with buckets of its own, and nothing else unless their policies, lists, or a policy of \
    its own say so. A user with a policy has only what policies and lists give."
)]
pub(crate) struct Create {
    /// Name of the user, as policies and access control lists have it
    name: String,

    /// May do everything
    #[arg(long)]
    admin: bool,

    /// Name for people [default: NAME]
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,

    /// Mail address, by which access control lists may name the user too
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,

    /// File with a policy, JSON, - for standard input [default: none]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,

    /// The most data in the user's buckets together [default: none]
    #[arg(long, value_parser = cli::quota, value_name = "SIZE")]
    quota: Option<ByteCount>,

    /// The most buckets [default: none]
    #[arg(long, value_parser = cli::bound, value_name = "N")]
    buckets: Option<u64>,

    #[command(flatten)]
    key: GivenKey,

    #[command(flatten)]
    format: Format,
}

impl Create {
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
        Ok(answer
            .print(self.format.json, |key| format!("created user {}\n{}", key.user, shown(&key))))
    }
}
