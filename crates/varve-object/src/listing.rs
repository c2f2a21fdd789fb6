//! Listings of keys and versions: one page at a time, over any ordered cursor, on any number of shards.
//!
//! A store walks its versions in the order of keys, those of a key from the newest on, and hands each to a [`Lister`],
//! which says where to go on; a group of keys with a common prefix is so passed in one jump. Pages of several shards
//! become one by [`ListPage::merge`].
//!
//! LISTING-1. Items are ordered by key or group, versions of a key from the newest on; a page holds what comes next
//!     after its marker, without gaps.
//! LISTING-2. A group stands for at least one key that would be listed itself.
//! LISTING-3. A page holds the version without an id of a key once. While the cursor moves on it may go and another one
//!     come at an older place: the order of a new version exceeds only those that are there.

use crate::store::Version;

/// Attributes of a page end it at this many bytes, so that records of many parts do not add up.
const PAGE_BYTES_MAX: usize = 4 << 20;

/// Where a listing goes on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Marker {
    /// At the beginning.
    #[default]
    Start,
    /// Behind this key and all its versions. If it is a group, behind all its keys.
    Key(String),
    /// Behind this version of the key, at the older ones; where only the newest are listed, behind the key.
    Version(String, u64),
}

/// What a page shall hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListQuery {
    /// Only keys that begin so.
    pub prefix: String,
    /// Keys that have this after the prefix are grouped up to its end; empty: no groups.
    pub delimiter: String,
    /// Where the page begins.
    pub after: Marker,
    /// Most items of the page, at least 1.
    pub limit: usize,
    /// All versions and delete markers, not only the newest versions of what exists.
    pub versions: bool,
}

/// An entry of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item {
    /// A version.
    Version {
        /// Its key.
        key: String,
        /// It is the newest of its key.
        newest: bool,
        /// The version.
        version: Version,
    },
    /// The common prefix of a group of keys.
    Group(String),
}

/// Part of a listing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListPage {
    /// What it holds, in order.
    pub items: Vec<Item>,
    /// Something follows. A page may end before its limit.
    pub more: bool,
}

/// Where a cursor shall go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CursorStep {
    /// To the next version of the key, or to the next key.
    Next,
    /// To the first key that is not less than this one.
    Seek(String),
    /// Nowhere: the page ends.
    End,
}

/// Makes a page of what a cursor meets.
#[derive(Debug)]
pub struct Lister<'q> {
    query: &'q ListQuery,
    page: ListPage,
    bytes: usize,
    /// The key met last, whose newest version has been seen.
    key: Option<String>,
    /// Its version without an id has been seen.
    null_seen: bool,
}

impl Item {
    /// The place in the listing: by key, then from the newest version on.
    fn place(&self) -> (&str, u64) {
        match self {
            Self::Version { key, version, .. } => (key, u64::MAX - version.order),
            Self::Group(prefix) => (prefix, 0),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Version { key, version, .. } => key.len() + version.attributes.len(),
            Self::Group(prefix) => prefix.len(),
        }
    }

    /// The marker of a page that goes on behind this item.
    pub fn marker(&self) -> Marker {
        match self {
            Self::Version { key, version, .. } => Marker::Version(key.clone(), version.order),
            Self::Group(prefix) => Marker::Key(prefix.clone()),
        }
    }
}

impl ListQuery {
    /// The group that `key` falls into, if it does (LISTING-2).
    fn group<'k>(&self, key: &'k str) -> Option<&'k str> {
        if self.delimiter.is_empty() {
            return None;
        }
        let rest = key.strip_prefix(self.prefix.as_str())?;
        let at = rest.find(&self.delimiter)?;
        key.get(..self.prefix.len() + at + self.delimiter.len())
    }
}

impl<'q> Lister<'q> {
    /// Begins a page.
    pub fn new(query: &'q ListQuery) -> Self {
        assert!(query.limit > 0);
        Self { query, page: ListPage::default(), bytes: 0, key: None, null_seen: false }
    }

    /// The key at which the cursor begins, at its newest version: the first that is not less.
    pub fn start(&self) -> String {
        let after = match &self.query.after {
            Marker::Start => return self.query.prefix.clone(),
            Marker::Key(key) if self.query.group(key) == Some(key.as_str()) => {
                behind_prefix(key).unwrap_or_default()
            }
            Marker::Key(key) => format!("{key}\0"),
            Marker::Version(key, _) => key.clone(),
        };
        after.max(self.query.prefix.clone())
    }

