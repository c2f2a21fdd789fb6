//! Names in a pool of several cells: entered in its register before a record is stored, and left after it was removed.
//! In a pool of one cell nothing happens here.
//!
//! The rules REGISTER-1 to REGISTER-4 are those of `varve-register`: the entry is seen with the name's gate held,
//! before the catalogue is looked at; and the gate is held until the record is durable, whether or not somebody waits
//! for it.

use varve_register::{EntrySnapshot, Name, NameKind, Stamp};
use varve_types::ErrorKind;

use crate::name::DatasetName;
use crate::{Datasets, Result};

/// The entry of a name as it was seen; nothing in a pool of one cell.
#[must_use]
pub(crate) struct EntryView(Option<EntrySnapshot>);

impl Datasets {
    /// Sees the entry of a name that is held, before its record is looked for (REGISTER-4).
    pub(crate) async fn see(&self, name: &DatasetName) -> Result<EntryView> {
        let Some(register) = &self.register else { return Ok(EntryView(None)) };
        let name = Name { sort: NameKind::Volume, full: name.full() };
        Ok(EntryView(Some(register.see(name).await?)))
    }

    /// Enters a name that this cell does not have: its record may be stored then.
    pub(crate) async fn enter(&self, sight: EntryView) -> Result<()> {
        let Some(seen) = sight.0 else { return Ok(()) };
        let reactor = self.dispatch.reactor();
        let (high, low) = (reactor.random_u64(), reactor.random_u64());
        Ok(seen.enter(Stamp(u128::from(high) << 64 | u128::from(low))).await?)
    }

    /// Leaves a name that this cell has no more. That fails for nobody: an entry that stays is empty.
    pub(crate) async fn leave(&self, sight: EntryView) {
        let Some(seen) = sight.0 else { return };
        if let Err(error) = seen.leave().await {
            tracing::warn!(%error, "a name stays with this cell, which does not have it any more");
        }
    }

    /// Leaves a name that was entered and not made, where that is sure: another cell may have room for it.
    pub(crate) async fn withdraw<T>(&self, name: &DatasetName, made: &Result<T>) {
        let is_surely_absent = made.as_ref().is_err_and(|error| error.kind() == ErrorKind::NoSpace);
        if is_surely_absent && let Ok(sight) = self.see(name).await {
            match self.record(name).await {
                Err(error) if error.kind() == ErrorKind::NotFound => self.leave(sight).await,
                _ => {} // It is there, or nobody knows.
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::Arc;

    use varve_register::{
        Entry, Error as RegisterError, MemoryNames, NameFuture, NameStore, Register,
    };
    use varve_types::{CellId, PoolId};

    use super::*;
    use crate::rig::{Life, Rig, volume_spec};
    use crate::{Error, VolumeSpec};

    const POOL: PoolId = PoolId([7; 16]);
    const CELL: CellId = CellId(1);
    const CELLS: u16 = 3;

    /// What becomes of the next changes.
    #[derive(Clone, Copy, PartialEq)]
    enum Fate {
        /// They happen and are answered.
        Done,
        /// They happen, and the answer is lost.
        Unanswered,
        /// They happen after a second.
        Late,
    }

    #[derive(Clone)]
    struct Store {
        names: MemoryNames,
        fate: Rc<RefCell<Fate>>,
        reactor: varve_dispatch::Dispatch,
    }

    impl Store {
        fn change<'a>(&self, change: NameFuture<'a, bool>) -> NameFuture<'a, bool> {
            let (fate, reactor) = (*self.fate.borrow(), self.reactor.reactor().clone());
            Box::pin(async move {
                if fate == Fate::Late {
                    reactor.sleep(1_000_000_000).await;
                }
                let is_done = change.await?;
                let reason = "lost".to_owned();
                match fate {
                    Fate::Unanswered => {
                        Err(RegisterError::Store { kind: ErrorKind::Unavailable, reason })
                    }
                    _ => Ok(is_done),
                }
            })
        }
    }

    impl NameStore for Store {
        fn pool(&self) -> PoolId {
            POOL
        }

        fn cells(&self) -> u16 {
            CELLS
        }

        fn read(&self, name: &Name) -> NameFuture<'_, Option<Entry>> {
            self.names.read(name)
        }

        fn make(&self, name: &Name, entry: Entry) -> NameFuture<'_, bool> {
            self.change(self.names.make(name, entry))
        }

