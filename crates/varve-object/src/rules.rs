//! What requests do to a key: the rules of versions, conditions and locks. Pure; stores run them through
//! [`change_key`](crate::ObjectStore::change_key).
//!
//! RULES-1. A key has at most one version without an id; in a bucket that is not versioned it has no other, unless it
//!     had been versioned before.
//! RULES-2. What a condition or a lock was checked against is what is changed: both happen in one step.

use bytes::Bytes;

use crate::attributes::{Attributes, Retention};
use crate::error::{Error, Result};
use crate::settings::Versioning;
use crate::store::{KeyChange, KeyView, NewVersion, Version};

/// Conditions of a change on what is there before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Conditions {
    /// The object must exist, with one of these entity tags.
    pub matches: Option<Tags>,
    /// The object must not exist, or not have one of these.
    pub none_matches: Option<Tags>,
    /// The object must have been made in this second since 1970.
    pub modified_s: Option<u64>,
    /// The object must have this size in bytes.
    pub size: Option<u64>,
}

/// Entity tags of a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tags {
    /// Whatever the tag is.
    Any,
    /// One of these, without quotes.
    OneOf(Vec<String>),
}

/// An object to be put.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectPut {
    /// The key, for errors.
    pub key: String,
    /// The bucket's versioning.
    pub versioning: Versioning,
    /// Now, in milliseconds since 1970.
    pub now_ms: u64,
    /// Length in bytes.
    pub size: u64,
    /// Encoded attributes.
    pub attributes: Bytes,
    /// What must hold.
    pub conditions: Conditions,
}

/// A deletion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectDeletion {
    /// The key, for errors.
    pub key: String,
    /// The bucket's versioning.
    pub versioning: Versioning,
    /// Now, in milliseconds since 1970.
    pub now_ms: u64,
    /// The named version goes for good; else the key gets a delete marker where the bucket has versions.
    pub named: bool,
    /// The caller may and wants to delete before retention ends, where it is no compliance one.
    pub bypass: bool,
    /// Owner of a delete marker.
    pub owner: String,
    /// What must hold.
    pub conditions: Conditions,
}

impl Version {
    /// Id as clients see it.
    pub fn id(&self) -> String {
        if self.null { "null".to_owned() } else { format!("{:016x}", self.order) }
    }
}

impl Tags {
    fn has(&self, etag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(tags) => tags.iter().any(|tag| tag == etag),
        }
    }
}

impl Conditions {
    /// Checks them against the version there is, if it is an object.
    ///
    /// # Errors
    /// `NoKey` where something must be there and nothing is, `Condition` where what is there is not what was meant.
    pub fn check(&self, key: &str, found: Option<&Version>) -> Result<()> {
        if *self == Self::default() {
            return Ok(());
        }
        let found = found.filter(|version| !version.marker);
        let Some(version) = found else {
            let wanted = self.matches.is_some() || self.modified_s.is_some() || self.size.is_some();
            return if wanted {
                Err(Error::NoKey { key: key.to_owned(), marker: None })
            } else {
                Ok(())
            };
        };
        self.check_version(version)
    }

    /// Checks them against a version, be it a delete marker.
    fn check_version(&self, version: &Version) -> Result<()> {
        let etag = Attributes::decode(&version.attributes)?.etag;
        if self.matches.as_ref().is_some_and(|tags| !tags.has(&etag)) {
            return Err(Error::Condition { condition: "If-Match" });
        }
        if self.none_matches.as_ref().is_some_and(|tags| tags.has(&etag)) {
            return Err(Error::Condition { condition: "If-None-Match" });
        }
        if self.modified_s.is_some_and(|second| second != version.modified_ms / 1000) {
            return Err(Error::Condition { condition: "x-amz-if-match-last-modified-time" });
        }
        if self.size.is_some_and(|size| size != version.size) {
            return Err(Error::Condition { condition: "x-amz-if-match-size" });
        }
        Ok(())
    }
}

