//! Failures on purpose: a wrapper over any disk that fails, delays or falsifies operations by rules.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use varve_reactor::Reactor;
use varve_stdx::{AlignedBuf, BufSlice};

use crate::contract::IoFuture;
use crate::disk::{Disk, DiskOperation, Persist, bytes_of};
use crate::{Error, Result};

/// What happens to an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It returns an error. A write or discard is carried out all the same in half of the cases.
    Fail,
    /// It begins later, by this many nanoseconds.
    Delay(u64),
    /// It never returns and never happens: a medium that does not answer.
    Hang,
    /// A read returns with one bit inverted; other operations are left alone.
    FlipBit,
    /// A write, flush or discard returns but does not happen: a medium that lies.
    Lose,
}

/// When something happens. The first rule that applies to an operation counts.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// To which operation; `None`: to all.
    pub operation: Option<DiskOperation>,
    /// To operations that touch these bytes; flushes touch all.
    pub range: Range<u64>,
    /// How many operations it would apply to go unharmed first.
    pub skip: u64,
    /// How many are hit then; after that the rule is spent.
    pub times: u64,
    /// Of those, one in this many, at random; 1: each.
    pub one_in: u64,
    /// What happens.
    pub fault: Fault,
}

impl FaultRule {
    /// Hits every operation of a kind.
    #[must_use]
    pub fn always(operation: DiskOperation, fault: Fault) -> Self {
        let range = 0..u64::MAX;
        Self { operation: Some(operation), range, skip: 0, times: u64::MAX, one_in: 1, fault }
    }

    /// Hits the operation of a kind that follows `skip` others of that kind.
    #[must_use]
    pub fn once(operation: DiskOperation, skip: u64, fault: Fault) -> Self {
        Self { skip, times: 1, ..Self::always(operation, fault) }
    }
}

/// Rules that may change while disks use them.
#[derive(Default)]
pub struct FaultPlan {
    rules: RefCell<Vec<FaultRule>>,
}

impl FaultPlan {
    /// Without rules.
    #[must_use]
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    /// Adds a rule behind the others.
    pub fn add(&self, rule: FaultRule) {
        assert!(rule.one_in > 0, "one in none makes no sense");
        self.rules.borrow_mut().push(rule);
    }

    /// Removes every rule: the medium works again. What hangs goes on hanging.
    pub fn clear(&self) {
        self.rules.borrow_mut().clear();
    }

    fn choose(
        &self,
        reactor: &Reactor,
        operation: DiskOperation,
        hit: &Range<u64>,
    ) -> Option<Fault> {
        let mut rules = self.rules.borrow_mut();
        for rule in rules.iter_mut() {
            let touches = rule.range.start < hit.end && hit.start < rule.range.end;
            let meant = rule.operation.is_none_or(|meant| meant == operation);
            if !touches || !meant || rule.times == 0 {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            if rule.one_in > 1 && !reactor.random_u64().is_multiple_of(rule.one_in) {
                continue;
            }
            rule.times -= 1;
            return Some(rule.fault);
        }
        None
    }
}

/// A disk whose operations are subject to a [`FaultPlan`].
pub struct FaultDisk {
    disk: Rc<dyn Disk>,
    reactor: Reactor,
    plan: Rc<FaultPlan>,
}

impl FaultDisk {
    /// Subjects `disk` to `plan`, which several disks may share.
    #[must_use]
    pub fn new(disk: Rc<dyn Disk>, reactor: &Reactor, plan: Rc<FaultPlan>) -> Self {
        Self { disk, reactor: reactor.clone(), plan }
    }

    /// Runs `operation` unless a rule says otherwise; `lost` is what a lying disk answers.
    fn run<T: 'static>(
        &self,
        operation: DiskOperation,
        hit: Range<u64>,
        lost: Option<T>,
        start: impl AsyncFnOnce(Rc<dyn Disk>, Option<Fault>) -> Result<T> + 'static,
    ) -> IoFuture<'static, T> {
        let fault = self.plan.choose(&self.reactor, operation, &hit);
        let (disk, reactor) = (Rc::clone(&self.disk), self.reactor.clone());
        let error = Error::Io {
            operation: name(operation),
            path: disk.path().to_owned(),
            offset: hit.start,
            len: hit.end - hit.start,
            reason: "injected fault".to_owned(),
        };
        let task = async move {
            match fault {
                None | Some(Fault::FlipBit) => start(disk, fault).await,
                Some(Fault::Delay(nanos)) => {
                    reactor.sleep(nanos).await;
                    start(disk, fault).await
                }
                Some(Fault::Hang) => std::future::pending().await,
                Some(Fault::Lose) => match lost {
                    Some(answer) => Ok(answer),
                    None => start(disk, fault).await,
                },
                Some(Fault::Fail) => {
                    if operation != DiskOperation::Read && reactor.random_u64().is_multiple_of(2) {
                        start(disk, fault).await?;
                    }
                    Err(error)
                }
            }
        };
        Box::pin(self.reactor.spawn_join(task)) // DISK-3
    }
}

fn name(operation: DiskOperation) -> &'static str {
    match operation {
        DiskOperation::Read => "read",
        DiskOperation::WriteCached | DiskOperation::WriteDurable => "write",
        DiskOperation::Flush => "flush",
        DiskOperation::Discard => "discard",
    }
}

impl Disk for FaultDisk {
    fn path(&self) -> &str {
        self.disk.path()
    }

    fn size(&self) -> u64 {
        self.disk.size()
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        let hit = offset..offset + len as u64;
        let reactor = self.reactor.clone();
        self.run(DiskOperation::Read, hit, None, async move |disk: Rc<dyn Disk>, fault| {
            let mut buf = disk.read(offset, len).await?;
            if fault == Some(Fault::FlipBit) && !buf.is_empty() {
                let draw = usize::try_from(reactor.random_u64() >> 16).expect("64-bit machine");
                let at = draw / 8 % buf.len();
                buf[at] ^= 1 << (draw % 8);
            }
            Ok(buf)
        })
    }

    fn write(&self, offset: u64, bytes: BufSlice, persist: Persist) -> IoFuture<'_, ()> {
        let hit = offset..offset + bytes.len() as u64;
        let operation = DiskOperation::write(persist);
        self.run(operation, hit, Some(()), async move |disk: Rc<dyn Disk>, _| {
            disk.write(offset, bytes, persist).await
        })
    }

    fn write_gathered(
        &self,
        offset: u64,
        parts: Vec<BufSlice>,
        persist: Persist,
    ) -> IoFuture<'_, ()> {
        let hit = offset..offset + bytes_of(&parts);
        let operation = DiskOperation::write(persist);
        self.run(operation, hit, Some(()), async move |disk: Rc<dyn Disk>, _| {
            disk.write_gathered(offset, parts, persist).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.run(DiskOperation::Flush, 0..self.size(), Some(()), async |disk: Rc<dyn Disk>, _| {
            disk.flush().await
        })
    }

    fn allocate(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        self.disk.allocate(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        let hit = offset..offset + len;
        self.run(DiskOperation::Discard, hit, Some(()), async move |disk: Rc<dyn Disk>, _| {
            disk.discard(offset, len).await
        })
    }

    fn check_fence(&self) -> Result<()> {
        self.disk.check_fence()
    }
}
