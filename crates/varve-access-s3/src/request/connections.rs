//! The connections that are open, and which of them go when there are too many. Called by `server`.
//!
//! CONNECTIONS-1: there are at most so many, of all clients and of each address.
//! CONNECTIONS-2: one with no request under way is closed when another client wants its place: the one that has been
//!     idle longest.
//! CONNECTIONS-3: where all are busy, one more of an address that has its share is refused, and any other waits.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use crate::body::memory::Pressure;

/// Of a connection that has a request under way.
const BUSY: u64 = u64::MAX;

/// All of them.
pub(crate) struct Connections {
    most: usize,
    /// Of one address; 0: no bound.
    per_address: usize,
    begun: Instant,
    /// Guards the table; held for moments.
    open: Mutex<ConnectionTable>,
    freed: Notify,
    pressure: Pressure,
}

#[derive(Default)]
struct ConnectionTable {
    next: u64,
    open: HashMap<u64, Arc<Activity>>,
}

/// What one is doing.
pub(crate) struct Activity {
    address: Option<IpAddr>,
    /// Since when it is idle, in milliseconds, or [`BUSY`].
    idle_since: AtomicU64,
    begun: Instant,
    /// It has no place any more.
    is_evicted: AtomicBool,
    evicted: Notify,
}

/// A place among them, given back when it is dropped.
pub(crate) struct ConnectionPlace {
    all: Arc<Connections>,
    id: u64,
    activity: Arc<Activity>,
}

/// A request under way.
pub(crate) struct Busy(Arc<Activity>);

/// Its address has its share, and all of that is busy.
#[derive(Debug)]
pub(crate) struct TooMany;

impl Connections {
    pub(crate) fn new(most: usize, per_address: usize, pressure: Pressure) -> Arc<Self> {
        let (open, freed) = (Mutex::default(), Notify::new());
        Arc::new(Self { most, per_address, begun: Instant::now(), open, freed, pressure })
    }

    /// A place for a client from there, when there is one.
    pub(crate) async fn place(
        self: &Arc<Self>,
        address: Option<IpAddr>,
    ) -> Result<ConnectionPlace, TooMany> {
        let mut waiting = None;
        loop {
            let freed = self.freed.notified();
            if let Some(place) = self.try_place(address)? {
                return Ok(place);
            }
            waiting.get_or_insert_with(|| self.pressure.wait());
            freed.await;
        }
    }

    fn try_place(
        self: &Arc<Self>,
        address: Option<IpAddr>,
    ) -> Result<Option<ConnectionPlace>, TooMany> {
        let mut table = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |activity: &Activity| address.is_some() && activity.address == address;
        let same = || table.open.values().filter(|activity| is_same(activity)).count();
        if self.per_address > 0 && address.is_some() && same() >= self.per_address {
            table.evict(is_same).then_some(()).ok_or(TooMany)?;
        }
        if table.open.len() >= self.most && !table.evict(|_| true) {
            return Ok(None);
        }
        let id = table.next;
        table.next += 1;
        let activity = Arc::new(Activity {
            address,
            idle_since: AtomicU64::new(0),
            begun: self.begun,
            is_evicted: AtomicBool::new(false),
            evicted: Notify::new(),
        });
        activity.is_idle();
        table.open.insert(id, Arc::clone(&activity));
        Ok(Some(ConnectionPlace { all: Arc::clone(self), id, activity }))
    }
}

impl ConnectionTable {
    /// Closes the one among some that has been idle longest; false where all are busy.
    fn evict(&mut self, among: impl Fn(&Activity) -> bool) -> bool {
        let since = |activity: &Activity| activity.idle_since.load(Ordering::Acquire);
        let idle = self.open.iter().filter(|(_, one)| among(one) && since(one) != BUSY);
        let Some(id) = idle.min_by_key(|(_, one)| since(one)).map(|(id, _)| *id) else {
            return false;
        };
        if let Some(activity) = self.open.remove(&id) {
            activity.is_evicted.store(true, Ordering::Release);
            activity.evicted.notify_one();
        }
        true
    }
}

impl Activity {
    fn is_idle(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(BUSY - 1);
        self.idle_since.store(now, Ordering::Release);
    }

    /// A request begins.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.idle_since.store(BUSY, Ordering::Release);
        Busy(Arc::clone(self))
    }

    /// Ends when the connection is to be closed because it is idle.
    pub(crate) async fn evicted(&self) {
        loop {
            self.evicted.notified().await;
            // A request may have come at that moment: it is answered, and its end tells again.
            if self.idle_since.load(Ordering::Acquire) != BUSY {
                return;
            }
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.is_idle();
        if self.0.is_evicted.load(Ordering::Acquire) {
            self.0.evicted.notify_one();
        }
    }
}

impl ConnectionPlace {
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut table = self.all.open.lock().unwrap_or_else(PoisonError::into_inner);
        table.open.remove(&self.id);
        drop(table);
        self.all.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::FutureExt;

    use super::*;

    fn from(last: u8) -> Option<IpAddr> {
        Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)))
    }

    /// CONNECTIONS-1, CONNECTIONS-2, CONNECTIONS-3.
    #[tokio::test]
    async fn the_idle_make_room_and_the_busy_keep_theirs() {
        let all = Connections::new(3, 2, Pressure::default());
        let first = all.place(from(1)).await.unwrap();
        let request = first.activity().busy();
        let second = all.place(from(1)).await.unwrap();
        // The idle one of the same address goes.
        let third = all.place(from(1)).await.unwrap();
        assert!(second.activity().evicted().now_or_never().is_some());
        assert!(first.activity().evicted().now_or_never().is_none());
        let other = third.activity().busy();
        assert!(all.place(from(1)).await.is_err(), "its share is busy");
        let stranger = all.place(from(2)).await.unwrap();
        let answer = stranger.activity().busy();
        assert!(all.place(from(3)).now_or_never().is_none(), "all are busy");
        assert!(!all.pressure.is_felt());
        let waiting = all.place(from(3));
        tokio::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(all.pressure.is_felt());
        drop((other, third));
        assert!(waiting.await.is_ok());
        assert!(!all.pressure.is_felt());
        drop((request, first, answer, stranger, second));
        assert!(all.open.lock().unwrap().open.is_empty());
    }

    /// Those that come by others, whose address is not known, have no share of their own.
    #[tokio::test]
    async fn an_unknown_address_has_no_bound_of_its_own() {
        let all = Connections::new(3, 1, Pressure::default());
        let places = [all.place(None).await, all.place(None).await, all.place(None).await];
        let busy: Vec<_> = places.iter().flatten().map(|place| place.activity().busy()).collect();
        assert_eq!(busy.len(), 3);
        assert!(all.place(None).now_or_never().is_none());
    }
}
