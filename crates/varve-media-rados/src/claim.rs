//! The right of one process to write a shard, and how another one takes it.
//!
//! The root of a shard and all parts of its lane carry an epoch, if the lane is in RADOS. Who claims the shard raises
//! it on the root, then on every part, before it reads anything; every append and every replacement of the root demands
//! the epoch of its claim. Who claims shard 0 has the pool's root as well.
//!
//! RADOS-CLAIM-1. After a claim returned, nothing that an earlier claim still has under way lands on the lane or the
//!     root.
//! RADOS-CLAIM-2. Epochs of an object only grow, whatever claims do at once.
//! RADOS-CLAIM-3. A claim that met a higher epoch, or was shut out by the cluster, is lost for good.
//! RADOS-CLAIM-4. A process answers only while its claim was confirmed less than [`LEASE_NS`] ago, and a claim that
//!     takes over from one that was not released returns only when that has passed since it raised the epoch: what the
//!     former owner answered is there to be read, and what it has not answered by then it never answers. The age counts
//!     from before the question, by a clock that goes on while the machine sleeps.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use varve_media::{Error, Fence, IoFuture, Result, RootKey};
use varve_reactor::{Notify, Reactor};
use varve_types::ShardId;

use crate::failure;
use crate::layout::ObjectNames;
use crate::local_lane::LocalLane;
use crate::objects::{ObjectChange, Objects, Refusal};

/// The attribute with the epoch, in decimal digits.
pub(crate) const EPOCH: &str = "varve.epoch";

/// The attribute of a shard's root that says whether a claim has it, 1, or gave it back, 0.
pub(crate) const HELD: &str = "varve.held";

/// The attribute of a shard's root that names the last claim whose lane is on a drive, in hexadecimal digits.
const LOCAL_CLAIM: &str = "varve.local";

/// How long a claim stays confirmed, in ns.
pub const LEASE_NS: u64 = 3_000_000_000;

/// What a takeover waits (RADOS-CLAIM-4): clocks may differ by a tenth in their speed.
const TAKEOVER_WAIT_NS: u64 = LEASE_NS + LEASE_NS / 10;

/// Pause between two looks at whether a claim is still confirmed, in ns.
const WATCH_NS: u64 = 1_000_000_000;

/// Parts of a lane that are made or claimed at once: librados makes callers wait from some thousand operations on.
pub(crate) const PARTS_AT_ONCE: usize = 64;

/// So often another claim comes between ours is no coincidence.
const ATTEMPTS_MAX: usize = 64;

/// The right to write a shard.
pub struct ShardClaim {
    reactor: Reactor,
    /// The metadata pool, and the root of the shard in it.
    objects: Rc<dyn Objects>,
    root: String,
    shard: ShardId,
    epoch: u64,
    is_lost: Cell<bool>,
    became_lost: Notify,
    /// Until when it is confirmed (RADOS-CLAIM-4), by [`Reactor::boot_time`].
    confirmed_until_ns: Cell<u64>,
}

impl ShardClaim {
    /// The claim of who only looks at a shard: lost from the start, and of an epoch that no object gets.
    pub(crate) fn of_nobody(
        reactor: &Reactor,
        objects: &Rc<dyn Objects>,
        names: &ObjectNames,
        shard: ShardId,
    ) -> Rc<Self> {
        let claim = Self::new(reactor, objects, names.root(RootKey::Shard(shard)), shard, u64::MAX);
        claim.lose();
        Rc::new(claim)
    }

    fn new(
        reactor: &Reactor,
        objects: &Rc<dyn Objects>,
        root: String,
        shard: ShardId,
        epoch: u64,
    ) -> Self {
        Self {
            reactor: reactor.clone(),
            objects: Rc::clone(objects),
            root,
            shard,
            epoch,
            is_lost: Cell::new(false),
            became_lost: Notify::new(),
            confirmed_until_ns: Cell::new(0),
        }
    }

