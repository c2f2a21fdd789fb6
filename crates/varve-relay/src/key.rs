//! The key by which others know a node: made when it starts, shown in TLS as it is, without a certificate.
//!
//! LINK-KEY-1. Who makes a link demands the fingerprint of whom it means, during the handshake. Who takes one learns
//!     the other's fingerprint, and compares it with the table (RELAY-LISTENER-2).

use std::sync::Arc;

use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, PeerIncompatible,
    ServerConfig, SignatureScheme,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use varve_membership::Fingerprint;

use crate::{Error, Result};

/// Names mean nothing to nodes; TLS wants one.
const NAME: &str = "varve";

/// See the module.
pub struct NodeKey {
    certified: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl NodeKey {
    /// A new one.
    ///
    /// # Errors
    /// [`Error::Key`] where there are no random bytes.
    pub fn make() -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| Error::Key { reason: error.to_string() };
        let random = ring::rand::SystemRandom::new();
        let pair = ring::signature::Ed25519KeyPair::generate_pkcs8(&random);
        let pkcs8 =
            PrivatePkcs8KeyDer::from(pair.map_err(|error| failed(&error))?.as_ref().to_vec());
        let key = rustls::crypto::ring::sign::any_eddsa_type(&pkcs8);
        let key = key.map_err(|error| failed(&error))?;
        let public = key.public_key().map(|public| public.to_vec());
        let public = CertificateDer::from(public.ok_or_else(|| failed(&"no public part"))?);
        let fingerprint = fingerprint_of(&public);
        let certified = Arc::new(CertifiedKey::new(vec![public], key));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(Self { certified, fingerprint, provider })
    }

    /// What the table of nodes has of it.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    fn verifier(&self, demands: Option<Fingerprint>) -> Arc<KeyVerifier> {
        let algorithms = self.provider.signature_verification_algorithms;
        Arc::new(KeyVerifier { demands, algorithms })
    }

    /// Makes links to the node with that key (LINK-KEY-1).
    pub(crate) fn connector(
        &self,
        to: Fingerprint,
    ) -> std::result::Result<TlsConnector, rustls::Error> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let own = AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&self.certified));
        let config = builder
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(Some(to)))
            .with_client_cert_resolver(Arc::new(own));
        Ok(TlsConnector::from(Arc::new(config)))
    }

    /// Takes links of whoever has a key.
    pub(crate) fn acceptor(&self) -> std::result::Result<TlsAcceptor, rustls::Error> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let own = AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&self.certified));
        let mut config = builder
            .with_client_cert_verifier(self.verifier(None))
            .with_cert_resolver(Arc::new(own));
        config.send_tls13_tickets = 0; // Every link shows its key.
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// The name that TLS wants.
    pub(crate) fn name() -> ServerName<'static> {
        ServerName::try_from(NAME).expect("it is a name")
    }
}

/// Of a public key, as TLS shows it.
pub(crate) fn fingerprint_of(public_key: &[u8]) -> Fingerprint {
    let digest = ring::digest::digest(&ring::digest::SHA256, public_key);
    Fingerprint(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
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
