//! `varve user key delete`: deletes an access key.

use clap::Args;

use crate::client::{Client, percent_encoded};
use crate::failure::Result;

/// Delete an access key: requests signed with it are refused from then on
#[derive(Args, Debug)]
pub(crate) struct Delete {
    /// Access key ID
    access_key: String,
}

impl Delete {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        client.delete(&format!("/v1/keys/{}", percent_encoded(&self.access_key)))?;
        Ok(format!("deleted access key {}\n", self.access_key))
    }
}
