//! How fast mover and scrub use drives: a bucket of bytes for each device, shared by all threads of a pool, as clients
//! of any thread use the same drives. Drives that lie on one device share its bucket: else each of them would be given
//! a part of what the device does.
//!
//! REPAIR-BUDGET-1. What is asked for is granted after a bounded time: no rate falls below [`RATE_MIN`], and a bucket
//!     owes at most [`DEBT_SECONDS_MAX`] of its rate.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use varve_reactor::Nanos;

use crate::exposure::Exposure;
use crate::ids::DriveNumber;

/// Bytes a second that a drive always has for repair, so that it comes to an end.
pub const RATE_MIN: u64 = 4 << 20;

/// Seconds of its rate that a bucket owes at most: who asks waits no longer.
pub const DEBT_SECONDS_MAX: u64 = 30;

/// Part of a second whose bytes are granted at once after a rest.
const BURST_DIVISOR: u64 = 50;

/// Clients that were not seen for so long do not use a drive.
const CLIENT_REST_NANOS: u64 = Nanos::seconds(1);

/// How long a note of them is good enough.
const CLIENT_NOTE_NANOS: u64 = CLIENT_REST_NANOS / 16;

/// Percent that zones get which do not survive another loss.
const EXPOSED_PERCENT: u64 = 90;

/// Bytes and time of a measurement: less says nothing of a drive.
const MEASURED_BYTES: u64 = 1 << 20;
const MEASURED_NANOS: u64 = Nanos::millis(100);
/// Time of the first one: until then a drive has [`RATE_MIN`], with which one that reads 1 GB/s takes 25 s to be busy
/// for 100 ms.
const FIRST_MEASURED_NANOS: u64 = Nanos::millis(10);

/// What bytes are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RepairUrgency {
    /// Zones that do not survive another loss.
    Exposed,
    /// Other zones that move.
    Usual,
    /// Reading what there is, and making drives more even: half of the usual part, without clients too.
    Scrub,
}

impl RepairUrgency {
    /// That of a zone that can lose so much.
    #[must_use]
    pub const fn of(exposure: Exposure) -> Self {
        match exposure {
            Exposure::Survives(0) => Self::Exposed,
            Exposure::Lost | Exposure::Survives(_) => Self::Usual,
        }
    }
}

/// Bytes that somebody is about to read from a drive, or write to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BudgetRequest {
    /// The drive.
    pub drive: DriveNumber,
    /// How many.
    pub bytes: u64,
    /// What for.
    pub urgency: RepairUrgency,
    /// [`boot_time`](varve_reactor::Reactor::boot_time): threads have no other clock in common.
    pub now: Nanos,
}

/// Bytes that are read from a drive, or written to it.
#[derive(Clone, Copy)]
pub(crate) struct DriveUse {
    pub(crate) drive: DriveNumber,
    pub(crate) bytes: u64,
}

/// The buckets of a pool.
pub struct RepairBudget {
    percent: AtomicU8,
    /// When clients used each drive last, in ns of boot time; 0 for never.
    clients: Box<[AtomicU64]>,
    /// A lock off the data path: clients only write to `clients`.
    buckets: Mutex<DeviceBuckets>,
}

impl RepairBudget {
    /// That of a pool which gives repair so many percent of what its drives do while clients use them.
    #[must_use]
    pub fn new(percent: u8) -> Self {
        let clients = (0..DriveNumber::COUNT).map(|_| AtomicU64::new(0)).collect();
        Self { percent: AtomicU8::new(percent.clamp(1, 100)), clients, buckets: Mutex::default() }
    }

    /// Changes the percentage.
    pub fn set_percent(&self, percent: u8) {
        self.percent.store(percent.clamp(1, 100), Ordering::Relaxed);
    }

