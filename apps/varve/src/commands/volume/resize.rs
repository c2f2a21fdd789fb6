//! `varve volume resize`: changes the size of a volume, also while clients have it open.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{self, ChangeVolume};
use varve_access_admin::volume_path;
use varve_client::{Client, Result};
use varve_types::{ByteCount, parse_size};

use crate::cli::Format;

/// Change the size of a volume, even while clients use it
#[derive(Args, Debug)]
pub(crate) struct Resize {
    /// Name of the volume
    name: String,

    /// New size that clients see, such as 40GiB
    #[arg(long, value_parser = parse_size, allow_hyphen_values = true)]
    size: ByteCount,

    /// Allow a smaller size, which discards the data beyond it
    #[arg(long)]
    shrink: bool,

    #[command(flatten)]
    format: Format,
}

impl Resize {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let change = ChangeVolume {
            size_bytes: Some(self.size.0),
            allow_shrink: self.shrink,
            ..ChangeVolume::default()
        };
        let path = volume_path(&self.name);
        let answer = client.send::<v1::Volume>(Method::PATCH, &path, &change)?;
        Ok(answer.print(self.format.json, |volume| {
            format!("volume {}: resized to {}\n", volume.name, ByteCount(volume.size_bytes))
        }))
    }
}
