//! `varve user show`: one user of S3 and the public halves of its keys.

use clap::Args;
use varve_access_admin::{user_path, v1};
use varve_client::{Client, Result, age, table};

use crate::cli::{self, Format};

/// Show an S3 user and its access keys, without secrets
#[derive(Args, Debug)]
pub(crate) struct UserShow {
    /// Name of the user
    name: String,

    #[command(flatten)]
    format: Format,
}

/// Where some of a user's keys may be missing.
pub(super) const MORE_KEYS: &str = "there may be some on a damaged shard";

impl UserShow {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let answer = client.get::<v1::User>(&user_path(&self.name))?;
        Ok(answer.print(self.format.json, |user| table::labelled(&properties(user))))
    }
}

fn properties(user: v1::User) -> Vec<(&'static str, String)> {
    let rights = match (user.admin, &user.policy) {
        (true, _) => "everything",
        (false, Some(_)) => "what its policy says: `varve user policy show`",
        (false, None) => "its own buckets, and what others let it do",
    };
    let mut pairs = vec![
        ("user", user.name),
        ("display name", user.display_name),
        ("rights", rights.to_owned()),
        ("quota", cli::shown_quota(user.quota_bytes)),
        ("bucket limit", cli::shown_bound(user.quota_buckets)),
        ("created", age::since(user.created_unix_ms)),
    ];
    pairs.extend(user.email.map(|email| ("email", email)));
    for key in user.access_keys {
        let made = age::since(key.created_unix_ms);
        pairs.push(("access key", format!("{}, {made}", key.access_key)));
    }
    if user.keys_incomplete {
        pairs.push(("more keys", MORE_KEYS.to_owned()));
    }
    pairs
}
