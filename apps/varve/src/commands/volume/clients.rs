//! `varve volume clients`: who has volumes open.

use clap::Args;
use serde_json::json;
use varve_access_admin::v1::{VolumeClient, VolumeClients, VolumePage};
use varve_access_admin::{percent_encoded, volume_path};
use varve_client::table::{self, Align};
use varve_client::{Client, Result, age};

use crate::cli::Format;

/// List the NBD connections to a volume, or to all
#[derive(Args, Debug)]
pub(crate) struct Clients {
    /// Name of the volume; all without
    name: Option<String>,

    #[command(flatten)]
    format: Format,
}

impl Clients {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let names = match self.name {
            Some(name) => vec![name],
            None => open_volumes(client)?,
        };
        let mut clients = Vec::new();
        for name in names {
            let path = format!("{}/clients", volume_path(&name));
            clients.extend(client.get::<VolumeClients>(&path)?.value.clients);
        }
        if self.format.json {
            return Ok(format!("{:#}\n", json!({ "clients": clients })));
        }
        if clients.is_empty() {
            return Ok("no NBD clients\n".to_owned());
        }
        let header = [
            ("CLIENT", Align::Right),
            ("EXPORT", Align::Left),
            ("ADDRESS", Align::Left),
            ("ACCESS", Align::Left),
            ("IN FLIGHT", Align::Right),
            ("CONNECTED", Align::Right),
        ];
        let rows: Vec<Vec<String>> = clients.iter().map(row).collect();
        Ok(table::columns(&header, &rows))
    }
}

/// Volumes that somebody has open, or may have: of snapshots only their own clients are counted.
fn open_volumes(client: &Client) -> Result<Vec<String>> {
    let (mut names, mut path) = (Vec::new(), "/v1/volumes".to_owned());
    loop {
        let page = client.get::<VolumePage>(&path)?.value;
        names.extend(page.volumes.into_iter().map(|volume| volume.name));
        match page.next {
            Some(after) => path = format!("/v1/volumes?after={}", percent_encoded(&after)),
            None => return Ok(names),
        }
    }
}

fn row(client: &VolumeClient) -> Vec<String> {
    let access = if client.read_only { "read only" } else { "read, write" };
    vec![
        client.id.to_string(),
        client.export.clone(),
        client.address.clone(),
        access.to_owned(),
        client.requests.to_string(),
        age::since(client.connected_unix_ms),
    ]
}
