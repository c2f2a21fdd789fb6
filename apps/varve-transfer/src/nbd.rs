//! The client of NBD for transfers: its errors in the words of the command line.

use varve_access_admin::ListenAddress;
use varve_access_admin::v1::Status;
use varve_client::{Client, Failure, Result};
use varve_nbd::{AttachRequest, Error, FoundData, NbdAddress, NbdConnection};

/// Bytes of a read or write at most: what an archive's record holds.
pub(super) const REQUEST_BYTES_MAX: usize = 1 << 20;

/// A connection to one export.
pub(super) struct Nbd {
    connection: NbdConnection,
    address: ListenAddress,
}

impl Nbd {
    /// Attaches to an export of the daemon: where it listens, unless `address` says so.
    pub(super) fn attach(
        client: &Client,
        address: Option<&ListenAddress>,
        export: &str,
    ) -> Result<Self> {
        let address = match address {
            Some(address) => address.clone(),
            None => listener(client)?,
        };
        let to = match &address {
            ListenAddress::Unix(path) => NbdAddress::Unix(path.clone()),
            ListenAddress::Tcp(address) => NbdAddress::Tcp(address.to_string()),
        };
        // Holes are told in chunks, so nothing is sent of them.
        let request = AttachRequest { export, structured_replies: true };
        match NbdConnection::connect(&to, &request) {
            Ok(connection) => Ok(Self { connection, address }),
            Err(Error::NoExport) => Err(Failure::new(format!("the daemon serves no `{export}`"))
                .hint("`varve volume list` and `varve volume snapshot list` show what there is")),
            Err(error) => Err(failure(&address, error)),
        }
    }

    /// Size of the export in bytes.
    pub(super) fn size_bytes(&self) -> u64 {
        self.connection.size_bytes()
    }

    /// Whether another request may be sent before an answer is taken.
    pub(super) fn has_room(&self) -> bool {
        self.connection.has_room()
    }

    /// Asks for bytes.
    pub(super) fn send_read(&mut self, offset: u64, len: usize) -> Result<()> {
        assert!(len <= REQUEST_BYTES_MAX, "reads are bounded");
        let len = u32::try_from(len).expect("at most 1 MiB");
        let sent = self.connection.send_read(offset, len);
        sent.map_err(|error| failure(&self.address, error))
    }

    /// Writes bytes; whether it went well tells an answer.
    pub(super) fn send_write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        let sent = self.connection.send_write(offset, data);
        sent.map_err(|error| failure(&self.address, error))
    }

    /// Makes bytes zeros, of any number; answers tell whether it went well.
    pub(super) fn send_zeroes(&mut self, offset: u64, len: u64) -> Result<()> {
        let sent = self.connection.send_zeroes(offset, len);
        sent.map_err(|error| failure(&self.address, error))
    }

    /// Waits for the oldest request; `None` when none is under way.
    pub(super) fn next(&mut self) -> Result<Option<FoundData>> {
        self.connection.next_answer().map_err(|error| failure(&self.address, error))
    }

    /// Waits for everything that is under way.
    pub(super) fn drain(&mut self) -> Result<()> {
        self.connection.drain().map_err(|error| failure(&self.address, error))
    }

    /// Says goodbye; what is under way is waited for.
    pub(super) fn end(self) -> Result<()> {
        let Self { connection, address } = self;
        connection.end().map_err(|error| failure(&address, error))
    }
}

fn failure(address: &ListenAddress, error: Error) -> Failure {
    match error {
        Error::Connect(error) => Failure::new(format!("NBD at {address}: {error}"))
            .hint("name another address of the daemon's NBD with --nbd"),
        Error::Stream(error) => {
            Failure::new(format!("NBD connection to {address} broke off: {error}"))
                .hint("see whether the daemon runs; the same command goes on where it ended")
        }
        Error::TlsRequired => Failure::new(format!("NBD at {address} wants TLS"))
            .hint("transfers use no TLS: name a unix socket of the daemon with --nbd"),
        Error::Request { offset, source } => {
            Failure::new(format!("the daemon refused a request at byte {offset}: {source}"))
                .hint("the daemon's log and `varve status` say why")
        }
        Error::NameTooLong | Error::NoExport | Error::OptionRefused { .. } | Error::Protocol(_) => {
            Failure::new(format!("what answers at {address} speaks NBD otherwise: {error}"))
                .hint("compare the versions of command and daemon")
        }
    }
}

/// Where the daemon listens for NBD: a unix socket, if there is one.
pub(super) fn listener(client: &Client) -> Result<ListenAddress> {
    let status = client.get::<Status>("/v1/status")?.value;
    let nbd = status.listeners.iter().filter(|listener| listener.protocol == "nbd");
    let mut addresses: Vec<ListenAddress> =
        nbd.filter_map(|listener| listener.address.parse().ok()).collect();
    addresses.sort_by_key(|address| matches!(address, ListenAddress::Tcp(_)));
    addresses.into_iter().next().ok_or_else(|| {
        Failure::new("the daemon does not listen for NBD")
            .hint("transfers go over NBD: start the daemon with an address for it")
    })
}
