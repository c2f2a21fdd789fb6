//! Keys that are journaled but not in the key tree yet, newest version first.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use varve_logstore::lane::JournalFrame;
use varve_types::WriteSeq;

/// A journaled version of a key.
#[derive(Clone)]
pub(crate) struct KeyVersion {
    /// Its number.
    pub(crate) wseq: WriteSeq,
    /// The frame that carries it.
    pub(crate) frame: Rc<JournalFrame>,
    /// `None` is a deletion.
    pub(crate) value: Option<Vec<u8>>,
}

/// A key and the version that waits.
pub(crate) type PendingKey = (Vec<u8>, KeyVersion);

/// Newest journaled version of each key that waits for the key tree.
#[derive(Default)]
pub(crate) struct PendingKeys {
    keys: BTreeMap<Vec<u8>, KeyVersion>,
}

impl PendingKeys {
    /// Enters a version newer than all before; `None` is a deletion.
    pub(crate) fn insert(
        &mut self,
        key: Vec<u8>,
        wseq: WriteSeq,
        frame: &Rc<JournalFrame>,
        value: Option<&[u8]>,
    ) {
        let version =
            KeyVersion { wseq, frame: Rc::clone(frame), value: value.map(<[u8]>::to_vec) };
        let before = self.keys.insert(key, version);
        assert!(before.is_none_or(|before| before.wseq < wseq), "versions are entered in order");
    }

    /// The newest version of a key, if one waits.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&KeyVersion> {
        self.keys.get(key)
    }

    /// The tree shows version `wseq`; a newer one stays.
    pub(crate) fn applied(&mut self, key: &[u8], wseq: WriteSeq) {
        let is_newer = |version: &KeyVersion| version.wseq >= wseq;
        debug_assert!(self.keys.get(key).is_none_or(is_newer), "the newest version waits");
        if self.keys.get(key).is_some_and(|version| version.wseq == wseq) {
            self.keys.remove(key);
        }
    }

    /// The first `max` waiting versions of keys of a range, in order.
    pub(crate) fn range(&self, from: &[u8], end: Option<&[u8]>, max: usize) -> Vec<PendingKey> {
        self.keys
            .range::<[u8], _>((Bound::Included(from), Bound::Unbounded))
            .take_while(|(key, _)| end.is_none_or(|end| key.as_slice() < end))
            .take(max)
            .map(|(key, version)| (key.clone(), version.clone()))
            .collect()
    }
}
