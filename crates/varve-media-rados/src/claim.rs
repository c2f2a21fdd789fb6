//! The right of one process to write a shard, and how another one takes it.
//!
//! The root of a shard and all parts of its lane carry an epoch. Who claims the shard raises it on the root, then on every part, before
//! it reads anything; every append and every replacement of the root demands the epoch of its claim.
//!
//! C1. After a claim returned, nothing that an earlier claim still has under way lands on the lane or the root.
//! C2. Epochs of an object only grow, whatever claims do at once.
//! C3. A claim that met a higher epoch, or was shut out by the cluster, is lost for good.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use varve_media::{Error, Fence, Result, RootKey};
use varve_types::ShardId;

use crate::failure;
use crate::layout::{Names, lane_parts};
use crate::objects::{Change, Objects, Refusal};

/// The attribute with the epoch, in decimal digits.
pub(crate) const EPOCH: &str = "varve.epoch";

/// Parts of a lane that are made or claimed at once: librados makes callers wait from some thousand operations on.
pub(crate) const PARTS_AT_ONCE: usize = 64;

/// So often another claim comes between ours is no coincidence.
const ATTEMPTS_MAX: usize = 64;

/// The right to write a shard.
pub struct Claim {
    shard: ShardId,
    epoch: u64,
    is_lost: Cell<bool>,
}

impl Claim {
    /// Takes a shard over from whoever has it (C1).
    pub(crate) async fn take(
        objects: &Rc<dyn Objects>,
        names: &Names,
        shard: ShardId,
        lane_bytes: u64,
    ) -> Result<Rc<Self>> {
        let root = names.root(RootKey::Shard(shard));
        let epoch = raise(&**objects, &root, |found: u64| found.checked_add(1)).await?;
        let parts = (0..lane_parts(lane_bytes)).map(|part| {
            let (objects, object) = (Rc::clone(objects), names.lane_part(shard, part));
            async move {
                let to = |found| (found < epoch).then_some(epoch); // C2
                raise(&*objects, &object, to).await
            }
        });
        stream::iter(parts).buffer_unordered(PARTS_AT_ONCE).try_collect::<Vec<_>>().await?;
        Ok(Rc::new(Self { shard, epoch, is_lost: Cell::new(false) }))
    }

    /// The shard.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The epoch of the claim; the next one has a higher one.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What an operation that demands the claim demands.
    pub(crate) fn expectation(&self) -> (&'static str, Vec<u8>) {
        (EPOCH, encode(self.epoch))
    }

    /// What an operation was refused with; who is shut out has lost the claim (C3).
    pub(crate) fn failure(
        &self,
        operation: &'static str,
        objects: &dyn Objects,
        object: &str,
        (offset, len): (u64, usize),
        refusal: Refusal,
    ) -> Error {
        if refusal == Refusal::SHUT_OUT {
            return self.lose();
        }
        failure::of(operation, objects, object, offset, len, refusal)
    }

    /// Somebody else has the shard.
    pub(crate) fn lose(&self) -> Error {
        self.is_lost.set(true);
        Error::Fenced
    }
}

impl Fence for Claim {
    fn check(&self) -> Result<()> {
        if self.is_lost.get() { Err(Error::Fenced) } else { Ok(()) }
    }
}

pub(crate) fn encode(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// A number that an attribute holds.
pub(crate) async fn number(objects: &dyn Objects, object: &str, name: &'static str) -> Result<u64> {
    let failed = |refusal| failure::of("read", objects, object, 0, 0, refusal);
    let value = objects.attribute(object, name).await.map_err(failed)?;
    let text = value.and_then(|value| String::from_utf8(value).ok());
    text.and_then(|text| text.parse().ok()).ok_or_else(|| Error::Corrupt {
        what: name,
        path: format!("rados:{}/{object}", objects.pool()),
        reason: "no number".to_owned(),
    })
}

/// Raises the epoch of an object; `to` says to what, or that there is nothing to raise any more.
async fn raise(
    objects: &dyn Objects,
    object: &str,
    to: impl Fn(u64) -> Option<u64>,
) -> Result<u64> {
    for _ in 0..ATTEMPTS_MAX {
        let found = number(objects, object, EPOCH).await?;
        let Some(next) = to(found) else { return Err(Error::Fenced) };
        let change = Change {
            expects: vec![(EPOCH, encode(found))],
            sets: vec![(EPOCH, encode(next))],
            ..Change::default()
        };
        match objects.change(object, change).await {
            Ok(()) => return Ok(next),
            Err(Refusal::UNEXPECTED) => {} // Another claim came between.
            Err(refusal) => return Err(failure::of("write", objects, object, 0, 0, refusal)),
        }
    }
    Err(Error::InUse { path: format!("rados:{}/{object}", objects.pool()) })
}
