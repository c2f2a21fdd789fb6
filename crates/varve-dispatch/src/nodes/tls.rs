//! A pipe over TLS on a socket of the thread's loop. Each end shows a public key, and the other one demands the key of whom it means.
//!
//! ```text
//!  frames ──send()──▶ session ──cipher text──▶ socket        socket ──▶ session ──plain text──▶ frames ──receive()──▶
//! ```
//!
//! L1. Keys are made when a node starts, and stand in the table of nodes by their fingerprints: there are no authorities and no names.
//! L2. Who makes a link demands the fingerprint of whom it means during the handshake; who takes one learns the other's fingerprint, and compares it with the
//!     table (I1).
//! L3. What was received and is no message yet is at most one frame and what one look at the socket brings.

use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::{Either, LocalBoxFuture, select};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    DistinguishedName, PeerIncompatible, ServerConfig, ServerConnection, SignatureScheme,
};
use varve_membership::Fingerprint;
use varve_reactor::net::{SendPart, Socket};
use varve_reactor::{Notify, Reactor};
use varve_stdx::AlignedBuf;

use super::pipe::{Pipe, PipeBroken};
use super::wire::{self, Message};

/// Bytes received at a time: four of the largest records.
const CIPHER_BYTES: usize = 64 << 10;

/// How long a handshake takes at most, in ns.
const HANDSHAKE_NS_MAX: u64 = 5_000_000_000;

/// What stands before the 32 bytes of a key of Ed25519 in PKCS #8.
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// Names mean nothing to nodes; TLS wants one.
const NAME: &str = "varve";

type Result<T> = std::result::Result<T, PipeBroken>;

fn broken(error: impl std::fmt::Display) -> PipeBroken {
    PipeBroken(error.to_string())
}

/// The key by which others know a node.
pub struct NodeKey {
    certified: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl NodeKey {
    /// A key, from 32 random bytes that are used for nothing else.
    ///
    /// # Errors
    /// When no key can be made of them.
    pub fn from_random(secret: [u8; 32]) -> Result<Self> {
        let pkcs8 = [&PKCS8_PREFIX[..], &secret].concat();
        let key = rustls::crypto::ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8));
        let key = key.map_err(broken)?;
        let public = key.public_key().map(|public| public.to_vec());
        let public = public.ok_or_else(|| broken("a key without a public one"))?;
        let fingerprint = fingerprint_of(&public);
        let certified = Arc::new(CertifiedKey::new(vec![CertificateDer::from(public)], key));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(Self { certified, fingerprint, provider })
    }

    /// What the table of nodes has of it.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn verifier(&self, demands: Option<Fingerprint>) -> Arc<KeyVerifier> {
        let algorithms = self.provider.signature_verification_algorithms;
        Arc::new(KeyVerifier { demands, algorithms })
    }

    fn client(&self, of: Fingerprint) -> Result<Connection> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(broken)?;
        let own = AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&self.certified));
        let config = builder
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(Some(of))) // L2
            .with_client_cert_resolver(Arc::new(own));
        let name = ServerName::try_from(NAME).map_err(broken)?;
        ClientConnection::new(Arc::new(config), name).map(Connection::from).map_err(broken)
    }

    fn server(&self) -> Result<Connection> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(broken)?;
        let own = AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&self.certified));
        let mut config = builder
            .with_client_cert_verifier(self.verifier(None))
            .with_cert_resolver(Arc::new(own));
        config.send_tls13_tickets = 0; // Every link shows its key.
        ServerConnection::new(Arc::new(config)).map(Connection::from).map_err(broken)
    }

    /// The end of a link that this node makes, by a connected socket, to whom it means.
    ///
    /// # Errors
    /// When somebody else is there.
    pub async fn connect(
        &self,
        reactor: &Reactor,
        socket: Socket,
        to: Fingerprint,
    ) -> Result<Rc<dyn Pipe>> {
        TlsPipe::shake_hands(reactor, socket, self.client(to)?).await
    }

    /// The end of a link that another node makes.
    ///
    /// # Errors
    /// When it has no key.
    pub async fn accept(&self, reactor: &Reactor, socket: Socket) -> Result<Rc<dyn Pipe>> {
        TlsPipe::shake_hands(reactor, socket, self.server()?).await
    }
}

fn fingerprint_of(public_key: &[u8]) -> Fingerprint {
    let digest = ring::digest::digest(&ring::digest::SHA256, public_key);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    Fingerprint(bytes)
}

/// Demands a key, or lets any pass that the other end has the secret of.
#[derive(Debug)]
struct KeyVerifier {
    demands: Option<Fingerprint>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl KeyVerifier {
    fn check(&self, key: &CertificateDer<'_>) -> std::result::Result<(), rustls::Error> {
        let is_it = self.demands.is_none_or(|demanded| demanded == fingerprint_of(key));
        let refused = CertificateError::ApplicationVerificationFailure;
        if is_it { Ok(()) } else { Err(refused.into()) }
    }

    fn check_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }
}

