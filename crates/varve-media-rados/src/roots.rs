//! Roots: an object each, replaced whole together with the attribute that carries its version.
//!
//! Bytes: version u64 | checksum u64 of version and contents | contents.

use std::rc::Rc;

use varve_media::{Error, IoFuture, Result, RootKey, RootStore, RootVersion};
use varve_stdx::{AlignedBuf, BufSlice, checksum64_seeded};
use varve_types::ShardId;

use crate::claim::{EPOCH, HELD, ShardClaim, encode, number};
use crate::layout::ObjectNames;
use crate::objects::{ObjectChange, Objects, Refusal, Write};

/// The attribute with the version, in decimal digits.
pub(crate) const VERSION: &str = "varve.version";

const HEADER_BYTES: usize = 16;

/// See the module.
pub(crate) struct Roots {
    pub(crate) objects: Rc<dyn Objects>,
    pub(crate) names: ObjectNames,
    /// The claim that replacing the root of its shard demands; the pool's root goes with shard 0.
    pub(crate) claim: Rc<ShardClaim>,
    pub(crate) lane_count: u16,
    pub(crate) bytes_max: u32,
}

/// A root that was never written.
pub(crate) fn empty() -> ObjectChange {
    ObjectChange {
        creates: true,
        write: Some(Write::Whole(encode_root(0, &[]))),
        sets: vec![(VERSION, encode(0)), (EPOCH, encode(0)), (HELD, encode(0))],
        ..ObjectChange::default()
    }
}

pub(crate) fn encode_root(version: u64, contents: &[u8]) -> BufSlice {
    let mut out = AlignedBuf::scratch(HEADER_BYTES + contents.len());
    out[..8].copy_from_slice(&version.to_le_bytes());
    out[8..HEADER_BYTES].copy_from_slice(&checksum64_seeded(contents, version).to_le_bytes());
    out[HEADER_BYTES..].copy_from_slice(contents);
    out.freeze()
}

/// Version and contents; none where the checksum is not theirs.
pub(crate) fn decode_root(bytes: &[u8]) -> Option<(RootVersion, Vec<u8>)> {
    let (version, rest) = bytes.split_first_chunk::<8>()?;
    let (sum, contents) = rest.split_first_chunk::<8>()?;
    let version = u64::from_le_bytes(*version);
    let is_whole = u64::from_le_bytes(*sum) == checksum64_seeded(contents, version);
    is_whole.then(|| (RootVersion(version), contents.to_vec()))
}

impl Roots {
    fn object(&self, key: RootKey) -> Result<String> {
        match key {
            RootKey::Shard(shard) if shard.0 >= self.lane_count => {
                Err(Error::NoLane { shard, lanes: self.lane_count })
            }
            key => Ok(self.names.root(key)),
        }
    }

    fn claimed(&self, key: RootKey) -> Option<&ShardClaim> {
        let owner = match key {
            RootKey::Pool => ShardId(0),
            RootKey::Shard(shard) => shard,
        };
        (owner == self.claim.shard()).then_some(&*self.claim)
    }

    async fn read_root(&self, key: RootKey) -> Result<(RootVersion, Vec<u8>)> {
        let object = self.object(key)?;
        let len = HEADER_BYTES + self.bytes_max as usize;
        let failed = |refusal| self.claim.failure("read", &*self.objects, &object, 0, len, refusal);
        let bytes = self.objects.read(&object, 0, len).await.map_err(failed)?;
        decode_root(&bytes).ok_or_else(|| Error::Corrupt {
            what: "root",
            path: format!("rados:{}/{object}", self.objects.pool()),
            reason: "checksum mismatch".to_owned(),
        })
    }

    async fn replace_root(
        &self,
        key: RootKey,
        expected: RootVersion,
        bytes: Vec<u8>,
    ) -> Result<RootVersion> {
        let object = self.object(key)?;
        let (len, max) = (bytes.len() as u64, u64::from(self.bytes_max));
        if len > max {
            return Err(Error::RootTooLong { key: key.to_string(), len, max });
        }
        let Some(version) = expected.0.checked_add(1) else {
            return Err(Error::Corrupt {
                what: "root",
                path: format!("rados:{}/{object}", self.objects.pool()),
                reason: "its version is the last there is".to_owned(),
            });
        };
        let mut expects = vec![(VERSION, encode(expected.0))];
        expects.extend(self.claimed(key).map(ShardClaim::expectation));
        let change = ObjectChange {
            expects,
            write: Some(Write::Whole(encode_root(version, &bytes))),
            sets: vec![(VERSION, encode(version))],
            ..ObjectChange::default()
        };
        let began_ns = self.claim.now();
        match self.objects.change(&object, change).await {
            Ok(()) => {
                if self.claimed(key).is_some() {
                    self.claim.confirmed(began_ns);
                }
                Ok(RootVersion(version))
            }
            Err(Refusal::UNEXPECTED) => Err(self.why_refused(key, &object, expected).await?),
            Err(refusal) => {
                let len = bytes.len();
                Err(self.claim.failure("write", &*self.objects, &object, 0, len, refusal))
            }
        }
    }

    /// Why a replacement met something unexpected: another claim, or another version.
    async fn why_refused(
        &self,
        key: RootKey,
        object: &str,
        expected: RootVersion,
    ) -> Result<Error> {
        if let Some(claim) = self.claimed(key)
            && number(&*self.objects, object, EPOCH).await? != claim.epoch()
        {
            return Ok(claim.lose());
        }
        let found = number(&*self.objects, object, VERSION).await?;
        Ok(Error::RootConflict { key: key.to_string(), expected: expected.0, found })
    }
}

impl RootStore for Roots {
    fn bytes_max(&self) -> u32 {
        self.bytes_max
    }

    fn read(&self, key: RootKey) -> IoFuture<'_, (RootVersion, Vec<u8>)> {
        Box::pin(self.read_root(key))
    }

    fn replace(
        &self,
        key: RootKey,
        expected: RootVersion,
        bytes: Vec<u8>,
    ) -> IoFuture<'_, RootVersion> {
        Box::pin(self.replace_root(key, expected, bytes))
    }
}
