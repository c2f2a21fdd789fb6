//! Rates that the budget of repair gives, by a clock of the tests.

use super::*;
use crate::format::tests::samples::drive_number;

const SECOND: u64 = Nanos::seconds(1);
const MIB: u64 = 1 << 20;

fn request(bytes: u64, urgency: RepairUrgency, now: u64) -> BudgetRequest {
    BudgetRequest { drive: drive_number(0), bytes, urgency, now: Nanos(now) }
}

/// Has drive 0 do so much in a second.
fn measure(budget: &RepairBudget, bytes: u64, now: u64) {
    budget.begin(drive_number(0), Nanos(now));
    budget.end(drive_number(0), bytes, Nanos(now + SECOND));
}

/// Bytes a second that come out when blocks of 1 MiB are asked for during ten seconds.
fn rate(budget: &RepairBudget, urgency: RepairUrgency, has_clients: bool) -> u64 {
    let (begins, mut now, mut bytes) = (100 * SECOND, 100 * SECOND, 0);
    while now < begins + 10 * SECOND {
        if has_clients {
            budget.client_uses(drive_number(0), Nanos(now));
        }
        now += budget.take(request(MIB, urgency, now));
        bytes += MIB;
    }
    bytes / 10
}

#[test]
fn clients_leave_the_configured_part() {
    for (urgency, has_clients, percent) in [
        (RepairUrgency::Usual, true, 40),
        (RepairUrgency::Exposed, true, 90),
        (RepairUrgency::Scrub, true, 20),
        (RepairUrgency::Scrub, false, 20),
    ] {
        let budget = RepairBudget::new(40);
        measure(&budget, 1000 * MIB, SECOND);
        let (found, expected) = (rate(&budget, urgency, has_clients), 1000 * MIB / 100 * percent);
        let difference = found.abs_diff(expected);
        assert!(difference < expected / 20, "{urgency:?} {has_clients}: {found} for {expected}");
    }
}

#[test]
fn nothing_is_kept_for_clients_that_are_not_there() {
    let budget = RepairBudget::new(40);
    for urgency in [RepairUrgency::Usual, RepairUrgency::Exposed] {
        assert_eq!(budget.take(request(1 << 40, urgency, SECOND)), 0, "not measured yet");
    }
    budget.client_uses(drive_number(0), Nanos(SECOND));
    assert!(budget.take(request(MIB, RepairUrgency::Usual, SECOND)) > 0);
    assert_eq!(budget.take(request(1 << 40, RepairUrgency::Usual, 3 * SECOND)), 0);
}

#[test]
fn a_drive_that_does_nothing_is_granted_the_least_rate() {
    let budget = RepairBudget::new(1);
    measure(&budget, MIB, SECOND);
    let found = rate(&budget, RepairUrgency::Scrub, true);
    assert!((RATE_MIN..RATE_MIN * 11 / 10).contains(&found), "{found}");
}

#[test]
fn nobody_waits_without_end() {
    let budget = RepairBudget::new(40);
    budget.client_uses(drive_number(0), Nanos(SECOND));
    let waits: Vec<_> =
        (0..100).map(|_| budget.take(request(1 << 40, RepairUrgency::Usual, SECOND))).collect();
    assert!(waits.iter().all(|wait| *wait <= DEBT_SECONDS_MAX * SECOND), "{waits:?}");
    assert!(waits.iter().all(|wait| *wait > 0), "what is owed is waited for");
}

#[test]
fn time_that_operations_have_in_common_is_counted_once() {
    let (budget, drive) = (RepairBudget::new(40), drive_number(3));
    for _ in 0..4 {
        budget.begin(drive, Nanos(SECOND));
    }
    for _ in 0..4 {
        budget.end(drive, 25 * MIB, Nanos(2 * SECOND));
    }
    assert_eq!(budget.measured_bytes_per_s(drive), Some(25 * MIB), "the first of them");
    budget.begin(drive, Nanos(5 * SECOND));
    budget.end(drive, 25 * MIB, Nanos(6 * SECOND));
    assert_eq!(budget.measured_bytes_per_s(drive), Some(100 * MIB), "what came at once is added");
    assert_eq!(budget.measured_bytes_per_s(drive_number(0)), None);
}

#[test]
fn a_fast_drive_is_measured_soon() {
    let (budget, drive) = (RepairBudget::new(40), drive_number(0));
    let part = |at: u64| {
        budget.begin(drive, Nanos(at));
        budget.end(drive, MIB, Nanos(at + Nanos::millis(1)));
        budget.measured_bytes_per_s(drive)
    };
    let first = (1..100).find(|turn| part(turn * SECOND).is_some());
    assert_eq!(first, Some(10), "1 MiB in 1 ms each");
    assert_eq!(budget.measured_bytes_per_s(drive), Some(1000 * MIB));
}

#[test]
fn drives_on_one_device_share_what_it_does() {
    let budget = RepairBudget::new(40);
    (0..3).for_each(|number| budget.set_device(drive_number(number), "sda"));
    budget.set_device(drive_number(3), "sdb");
    measure(&budget, 1000 * MIB, SECOND);
    assert_eq!(budget.measured_bytes_per_s(drive_number(2)), Some(1000 * MIB));
    assert_eq!(budget.measured_bytes_per_s(drive_number(3)), None);
    let (begins, mut now, mut bytes) = (100 * SECOND, 100 * SECOND, 0);
    while now < begins + 10 * SECOND {
        budget.client_uses(drive_number(1), Nanos(now));
        for number in 0..3 {
            let drive = drive_number(number);
            let request = BudgetRequest { drive, ..request(MIB, RepairUrgency::Usual, now) };
            now += budget.take(request);
            bytes += MIB;
        }
    }
    assert!((390 * MIB..410 * MIB).contains(&(bytes / 10)), "{bytes} in 10 s");
}

#[test]
fn a_number_that_is_given_again_goes_by_its_new_device() {
    let budget = RepairBudget::new(40);
    (0..2).for_each(|number| budget.set_device(drive_number(number), "sda"));
    measure(&budget, 1000 * MIB, SECOND);
    budget.set_device(drive_number(0), "sdb");
    assert_eq!(budget.measured_bytes_per_s(drive_number(0)), None);
    assert_eq!(budget.measured_bytes_per_s(drive_number(1)), Some(1000 * MIB));
}
