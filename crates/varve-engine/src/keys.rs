//! Reads of the key tree, with what is journaled but not applied yet.

use std::ops::ControlFlow;

use varve_types::StreamId;

use crate::hash::HashSet;
use crate::tree::Scan;
use crate::trees::{key_of_user, stream_key, stream_of_key, user_key};
use crate::{Result, Shard};

/// A key and its value.
pub type KeyValue = (Vec<u8>, Vec<u8>);

/// Entries looked at in one step of a scan.
const SCAN_STEP: usize = 256;

impl Shard {
    /// The value of a key, once its newest version is durable.
    ///
    /// # Errors
    /// `Corrupt` when the tree cannot be read.
    pub async fn key_get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check_open()?;
        let key = user_key(key);
        let pending = self.pending_keys.borrow().get(&key).cloned();
        if let Some(version) = pending {
            self.wait_frame(&version.frame).await?;
            return Ok(version.value);
        }
        self.with_pages(|trees| Ok(trees.keys.get(&trees.cache, &key)?.map(<[u8]>::to_vec))).await
    }

    /// Up to `max` keys that begin with `prefix` and come after `after`, in order, with their values.
    ///
    /// # Errors
    /// `Corrupt` when the tree cannot be read.
    pub async fn key_scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        max: usize,
    ) -> Result<Vec<KeyValue>> {
        self.check_open()?;
        let whole_prefix = user_key(prefix);
        let mut from = match after {
            None => whole_prefix.clone(),
            Some(after) => [user_key(after).as_slice(), &[0]].concat(),
        };
        // Waiting versions are taken first: what is applied meanwhile is then seen twice, not missed.
        let pending = self.pending_keys.borrow().range(&whole_prefix, &from);
        let mut found: std::collections::BTreeMap<Vec<u8>, Option<Vec<u8>>> = Default::default();
        for (key, version) in pending {
            self.wait_frame(&version.frame).await?;
            found.insert(key, version.value);
        }
        let mut stored = 0;
        loop {
            let mut step = Vec::new();
            let scan = self
                .with_pages(|trees| {
                    step.clear();
                    let visit = |key: &[u8], value: &[u8]| {
                        if !key.starts_with(&whole_prefix) {
                            return ControlFlow::Break(());
                        }
                        step.push((key.to_vec(), value.to_vec()));
                        ControlFlow::Continue(())
                    };
                    Ok(trees.keys.scan(&trees.cache, &from, SCAN_STEP, visit)?)
                })
                .await?;
            stored += step.len();
            for (key, value) in step {
                found.entry(key).or_insert(Some(value));
            }
            let deleted = found.values().filter(|value| value.is_none()).count();
            match scan {
                Scan::More(next) if next.starts_with(&whole_prefix) && stored < max + deleted => {
                    from = next;
                }
                Scan::More(next) => {
                    // Waiting keys beyond what was scanned may have stored keys before them.
                    found.retain(|key, _| *key < next);
                    break;
                }
                Scan::Done => break,
            }
        }
        let live = found
            .into_iter()
            .filter_map(|(key, value)| Some((key_of_user(&key)?.to_vec(), value?)));
        Ok(live.take(max).collect())
    }

    /// Streams that have anything on this shard.
    ///
    /// # Errors
    /// `Corrupt` when the tree cannot be read.
    pub async fn streams(&self) -> Result<Vec<StreamId>> {
        let mut streams = Vec::new();
        let mut from = stream_key(StreamId::ZERO).to_vec();
        let end = user_key(&[]);
        loop {
            let scan = self
                .with_pages(|trees| {
                    let visit = |key: &[u8], _: &[u8]| match stream_of_key(key) {
                        Some(stream) => {
                            streams.push(stream);
                            ControlFlow::Continue(())
                        }
                        None => ControlFlow::Break(()),
                    };
                    Ok(trees.keys.scan(&trees.cache, &from, SCAN_STEP, visit)?)
                })
                .await?;
            match scan {
                // A bound between two keys, which may be shorter than any of them.
                Scan::More(next) if next < end => from = next,
                _ => break,
            }
        }
        // Those that were made since the last checkpoint have no stored record yet.
        let stored: HashSet<StreamId> = streams.iter().copied().collect();
        let trees = self.trees.borrow();
        streams.extend(trees.streams.keys().filter(|stream| !stored.contains(*stream)));
        Ok(streams)
    }
}
