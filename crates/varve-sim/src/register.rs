//! What a reader may see of one thing (a block, a key) that several writers change at once, across power cuts.
//!
//! Every version has the time it was issued and the time it was acknowledged. Times are steps of a counter that never
//! goes back.
//!
//! SIM-REGISTER-1. A version is over once another that was issued after its acknowledgement has been acknowledged.
//! SIM-REGISTER-2. A read may return any version that was not over when the read was issued.
//! SIM-REGISTER-3. What a read returned is not older than what an earlier read returned: every version that was
//!     acknowledged before the read was issued, and was not returned, is over.
//! SIM-REGISTER-4. A power cut turns "under way" into "happened or not": the version stays possible until a read or a
//!     later write decides.

use std::collections::VecDeque;

/// Not acknowledged yet.
const UNDER_WAY: u64 = u64::MAX;

/// One version.
#[derive(Clone, Debug)]
struct EntryVersion<T> {
    operation: u64,
    value: T,
    issued: u64,
    acknowledged: u64,
}

/// Versions that are over and may still be returned by reads that were issued before: more than a slow read of a hot
/// block outlives.
const FORMER_MAX: usize = 4096;

/// All versions that a reader may see now.
#[derive(Clone, Debug)]
pub(crate) struct Register<T> {
    versions: Vec<EntryVersion<T>>,
    /// Those that are over, and since when.
    former: VecDeque<(T, u64)>,
}

impl<T: Clone + PartialEq> Register<T> {
    /// A thing that always held `value`.
    pub(crate) fn new(value: T) -> Self {
        let first = EntryVersion { operation: 0, value, issued: 0, acknowledged: 0 };
        Self { versions: vec![first], former: VecDeque::new() }
    }

    /// A copy that was made between `since` and `now`: it holds one of the values that a reader could have seen in that
    /// time.
    pub(crate) fn copied(&self, since: u64, now: u64) -> Self {
        let version = |value: &T| EntryVersion {
            operation: 0,
            value: value.clone(),
            issued: since,
            acknowledged: now,
        };
        Self {
            versions: self.possible_since(since).map(version).collect(),
            former: VecDeque::new(),
        }
    }

    fn retain(&mut self, now: u64, keep: impl Fn(&EntryVersion<T>) -> bool) {
        for version in self.versions.extract_if(.., |version| !keep(version)) {
            self.former.push_back((version.value, now));
        }
        while self.former.len() > FORMER_MAX {
            self.former.pop_front();
        }
    }

    /// A writer asks for `value`.
    pub(crate) fn issue(&mut self, operation: u64, value: T, now: u64) {
        self.versions.push(EntryVersion { operation, value, issued: now, acknowledged: UNDER_WAY });
    }

    /// The writer was told that it happened (SIM-REGISTER-1).
    pub(crate) fn acknowledge(&mut self, operation: u64, now: u64) {
        let Some(version) = self.versions.iter_mut().find(|version| version.operation == operation)
        else {
            return; // Over already: a read saw something newer.
        };
        version.acknowledged = version.acknowledged.min(now);
        let issued = version.issued;
        self.retain(now, |version| {
            version.operation == operation || version.acknowledged >= issued
        });
    }

    /// The writer will never learn whether it happened (SIM-REGISTER-4).
    pub(crate) fn give_up(&mut self, operation: u64, now: u64) {
        for version in &mut self.versions {
            if version.operation == operation {
                version.acknowledged = version.acknowledged.min(now);
            }
        }
    }

    /// Power was cut: nothing is under way any more (SIM-REGISTER-4), reads that were issued before as little.
    pub(crate) fn cut(&mut self, now: u64) {
        self.former = VecDeque::new();
        for version in &mut self.versions {
            version.acknowledged = version.acknowledged.min(now);
        }
    }

    /// The same thing after a power cut now.
    pub(crate) fn after_cut(&self, now: u64) -> Self {
        let mut cut = Self { versions: self.versions.clone(), former: VecDeque::new() };
        cut.cut(now);
        cut
    }

    /// Versions that a read issued at `issued` may return although they are over since: the last ones that are.
    fn former_since(&self, issued: u64) -> impl Iterator<Item = &T> {
        let first = self.former.partition_point(|(_, over)| *over <= issued);
        self.former.range(first..).map(|(value, _)| value)
    }

    /// Everything that a read issued at `issued` may have returned by now (SIM-REGISTER-2).
    pub(crate) fn possible_since(&self, issued: u64) -> impl Iterator<Item = &T> {
        self.former_since(issued).chain(self.versions.iter().map(|version| &version.value))
    }

    /// The value, if there is only one possible.
    pub(crate) fn settled(&self) -> Option<&T> {
        let (first, rest) = self.versions.split_first()?;
        rest.iter().all(|version| version.value == first.value).then_some(&first.value)
    }

    /// A read issued at `issued` returned a value that `accept` knows. False when it must not (SIM-REGISTER-2).
    #[must_use]
    pub(crate) fn observe(&mut self, accept: impl Fn(&T) -> bool, issued: u64, now: u64) -> bool {
        if self.former_since(issued).any(&accept) {
            return true; // Over since: says nothing about the versions that are left.
        }
        let mut matching = self.versions.iter_mut().filter(|version| accept(&version.value));
        let Some(first) = matching.next() else { return false };
        if matching.next().is_none() {
            first.acknowledged = first.acknowledged.min(now);
            let (operation, since) = (first.operation, first.issued);
            self.retain(now, |version| {
                version.operation == operation || version.acknowledged >= since
            });
        }
        self.retain(now, |version| accept(&version.value) || version.acknowledged >= issued); // SIM-REGISTER-3
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sees(register: &mut Register<u32>, value: u32, issued: u64, now: u64) -> bool {
        register.observe(|found| *found == value, issued, now)
    }

    #[test]
    fn acknowledged_values_are_not_lost() {
        let mut register = Register::new(0);
        register.issue(1, 10, 1);
        register.acknowledge(1, 2);
        register.cut(3);
        assert!(!sees(&mut register, 0, 4, 5));
        assert!(sees(&mut register, 10, 4, 5));
    }

    #[test]
    fn a_cut_write_may_or_may_not_have_happened_until_a_read_decides() {
        for kept in [0u32, 10] {
            let mut register = Register::new(0);
            register.issue(1, 10, 1);
            register.cut(2);
            assert!(sees(&mut register, kept, 3, 4));
            assert!(!sees(&mut register, 10 - kept, 5, 6));
        }
    }

    #[test]
    fn writes_at_the_same_time_may_end_either_way_but_not_both() {
        let mut register = Register::new(0);
        register.issue(1, 10, 1);
        register.issue(2, 20, 2);
        register.acknowledge(1, 3);
        register.acknowledge(2, 4);
        assert!(!sees(&mut register.clone(), 0, 5, 6));
        assert!(sees(&mut register, 10, 5, 6));
        assert!(!sees(&mut register, 20, 7, 8));
    }

    #[test]
    fn what_was_read_is_not_lost_by_a_cut() {
        let mut register = Register::new(0);
        register.issue(1, 10, 1);
        assert!(sees(&mut register, 10, 2, 3));
        register.cut(4);
        assert!(!sees(&mut register, 0, 5, 6));
    }

    #[test]
    fn a_read_may_return_what_was_overwritten_while_it_ran() {
        let mut register = Register::new(0);
        register.issue(1, 10, 2);
        register.acknowledge(1, 3);
        assert!(register.observe(|found| *found == 0, 1, 4));
        assert!(!sees(&mut register, 0, 5, 6));
    }
}
