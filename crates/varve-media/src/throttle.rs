//! A slower disk: a wrapper that spaces operations to a rate of bytes and of operations.

use std::cell::Cell;
use std::rc::Rc;

use varve_reactor::{Nanos, Reactor};
use varve_stdx::{AlignedBuf, BufSlice};

use crate::Result;
use crate::contract::IoFuture;
use crate::disk::{Disk, Persist, bytes_of};

/// Rates of a [`Throttle`]; `None` is no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThrottleLimits {
    /// Bytes a second, of reads and writes together.
    pub bytes_per_second: Option<u64>,
    /// Operations a second, of all kinds together.
    pub operations_per_second: Option<u64>,
}

/// A rate that several disks share. Operations begin in the order of their calls, without bursts.
pub struct Throttle {
    reactor: Reactor,
    limits: Cell<ThrottleLimits>,
    next: Cell<Nanos>,
}

impl Throttle {
    /// Begins with full rate.
    #[must_use]
    pub fn new(reactor: &Reactor, limits: ThrottleLimits) -> Rc<Self> {
        let reactor = reactor.clone();
        Rc::new(Self { limits: Cell::new(limits), next: Cell::new(reactor.now()), reactor })
    }

    /// Changes the rates for operations to come.
    pub fn limit(&self, limits: ThrottleLimits) {
        self.limits.set(limits);
    }

    /// Books an operation; returns when it may begin.
    fn book(&self, bytes: u64) -> Nanos {
        let limits = self.limits.get();
        let share = |amount: u64, rate: Option<u64>| {
            rate.map_or(0, |rate| {
                let nanos = u128::from(amount) * 1_000_000_000 / u128::from(rate.max(1));
                u64::try_from(nanos).unwrap_or(u64::MAX)
            })
        };
        let cost =
            share(bytes, limits.bytes_per_second).max(share(1, limits.operations_per_second));
        let start = self.next.get().max(self.reactor.now());
        self.next.set(start + cost);
        start
    }
}

/// A disk behind a [`Throttle`].
pub struct ThrottleDisk {
    disk: Rc<dyn Disk>,
    throttle: Rc<Throttle>,
}

impl ThrottleDisk {
    /// Slows `disk` down to `throttle`, which several disks may share.
    #[must_use]
    pub fn new(disk: Rc<dyn Disk>, throttle: Rc<Throttle>) -> Self {
        Self { disk, throttle }
    }

    fn run<T: 'static>(
        &self,
        bytes: u64,
        start: impl AsyncFnOnce(Rc<dyn Disk>) -> Result<T> + 'static,
    ) -> IoFuture<'static, T> {
        let reactor = self.throttle.reactor.clone();
        let begin = self.throttle.book(bytes);
        let pause = reactor.sleep(begin - reactor.now());
        let disk = Rc::clone(&self.disk);
        let task = async move {
            pause.await;
            start(disk).await
        };
        Box::pin(reactor.spawn_join(task)) // DISK-3
    }
}

impl Disk for ThrottleDisk {
    fn path(&self) -> &str {
        self.disk.path()
    }

    fn size(&self) -> u64 {
        self.disk.size()
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        self.run(len as u64, async move |disk: Rc<dyn Disk>| disk.read(offset, len).await)
    }

    fn write(&self, offset: u64, bytes: BufSlice, persist: Persist) -> IoFuture<'_, ()> {
        self.run(bytes.len() as u64, async move |disk: Rc<dyn Disk>| {
            disk.write(offset, bytes, persist).await
        })
    }

    fn write_gathered(
        &self,
        offset: u64,
        parts: Vec<BufSlice>,
        persist: Persist,
    ) -> IoFuture<'_, ()> {
        self.run(bytes_of(&parts), async move |disk: Rc<dyn Disk>| {
            disk.write_gathered(offset, parts, persist).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.run(0, async |disk: Rc<dyn Disk>| disk.flush().await)
    }

    fn allocate(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        self.disk.allocate(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> IoFuture<'_, ()> {
        self.run(0, async move |disk: Rc<dyn Disk>| disk.discard(offset, len).await)
    }

    fn check_fence(&self) -> Result<()> {
        self.disk.check_fence()
    }
}
