//! The front-ends of a cell that this node serves, as links reach them: the program that serves them implements it.

use std::net::SocketAddr;

use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use varve_access_nbd::ConnectionBalancer;

use crate::wire::HelloReply;

/// See the module. Nothing here blocks.
pub trait LocalFrontEnds: Send + 'static {
    /// The threads that serve NBD.
    fn nbd(&self) -> &ConnectionBalancer;

    /// Hands a connection to the S3 gateway, with the client's address if it came from a network; what its node is
    /// answered otherwise.
    fn offer_s3(&self, stream: DuplexStream, client: Option<SocketAddr>) -> Result<(), HelloReply>;

    /// The same for the admin API.
    fn offer_admin(
        &self,
        stream: DuplexStream,
        client: Option<SocketAddr>,
    ) -> Result<(), HelloReply>;
}

/// Hands a client to a front-end, unless as many wait there as can.
pub fn offer<C>(front: &mpsc::Sender<C>, client: C) -> Result<(), HelloReply> {
    front.try_send(client).map_err(|refused| match refused {
        mpsc::error::TrySendError::Full(_) => HelloReply::TooMany,
        mpsc::error::TrySendError::Closed(_) => HelloReply::NotServing,
    })
}
