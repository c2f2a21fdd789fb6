//! The register of names: an object of the metadata pool for each entry, with the attribute that carries its stamp.

use std::rc::Rc;

use varve_register::{Entry, Error, Name, NameFuture, NameStore, Result, Stamp};
use varve_stdx::{BufSlice, DecodeError};
use varve_types::PoolId;

use crate::failure;
use crate::layout::ObjectNames;
use crate::objects::{ObjectChange, Objects, Refusal, Write};

/// The attribute with the stamp, in hexadecimal digits.
const STAMP: &str = "varve.stamp";

/// See the module.
pub(crate) struct NameTable {
    /// Of all cells.
    pub(crate) pool: PoolId,
    /// How many there are.
    pub(crate) cells: u16,
    pub(crate) objects: Rc<dyn Objects>,
    pub(crate) names: ObjectNames,
}

impl NameTable {
    fn failure(&self, operation: &'static str, object: &str, refusal: Refusal) -> Error {
        let error = failure::of(operation, &*self.objects, object, 0, 0, refusal);
        Error::Store { kind: error.kind(), reason: error.to_string() }
    }

    async fn read_entry(&self, name: Name) -> Result<Option<Entry>> {
        let object = self.names.name(&name);
        // More than it has, so that a longer one is told.
        match self.objects.read(&object, 0, Entry::BYTES + 1).await {
            Ok(bytes) => Entry::decode(self.pool, &name, &bytes).map(Some),
            Err(Refusal::NOT_FOUND) => Ok(None),
            Err(refusal) => Err(self.failure("read", &object, refusal)),
        }
    }

    /// Changes the entry with a stamp, or makes one where there is none.
    async fn change(
        &self,
        name: Name,
        before: Option<Stamp>,
        after: Option<Entry>,
    ) -> Result<bool> {
        let object = self.names.name(&name);
        let value = |stamp: Stamp| stamp.to_string().into_bytes();
        let bytes = after.map(|entry| BufSlice::copy_from(&entry.encode(&name)));
        let change = ObjectChange {
            creates: before.is_none(),
            expects: before.map(|stamp| (STAMP, value(stamp))).into_iter().collect(),
            write: Some(bytes.map_or(Write::Remove, Write::Whole)),
            sets: after.map(|entry| (STAMP, value(entry.stamp))).into_iter().collect(),
            ..ObjectChange::default()
        };
        match self.objects.change(&object, change).await {
            Ok(()) => Ok(true),
            Err(Refusal::EXISTS | Refusal::NOT_FOUND) => Ok(false),
            Err(Refusal::UNEXPECTED) => {
                if let Some(before) = before {
                    self.check_attribute(name, before).await?;
                }
                Ok(false)
            }
            Err(refusal) => Err(self.failure("write", &object, refusal)),
        }
    }

    /// Tells an entry whose attribute is not the stamp that it says: nobody could ever change it. The attribute is read
    /// first, and a stamp never comes back, so nobody changed the entry in between where it still says that one.
    async fn check_attribute(&self, name: Name, stamp: Stamp) -> Result<()> {
        let object = self.names.name(&name);
        let attribute = match self.objects.attribute(&object, STAMP).await {
            Ok(attribute) => attribute,
            Err(Refusal::NOT_FOUND) => return Ok(()),
            Err(refusal) => return Err(self.failure("read", &object, refusal)),
        };
        let is_its_stamp = attribute == Some(stamp.to_string().into_bytes());
        match self.read_entry(name.clone()).await? {
            Some(entry) if entry.stamp == stamp && !is_its_stamp => {
                let reason = "its attribute has another stamp, or none";
                let cause = DecodeError::Inconsistent { what: "entry of a name", reason };
                Err(Error::Damaged { name, cause })
            }
            _ => Ok(()),
        }
    }
}

impl NameStore for NameTable {
    fn pool(&self) -> PoolId {
        self.pool
    }

    fn cells(&self) -> u16 {
        self.cells
    }

    fn read(&self, name: &Name) -> NameFuture<'_, Option<Entry>> {
        Box::pin(self.read_entry(name.clone()))
    }

    fn make(&self, name: &Name, entry: Entry) -> NameFuture<'_, bool> {
        Box::pin(self.change(name.clone(), None, Some(entry)))
    }

    fn replace(&self, name: &Name, before: Stamp, entry: Entry) -> NameFuture<'_, bool> {
        Box::pin(self.change(name.clone(), Some(before), Some(entry)))
    }

    fn remove(&self, name: &Name, stamp: Stamp) -> NameFuture<'_, bool> {
        Box::pin(self.change(name.clone(), Some(stamp), None))
    }
}
