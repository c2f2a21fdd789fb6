//! `varve volume show`: one volume, and what it holds.

use clap::Args;
use serde_json::Value;
use varve_access_admin::{v1, volume_path};
use varve_client::{Client, Result, table};
use varve_types::ByteCount;

use crate::cli::Format;

/// Show a volume
#[derive(Args, Debug)]
pub(crate) struct VolumeShow {
    /// Name of the volume
    name: String,

    #[command(flatten)]
    format: Format,
}

impl VolumeShow {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let path = volume_path(&self.name);
        let mut answer = client.get::<v1::Volume>(&path)?;
        // A count that takes long, or that damage ends, keeps nobody from seeing the rest.
        let counted = client.get::<v1::VolumeFamily>(&format!("{path}/space"));
        if let (Value::Object(volume), Ok(family)) = (&mut answer.json, &counted) {
            volume.insert("space".to_owned(), family.json["volume"].clone());
        }
        let holdings = match &counted {
            Ok(family) => holdings(&family.value.volume),
            Err(failure) => vec![("holds", format!("not counted: {}", failure.what()))],
        };
        Ok(answer.print(self.format.json, |volume| {
            table::labelled(&[super::properties(&volume), holdings].concat())
        }))
    }
}

fn holdings(space: &v1::VolumeSpace) -> Vec<(&'static str, String)> {
    let mut pairs = vec![
        ("logical", ByteCount(space.logical_bytes).to_string()),
        ("referenced", ByteCount(space.referenced_bytes).to_string()),
        ("unique", ByteCount(space.unique_bytes).to_string()),
        ("freed when deleted", ByteCount(space.freed_bytes).to_string()),
        ("snapshots", space.snapshots.to_string()),
    ];
    if space.snapshots > 0 {
        let (they, all) = (space.snapshots_freed_bytes, space.whole_freed_bytes);
        pairs.push(("freed without them", ByteCount(they).to_string()));
        pairs.push(("freed with them", ByteCount(all).to_string()));
    }
    pairs
}