        fn replace(&self, name: &Name, before: Stamp, entry: Entry) -> NameFuture<'_, bool> {
            self.change(self.names.replace(name, before, entry))
        }

        fn remove(&self, name: &Name, stamp: Stamp) -> NameFuture<'_, bool> {
            self.change(self.names.remove(name, stamp))
        }
    }

    /// Makes the pool of a life a cell of several; the store's fate may be changed.
    fn keep(life: &mut Life, names: &MemoryNames) -> Rc<RefCell<Fate>> {
        let fate = Rc::new(RefCell::new(Fate::Done));
        for thread in &mut life.threads {
            let (names, fate) = (names.clone(), Rc::clone(&fate));
            let (dispatch, shared) = (thread.dispatch().clone(), Arc::clone(&thread.shared));
            let store = Store { names, fate, reactor: dispatch.clone() };
            let register = Register::new(Rc::new(store), CELL);
            *thread = Datasets::new(dispatch, shared, Some(register));
        }
        fate
    }

    fn name(full: &str) -> Name {
        Name { sort: NameKind::Volume, full: full.to_owned() }
    }

    fn cell_of(names: &MemoryNames, full: &str) -> Option<CellId> {
        names.get(&name(full)).unwrap().map(|entry| entry.cell)
    }

    fn spec(name: &str) -> VolumeSpec {
        VolumeSpec { size_bytes: 64 << 20, ..volume_spec(name) }
    }

    #[test]
    fn names_are_entered_before_they_are_made_and_left_after_they_were_deleted() {
        Rig::new().live(async move |mut life| {
            let names = MemoryNames::new(POOL, CELLS);
            keep(&mut life, &names);
            let datasets = life.datasets();
            datasets.create_volume(spec("vm1")).await.unwrap();
            let reserved = VolumeSpec { reserved: true, size_bytes: 4 << 20, ..spec("lab/vm2") };
            datasets.create_volume(reserved).await.unwrap();
            datasets.clone_volume("vm1", "copy").await.unwrap();
            for full in ["default/vm1", "lab/vm2", "default/copy"] {
                assert_eq!(cell_of(&names, full), Some(CELL), "{full}");
            }
            let stamp = names.get(&name("default/vm1")).unwrap();
            let again = datasets.create_volume(spec("vm1")).await.unwrap_err();
            assert!(matches!(again, Error::Exists { .. }));
            datasets.create_snapshots(&["vm1@a".to_owned()]).await.unwrap();
            datasets.rollback("vm1@a").await.unwrap();
            assert_eq!(names.get(&name("default/vm1")).unwrap(), stamp, "it is the same name");
            for volume in ["vm1", "lab/vm2", "copy"] {
                datasets.delete_volume(volume, true).await.unwrap();
            }
            assert!(names.is_empty());
        });
    }

    #[test]
    fn names_of_all_homes_are_entered_from_every_thread() {
        Rig::new().live(async move |mut life| {
            let names = MemoryNames::new(POOL, CELLS);
            keep(&mut life, &names);
            life.datasets().create_volume(spec("origin")).await.unwrap();
            for (number, thread) in life.threads.iter().enumerate() {
                for copy in 0..8 {
                    let full = format!("default/copy-{number}-{copy}");
                    thread.clone_volume("origin", &full).await.unwrap();
                    assert_eq!(cell_of(&names, &full), Some(CELL), "{full}");
                }
            }
        });
    }

    #[test]
    fn what_has_an_entry_that_makes_no_sense_can_be_deleted() {
        Rig::new().live(async move |mut life| {
            let names = MemoryNames::new(POOL, CELLS);
            keep(&mut life, &names);
            let datasets = life.datasets();
            datasets.create_volume(spec("vm1")).await.unwrap();
            names.put(&name("default/vm1"), vec![7; 56]);
            datasets.delete_volume("vm1", false).await.unwrap();
            assert!(datasets.volumes().await.unwrap().is_empty());
            let refused = datasets.create_volume(spec("vm1")).await.unwrap_err();
            assert_eq!((refused.kind(), names.len()), (ErrorKind::Corrupt, 1));
            assert!(refused.to_string().contains("once no cell has the name"), "{refused}");
        });
    }

    #[test]
    fn a_name_of_another_cell_is_refused_and_nothing_is_made() {
        Rig::new().live(async move |mut life| {
            let names = MemoryNames::new(POOL, CELLS);
            keep(&mut life, &names);
            let other = Register::new(Rc::new(names.clone()), CellId(2));
            for full in ["default/vm1", "default/copy"] {
                other.see(name(full)).await.unwrap().enter(Stamp(1)).await.unwrap();
            }
            let datasets = life.datasets();
            datasets.create_volume(spec("origin")).await.unwrap();
            let refused = [
                datasets.create_volume(spec("vm1")).await,
                datasets.create_volume(VolumeSpec { reserved: true, ..spec("vm1") }).await,
                datasets.clone_volume("origin", "copy").await,
            ];
            for refused in refused {
                let error = refused.unwrap_err();
                assert!(error.to_string().contains("belongs to cell 2"), "{error}");
                assert_eq!(error.kind(), ErrorKind::Exists);
            }
            assert_eq!(datasets.volumes().await.unwrap().len(), 1);
            assert_eq!(life.streams().await.len(), 0, "nothing is reserved for what was refused");
            let absent = datasets.delete_volume("vm1", false).await.unwrap_err();
            assert_eq!(absent.kind(), ErrorKind::NotFound);
            assert_eq!(cell_of(&names, "default/vm1"), Some(CellId(2)), "it is another cell's");
        });
    }

    #[test]
    fn a_name_for_which_there_is_no_room_does_not_stay_with_the_cell() {
        Rig::new().live(async move |mut life| {
            let names = MemoryNames::new(POOL, CELLS);
            keep(&mut life, &names);
            let large = VolumeSpec { reserved: true, size_bytes: 1 << 40, ..spec("vm1") };
            let refused = life.datasets().create_volume(large).await.unwrap_err();
            assert_eq!((refused.kind(), names.len()), (ErrorKind::NoSpace, 0));
        });
    }

    #[test]
    fn an_entry_that_was_left_empty_is_taken_over_or_deleted() {
        Rig::new().live(async move |mut life| {
            let names = MemoryNames::new(POOL, CELLS);
            let fate = keep(&mut life, &names);
            let datasets = life.datasets();
            *fate.borrow_mut() = Fate::Unanswered;
            for volume in ["vm1", "vm2"] {
                let error = datasets.create_volume(spec(volume)).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unavailable);
            }
            assert_eq!((names.len(), datasets.volumes().await.unwrap().len()), (2, 0));
            *fate.borrow_mut() = Fate::Done;
            let absent = datasets.delete_volume("vm2", false).await.unwrap_err();
            assert_eq!((absent.kind(), names.len()), (ErrorKind::NotFound, 1));
            datasets.create_volume(spec("vm1")).await.unwrap();
            *fate.borrow_mut() = Fate::Unanswered;
            datasets.delete_volume("vm1", false).await.unwrap();
            assert!(names.is_empty(), "the answer was lost, not the change");
        });
    }

    #[test]
    fn who_gives_up_waiting_for_a_create_leaves_its_name_held() {
        Rig::new().live(async move |mut life| {
            let names = MemoryNames::new(POOL, CELLS);
            let fate = keep(&mut life, &names);
            *fate.borrow_mut() = Fate::Late;
            let datasets = life.datasets();
            let mut creating = Box::pin(datasets.create_volume(spec("vm1")));
            let reactor = datasets.dispatch().reactor().clone();
            let pause = Box::pin(reactor.sleep(500_000_000));
            drop(futures_util::future::select(&mut creating, pause).await);
            drop(creating);
            *fate.borrow_mut() = Fate::Done;
            // It waits for what nobody waits for any more.
            datasets.delete_volume("vm1", false).await.unwrap();
            assert!(names.is_empty() && datasets.volumes().await.unwrap().is_empty());
        });
    }
}