/// Puts an object (RULES-1).
///
/// # Errors
/// Those of the conditions.
pub fn put(view: &KeyView, put: ObjectPut) -> Result<KeyChange> {
    put.conditions.check(&put.key, view.newest.as_ref())?;
    let null = put.versioning != Versioning::Enabled;
    let version = NewVersion {
        order: next_order(view, put.now_ms),
        null,
        marker: false,
        size: put.size,
        modified_ms: put.now_ms,
        attributes: put.attributes,
    };
    let old = view.null.as_ref().filter(|_| null);
    if let Some(old) = old {
        check_lock(&put.key, old, put.now_ms, false)?;
    }
    Ok(KeyChange { remove: old.map(|old| old.order), put: Some(version), replace: None })
}

/// Deletes an object or a version.
///
/// # Errors
/// `Locked`, or those of the conditions. What is not there is deleted already, whatever the conditions.
pub fn delete(view: &KeyView, delete: ObjectDeletion) -> Result<KeyChange> {
    if delete.named {
        let Some(version) = &view.named else {
            return Ok(KeyChange::default());
        };
        delete.conditions.check_version(version)?;
        check_lock(&delete.key, version, delete.now_ms, delete.bypass)?;
        return Ok(KeyChange { remove: Some(version.order), ..KeyChange::default() });
    }
    if let Some(newest) = &view.newest {
        delete.conditions.check_version(newest)?;
    }
    let null = delete.versioning != Versioning::Enabled;
    let old = view.null.as_ref().filter(|_| null);
    if let Some(old) = old {
        // RULES-2: the bucket may have been locked meanwhile.
        check_lock(&delete.key, old, delete.now_ms, delete.bypass)?;
    }
    let remove = old.map(|old| old.order);
    if delete.versioning == Versioning::Off {
        return Ok(KeyChange { remove, ..KeyChange::default() });
    }
    let marker = NewVersion {
        order: next_order(view, delete.now_ms),
        null,
        marker: true,
        size: 0,
        modified_ms: delete.now_ms,
        attributes: Attributes { owner: delete.owner, ..Attributes::default() }.encode(),
    };
    Ok(KeyChange { remove, put: Some(marker), replace: None })
}

/// Changes attributes of the named version.
///
/// # Errors
/// `NoKey` when there is none, `IsMarker`, and those of `edit`.
pub fn edit(
    view: &KeyView,
    key: &str,
    edit: impl FnOnce(&mut Attributes) -> Result<()>,
) -> Result<KeyChange> {
    let version =
        view.named.as_ref().ok_or_else(|| Error::NoKey { key: key.to_owned(), marker: None })?;
    if version.marker {
        return Err(Error::IsMarker { key: key.to_owned(), marker: version.clone() });
    }
    let mut attributes = Attributes::decode(&version.attributes)?;
    edit(&mut attributes)?;
    Ok(KeyChange { replace: Some((version.order, attributes.encode())), ..KeyChange::default() })
}

/// Sets retention, which may only grow unless the caller may bypass a retention that is no compliance one.
///
/// # Errors
/// `Locked`.
pub fn retain(
    attributes: &mut Attributes,
    key: &str,
    new: Option<Retention>,
    now_ms: u64,
    bypass: bool,
) -> Result<()> {
    if let Some(old) = attributes.retention.filter(|old| old.until_ms > now_ms) {
        let kept = new
            .is_some_and(|new| new.until_ms >= old.until_ms && (new.compliance || !old.compliance));
        let changed = new.is_some_and(|new| new.compliance != old.compliance);
        let free = !old.compliance && bypass;
        if !free && (!kept || changed) {
            return Err(Error::Locked { key: key.to_owned() });
        }
    }
    attributes.retention = new;
    Ok(())
}

/// Whether a version may be deleted.
fn check_lock(key: &str, version: &Version, now_ms: u64, bypass: bool) -> Result<()> {
    if version.marker {
        return Ok(());
    }
    let attributes = Attributes::decode(&version.attributes)?;
    let retained = attributes
        .retention
        .is_some_and(|retention| retention.until_ms > now_ms && (retention.compliance || !bypass));
    if retained || attributes.legal_hold == Some(true) {
        return Err(Error::Locked { key: key.to_owned() });
    }
    Ok(())
}

/// Place of a new version: the time in microseconds, and above every version there is.
fn next_order(view: &KeyView, now_ms: u64) -> u64 {
    let newest = view.newest.as_ref().map_or(0, |version| version.order);
    (now_ms.saturating_mul(1000)).max(newest + 1)
}

#[cfg(test)]
mod tests;
