//! `varve volume flatten`: lets a clone forget what it was cloned from.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{self, ChangeVolume};
use varve_access_admin::volume_path;
use varve_client::{Client, Result};

use crate::cli::Format;

/// Remove the record of what a clone was made from
#[derive(Args, Debug)]
#[command(
    after_help = "Nothing is copied: a clone never depends on its origin. Only the name of the origin in `varve volume show` goes."
)]
pub(crate) struct Flatten {
    /// Name of the volume
    name: String,

    #[command(flatten)]
    format: Format,
}

impl Flatten {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let change = ChangeVolume { forget_origin: true, ..ChangeVolume::default() };
        let answer = client.send::<v1::Volume>(Method::PATCH, &volume_path(&self.name), &change)?;
        Ok(answer.print(self.format.json, |volume| {
            format!("volume {} has no origin any more\n", volume.name)
        }))
    }
}
