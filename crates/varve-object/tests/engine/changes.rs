//! Bytes of objects, and changes of keys that take them in.

use bytes::Bytes;
use varve_object::{ChangeKey, KeyChange, Version};

pub(crate) fn data(len: usize, seed: u64) -> Bytes {
    let mut bytes = vec![0; len];
    varve_stdx::Rng::new(seed).fill(&mut bytes);
    bytes.into()
}

/// Puts a version in the place of the newest.
pub(crate) fn replace(len: usize) -> ChangeKey {
    replace_with(len, Bytes::new())
}

pub(crate) fn replace_with(len: usize, attributes: Bytes) -> ChangeKey {
    Box::new(move |view| {
        let newest = view.newest.as_ref().map(|version| version.order);
        let version = Version {
            order: newest.map_or(1, |order| order + 1),
            null: true,
            marker: false,
            size: len as u64,
            modified_ms: 0,
            attributes,
        };
        Ok(KeyChange { remove: newest, put: Some(version), replace: None })
    })
}

/// Removes the newest version.
pub(crate) fn remove() -> ChangeKey {
    Box::new(|view| {
        let remove = view.newest.as_ref().map(|version| version.order);
        Ok(KeyChange { remove, ..KeyChange::default() })
    })
}