    /// Takes note that a client uses a drive. Without a lock; a store only now and then, as all threads read there.
    pub fn client_uses(&self, drive: DriveNumber, now: Nanos) {
        if let Some(last) = self.clients.get(drive.index()) {
            let known = last.load(Ordering::Relaxed);
            if known == 0 || now.since(Nanos(known)) > CLIENT_NOTE_NANOS {
                last.store(now.0.max(1), Ordering::Relaxed);
            }
        }
    }

    /// Takes note on which device a drive lies. One of which that is not known lies on one of its own.
    pub fn set_device(&self, drive: DriveNumber, device: &str) {
        self.lock().set_device(drive, device);
    }

    /// Takes bytes out of the bucket of a drive's device, and says for how many ns to wait before they are used
    /// (REPAIR-BUDGET-1).
    #[must_use]
    pub fn take(&self, request: BudgetRequest) -> u64 {
        let mut buckets = self.lock();
        let has_clients = self.has_clients_in(&buckets, request.drive, request.now);
        let Some(percent) = self.percent_of(request.urgency, has_clients) else { return 0 };
        buckets.of(request.drive, request.now).take(request.bytes, percent, request.now)
    }

    /// Takes note that bytes are on their way to or from a drive.
    pub fn begin(&self, drive: DriveNumber, now: Nanos) {
        self.lock().of(drive, now).meter.begin(now);
    }

    /// Takes note that bytes arrived, or did not.
    pub fn end(&self, drive: DriveNumber, bytes: u64, now: Nanos) {
        self.lock().of(drive, now).meter.end(bytes, now);
    }

    /// Bytes a second that the device of a drive was measured to do.
    #[must_use]
    pub fn measured_bytes_per_s(&self, drive: DriveNumber) -> Option<u64> {
        let buckets = self.lock();
        buckets.by_device.get(&buckets.key_of(drive))?.meter.bytes_per_s
    }

    /// Whether clients use the device of a drive.
    pub(crate) fn has_clients(&self, drive: DriveNumber, now: Nanos) -> bool {
        self.has_clients_in(&self.lock(), drive, now)
    }

    /// The device of a drive.
    pub(crate) fn device_of(&self, drive: DriveNumber) -> DeviceKey {
        self.lock().key_of(drive)
    }

    fn has_clients_in(&self, buckets: &DeviceBuckets, drive: DriveNumber, now: Nanos) -> bool {
        buckets.drives_beside(drive).any(|drive| self.is_used(drive, now))
    }

    /// Whether clients use a drive.
    fn is_used(&self, drive: DriveNumber, now: Nanos) -> bool {
        let last = self.clients.get(drive.index());
        let last = last.map_or(0, |last| last.load(Ordering::Relaxed));
        last > 0 && now.since(Nanos(last)) < CLIENT_REST_NANOS
    }

