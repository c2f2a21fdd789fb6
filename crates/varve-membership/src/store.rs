//! Where the table lies.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use crate::{MemberTable, Result};

/// An operation under way.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;

/// Keeps one table.
pub trait TableStore {
    /// The table; `None` before the first.
    fn read(&self) -> StoreFuture<'_, Option<MemberTable>>;

    /// Puts the table in the place of the one that has the version before; the first one where there is none. Says
    /// whether it did; durable then. An error leaves it open.
    fn replace(&self, table: MemberTable) -> StoreFuture<'_, bool>;
}

/// A table in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryTable {
    /// As stored, so that encoding is used where everything else is tested too.
    bytes: Rc<RefCell<Option<Vec<u8>>>>,
}

impl MemoryTable {
    fn version(&self) -> Result<u64> {
        let bytes = self.bytes.borrow();
        Ok(bytes.as_deref().map(MemberTable::decode).transpose()?.map_or(0, |table| table.version))
    }
}

impl TableStore for MemoryTable {
    fn read(&self) -> StoreFuture<'_, Option<MemberTable>> {
        let decoded = self.bytes.borrow().as_deref().map(MemberTable::decode).transpose();
        Box::pin(std::future::ready(decoded))
    }

    fn replace(&self, table: MemberTable) -> StoreFuture<'_, bool> {
        let replaced = self.version().map(|version| {
            let is_next = table.version == version + 1;
            if is_next {
                *self.bytes.borrow_mut() = Some(table.encode());
            }
            is_next
        });
        Box::pin(std::future::ready(replaced))
    }
}