    /// Takes the version that the cursor stands at.
    pub fn take(&mut self, key: &str, version: &Version) -> CursorStep {
        let Some(_) = key.strip_prefix(self.query.prefix.as_str()) else {
            return CursorStep::End;
        };
        let newest = self.key.as_deref() != Some(key);
        if newest {
            self.key = Some(key.to_owned());
            self.null_seen = false;
        }
        if version.null && std::mem::replace(&mut self.null_seen, true) {
            return CursorStep::Next; // LISTING-3
        }
        if !self.query.versions && (!newest || version.marker) {
            return if newest { CursorStep::Seek(format!("{key}\0")) } else { CursorStep::Next };
        }
        if let Some(step) = self.passed(key, version) {
            return step;
        }
        match self.query.group(key) {
            Some(group) => {
                let behind = behind_prefix(group);
                let group = group.to_owned();
                self.push(Item::Group(group), behind.map_or(CursorStep::End, CursorStep::Seek))
            }
            None => {
                let step = if self.query.versions {
                    CursorStep::Next
                } else {
                    CursorStep::Seek(format!("{key}\0"))
                };
                self.push(
                    Item::Version { key: key.to_owned(), newest, version: version.clone() },
                    step,
                )
            }
        }
    }

    /// The page, when the cursor is at its end or was told to end.
    pub fn finish(self) -> ListPage {
        self.page
    }

    /// The step past what stands before the marker.
    fn passed(&self, key: &str, version: &Version) -> Option<CursorStep> {
        match &self.query.after {
            Marker::Start => None,
            Marker::Version(after, order) => {
                let passed = key < after.as_str()
                    || (key == after && (!self.query.versions || version.order >= *order));
                passed.then_some(if self.query.versions {
                    CursorStep::Next
                } else {
                    CursorStep::Seek(format!("{key}\0"))
                })
            }
            Marker::Key(after) if key <= after.as_str() => {
                Some(CursorStep::Seek(format!("{key}\0")))
            }
            Marker::Key(after) if self.query.group(key) == Some(after.as_str()) => {
                Some(behind_prefix(after).map_or(CursorStep::End, CursorStep::Seek))
            }
            Marker::Key(_) => None,
        }
    }

    fn push(&mut self, item: Item, step: CursorStep) -> CursorStep {
        if self.page.items.len() == self.query.limit || self.bytes >= PAGE_BYTES_MAX {
            self.page.more = true;
            return CursorStep::End;
        }
        self.bytes += item.len();
        self.page.items.push(item);
        step
    }
}

impl ListPage {
    /// One page of those of several shards, each made for the same query.
    pub fn merge(pages: Vec<Self>, limit: usize) -> Self {
        // LISTING-1: behind the end of a page that is not the last of its shard nothing may follow.
        let end = pages
            .iter()
            .filter(|page| page.more)
            .filter_map(|page| page.items.last())
            .map(owned_place)
            .min();
        let mut more = pages.iter().any(|page| page.more);
        let mut items: Vec<Item> = pages.into_iter().flat_map(|page| page.items).collect();
        items.sort_by(|a, b| a.place().cmp(&b.place()));
        items.dedup_by(|a, b| matches!((&*a, &*b), (Item::Group(a), Item::Group(b)) if a == b));
        if let Some(end) = end {
            items.retain(|item| owned_place(item) <= end);
        }
        if items.len() > limit {
            items.truncate(limit);
            more = true;
        }
        Self { items, more }
    }
}

fn owned_place(item: &Item) -> (String, u64) {
    let (key, order) = item.place();
    (key.to_owned(), order)
}

