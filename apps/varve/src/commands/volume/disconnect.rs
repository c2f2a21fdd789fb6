//! `varve volume disconnect`: ends connections to a volume.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{DisconnectClients, DisconnectedClients};
use varve_access_admin::volume_path;
use varve_client::{Client, Result};

/// End the NBD connections to a volume and its snapshots; clients may connect again
#[derive(Args, Debug)]
pub(crate) struct Disconnect {
    /// Name of the volume
    name: String,

    /// Only the connection of this number, as `varve volume clients` shows it
    #[arg(long, value_name = "ID")]
    client: Option<u64>,
}

impl Disconnect {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let path = format!("{}/disconnect", volume_path(&self.name));
        let which = DisconnectClients { client: self.client };
        let done = client.send::<DisconnectedClients>(Method::POST, &path, &which)?.value;
        let plural = if done.clients == 1 { "" } else { "s" };
        Ok(format!("disconnected {} client{plural} of volume {}\n", done.clients, self.name))
    }
}
