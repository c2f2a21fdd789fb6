//! How the owner of a cell changes entries.
//!
//! REGISTER-1. A cell has a name only while the name's entry says that cell.
//! REGISTER-2. Only the owner of a cell changes entries that say it, and makes those that will; it holds the name's
//!     gate from before it sees the entry until after the name is made, or deleted.
//! REGISTER-3. An entry is replaced or removed only by the stamp that it was seen with, and each entering draws another
//!     stamp.
//! REGISTER-4. The catalogue is looked at after the entry was seen, and by who has the cell at that time.
//! REGISTER-5. An entry of a cell that the pool does not have is nobody's (REGISTER-1): any owner enters the name for
//!     its own cell, or removes it. One that cannot be read may be any cell's, so nobody changes it.
//!
//! So names that are made, or deleted, in this order keep REGISTER-1, whatever crashes, and whoever wakes after another
//! one has taken its cell:
//!
//! ```text
//!  create   see ─▶ catalogue: not there ─▶ enter ─▶ catalogue: there, durable
//!  delete   see ─▶ catalogue: deleted, durable, or not there ─▶ leave
//! ```
//!
//! - Between the steps the cell's claim may be lost. Then the catalogue refuses what is left of a create: its entry is
//!   empty, or was the successor's to take over.
//! - A `leave` that comes late finds its stamp, and so an entry that nobody entered since the catalogue had no such
//!   name (REGISTER-4): it is empty. Or it does not find it.

use std::rc::Rc;

use varve_types::{CellId, ErrorKind};

use crate::{Entry, Error, Name, NameStore, Result, Stamp};

/// The register, for the owner of a cell. Clones are the same.
#[derive(Clone)]
pub struct Register {
    store: Rc<dyn NameStore>,
    cell: CellId,
}

/// The entry of a name as it was seen.
#[must_use]
pub struct EntrySnapshot {
    register: Register,
    name: Name,
    /// Or why it cannot be read (REGISTER-5).
    entry: Result<Option<Entry>>,
}

impl Register {
    /// For the owner of `cell`.
    #[must_use]
    pub fn new(store: Rc<dyn NameStore>, cell: CellId) -> Self {
        Self { store, cell }
    }

    /// Sees the entry of a name, before the catalogue is looked at (REGISTER-4), with the name's gate held
    /// (REGISTER-2).
    ///
    /// # Errors
    /// What the store refuses; an entry of another version. One that makes no sense is told by who needs it: what has
    /// such a name can be deleted.
    pub async fn see(&self, name: Name) -> Result<EntrySnapshot> {
        let entry = match self.store.read(&name).await {
            Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
            entry => entry,
        };
        Ok(EntrySnapshot { register: self.clone(), name, entry })
    }

    /// Whether an entry is of this cell, or of none that there is (REGISTER-5).
    fn may_change(&self, entry: &Entry) -> bool {
        entry.cell == self.cell || entry.cell.0 >= self.store.cells()
    }
}

impl EntrySnapshot {
    /// The cell that has the name, or keeps it; `None` where the name is nobody's.
    ///
    /// # Errors
    /// An entry that makes no sense.
    pub fn cell(&self) -> Result<Option<CellId>> {
        let entry = self.entry.clone()?;
        let cells = self.register.store.cells();
        Ok(entry.map(|entry| entry.cell).filter(|cell| cell.0 < cells))
    }

    /// Enters the name for this cell, whose catalogue does not have it. It may be made there once this returned.
    ///
    /// # Errors
    /// [`Error::Elsewhere`], [`Error::Changed`]; an entry that makes no sense; what the store refuses, and then the
    /// entry may be there, empty.
    pub async fn enter(self, stamp: Stamp) -> Result<()> {
        let Self { register, name, entry } = self;
        let Register { store, cell } = &register;
        let ours = Entry { pool: store.pool(), cell: *cell, stamp };
        let is_entered = match entry? {
            None => store.make(&name, ours).await?,
            Some(entry) if !register.may_change(&entry) => {
                return Err(Error::Elsewhere { name, cell: entry.cell });
            }
            Some(Entry { stamp: before, .. }) => store.replace(&name, before, ours).await?, // REGISTER-3
        };
        if is_entered { Ok(()) } else { Err(Error::Changed { name }) }
    }

    /// Gives the name up, which this cell's catalogue does not have, or not any more: durably. An entry that says
    /// another cell, or was entered since, stays.
    ///
    /// # Errors
    /// An entry that makes no sense, which stays; what the store refuses: then the entry may be there still, empty.
    pub async fn leave(self) -> Result<()> {
        let Self { register, name, entry } = self;
        if let Some(entry) = entry?.filter(|entry| register.may_change(entry)) {
            register.store.remove(&name, entry.stamp).await?; // REGISTER-3
        }
        Ok(())
    }
}
