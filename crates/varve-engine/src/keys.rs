//! Reads of the key tree, with what is journaled but not applied yet.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use varve_types::StreamId;

use crate::hash::HashSet;
use crate::pending_keys::PendingKey;
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
        let pending = self.admission.pending_keys.borrow().get(&key).cloned();
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
        let from = after.map_or_else(|| prefix.to_vec(), |after| [after, &[0]].concat());
        self.key_range(&from, key_behind(prefix).as_deref(), max).await
    }

    /// The first `max` keys from `from` on and before `end`, in order, with their values. Newer versions than the
    /// request may be among them; what is told is durable. It is made of pages ([`Self::key_page`]), and between two of
    /// them keys may change.
    ///
    /// # Errors
    /// `Corrupt` when the tree cannot be read.
    pub async fn key_range(
        &self,
        from: &[u8],
        end: Option<&[u8]>,
        max: usize,
    ) -> Result<Vec<KeyValue>> {
        let (mut live, mut from) = (Vec::new(), from.to_vec());
        while live.len() < max && end.is_none_or(|end| from.as_slice() < end) {
            let (found, next) = self.key_page(&from, end, max - live.len()).await?;
            live.extend(found);
            let Some(next) = next else { break };
            assert!(next > from, "a page goes on behind the one before");
            from = next;
        }
        live.truncate(max);
        debug_assert!(live.is_sorted_by(|a, b| a.0 < b.0), "keys come in order, each once");
        Ok(live)
    }

    /// Some of the first keys of a range as they are at one moment, at most about `max`, and from where on there may be
    /// more. There may be more also when none is found.
    ///
    /// # Errors
    /// As [`Self::key_range`].
    pub async fn key_page(
        &self,
        from: &[u8],
        end: Option<&[u8]>,
        max: usize,
    ) -> Result<(Vec<KeyValue>, Option<Vec<u8>>)> {
        self.check_open()?;
        let from = user_key(from);
        let end = end.map_or_else(|| key_behind(&user_key(&[])), |end| Some(user_key(end)));
        let wanted = max.clamp(1, SCAN_STEP);
        let (stored, stored_to, pending) = self.keys_now(&from, end.as_deref(), wanted).await?;
        if let Some((_, newest)) = pending.iter().max_by_key(|(_, version)| version.wseq) {
            self.wait_frame(&newest.frame).await?; // Those before it are durable then, too.
        }
        let full = pending.len() == wanted;
        let pending_to = pending.last().filter(|_| full).map(|(key, _)| key_after(key));
        let to = match (pending_to, stored_to) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let is_inside = |key: &[u8]| to.as_ref().is_none_or(|to| key < to.as_slice());
        let mut step: BTreeMap<Vec<u8>, Option<Vec<u8>>> =
            stored.into_iter().map(|(key, value)| (key, Some(value))).collect();
        step.extend(pending.into_iter().map(|(key, version)| (key, version.value)));
        let found = step.into_iter().filter(|(key, _)| is_inside(key));
        let live =
            found.filter_map(|(key, value)| Some((key_of_user(&key)?.to_vec(), value?))).collect();
        let next = to.as_deref().and_then(key_of_user).map(<[u8]>::to_vec);
        Ok((live, next))
    }

    /// Some of the first keys of the tree and from where on there may be more, and the first ones that wait for it.
    /// Both as they are at one moment: a transaction that is applied in part is whole with what of it waits.
    async fn keys_now(
        &self,
        from: &[u8],
        end: Option<&[u8]>,
        max: usize,
    ) -> Result<(Vec<KeyValue>, Option<Vec<u8>>, Vec<PendingKey>)> {
        let mut step = Vec::new();
        let (scan, pending) = self
            .with_pages(|trees| {
                step.clear();
                let visit = |key: &[u8], value: &[u8]| {
                    if end.is_some_and(|end| key >= end) {
                        return ControlFlow::Break(());
                    }
                    step.push((key.to_vec(), value.to_vec()));
                    ControlFlow::Continue(())
                };
                let scan = trees.keys.scan(&trees.cache, from, max, visit)?;
                Ok((scan, self.admission.pending_keys.borrow().range(from, end, max)))
            })
            .await?;
        let more = match scan {
            Scan::More(next) if end.is_none_or(|end| next.as_slice() < end) => Some(next),
            Scan::More(_) | Scan::Done => None,
        };
        debug_assert!(step.is_sorted_by(|a, b| a.0 < b.0), "keys come in order");
        assert!(step.len() <= max && pending.len() <= max, "a step keeps to its bound");
        Ok((step, more, pending))
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
                Scan::More(next) if next < end => {
                    assert!(next > from, "a scan goes on");
                    from = next;
                }
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

/// The first key behind all that begin with `prefix`; `None` when there is none.
#[must_use]
pub fn key_behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let (last, rest) = prefix.split_last()?;
    match last.checked_add(1) {
        Some(next) => Some([rest, &[next]].concat()),
        None => key_behind(rest),
    }
}

/// The first key behind this one.
fn key_after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
