//! `varve user key delete`: deletes an access key.

use clap::Args;
use varve_access_admin::percent_encoded;
use varve_client::{Client, Result};

use crate::cli::Format;

/// Delete an access key: requests signed with it are refused from then on
#[derive(Args, Debug)]
pub(crate) struct KeyDelete {
    /// Access key ID
    access_key: String,

    #[command(flatten)]
    format: Format,
}

impl KeyDelete {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        client.delete(&format!("/v1/keys/{}", percent_encoded(&self.access_key)))?;
        Ok(self.format.deleted("access key", &[self.access_key]))
    }
}
