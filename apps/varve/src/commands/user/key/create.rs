//! `varve user key create`: makes a further access key, and prints its secret once.

use clap::Args;
use hyper::Method;
use varve_access_admin::user_path;
use varve_access_admin::v1::{CreateKey, NewKey};
use varve_client::{Client, Result};

use crate::cli::Format;
use crate::commands::user::{GivenKey, render_key};

/// Create another access key for a user, and print its secret once
#[derive(Args, Debug)]
pub(crate) struct KeyCreate {
    /// Name of the user
    user: String,

    #[command(flatten)]
    key: GivenKey,

    #[command(flatten)]
    format: Format,
}

impl KeyCreate {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let (access_key, secret_key) = self.key.read()?;
        let spec = CreateKey { access_key, secret_key };
        let path = format!("{}/keys", user_path(&self.user));
        let answer = client.send::<NewKey>(Method::POST, &path, &spec)?;
        Ok(answer.print(self.format.json, |key| {
            format!("created a key of user {}\n{}", key.user, render_key(&key))
        }))
    }
}
