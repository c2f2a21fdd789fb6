//! Settings of the NBD listeners.

use std::path::PathBuf;

use varve_access_admin::ListenAddress;
use varve_client::{Failure, Result};

/// How NBD is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NbdSettings {
    /// Listeners; none means the socket in the data directory.
    pub listen: Vec<ListenAddress>,
    /// Connections open at a time.
    pub(crate) connections_max: u32,
    /// Of these from one address of a network; none means three of four.
    pub(crate) connections_per_address: Option<u32>,
    /// Mode of the unix sockets; none means for their user, or for their user and group if that is set.
    pub(crate) socket_mode: Option<u32>,
    /// Their group; none means the daemon's.
    pub(crate) socket_group: Option<String>,
    /// Whether NBD may be open to other machines without authentication.
    pub(crate) allow_unauthenticated: bool,
    /// TLS of the listeners.
    pub(crate) tls: TlsSettings,
}

impl Default for NbdSettings {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            connections_max: 1024,
            connections_per_address: None,
            socket_mode: None,
            socket_group: None,
            allow_unauthenticated: false,
            tls: TlsSettings::default(),
        }
    }
}

/// TLS of the NBD listeners; off without a certificate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsSettings {
    /// Certificate chain, PEM.
    pub(crate) certificate: Option<PathBuf>,
    /// Its private key, PEM.
    pub(crate) key: Option<PathBuf>,
    /// Authority that clients' certificates must come from, PEM.
    pub(crate) client_ca: Option<PathBuf>,
    /// Whether clients without TLS are turned away.
    pub(crate) required: bool,
}

impl TlsSettings {
    /// Whether the daemon knows who every client is.
    pub(crate) fn authenticates(&self) -> bool {
        self.client_ca.is_some() && self.required
    }

    /// Checks what concerns more than one setting.
    pub(crate) fn check(&self) -> Result<()> {
        if self.certificate.is_some() != self.key.is_some() {
            return Err(Failure::misuse("TLS has only one of certificate and key")
                .hint("set both nbd.tls.certificate and nbd.tls.key"));
        }
        if self.certificate.is_none() && (self.required || self.client_ca.is_some()) {
            return Err(Failure::misuse("TLS is asked for without a certificate")
                .hint("set nbd.tls.certificate and nbd.tls.key"));
        }
        Ok(())
    }
}
