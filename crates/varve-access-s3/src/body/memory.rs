//! Memory for the bodies of requests, before the store takes them. Each request with a body reserves what it may hold
//! at a time (`front`).
//!
//! BODY-MEMORY-1: all that requests hold together is within the bound. Who finds no room waits, in order, and not for
//!     ever.
//! BODY-MEMORY-2: while somebody waits, for memory or for a connection, a client that sends nothing more of its body is
//!     put out early (`server`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use s3s::{S3Result, s3_error};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Longest that a request waits.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// What is counted in, in bytes.
const UNIT: u64 = 1 << 10;
/// Least bound, in bytes: a document of the greatest length, with what is made of it.
const BOUND_MIN: u64 = 16 << 20;

/// How many wait for what others hold.
#[derive(Clone, Default, Debug)]
pub(crate) struct Pressure(Arc<AtomicUsize>);

/// One that waits.
pub(crate) struct MemoryWaiter(Pressure);

impl Pressure {
    pub(crate) fn wait(&self) -> MemoryWaiter {
        self.0.fetch_add(1, Ordering::Relaxed);
        MemoryWaiter(self.clone())
    }

    pub(crate) fn is_felt(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl Drop for MemoryWaiter {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The bound and what is left of it.
pub(crate) struct BodyMemory {
    units: Arc<Semaphore>,
    most: u32,
    wait_max: Duration,
    pressure: Pressure,
}

/// Memory of a request, given back when it is dropped.
pub(crate) struct MemoryReservation(
    #[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit,
);

impl BodyMemory {
    pub(crate) fn new(bound: u64, pressure: Pressure) -> Self {
        let most = u32::try_from(bound.max(BOUND_MIN) / UNIT).unwrap_or(u32::MAX >> 4);
        let units = Arc::new(Semaphore::new(most as usize));
        Self { units, most, wait_max: WAIT_MAX, pressure }
    }

    /// Waits for that many bytes, or as many as there ever are (BODY-MEMORY-1).
    pub(crate) async fn reserve(&self, bytes: u64) -> S3Result<MemoryReservation> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.most);
        if let Ok(permit) = Arc::clone(&self.units).try_acquire_many_owned(units) {
            return Ok(MemoryReservation(permit));
        }
        let _waiting = self.pressure.wait();
        let acquired = Arc::clone(&self.units).acquire_many_owned(units);
        match tokio::time::timeout(self.wait_max, acquired).await {
            Ok(Ok(permit)) => Ok(MemoryReservation(permit)),
            _ => Err(s3_error!(SlowDown, "Please reduce your request rate.")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_wait_for_memory_in_order_and_not_for_ever() {
        let pressure = Pressure::default();
        let memory = Arc::new(BodyMemory::new(0, pressure.clone()));
        let held = memory.reserve(u64::MAX).await.unwrap();
        assert!(!pressure.is_felt());
        let other = Arc::clone(&memory);
        let waiting = tokio::spawn(async move { other.reserve(1).await.is_ok() });
        tokio::task::yield_now().await;
        assert!(pressure.is_felt());
        drop(held);
        assert!(waiting.await.unwrap());
        assert!(!pressure.is_felt());
        let hurried = Duration::from_millis(10);
        let memory = BodyMemory { wait_max: hurried, ..BodyMemory::new(0, pressure.clone()) };
        let _held = memory.reserve(u64::MAX).await.unwrap();
        let refused = memory.reserve(1).await.err().unwrap();
        assert_eq!(refused.code().as_str(), "SlowDown");
        assert!(!pressure.is_felt());
    }
}
