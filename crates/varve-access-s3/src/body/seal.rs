//! The sealing key, and what is sealed with it: secrets of access keys and the keys that objects are encrypted with.
//!
//! Sealed bytes are a nonce of 12 random bytes, then AES-256-GCM of the contents; the context in which they were sealed
//! is authenticated with them, so that what was sealed for one purpose does not open for another.

use std::io::Write;
use std::path::Path;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

/// Length of keys, in bytes.
pub(crate) const KEY_LEN: usize = 32;

/// The gateway's key. Whoever has it can sign as any user and read what is encrypted for the gateway.
pub struct MasterKey {
    key: LessSafeKey,
    bytes: [u8; KEY_LEN],
}

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MasterKey").finish_non_exhaustive()
    }
}

impl MasterKey {
    /// The key of these bytes.
    pub fn of(bytes: [u8; KEY_LEN]) -> Self {
        Self { key: aead(&bytes), bytes }
    }

    pub(crate) fn seal(&self, context: &str, secret: &[u8]) -> Vec<u8> {
        seal_with(&self.key, context, secret)
    }

    pub(crate) fn open(&self, context: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        open_with(&self.key, context, sealed)
    }

    /// The key of a name, derived from this one.
    pub(crate) fn named(&self, name: &str) -> [u8; KEY_LEN] {
        self.derived(&format!("named key {name}"))
    }

    /// What tells whether two keys are the same. No name is derived to this.
    pub(crate) fn check(&self) -> [u8; KEY_LEN] {
        self.derived("whether two keys are the same")
    }

    fn derived(&self, text: &str) -> [u8; KEY_LEN] {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.bytes);
        let mac = ring::hmac::sign(&key, text.as_bytes());
        mac.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

/// Written whole and durable under another name first: a half-written key file would lock everybody out.
pub(crate) fn create(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let new = path.with_extension("new");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    rename(&new, path)
}

/// Durable on return.
pub(crate) fn rename(from: &Path, path: &Path) -> std::io::Result<()> {
    std::fs::rename(from, path)?;
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => std::fs::File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

pub(crate) fn aead(key: &[u8; KEY_LEN]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("the key has the cipher's length"))
}

pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system has random bytes");
    bytes
}

pub(crate) fn seal_with(key: &LessSafeKey, context: &str, secret: &[u8]) -> Vec<u8> {
    let nonce = random::<NONCE_LEN>();
    let mut sealed = secret.to_vec();
    key.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(context),
        &mut sealed,
    )
    .expect("secrets are short");
    [nonce.as_slice(), &sealed].concat()
}

pub(crate) fn open_with(key: &LessSafeKey, context: &str, sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let mut bytes = sealed.to_vec();
    let len = key
        .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(context), &mut bytes)
        .ok()?
        .len();
    bytes.truncate(len);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_with_its_key_in_its_context() {
        let sealed = MasterKey::of([7; 32]).seal("a", b"secret");
        assert_eq!(MasterKey::of([7; 32]).open("a", &sealed).unwrap(), b"secret");
        assert!(MasterKey::of([7; 32]).open("b", &sealed).is_none(), "another context");
        assert!(MasterKey::of([1; 32]).open("a", &sealed).is_none(), "another key");
    }
}
