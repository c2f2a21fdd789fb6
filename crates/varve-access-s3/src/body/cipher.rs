//! Encryption of bodies: each has a key of its own. Parts of an upload share the key, and each begins with a salt of
//! its own.
//!
//! ```text
//! part = salt (8 random bytes), chunks
//! chunk = AES-256-GCM of at most 64 KiB, with its tag of 16 bytes; nonce = salt, index of the chunk in 4 bytes
//! body = its parts; a body of no bytes is stored as such
//! ```

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};
use varve_object::{Body, BodyReader, Error, Result};

use crate::body::seal::{KEY_LEN, aead, random};

const CHUNK_LEN: usize = 64 << 10;
const CHUNK: u64 = CHUNK_LEN as u64;
const TAG: u64 = 16;
const SALT_LEN: usize = 8;
const SALT: u64 = SALT_LEN as u64;

/// The key of a body.
#[derive(Clone)]
pub(crate) struct BodyKey {
    pub(crate) bytes: [u8; KEY_LEN],
}

impl std::fmt::Debug for BodyKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BodyKey")
    }
}

/// Encrypts a part.
pub(crate) struct Sealer {
    key: LessSafeKey,
    salt: [u8; SALT_LEN],
    index: u32,
    buffer: BytesMut,
    begun: bool,
}

impl Sealer {
    pub(crate) fn new(key: &BodyKey) -> Self {
        Self {
            key: aead(&key.bytes),
            salt: random(),
            index: 0,
            buffer: BytesMut::new(),
            begun: false,
        }
    }

    /// Takes bytes and gives what is complete.
    pub(crate) fn push(&mut self, data: &[u8]) -> Bytes {
        self.buffer.extend_from_slice(data);
        let mut out = BytesMut::new();
        while self.buffer.len() as u64 >= CHUNK {
            let chunk = self.buffer.split_to(CHUNK_LEN);
            self.seal(&chunk, &mut out);
        }
        out.freeze()
    }

    /// The rest.
    pub(crate) fn finish(mut self) -> Bytes {
        let mut out = BytesMut::new();
        if !self.buffer.is_empty() {
            let chunk = std::mem::take(&mut self.buffer);
            self.seal(&chunk, &mut out);
        }
        out.freeze()
    }

    fn seal(&mut self, chunk: &[u8], out: &mut BytesMut) {
        if !self.begun {
            self.begun = true;
            out.extend_from_slice(&self.salt);
        }
        let start = out.len();
        out.extend_from_slice(chunk);
        let nonce = nonce(&self.salt, self.index);
        let mut sealed = out.split_off(start);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::empty(), &mut sealed)
            .expect("chunks are short");
        out.unsplit(sealed);
        out.extend_from_slice(tag.as_ref());
        self.index = self.index.checked_add(1).expect("a part has less than 256 TiB");
    }
}