    /// Takes a shard over from whoever has it (RADOS-CLAIM-1, RADOS-CLAIM-4).
    pub(crate) async fn take(
        reactor: &Reactor,
        objects: &Rc<dyn Objects>,
        names: &ObjectNames,
        shard: ShardId,
        lane_parts: u64,
        local: Option<&LocalLane>,
    ) -> Result<Rc<Self>> {
        let root = names.root(RootKey::Shard(shard));
        let (epoch, was_held) = raise_root(&**objects, &root, shard, local).await?;
        if shard == ShardId(0) {
            raise(&**objects, &names.root(RootKey::Pool), epoch).await?;
        }
        let parts = (0..lane_parts).map(|part| {
            let (objects, object) = (Rc::clone(objects), names.lane_part(shard, part));
            async move { raise(&*objects, &object, epoch).await }
        });
        stream::iter(parts).buffer_unordered(PARTS_AT_ONCE).try_collect::<Vec<_>>().await?;
        if was_held {
            tracing::info!(shard = shard.0, epoch, "taking over a shard that nobody gave back");
            reactor.sleep(TAKEOVER_WAIT_NS).await; // RADOS-CLAIM-4
        }
        let claim = Rc::new(Self::new(reactor, objects, root, shard, epoch));
        reactor.spawn(Self::watch(Rc::downgrade(&claim)));
        Ok(claim)
    }

    /// Keeps the claim confirmed, also of an idle shard, so that its owner learns of a takeover and its next request
    /// need not wait.
    async fn watch(claim: Weak<Self>) {
        while let Some(claim) = claim.upgrade()
            && claim.check().is_ok()
        {
            if claim.now() + 2 * WATCH_NS >= claim.confirmed_until_ns.get()
                && let Err(error) = claim.ask().await
            {
                tracing::warn!(shard = claim.shard.0, %error, "claim not confirmed");
            }
            let pause = claim.reactor.sleep(WATCH_NS);
            drop(claim);
            pause.await;
        }
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

    /// When an operation begins that demands the claim; for [`Self::confirmed`].
    pub(crate) fn now(&self) -> u64 {
        self.reactor.boot_time().0
    }

    /// An operation that demands the claim, and began then, found it.
    pub(crate) fn confirmed(&self, began_ns: u64) {
        let until = began_ns.saturating_add(LEASE_NS);
        self.confirmed_until_ns.set(self.confirmed_until_ns.get().max(until));
    }

    /// What an operation was refused with; who is shut out, or finds another epoch where it demands its own, has lost
    /// the claim (RADOS-CLAIM-3).
    pub(crate) fn failure(
        &self,
        operation: &'static str,
        objects: &dyn Objects,
        object: &str,
        offset: u64,
        len: usize,
        refusal: Refusal,
    ) -> Error {
        match refusal {
            Refusal::SHUT_OUT | Refusal::UNEXPECTED => self.lose(),
            refusal => failure::of(operation, objects, object, offset, len, refusal),
        }
    }

    /// Somebody else has the shard.
    pub(crate) fn lose(&self) -> Error {
        self.is_lost.set(true);
        self.became_lost.notify_all();
        Error::Fenced
    }

    async fn ask(&self) -> Result<()> {
        self.check()?;
        let began_ns = self.now();
        match number(&*self.objects, &self.root, EPOCH).await {
            Ok(epoch) if epoch == self.epoch => self.confirmed(began_ns),
            Ok(_) | Err(Error::Fenced) => return Err(self.lose()),
            Err(error) => return Err(error),
        }
        self.check()
    }

    async fn give_back(&self) -> Result<()> {
        let change = ObjectChange {
            expects: vec![self.expectation()],
            sets: vec![(HELD, encode(0))],
            ..ObjectChange::default()
        };
        self.lose(); // Nothing is answered from here on.
        match self.objects.change(&self.root, change).await {
            Ok(()) => Ok(()),
            Err(Refusal::UNEXPECTED) => Err(Error::Fenced),
            Err(refusal) => Err(failure::of("write", &*self.objects, &self.root, 0, 0, refusal)),
        }
    }
}

impl Fence for ShardClaim {
    fn check(&self) -> Result<()> {
        if self.is_lost.get() { Err(Error::Fenced) } else { Ok(()) }
    }

    fn is_confirmed(&self) -> bool {
        !self.is_lost.get() && self.now() < self.confirmed_until_ns.get()
    }