    /// Which part of what a device does repair gets; `None` where all of it is for repair.
    fn percent_of(&self, urgency: RepairUrgency, has_clients: bool) -> Option<u64> {
        let configured = u64::from(self.percent.load(Ordering::Relaxed));
        match (urgency, has_clients) {
            (RepairUrgency::Exposed | RepairUrgency::Usual, false) => None,
            (RepairUrgency::Exposed, true) => Some(configured.max(EXPOSED_PERCENT)),
            (RepairUrgency::Usual, true) => Some(configured),
            (RepairUrgency::Scrub, _) => Some(configured.div_ceil(2)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, DeviceBuckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device on which drives lie.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum DeviceKey {
    /// A drive whose device is not known.
    Drive(DriveNumber),
    /// A device, by its place among those that were named.
    Device(usize),
}

/// The buckets of a pool's devices.
#[derive(Default)]
struct DeviceBuckets {
    /// Names of devices. None is taken away: they are as many as a process has seen.
    devices: Vec<String>,
    device_of: BTreeMap<DriveNumber, usize>,
    by_device: BTreeMap<DeviceKey, DeviceBucket>,
}

impl DeviceBuckets {
    fn set_device(&mut self, drive: DriveNumber, device: &str) {
        let known = self.devices.iter().position(|it| it == device);
        let index = known.unwrap_or_else(|| {
            self.devices.push(device.to_owned());
            self.devices.len() - 1
        });
        self.device_of.insert(drive, index);
    }

    fn key_of(&self, drive: DriveNumber) -> DeviceKey {
        self.device_of.get(&drive).map_or(DeviceKey::Drive(drive), |it| DeviceKey::Device(*it))
    }

    fn of(&mut self, drive: DriveNumber, now: Nanos) -> &mut DeviceBucket {
        let key = self.key_of(drive);
        self.by_device.entry(key).or_insert_with(|| DeviceBucket::new(now))
    }

    /// A drive, and those that lie on the same device.
    fn drives_beside(&self, drive: DriveNumber) -> impl Iterator<Item = DriveNumber> {
        let device = self.device_of.get(&drive);
        let same = self.device_of.iter().filter(move |(_, it)| Some(*it) == device);
        same.map(|(other, _)| *other).filter(move |other| *other != drive).chain([drive])
    }
}

/// The bucket of one device.
struct DeviceBucket {
    /// What may be used at once; below 0 what was granted ahead of time.
    bytes: i64,
    filled_at: Nanos,
    meter: RateMeter,
}

impl DeviceBucket {
    fn new(now: Nanos) -> Self {
        Self { bytes: 0, filled_at: now, meter: RateMeter::default() }
    }

    fn take(&mut self, bytes: u64, percent: u64, now: Nanos) -> u64 {
        let measured = self.meter.bytes_per_s.unwrap_or_default();
        let rate = (measured / 100).saturating_mul(percent).max(RATE_MIN); // REPAIR-BUDGET-1
        let gained = bytes_in(rate, now.since(self.filled_at));
        self.filled_at = self.filled_at.max(now);
        let most = signed(rate / BURST_DIVISOR);
        let least = -signed(rate.saturating_mul(DEBT_SECONDS_MAX)); // REPAIR-BUDGET-1
        self.bytes = self.bytes.saturating_add(gained).min(most);
        self.bytes = self.bytes.saturating_sub(signed(bytes)).max(least);
        let owed = u64::try_from(-self.bytes).unwrap_or_default();
        let nanos = u128::from(owed) * u128::from(Nanos::seconds(1)) / u128::from(rate);
        u64::try_from(nanos).unwrap_or(Nanos::seconds(DEBT_SECONDS_MAX))
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn bytes_in(rate: u64, nanos: u64) -> i64 {
    let bytes = u128::from(rate) * u128::from(nanos) / u128::from(Nanos::seconds(1));
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// What a device does: bytes by the time in which at least one operation of the mover was under way.
#[derive(Default)]
struct RateMeter {
    under_way: u32,
    busy_since: Nanos,
    busy_nanos: u64,
    bytes: u64,
    bytes_per_s: Option<u64>,
}

impl RateMeter {
    fn begin(&mut self, now: Nanos) {
        if self.under_way == 0 {
            self.busy_since = now;
        }
        self.under_way += 1;
    }

    fn end(&mut self, bytes: u64, now: Nanos) {
        self.under_way = self.under_way.saturating_sub(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.busy_nanos = self.busy_nanos.saturating_add(now.since(self.busy_since));
        self.busy_since = self.busy_since.max(now);
        let least_nanos =
            if self.bytes_per_s.is_some() { MEASURED_NANOS } else { FIRST_MEASURED_NANOS };
        if self.bytes < MEASURED_BYTES || self.busy_nanos < least_nanos {
            return;
        }
        let sample = u128::from(self.bytes) * u128::from(Nanos::seconds(1));
        let sample = u64::try_from(sample / u128::from(self.busy_nanos)).unwrap_or(u64::MAX);
        // Quickly up, as slow samples are of small reads or of clients beside them, and slowly down.
        let before = self.bytes_per_s.unwrap_or(sample);
        self.bytes_per_s = Some(sample.max(before - before / 8 + sample / 8));
        (self.bytes, self.busy_nanos) = (0, 0);
    }
}

#[cfg(test)]
mod tests;
