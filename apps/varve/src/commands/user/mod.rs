//! `varve user`: make, list, show, limit and delete S3 users, their access keys and policies.

mod create;
mod delete;
mod key;
mod list;
mod policy;
mod quota;
mod show;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use varve_access_admin::v1;
use varve_client::{Client, Result, read_file, table};

/// Create, list, show and delete S3 users, their keys, policies and quotas
#[derive(Subcommand, Debug)]
pub(crate) enum UserCommand {
    Create(create::UserCreate),
    #[command(visible_alias = "ls")]
    List(list::UserList),
    Show(show::UserShow),
    Quota(quota::Quota),
    #[command(visible_alias = "rm")]
    Delete(delete::UserDelete),
    #[command(subcommand)]
    Key(key::Key),
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
}

impl UserCommand {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        match self {
            Self::Create(command) => command.run(client),
            Self::List(command) => command.run(client),
            Self::Show(command) => command.run(client),
            Self::Quota(command) => command.run(client),
            Self::Delete(command) => command.run(client),
            Self::Key(command) => command.run(client),
            Self::Policy(command) => command.run(client),
        }
    }
}

/// A key that was generated elsewhere. Its secret comes from a file: others can read a command line.
#[derive(Args, Debug)]
pub(crate) struct GivenKey {
    /// Access key ID to use instead of a generated one
    #[arg(long, value_name = "KEY", requires = "secret_file")]
    access_key: Option<String>,

    /// File with its secret, - for standard input
    #[arg(long, value_name = "FILE", requires = "access_key")]
    secret_file: Option<PathBuf>,
}

impl GivenKey {
    /// The key and its secret.
    fn read(self) -> Result<(Option<String>, Option<String>)> {
        let secret = self.secret_file.as_deref().map(read_file).transpose()?;
        Ok((self.access_key, secret.map(|secret| secret.trim_end().to_owned())))
    }
}

/// A new key for people.
fn render_key(key: &v1::NewKey) -> String {
    let pairs = [("access key", key.access_key.clone()), ("secret key", key.secret_key.clone())];
    format!("{}the secret is shown only now\n", table::labelled(&pairs))
}
