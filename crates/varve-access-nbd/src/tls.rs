//! TLS beneath the protocol: certificates from PEM files, and one session over the connection's buffers.
//!
//! TLS-1. Cipher text is taken in only while there is no plain text to move out, because the session holds but little.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use varve_stdx::AlignedBuf;

use crate::error::{Error, Result};

/// Bytes of cipher text received at a time: four of the largest records.
pub(crate) const CIPHER_BYTES: usize = 64 << 10;

/// Files that TLS needs, all PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate, followed by those that lead to its authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// Authorities one of which must have signed a client's certificate; `None` asks clients for none.
    pub client_authorities: Option<PathBuf>,
}

/// What sessions are made from. Cheap to clone, and shared by all threads.
#[derive(Clone, Debug)]
pub struct TlsConfig(Arc<ServerConfig>);

impl TlsConfig {
    /// Reads the files.
    ///
    /// # Errors
    /// A file that cannot be read or holds nothing usable, or a key that does not fit the certificate.
    pub fn load(files: &TlsFiles) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(Error::TlsSetup)?;
        let builder = match &files.client_authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(path)? {
                    roots.add(authority).map_err(Error::TlsSetup)?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                    .build()
                    .map_err(Error::TlsVerifier)?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder
            .with_single_cert(certificates(&files.certificate)?, private_key(&files.key)?)
            .map_err(Error::TlsSetup)?;
        Ok(Self(Arc::new(config)))
    }
}

fn open(path: &Path) -> Result<BufReader<File>> {
    File::open(path)
        .map(BufReader::new)
        .map_err(|source| Error::TlsFile { path: path.to_owned(), source })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found: io::Result<Vec<_>> = rustls_pemfile::certs(&mut open(path)?).collect();
    let found = found.map_err(|source| Error::TlsFile { path: path.to_owned(), source })?;
    if found.is_empty() {
        return Err(Error::TlsFileEmpty { path: path.to_owned(), wanted: "certificate" });
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    rustls_pemfile::private_key(&mut open(path)?)
        .map_err(|source| Error::TlsFile { path: path.to_owned(), source })?
        .ok_or_else(|| Error::TlsFileEmpty { path: path.to_owned(), wanted: "private key" })
}

/// One TLS session; bytes in, bytes out, no I/O.
#[derive(Debug)]
pub struct TlsSession {
    connection: ServerConnection,
    /// Where cipher text is received; away during a receive.
    cipher: Option<AlignedBuf>,
    /// The part of `cipher` that waits to be taken in.
    waiting: Range<usize>,
}

impl TlsSession {
    pub(crate) fn new(config: &TlsConfig) -> Result<Self> {
        let connection = ServerConnection::new(Arc::clone(&config.0)).map_err(Error::TlsSetup)?;
        Ok(Self { connection, cipher: Some(AlignedBuf::zeroed(CIPHER_BYTES)), waiting: 0..0 })
    }

    /// Cipher text that was received elsewhere, once all before it was taken in; false when it is more than fits.
    #[must_use]
    pub(crate) fn put(&mut self, bytes: &[u8]) -> bool {
        assert!(self.waiting.is_empty(), "cipher text is still waiting");
        let buf = self.cipher.as_mut().expect("no receive is under way");
        let Some(target) = buf.get_mut(..bytes.len()) else { return false };
        target.copy_from_slice(bytes);
        self.waiting = 0..bytes.len();
        true
    }

    /// Whether nothing of what was received is left, but for a part of a record.
    pub(crate) fn is_drained(&mut self) -> bool {
        let state = self.connection.process_new_packets();
        self.waiting.is_empty() && state.is_ok_and(|state| state.plaintext_bytes_to_read() == 0)
    }

    /// The buffer for a receive, when everything received was taken in.
    pub(crate) fn lend(&mut self) -> AlignedBuf {
        assert!(self.waiting.is_empty(), "cipher text is still waiting");
        self.cipher.take().expect("one receive at a time")
    }

    pub(crate) fn give_back(&mut self, buf: AlignedBuf, received: usize) {
        self.cipher = Some(buf);
        self.waiting = 0..received;
    }

    /// Takes some of the waiting cipher text in; false when there is none.
    fn take_in(&mut self) -> io::Result<bool> {
        let buf = self.cipher.as_deref().expect("no receive is under way");
        let mut bytes = buf.get(self.waiting.clone()).expect("within the buffer");
        if bytes.is_empty() {
            return Ok(false);
        }
        let taken = self.connection.read_tls(&mut bytes)?;
        // Nothing is taken after the peer's end of session; what follows it has no meaning.
        self.waiting.start = if taken == 0 { self.waiting.end } else { self.waiting.start + taken };
        self.connection
            .process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(true)
    }

    /// Moves plain text out: `WouldBlock` when more cipher text is needed, 0 after the peer's end of session.
    pub(crate) fn read_plain(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.take_in()? => {} // TLS-1
                decided => return decided,
            }
        }
    }

    /// Plain text of what `receive` yields, which is handed room for cipher text and returns `None` when nothing is
    /// there now. 0 after the peer's end of session.
    ///
    /// # Errors
    /// Those of `receive`; `UnexpectedEof` for a stream that ends within the session; `InvalidData` for what is no TLS.
    pub fn read_with(
        &mut self,
        into: &mut [u8],
        mut receive: impl FnMut(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<Option<usize>> {
        loop {
            match self.read_plain(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                decided => return decided.map(Some),
            }
            let cipher = self.cipher.as_mut().expect("no receive is under way");
            let Some(count) = receive(cipher)? else { return Ok(None) };
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.waiting = 0..count;
        }
    }

    /// Enciphers `bytes` behind what the session itself has to say.
    ///
    /// # Errors
    /// When the session has ended.
    pub fn seal(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            // The session takes as much as it has room for, and has room again once that is drained.
            let taken = self.connection.writer().write(rest)?;
            rest = rest.get(taken..).unwrap_or_default();
            self.drain(out)?;
        }
        self.drain(out)
    }

    /// What the session itself has to say: handshake messages, key updates, alerts.
    fn drain(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(out)?;
        }
        Ok(())
    }

    /// Ends the session; what is to be sent before the stream is closed.
    pub(crate) fn close(mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.say_end(&mut out);
        out
    }

    /// Says that nothing more comes.
    pub fn say_end(&mut self, out: &mut Vec<u8>) {
        self.connection.send_close_notify();
        // Memory takes all there is.
        let _ = self.drain(out);
    }
}