/// Version 1.2 is not spoken.
fn too_old() -> rustls::Error {
    PeerIncompatible::Tls12NotOffered.into()
}

impl ServerCertVerifier for KeyVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for KeyVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// See the module.
struct TlsPipe {
    socket: Socket,
    session: RefCell<Connection>,
    peer: Fingerprint,
    /// Plain text that is no message yet.
    received: RefCell<Vec<u8>>,
    is_sending: Cell<bool>,
    sent: Notify,
    is_closed: Cell<bool>,
}

impl TlsPipe {
    async fn shake_hands(
        reactor: &Reactor,
        socket: Socket,
        session: Connection,
    ) -> Result<Rc<dyn Pipe>> {
        let mut session = session;
        session.set_buffer_limit(None); // A message is written whole; how many there are is bounded above.
        let mut pipe = Self {
            socket,
            session: RefCell::new(session),
            peer: Fingerprint([0; 32]),
            received: RefCell::default(),
            is_sending: Cell::new(false),
            sent: Notify::new(),
            is_closed: Cell::new(false),
        };
        let patience = reactor.sleep(HANDSHAKE_NS_MAX);
        match select(Box::pin(pipe.finish_handshake()), patience).await {
            Either::Left((finished, _)) => finished?,
            Either::Right(_) => return Err(broken("the handshake takes too long")),
        }
        let peer = {
            let session = pipe.session.borrow();
            let keys = session.peer_certificates().unwrap_or_default();
            fingerprint_of(keys.first().ok_or_else(|| broken("the other end has no key"))?)
        };
        pipe.peer = peer;
        Ok(Rc::new(pipe))
    }

    async fn finish_handshake(&self) -> Result<()> {
        loop {
            self.flush().await?;
            if !self.session.borrow().is_handshaking() {
                return Ok(());
            }
            let taken = self.take_in().await;
            if taken.is_err() {
                drop(self.flush().await); // The other end is told why.
            }
            taken?;
        }
    }

    /// Sends what the session has; returns once nothing of it is left.
    async fn flush(&self) -> Result<()> {
        loop {
            let sent = self.sent.notified();
            if self.is_closed.get() {
                return Err(broken("it was closed"));
            }
            if self.is_sending.get() {
                sent.await;
                continue;
            }
            let mut cipher = Vec::new();
            while self.session.borrow().wants_write() {
                self.session.borrow_mut().write_tls(&mut cipher).map_err(broken)?;
            }
            if cipher.is_empty() {
                return Ok(());
            }
            self.is_sending.set(true);
            let outcome = self.socket.send_all(vec![SendPart::Small(cipher)]).await;
            self.is_sending.set(false);
            self.sent.notify_all();
            if outcome.is_err() {
                self.close();
            }
            outcome.map_err(broken)?;
        }
    }

    /// Waits for bytes of the socket, and takes them in (L3).
    async fn take_in(&self) -> Result<()> {
        let buf = AlignedBuf::zeroed(CIPHER_BYTES);
        let (count, buf) = self.socket.recv(buf, 0..CIPHER_BYTES).await;
        let mut cipher = &buf[..count.map_err(broken)?];
        if cipher.is_empty() {
            return Err(broken("the other end has ended it"));
        }
        let (mut session, mut received) = (self.session.borrow_mut(), self.received.borrow_mut());
        while !cipher.is_empty() {
            session.read_tls(&mut cipher).map_err(broken)?;
            let state = session.process_new_packets().map_err(broken)?;
            let len = received.len();
            received.resize(len + state.plaintext_bytes_to_read(), 0);
            session.reader().read_exact(&mut received[len..]).map_err(broken)?;
        }
        Ok(())
    }

    fn next(&self) -> Result<Option<Message>> {
        let mut received = self.received.borrow_mut();
        let Some((message, len)) = wire::decode(&received).map_err(broken)? else {
            return Ok(None);
        };
        received.drain(..len);
        Ok(Some(message))
    }
}

impl Pipe for TlsPipe {
    fn peer(&self) -> Fingerprint {
        self.peer
    }

    fn send(&self, message: Message) -> LocalBoxFuture<'_, Result<()>> {
        // Encrypted at once: messages go in the order of the calls.
        let written = self.session.borrow_mut().writer().write_all(&wire::encode(&message));
        Box::pin(async move {
            written.map_err(broken)?;
            self.flush().await
        })
    }

    fn receive(&self) -> LocalBoxFuture<'_, Result<Message>> {
        Box::pin(async {
            loop {
                if let Some(message) = self.next()? {
                    return Ok(message);
                }
                self.take_in().await?;
            }
        })
    }

    fn close(&self) {
        self.is_closed.set(true);
        self.sent.notify_all();
        self.socket.shutdown();
    }
}

impl Drop for TlsPipe {
    fn drop(&mut self) {
        self.socket.shutdown();
    }
}

#[cfg(test)]
mod tests;
