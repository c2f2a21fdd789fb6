//! The table of nodes: an object of the metadata pool, replaced whole together with the attribute that carries its
//! version.

use std::rc::Rc;

use varve_membership::{Error, MemberTable, Result, StoreFuture, TableStore};
use varve_stdx::BufSlice;

use crate::claim::encode;
use crate::failure;
use crate::objects::{ObjectChange, Objects, Refusal, Write};
use crate::roots::VERSION;

/// See the module.
pub(crate) struct NodeTable {
    pub(crate) objects: Rc<dyn Objects>,
    pub(crate) object: String,
}

impl NodeTable {
    fn failure(&self, operation: &'static str, refusal: Refusal) -> Error {
        let error = failure::of(operation, &*self.objects, &self.object, 0, 0, refusal);
        Error::Store { kind: error.kind(), reason: error.to_string() }
    }

    async fn read_table(&self) -> Result<Option<MemberTable>> {
        // More than it has, so that a longer one is told.
        match self.objects.read(&self.object, 0, MemberTable::BYTES_MAX + 1).await {
            Ok(bytes) => MemberTable::decode(&bytes).map(Some),
            Err(Refusal::NOT_FOUND) => Ok(None),
            Err(refusal) => Err(self.failure("read", refusal)),
        }
    }

    async fn replace_table(&self, table: MemberTable) -> Result<bool> {
        let before = table.version.saturating_sub(1);
        let change = ObjectChange {
            creates: before == 0,
            expects: if before == 0 { Vec::new() } else { vec![(VERSION, encode(before))] },
            write: Some(Write::Whole(BufSlice::copy_from(&table.encode()))),
            sets: vec![(VERSION, encode(table.version))],
            ..ObjectChange::default()
        };
        match self.objects.change(&self.object, change).await {
            Ok(()) => Ok(true),
            Err(Refusal::UNEXPECTED | Refusal::EXISTS | Refusal::NOT_FOUND) => Ok(false),
            Err(refusal) => Err(self.failure("write", refusal)),
        }
    }
}

impl TableStore for NodeTable {
    fn read(&self) -> StoreFuture<'_, Option<MemberTable>> {
        Box::pin(self.read_table())
    }

    fn replace(&self, table: MemberTable) -> StoreFuture<'_, bool> {
        Box::pin(self.replace_table(table))
    }
}
