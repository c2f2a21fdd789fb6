//! `varve user delete`: deletes a user of S3 with its keys, unless it owns buckets or is the only administrator.

use clap::Args;
use varve_access_admin::user_path;
use varve_client::{Client, Result};

use crate::cli::Format;

/// Delete an S3 user and its keys; refused while it owns buckets
#[derive(Args, Debug)]
#[command(
    after_help = "Requests that are signed with its keys are refused from then on. The only administrator is not deleted."
)]
pub(crate) struct UserDelete {
    /// Name of the user
    name: String,

    /// Keep the user's buckets without an owner; only administrators, or a new user of that name, can reach them
    #[arg(long)]
    leave_buckets: bool,

    #[command(flatten)]
    format: Format,
}

impl UserDelete {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let query = if self.leave_buckets { "?leave_buckets=true" } else { "" };
        client.delete(&format!("{}{query}", user_path(&self.name)))?;
        Ok(self.format.deleted("user", &[self.name]))
    }
}
