//! Counts of the last ten periods of time, such as seconds: what is longer ago is forgotten.

/// Periods that count.
const PERIODS: usize = 10;

/// Counts, by the period in which they were made.
#[derive(Clone, Copy, Default)]
pub(crate) struct RecentCounts<T> {
    slots: [PeriodCount<T>; PERIODS],
}

#[derive(Clone, Copy, Default)]
struct PeriodCount<T> {
    period: u64,
    count: T,
}

impl<T: Copy + Default> RecentCounts<T> {
    /// The count of a period, none of which comes after a later one.
    pub(crate) fn of(&mut self, period: u64) -> &mut T {
        let at = usize::try_from(period % PERIODS as u64).expect("below 10");
        let slot = self.slots.get_mut(at).expect("below 10");
        if slot.period != period {
            *slot = PeriodCount { period, count: T::default() };
        }
        &mut slot.count
    }

    /// The counts of the ten periods of which `period` is the last.
    pub(crate) fn recent(&self, period: u64) -> impl Iterator<Item = T> {
        let is_recent = move |slot: &&PeriodCount<T>| slot.period + PERIODS as u64 > period;
        self.slots.iter().filter(is_recent).map(|slot| slot.count)
    }
}