fn nonce(salt: &[u8; SALT_LEN], index: u32) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..SALT_LEN].copy_from_slice(salt);
    bytes[SALT_LEN..].copy_from_slice(&index.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Length of a part as it is stored.
pub(crate) const fn sealed_len(plain: u64) -> u64 {
    if plain == 0 { 0 } else { SALT + plain + plain.div_ceil(CHUNK) * TAG }
}

/// Decrypts `range` of a body that consists of parts of these lengths.
pub(crate) fn read(
    body: &Arc<dyn Body>,
    key: &BodyKey,
    parts: &[u64],
    range: Range<u64>,
) -> BodyReader {
    let (mut plain, mut sealed) = (0, 0);
    let mut pieces = Vec::new();
    for len in parts {
        let from = range.start.max(plain);
        let to = range.end.min(plain + len);
        if from < to {
            pieces.push(CipherPiece { sealed, len: *len, range: from - plain..to - plain });
        }
        plain += len;
        sealed += sealed_len(*len);
    }
    let (body, key) = (Arc::clone(body), key.clone());
    stream::iter(pieces).flat_map(move |piece| piece.read(Arc::clone(&body), key.clone())).boxed()
}

/// What is read of a part.
struct CipherPiece {
    /// Where the part begins in the stored body.
    sealed: u64,
    /// Its length.
    len: u64,
    /// What is wanted of it.
    range: Range<u64>,
}

struct Opener {
    key: LessSafeKey,
    salt: [u8; SALT_LEN],
    stored: BodyReader,
    buffer: BytesMut,
    index: u64,
    len: u64,
    range: Range<u64>,
}

impl CipherPiece {
    fn read(self, body: Arc<dyn Body>, key: BodyKey) -> BodyReader {
        let begun = async move {
            if self.sealed + sealed_len(self.len) > body.len() {
                return Err(damaged());
            }
            let salt = collect(body.read(self.sealed..self.sealed + SALT)).await?;
            let salt = salt.as_ref().try_into().map_err(|_| damaged())?;
            let first = self.range.start / CHUNK;
            let end = (self.range.end.div_ceil(CHUNK) * CHUNK).min(self.len);
            let base = self.sealed + SALT;
            let stored =
                body.read(base + first * (CHUNK + TAG)..base + end + end.div_ceil(CHUNK) * TAG);
            let opener = Opener {
                key: aead(&key.bytes),
                salt,
                stored,
                buffer: BytesMut::new(),
                index: first,
                len: self.len,
                range: self.range,
            };
            Ok(stream::try_unfold(opener, Opener::next))
        };
        stream::once(begun).try_flatten().boxed()
    }
}

impl Opener {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>> {
        let start = self.index * CHUNK;
        if start >= self.range.end {
            return Ok(None);
        }
        let plain = CHUNK.min(self.len - start);
        let sealed = usize::try_from(plain + TAG).map_err(|_| damaged())?;
        while self.buffer.len() < sealed {
            let data = self.stored.next().await.ok_or_else(damaged)??;
            self.buffer.extend_from_slice(&data);
        }
        let mut chunk = self.buffer.split_to(sealed);
        let index = u32::try_from(self.index).map_err(|_| damaged())?;
        self.key
            .open_in_place(nonce(&self.salt, index), Aad::empty(), &mut chunk)
            .map_err(|_| damaged())?;
        let within = |at: u64| usize::try_from(at - start).unwrap_or(0);
        let from = within(self.range.start.max(start));
        let to = within(self.range.end.min(start + plain));
        self.index += 1;
        Ok(Some((chunk.freeze().slice(from..to), self)))
    }
}

pub(crate) async fn collect(mut reader: BodyReader) -> Result<Bytes> {
    let mut all = BytesMut::new();
    while let Some(data) = reader.next().await {
        all.extend_from_slice(&data?);
    }
    Ok(all.freeze())
}

fn damaged() -> Error {
    Error::Corrupt { what: "an encrypted body".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(len: u64) -> usize {
        usize::try_from(len).unwrap()
    }

    #[derive(Debug)]
    struct Stored(Bytes);

    impl Body for Stored {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }

        fn read(&self, range: Range<u64>) -> BodyReader {
            let data = self.0.slice(size(range.start)..size(range.end));
            stream::iter(
                data.chunks(1000).map(|data| Ok(Bytes::copy_from_slice(data))).collect::<Vec<_>>(),
            )
            .boxed()
        }

        fn as_any(&self) -> &(dyn std::any::Any + Send + Sync) {
            self
        }
    }

    #[tokio::test]
    async fn every_range_of_every_part_opens_and_damage_shows() {
        let key = BodyKey { bytes: random() };
        let parts = [100_000u64, 0, 65_536, 1, 131_073];
        let plain: Vec<u8> = (0..parts.iter().sum::<u64>()).map(|at| (at % 253) as u8).collect();
        let mut stored = BytesMut::new();
        let mut at = 0;
        for len in parts {
            let part = &plain[at..at + size(len)];
            let mut sealer = Sealer::new(&key);
            part.chunks(7777).for_each(|data| stored.extend_from_slice(&sealer.push(data)));
            stored.extend_from_slice(&sealer.finish());
            at += size(len);
        }
        assert_eq!(stored.len() as u64, parts.iter().map(|len| sealed_len(*len)).sum::<u64>());
        let body: Arc<dyn Body> = Arc::new(Stored(stored.clone().freeze()));
        let end = plain.len() as u64;
        for range in
            [0..end, 0..1, 65_535..65_537, 99_999..100_001, 100_000..165_537, end - 1..end, 5..5]
        {
            let found = collect(read(&body, &key, &parts, range.clone())).await.unwrap();
            assert_eq!(found, plain[size(range.start)..size(range.end)], "{range:?}");
        }
        stored[70_000] ^= 1;
        let body: Arc<dyn Body> = Arc::new(Stored(stored.freeze()));
        assert!(collect(read(&body, &key, &parts, 0..end)).await.is_err());
        assert!(
            collect(read(&body, &key, &parts, 0..65_536)).await.is_ok(),
            "other chunks are whole"
        );
        let short: Arc<dyn Body> = Arc::new(Stored(Bytes::from_static(b"short")));
        assert!(collect(read(&short, &key, &parts, 0..end)).await.is_err());
    }
}