    fn confirm(&self) -> IoFuture<'_, ()> {
        Box::pin(self.ask())
    }

    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async {
            loop {
                let lost = self.became_lost.notified();
                if self.is_lost.get() {
                    return;
                }
                lost.await;
            }
        })
    }

    fn release(&self) -> IoFuture<'_, ()> {
        Box::pin(self.give_back())
    }
}

/// A number as attributes hold it: in as many digits as the largest has, so that their order is that of the numbers.
pub(crate) fn encode(number: u64) -> Vec<u8> {
    format!("{number:020}").into_bytes()
}

/// A number that an attribute holds.
pub(crate) async fn number(objects: &dyn Objects, object: &str, name: &'static str) -> Result<u64> {
    let value = attribute(objects, object, name).await?;
    let text = value.and_then(|value| String::from_utf8(value).ok());
    text.and_then(|text| text.parse().ok()).ok_or_else(|| no_number(objects, object, name))
}

/// The last claim of a shard whose lane is on a drive; 0 before the first.
async fn local_claim(objects: &dyn Objects, root: &str) -> Result<u128> {
    let Some(value) = attribute(objects, root, LOCAL_CLAIM).await? else { return Ok(0) };
    let text = String::from_utf8(value).ok();
    let claim = text.and_then(|text| u128::from_str_radix(&text, 16).ok());
    claim.ok_or_else(|| no_number(objects, root, LOCAL_CLAIM))
}

async fn attribute(objects: &dyn Objects, object: &str, name: &str) -> Result<Option<Vec<u8>>> {
    let failed = |refusal| failure::of("read", objects, object, 0, 0, refusal);
    objects.attribute(object, name).await.map_err(failed)
}

fn no_number(objects: &dyn Objects, object: &str, what: &'static str) -> Error {
    let path = format!("rados:{}/{object}", objects.pool());
    Error::Corrupt { what, path, reason: "no number".to_owned() }
}

/// Raises the epoch of a shard's root by one; returns it, and whether a claim had the shard until then.
async fn raise_root(
    objects: &dyn Objects,
    root: &str,
    shard: ShardId,
    local: Option<&LocalLane>,
) -> Result<(u64, bool)> {
    for _ in 0..ATTEMPTS_MAX {
        let found = number(objects, root, EPOCH).await?;
        // It belongs to this epoch, or the change below is refused.
        let was_held = number(objects, root, HELD).await? != 0;
        let Some(next) = found.checked_add(1) else { return Err(Error::Fenced) };
        let mut sets = vec![(EPOCH, encode(next)), (HELD, encode(1))];
        if let Some(lane) = local {
            lane.announce(shard, local_claim(objects, root).await?).await?;
            sets.push((LOCAL_CLAIM, format!("{:032x}", lane.claim).into_bytes()));
        }
        if exchange(objects, root, found, sets).await? {
            return Ok((next, was_held));
        }
    }
    Err(in_use(objects, root))
}

/// Raises the epoch of an object to that of a claim (RADOS-CLAIM-2).
async fn raise(objects: &dyn Objects, object: &str, epoch: u64) -> Result<()> {
    for _ in 0..ATTEMPTS_MAX {
        let found = number(objects, object, EPOCH).await?;
        if found >= epoch {
            return Err(Error::Fenced);
        }
        if exchange(objects, object, found, vec![(EPOCH, encode(epoch))]).await? {
            return Ok(());
        }
    }
    Err(in_use(objects, object))
}

/// Sets attributes of an object that still has that epoch; says whether it had.
async fn exchange(
    objects: &dyn Objects,
    object: &str,
    epoch: u64,
    sets: Vec<(&'static str, Vec<u8>)>,
) -> Result<bool> {
    let change =
        ObjectChange { expects: vec![(EPOCH, encode(epoch))], sets, ..ObjectChange::default() };
    match objects.change(object, change).await {
        Ok(()) => Ok(true),
        Err(Refusal::UNEXPECTED) => Ok(false), // Another claim came between.
        Err(refusal) => Err(failure::of("write", objects, object, 0, 0, refusal)),
    }
}

fn in_use(objects: &dyn Objects, object: &str) -> Error {
    Error::InUse { path: format!("rados:{}/{object}", objects.pool()) }
}
