//! Which slots of zones that move are in `to` already, as far as this thread knows.
//!
//! Nothing of it is stored: labels say it. What a thread does not know it reads once; what it knows may be overtaken by
//! another thread's put, which the caller's checksum shows.

use std::cell::RefCell;
use std::collections::BTreeMap;

use varve_types::Generation;

use crate::format::{RowState, StripSet};
use crate::ids::ZoneIndex;
use crate::view::LayoutView;

/// What is known of a slot.
#[derive(Clone, Copy)]
struct SlotFill {
    generation: Generation,
    is_filled: bool,
}

struct ZoneMove {
    /// The `to` that the slots are filled in: in another one they are not.
    to: StripSet,
    slots: BTreeMap<u32, SlotFill>,
}

/// The slots. At most those of zones that move.
#[derive(Default)]
pub(super) struct SlotMoves {
    zones: RefCell<BTreeMap<ZoneIndex, ZoneMove>>,
}

impl SlotMoves {
    /// Whether contents of a slot are in `to`; `None` where it is not known.
    pub(super) fn is_filled(
        &self,
        zone: ZoneIndex,
        slot: u32,
        to: &StripSet,
        generation: Generation,
    ) -> Option<bool> {
        let zones = self.zones.borrow();
        let known = zones.get(&zone).filter(|known| known.to == *to)?.slots.get(&slot)?;
        (known.generation == generation).then_some(known.is_filled)
    }

    pub(super) fn mark(
        &self,
        zone: ZoneIndex,
        slot: u32,
        to: &StripSet,
        generation: Generation,
        is_filled: bool,
    ) {
        let mut zones = self.zones.borrow_mut();
        let fresh = || ZoneMove { to: to.clone(), slots: BTreeMap::new() };
        let known = zones.entry(zone).or_insert_with(fresh);
        if known.to != *to {
            *known = fresh();
        }
        known.slots.insert(slot, SlotFill { generation, is_filled });
    }

    /// Takes in what labels said of a slot, unless a put said more meanwhile.
    pub(super) fn mark_unknown(
        &self,
        zone: ZoneIndex,
        slot: u32,
        to: &StripSet,
        generation: Generation,
        is_filled: bool,
    ) {
        let is_known = {
            let zones = self.zones.borrow();
            zones.get(&zone).is_some_and(|known| {
                known.to == *to
                    && known.slots.get(&slot).is_some_and(|it| it.generation >= generation)
            })
        };
        if !is_known {
            self.mark(zone, slot, to, generation, is_filled);
        }
    }

    /// What is believed of a slot was wrong.
    pub(super) fn forget(&self, zone: ZoneIndex, slot: u32) {
        if let Some(known) = self.zones.borrow_mut().get_mut(&zone) {
            known.slots.remove(&slot);
        }
    }

    /// Forgets zones that do not move any more.
    pub(super) fn forget_still(&self, view: &LayoutView) {
        let mut zones = self.zones.borrow_mut();
        zones.retain(|zone, _| matches!(view.row(*zone).state, RowState::Moving { .. }));
    }
}
