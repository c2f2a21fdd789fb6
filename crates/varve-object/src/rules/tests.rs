//! Sequences of puts and deletions on one key, under each versioning, with conditions and locks.

use super::*;
use crate::store::Select;

const NOW: u64 = 1_700_000_000_000;

/// Versions of one key, changed as a store would.
#[derive(Default)]
struct Key {
    versions: Vec<Version>,
}

impl Key {
    fn view(&self, named: Option<Select>) -> KeyView {
        let find = |select| {
            self.versions.iter().enumerate().find(|(index, version)| match select {
                Select::Newest => *index == 0,
                Select::Null => version.null,
                Select::Order(order) => version.order == order,
            })
        };
        let get = |select| find(select).map(|(_, version)| version.clone());
        KeyView { newest: get(Select::Newest), null: get(Select::Null), named: named.and_then(get) }
    }

    fn apply(&mut self, change: KeyChange) {
        self.versions.retain(|version| Some(version.order) != change.remove);
        if let Some(version) = change.put {
            assert!(self.versions.first().is_none_or(|newest| newest.order < version.order));
            self.versions.insert(0, version);
        }
        if let Some((order, attributes)) = change.replace {
            self.versions.iter_mut().find(|version| version.order == order).unwrap().attributes =
                attributes;
        }
        assert!(self.versions.iter().filter(|version| version.null).count() <= 1, "RULES-1");
    }

    fn put(&mut self, versioning: Versioning, etag: &str) {
        self.try_put(versioning, etag, Conditions::default()).unwrap();
    }

    fn try_put(
        &mut self,
        versioning: Versioning,
        etag: &str,
        conditions: Conditions,
    ) -> Result<()> {
        let attributes = Attributes { etag: etag.to_owned(), ..Attributes::default() }.encode();
        let change = put(
            &self.view(None),
            ObjectPut {
                key: "k".to_owned(),
                versioning,
                now_ms: NOW,
                size: 1,
                attributes,
                conditions,
            },
        )?;
        self.apply(change);
        Ok(())
    }

    fn delete(
        &mut self,
        versioning: Versioning,
        named: Option<Select>,
        bypass: bool,
    ) -> Result<()> {
        let request = ObjectDeletion {
            key: "k".to_owned(),
            versioning,
            now_ms: NOW,
            named: named.is_some(),
            bypass,
            owner: "o".to_owned(),
            conditions: Conditions::default(),
        };
        let change = delete(&self.view(named), request)?;
        self.apply(change);
        Ok(())
    }

