//! What one transaction changes: records, blocks, and the account.

use varve_engine::TransactionRoom;
use varve_stdx::BufSlice;

use crate::account::TallyChange;
use crate::content::{ContentExtent, ContentPlace, RecordContent};
use crate::written::WrittenContent;

/// What one transaction changes. Dropped, what was staged for it is given up.
#[derive(Debug, Default)]
pub struct TransactionPlan {
    pub(crate) writes: Vec<(ContentExtent, BufSlice)>,
    pub(crate) puts: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) deletes: Vec<Vec<u8>>,
    /// What is freed, and its blocks; series and references have none of their own.
    pub(crate) frees: Vec<(ContentPlace, u64)>,
    /// What was staged, and belongs to a record from then on.
    pub(crate) taken: Vec<WrittenContent>,
    pub(crate) tally: TallyChange,
    takes_space: bool,
}

impl TransactionPlan {
    /// A plan that a full pool refuses.
    #[must_use]
    pub fn taking_space() -> Self {
        Self { takes_space: true, ..Self::default() }
    }

    /// Whether a full pool refuses it.
    pub fn set_takes_space(&mut self, takes_space: bool) {
        self.takes_space = takes_space;
    }

    /// Whether it writes blocks.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Stores a record.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.puts.push((key, value));
    }

    /// Removes a record.
    pub fn delete(&mut self, key: Vec<u8>) {
        self.deletes.push(key);
    }

    /// Frees what a record names.
    pub fn free_record(&mut self, record: &RecordContent) {
        if let Some(place) = record.main.place() {
            self.frees.push((place, record.main.blocks()));
        }
        if let Some(extra) = &record.extra {
            self.free_extent(extra);
        }
    }

    /// Frees blocks.
    pub fn free_extent(&mut self, extent: &ContentExtent) {
        self.frees.push((extent.place(), extent.blocks()));
    }

    /// Frees a place that has no blocks of its own.
    pub fn free_place(&mut self, place: ContentPlace) {
        self.frees.push((place, 0));
    }

    /// Changes what the account counts.
    pub fn count(&mut self, by: TallyChange) {
        self.tally.items += by.items;
        self.tally.bytes += by.bytes;
        self.tally.records += by.records;
    }

    pub(crate) fn room(&self) -> TransactionRoom {
        let changes = self.writes.len() + self.puts.len() + self.deletes.len() + self.frees.len();
        TransactionRoom {
            data_bytes: self.writes.iter().map(|(_, data)| data.len()).sum(),
            changes: changes + 1,
            takes_space: self.takes_space,
        }
    }
}