/// The first string behind all that begin with `prefix`; none when nothing can be.
fn behind_prefix(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next =
            if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    type Keys = BTreeMap<String, Vec<Version>>;

    fn version(order: u64, marker: bool) -> Version {
        Version {
            order,
            null: false,
            marker,
            size: 1,
            modified_ms: order,
            attributes: Bytes::new(),
        }
    }

    fn walk(keys: &Keys, query: &ListQuery) -> ListPage {
        let mut lister = Lister::new(query);
        let mut at = lister.start();
        'keys: while let Some((key, versions)) = keys.range(at..).next() {
            at = format!("{key}\0");
            for version in versions {
                match lister.take(key, version) {
                    CursorStep::Next => {}
                    CursorStep::Seek(to) => {
                        at = to;
                        continue 'keys;
                    }
                    CursorStep::End => break 'keys,
                }
            }
        }
        lister.finish()
    }

    /// All items at once, written as plainly as can be.
    fn model(keys: &Keys, query: &ListQuery) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        for (key, versions) in keys.iter().filter(|(key, _)| key.starts_with(&query.prefix)) {
            for (index, version) in versions.iter().enumerate() {
                if !query.versions && (index > 0 || version.marker) {
                    continue;
                }
                let item = match query.group(key) {
                    Some(group) => Item::Group(group.to_owned()),
                    None => Item::Version {
                        key: key.clone(),
                        newest: index == 0,
                        version: version.clone(),
                    },
                };
                if items.last() != Some(&item) {
                    items.push(item);
                }
            }
        }
        items
    }

    fn keys() -> impl Strategy<Value = Keys> {
        let versions = prop::collection::vec(any::<bool>(), 1..4).prop_map(|markers| {
            (1..=3).rev().zip(markers).map(|(order, marker)| version(order, marker)).collect()
        });
        prop::collection::btree_map("[ab/é\u{10ffff}]{1,5}", versions, 0..30)
    }

    proptest! {
        #[test]
        fn pages_join_to_the_whole(keys in keys(), prefix in "[ab/]{0,2}", delimiter in "(/|b|)", limit in 1usize..5, versions: bool, shards in 1usize..4) {
            let mut query = ListQuery { prefix, delimiter, after: Marker::Start, limit, versions };
            let expected = model(&keys, &query);
            let mut split = vec![Keys::new(); shards];
            for (index, (key, versions)) in keys.into_iter().enumerate() {
                split[(index * 7) % shards].insert(key, versions);
            }
            let mut found = Vec::new();
            loop {
                let page = ListPage::merge(split.iter().map(|keys| walk(keys, &query)).collect(), limit);
                prop_assert!(page.items.len() <= limit);
                prop_assert!(!page.more || !page.items.is_empty());
                found.extend(page.items.iter().cloned());
                let Some(last) = page.items.last() else { break };
                query.after = last.marker();
                if !page.more {
                    break;
                }
            }
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_key_as_marker_skips_its_versions_and_keeps_the_group_it_lies_in() {
        let keys: Keys = ["a/1", "a/2", "b"]
            .into_iter()
            .map(|key| (key.to_owned(), vec![version(2, false), version(1, false)]))
            .collect();
        let query = |after: &str| ListQuery {
            delimiter: "/".to_owned(),
            after: Marker::Key(after.to_owned()),
            limit: 10,
            versions: true,
            ..ListQuery::default()
        };
        assert_eq!(
            walk(&keys, &query("a/1")).items.len(),
            3,
            "a group with keys behind the marker, and two versions"
        );
        assert_eq!(
            walk(&keys, &query("a/")).items.len(),
            2,
            "a group as marker is passed as a whole"
        );
        assert!(walk(&keys, &query("b")).items.is_empty());
    }

    #[test]
    fn a_version_without_an_id_that_went_and_came_again_is_listed_once() {
        let query = ListQuery { limit: 10, versions: true, ..ListQuery::default() };
        let mut lister = Lister::new(&query);
        let null = |order| Version { null: true, ..version(order, false) };
        // Those of "a" were never there together.
        let met = [("a", null(5)), ("a", version(4, false)), ("a", null(2)), ("b", null(1))];
        for (key, version) in &met {
            assert_eq!(lister.take(key, version), CursorStep::Next);
        }
        let markers: Vec<Marker> = lister.finish().items.iter().map(Item::marker).collect();
        let at = |key: &str, order| Marker::Version(key.to_owned(), order);
        assert_eq!(markers, [at("a", 5), at("a", 4), at("b", 1)]);
    }

    #[test]
    fn the_end_of_a_prefix_is_found_at_the_edges_of_unicode() {
        assert_eq!(behind_prefix("a\u{10ffff}"), Some("b".to_owned()));
        assert_eq!(behind_prefix("\u{d7ff}"), Some("\u{e000}".to_owned()));
        assert_eq!(behind_prefix("\u{10ffff}"), None);
        assert_eq!(behind_prefix(""), None);
    }
}
