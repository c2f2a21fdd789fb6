//! Where clients of a cell go that this node serves, its own and those that other nodes carry.

use std::net::SocketAddr;

use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use varve_access_nbd::ConnectionBalancer;
use varve_relay::wire::HelloReply;
use varve_relay::{LocalFrontEnds, offer};

/// A client of the S3 gateway, and its address if it came from a network.
pub(crate) type S3Client = (varve_access_s3::AcceptedClient, Option<SocketAddr>);
/// The same for the admin API.
pub(crate) type AdminClient = (Box<dyn varve_access_admin::AcceptedStream>, Option<SocketAddr>);

/// Where links of other nodes arrive.
pub(crate) type RelayListener = varve_relay::RelayListener<CellFrontEnds>;

/// See the module.
pub(crate) struct CellFrontEnds {
    /// The threads that serve NBD.
    pub(crate) nbd: ConnectionBalancer,
    /// The S3 gateway, where it is served.
    pub(crate) s3: Option<mpsc::Sender<S3Client>>,
    /// The admin API.
    pub(crate) admin: mpsc::Sender<AdminClient>,
}

impl LocalFrontEnds for CellFrontEnds {
    fn nbd(&self) -> &ConnectionBalancer {
        &self.nbd
    }

    fn offer_s3(&self, stream: DuplexStream, client: Option<SocketAddr>) -> Result<(), HelloReply> {
        let s3 = self.s3.as_ref().ok_or(HelloReply::NoFrontEnd)?;
        offer(s3, (varve_access_s3::AcceptedClient::Stream(stream), client))
    }

    fn offer_admin(
        &self,
        stream: DuplexStream,
        client: Option<SocketAddr>,
    ) -> Result<(), HelloReply> {
        let client: AdminClient = (Box::new(stream), client);
        offer(&self.admin, client)
    }
}
