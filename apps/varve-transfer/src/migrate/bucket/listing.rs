//! The versions of a bucket at both sides, and in what they differ.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

use varve_access_admin::v1::StoredVersion;
use varve_client::Result;

use super::super::side::MigrationSide;

/// A key, and its versions from the newest on.
pub(super) struct Key {
    pub(super) key: String,
    pub(super) versions: Vec<StoredVersion>,
}

/// What is to be done at the target with a key.
#[derive(PartialEq, Debug)]
pub(super) struct Difference {
    pub(super) key: String,
    /// Orders of the versions that go.
    pub(super) removed: Vec<u64>,
    /// Versions that come then, from the oldest on (MIGRATE-BUCKET-3).
    pub(super) sent: Vec<StoredVersion>,
}

/// The keys of a bucket in order, read by pages.
pub(super) struct KeyListing<'a> {
    side: &'a MigrationSide,
    bucket: &'a str,
    page: VecDeque<StoredVersion>,
    after: Option<(String, u64)>,
    is_last: bool,
}

impl<'a> KeyListing<'a> {
    pub(super) fn new(side: &'a MigrationSide, bucket: &'a str) -> Self {
        Self { side, bucket, page: VecDeque::new(), after: None, is_last: false }
    }

    /// Sees to it that there is a version, if there is one.
    fn fill(&mut self) -> Result<()> {
        while self.page.is_empty() && !self.is_last {
            let after = self.after.as_ref().map(|(key, order)| (key.as_str(), *order));
            let page = self.side.versions_after(self.bucket, after)?;
            self.after = page.versions.last().map(|last| (last.key.clone(), last.order));
            self.is_last = !page.more || page.versions.is_empty();
            self.page = page.versions.into();
        }
        Ok(())
    }

    /// The next key, with all its versions.
    fn next(&mut self) -> Result<Option<Key>> {
        self.fill()?;
        let Some(first) = self.page.pop_front() else { return Ok(None) };
        let mut found = Key { key: first.key.clone(), versions: vec![first] };
        loop {
            self.fill()?;
            match self.page.pop_front_if(|next| next.key == found.key) {
                Some(version) => found.versions.push(version),
                None => return Ok(Some(found)),
            }
        }
    }
}

/// The versions of one key.
pub(super) fn versions_of(
    side: &MigrationSide,
    bucket: &str,
    key: &str,
) -> Result<Vec<StoredVersion>> {
    let mut all: Vec<StoredVersion> = Vec::new();
    loop {
        let after = all.last().map(|last| last.order);
        let page = side.versions_of(bucket, key, after)?;
        let is_last = !page.more || page.versions.is_empty();
        all.extend(page.versions);
        if is_last {
            return Ok(all);
        }
    }
}

/// Goes through all keys of both sides in order, and says of each in what it differs, if it does.
pub(super) fn compare(
    mut there: KeyListing<'_>,
    mut here: KeyListing<'_>,
    mut passed: impl FnMut(Option<Difference>) -> Result<()>,
) -> Result<()> {
    let (mut one, mut other) = (there.next()?, here.next()?);
    loop {
        let order = match (&one, &other) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one.key.cmp(&other.key),
        };
        let at_source = if order.is_le() { one.take() } else { None };
        let at_target = if order.is_ge() { other.take() } else { None };
        passed(differ(at_source, at_target))?;
        if order.is_le() {
            one = there.next()?;
        }
        if order.is_ge() {
            other = here.next()?;
        }
    }
}

/// In what a key differs, which one of the two sides may not have.
fn differ(there: Option<Key>, here: Option<Key>) -> Option<Difference> {
    let key = there.as_ref().or(here.as_ref())?.key.clone();
    let versions = |key: Option<Key>| key.map_or_else(Vec::new, |key| key.versions);
    difference(key, versions(there), &versions(here))
}

