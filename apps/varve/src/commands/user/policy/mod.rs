//! `varve user policy`: show, set and clear what a user may do beside what it owns.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hyper::Method;
use varve_access_admin::user_path;
use varve_access_admin::v1::{self, ChangeUser};
use varve_client::{Client, Failure, Result, read_file};

/// Show, set and clear the policy of a user
#[derive(Subcommand, Debug)]
pub(crate) enum PolicyCommand {
    Show(PolicyShow),
    Set(PolicySet),
    Clear(Clear),
}

/// Print the policy of a user, JSON
#[derive(Args, Debug)]
pub(crate) struct PolicyShow {
    /// Name of the user
    user: String,
}

/// Set the policy of a user; it applies from the next request
#[derive(Args, Debug)]
#[command(
    after_help = "The policy is a JSON document as bucket policies are, without principals. A user with a policy has only what \
    policies and lists give: buckets of its own are no exception."
)]
pub(crate) struct PolicySet {
    /// Name of the user
    user: String,

    /// File with the policy, - for standard input
    file: PathBuf,
}

/// Remove a user's policy; the user regains full access to its own buckets
#[derive(Args, Debug)]
pub(crate) struct Clear {
    /// Name of the user
    user: String,
}

impl PolicyCommand {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        match self {
            Self::Show(PolicyShow { user }) => show(client, &user),
            Self::Set(PolicySet { user, file }) => {
                let policy = read_file(&file)?;
                if policy.trim().is_empty() {
                    return Err(Failure::misuse(format!("{} is empty", file.display()))
                        .hint("`varve user policy clear` takes the policy away"));
                }
                change(client, &user, policy)?;
                Ok(format!("user {user}: policy set\n"))
            }
            Self::Clear(Clear { user }) => {
                change(client, &user, String::new())?;
                Ok(format!("user {user}: policy removed\n"))
            }
        }
    }
}

fn show(client: &Client, user: &str) -> Result<String> {
    let found = client.get::<v1::User>(&user_path(user))?.value;
    let policy = found.policy.ok_or_else(|| {
        Failure::new(format!("user `{user}` has no policy"))
            .hint(format!("set one with `varve user policy set {user} FILE`"))
    })?;
    Ok(format!("{}\n", policy.trim_end()))
}

fn change(client: &Client, user: &str, policy: String) -> Result<()> {
    let change = ChangeUser { policy: Some(policy), ..ChangeUser::default() };
    client.send::<v1::User>(Method::PATCH, &user_path(user), &change).map(drop)
}