    /// `e` for an entity tag, `-` for a marker, in brackets without an id; the newest first.
    fn shape(&self) -> String {
        let text = |version: &Version| {
            let name = if version.marker {
                "-".to_owned()
            } else {
                Attributes::decode(&version.attributes).unwrap().etag
            };
            if version.null { format!("({name})") } else { name }
        };
        self.versions.iter().map(text).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn a_bucket_without_versions_keeps_one_object() {
    let mut key = Key::default();
    key.put(Versioning::Off, "a");
    key.put(Versioning::Off, "b");
    assert_eq!(key.shape(), "(b)");
    key.delete(Versioning::Off, None, false).unwrap();
    assert_eq!(key.shape(), "");
    key.delete(Versioning::Off, None, false).unwrap();
}

#[test]
fn versions_pile_up_and_markers_hide_them() {
    let mut key = Key::default();
    key.put(Versioning::Off, "a");
    key.put(Versioning::Enabled, "b");
    key.delete(Versioning::Enabled, None, false).unwrap();
    key.put(Versioning::Enabled, "c");
    assert_eq!(key.shape(), "c - b (a)");
    let marker = key.versions[1].order;
    key.delete(Versioning::Enabled, Some(Select::Order(marker)), false).unwrap();
    key.delete(Versioning::Enabled, Some(Select::Null), false).unwrap();
    assert_eq!(key.shape(), "c b");
}

#[test]
fn a_suspended_bucket_replaces_only_the_version_without_an_id() {
    let mut key = Key::default();
    key.put(Versioning::Enabled, "a");
    key.put(Versioning::Suspended, "b");
    key.put(Versioning::Suspended, "c");
    assert_eq!(key.shape(), "(c) a");
    key.delete(Versioning::Suspended, None, false).unwrap();
    assert_eq!(key.shape(), "(-) a");
    key.delete(Versioning::Suspended, None, false).unwrap();
    assert_eq!(key.shape(), "(-) a");
}

#[test]
fn conditions_are_checked_against_what_is_newest() {
    let mut key = Key::default();
    let matches = |etag: &str| Conditions {
        matches: Some(Tags::OneOf(vec![etag.to_owned()])),
        ..Conditions::default()
    };
    let absent = Conditions { none_matches: Some(Tags::Any), ..Conditions::default() };
    assert!(matches!(
        key.try_put(Versioning::Enabled, "a", matches("a")),
        Err(Error::NoKey { .. })
    ));
    key.try_put(Versioning::Enabled, "a", absent.clone()).unwrap();
    assert_eq!(
        key.try_put(Versioning::Enabled, "b", absent.clone()),
        Err(Error::Condition { condition: "If-None-Match" })
    );
    assert_eq!(
        key.try_put(Versioning::Enabled, "b", matches("x")),
        Err(Error::Condition { condition: "If-Match" })
    );
    key.try_put(Versioning::Enabled, "b", matches("a")).unwrap();
    key.delete(Versioning::Enabled, None, false).unwrap();
    key.try_put(Versioning::Enabled, "c", absent).unwrap();
    assert_eq!(key.shape(), "c - b a");
}

#[test]
fn locked_versions_stay_and_can_be_hidden() {
    let mut key = Key::default();
    key.put(Versioning::Enabled, "a");
    let order = key.versions[0].order;
    let named = Some(Select::Order(order));
    let mut set = |retention, hold| {
        let change = edit(&key.view(named), "k", |attributes| {
            attributes.retention = retention;
            attributes.legal_hold = hold;
            Ok(())
        });
        key.apply(change.unwrap());
        let refused = key.delete(Versioning::Enabled, named, false).is_err();
        let refused_anyway = {
            key.view(named).named.is_some() && check_lock("k", &key.versions[0], NOW, true).is_err()
        };
        (refused, refused_anyway)
    };
    let until = |compliance, until_ms| Some(Retention { compliance, until_ms });
    assert_eq!(set(until(false, NOW + 1), None), (true, false), "governance can be bypassed");
    assert_eq!(set(until(true, NOW + 1), None), (true, true), "compliance cannot");
    assert_eq!(set(None, Some(true)), (true, true), "neither can a hold");
    key.delete(Versioning::Enabled, None, false).unwrap();
    assert_eq!(key.shape(), "- a");
}

#[test]
fn retention_may_grow_but_not_shrink() {
    let until = |compliance, until_ms| Some(Retention { compliance, until_ms });
    let outcome = |old, new, bypass| {
        let mut attributes = Attributes { retention: old, ..Attributes::default() };
        retain(&mut attributes, "k", new, NOW, bypass).is_ok()
    };
    assert!(outcome(until(true, NOW + 5), until(true, NOW + 6), false));
    assert!(!outcome(until(true, NOW + 5), until(true, NOW + 4), true));
    assert!(!outcome(until(true, NOW + 5), None, true));
    assert!(!outcome(until(false, NOW + 5), until(false, NOW + 4), false));
    assert!(outcome(until(false, NOW + 5), until(false, NOW + 4), true));
    assert!(
        !outcome(until(false, NOW + 5), until(true, NOW + 5), false),
        "another mode is a change"
    );
    assert!(outcome(until(true, NOW), None, false), "it has ended");
}

/// Versioning may have been off when a request came, and the bucket be locked when it is carried out.
#[test]
fn a_locked_version_without_an_id_is_not_replaced() {
    let mut key = Key::default();
    key.put(Versioning::Off, "a");
    let change = edit(&key.view(Some(Select::Null)), "k", |attributes| {
        attributes.legal_hold = Some(true);
        Ok(())
    });
    key.apply(change.unwrap());
    for versioning in [Versioning::Off, Versioning::Suspended] {
        let put = key.try_put(versioning, "b", Conditions::default());
        assert!(matches!(put, Err(Error::Locked { .. })), "{versioning:?}");
        let deleted = key.delete(versioning, None, false);
        assert!(matches!(deleted, Err(Error::Locked { .. })), "{versioning:?}");
    }
    key.put(Versioning::Enabled, "c");
    assert_eq!(key.versions.len(), 2);
}