/// In what a key differs, from its versions at both sides (MIGRATE-BUCKET-1, MIGRATE-BUCKET-3).
pub(super) fn difference(
    key: String,
    there: Vec<StoredVersion>,
    here: &[StoredVersion],
) -> Option<Difference> {
    let by_order: BTreeMap<u64, &StoredVersion> = here.iter().map(|v| (v.order, v)).collect();
    let lacks = |version: &&StoredVersion| by_order.get(&version.order) != Some(version);
    let first = there.iter().filter(lacks).map(|version| version.order).min();
    let kept: BTreeMap<u64, &StoredVersion> = there
        .iter()
        .filter(|version| first.is_none_or(|first| version.order < first))
        .map(|version| (version.order, version))
        .collect();
    let goes = |version: &&StoredVersion| kept.get(&version.order) != Some(version);
    let removed: Vec<u64> = here.iter().filter(goes).map(|version| version.order).collect();
    let mut sent: Vec<StoredVersion> = match first {
        Some(first) => there.into_iter().filter(|version| version.order >= first).collect(),
        None => Vec::new(),
    };
    sent.sort_by_key(|version| version.order);
    (!removed.is_empty() || !sent.is_empty()).then_some(Difference { key, removed, sent })
}

#[cfg(test)]
mod tests {
    use varve_access_admin::v1::Base64;

    use super::*;

    /// Versions by order and moment, from the newest on.
    fn versions(all: &[(u64, u64)]) -> Vec<StoredVersion> {
        let version = |(order, modified_ms): &(u64, u64)| StoredVersion {
            key: "k".to_owned(),
            order: *order,
            null: false,
            marker: false,
            size: 1,
            modified_ms: *modified_ms,
            attributes: Base64(Vec::new()),
        };
        all.iter().map(version).collect()
    }

    /// Orders that are removed, and sent.
    fn differ(there: &[(u64, u64)], here: &[(u64, u64)]) -> Option<(Vec<u64>, Vec<u64>)> {
        let found = difference("k".to_owned(), versions(there), &versions(here))?;
        Some((found.removed, found.sent.iter().map(|version| version.order).collect()))
    }

    #[test]
    fn a_key_is_sent_anew_from_the_first_version_that_differs() {
        assert_eq!(differ(&[], &[]), None);
        assert_eq!(differ(&[(2, 0), (1, 0)], &[(2, 0), (1, 0)]), None);
        assert_eq!(differ(&[(2, 0), (1, 0)], &[]), Some((vec![], vec![1, 2])));
        assert_eq!(differ(&[(3, 0), (1, 0)], &[(1, 0)]), Some((vec![], vec![3])), "newer ones");
        assert_eq!(differ(&[], &[(2, 0), (1, 0)]), Some((vec![2, 1], vec![])), "deleted");
        assert_eq!(
            differ(&[(3, 0), (1, 0)], &[(3, 0), (2, 0), (1, 0)]),
            Some((vec![2], vec![])),
            "newer ones than one that was deleted stay"
        );
        assert_eq!(
            differ(&[(3, 0), (2, 0), (1, 0)], &[(3, 0), (1, 0)]),
            Some((vec![3], vec![2, 3])),
            "none comes below another"
        );
        assert_eq!(
            differ(&[(3, 0), (2, 9), (1, 0)], &[(3, 0), (2, 0), (1, 0)]),
            Some((vec![3, 2], vec![2, 3])),
            "of one order, but not the same"
        );
        assert_eq!(
            differ(&[(1, 9)], &[(5, 0), (1, 0)]),
            Some((vec![5, 1], vec![1])),
            "a key that was deleted and made anew"
        );
    }

    /// Whatever both sides have, the target has what the source has then, and no version comes below another one.
    #[test]
    fn what_is_done_makes_the_two_equal() {
        for case in 0..4096_u64 {
            // Two bits for each of three orders at each side: none, or one of three versions.
            let side = |bits: u64| -> Vec<(u64, u64)> {
                (0..3).rev().map(|n| (n + 1, (bits >> (2 * n)) & 3)).filter(|v| v.1 > 0).collect()
            };
            let (there, here) = (side(case & 63), side(case >> 6));
            let mut now = versions(&here);
            if let Some(found) = difference("k".to_owned(), versions(&there), &now) {
                for order in found.removed {
                    let before = now.len();
                    now.retain(|version| version.order != order);
                    assert_eq!(now.len() + 1, before, "{case}: {order} is there to be removed");
                }
                for version in found.sent {
                    assert!(now.first().is_none_or(|newest| newest.order < version.order));
                    now.insert(0, version);
                }
            }
            assert_eq!(now, versions(&there), "{case}");
        }
    }
}
