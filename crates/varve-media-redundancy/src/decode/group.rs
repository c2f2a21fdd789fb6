//! Strips of a slot by the put that they are of.

use varve_media::planted::{Bug, planted};
use varve_stdx::BufSlice;
use varve_types::Generation;

use super::{PutIdentity, StripReading, needed};
use crate::ids::Epoch;
use crate::view::StripLocation;

/// A strip of a put.
#[derive(Clone)]
pub(super) struct GroupStrip {
    /// By its label, and by its place (DECODE-2).
    pub(super) index: u8,
    pub(super) location: StripLocation,
    pub(super) bytes: BufSlice,
}

/// Strips of one put, by index, each once (DECODE-1).
pub(super) struct PutGroup {
    pub(super) put: PutIdentity,
    /// The newest one that a label names.
    pub(super) epoch: Epoch,
    pub(super) strips: Vec<GroupStrip>,
    /// Where the same strips are once more: in the other set of a row that moves.
    twins: Vec<StripLocation>,
}

impl PutGroup {
    /// Whether contents follow from it.
    pub(super) fn is_enough(&self) -> bool {
        self.strips.len() >= needed(self.put.shape)
    }

    /// Whether the strip at a place is one of them, or the same as one.
    pub(super) fn has(&self, location: &StripLocation) -> bool {
        self.locations().any(|other| other == *location)
    }

    /// Where its strips are.
    pub(super) fn locations(&self) -> impl Iterator<Item = StripLocation> {
        let strips = self.strips.iter().map(|strip| strip.location);
        strips.chain(self.twins.iter().copied())
    }
}

/// All puts of which strips were found.
pub(super) struct PutGroups {
    groups: Vec<PutGroup>,
}

impl PutGroups {
    /// The one that counts: of those with enough strips, or else of all, the one of the newest epoch, and of those the
    /// one of the highest generation. With a generation only those of that one.
    pub(super) fn best(self, generation: Generation) -> Option<PutGroup> {
        let is_any = generation == Generation::ZERO || planted(Bug::GenerationsMixed);
        let groups = self.groups.into_iter();
        let named = groups.filter(|group| is_any || group.put.generation == generation);
        named.max_by_key(|group| {
            (group.is_enough(), group.epoch, group.put.generation, group.strips.len())
        })
    }

    /// All of them.
    pub(super) fn into_groups(self) -> Vec<PutGroup> {
        self.groups
    }
}

/// Puts the strips that were found together with those of the same put.
pub(super) fn group_strips(readings: &[StripReading]) -> PutGroups {
    let mut groups: Vec<PutGroup> = Vec::new();
    for reading in readings {
        let Ok((label, bytes)) = &reading.strip else { continue };
        // DECODE-2: checked before the label was let in.
        assert_eq!(label.strip, reading.location.strip, "labels fit their places");
        let put = PutIdentity::of(label);
        let strip =
            GroupStrip { index: label.strip, location: reading.location, bytes: bytes.clone() };
        let is_same = |group: &&mut PutGroup| {
            let is_mixed = planted(Bug::GenerationsMixed) && group.put.shape == put.shape;
            is_mixed || group.put == put
        };
        match groups.iter_mut().find(is_same) {
            None => {
                let (epoch, strips, twins) = (label.epoch, vec![strip], Vec::new());
                groups.push(PutGroup { put, epoch, strips, twins });
            }
            Some(group) => {
                group.epoch = group.epoch.max(label.epoch);
                match group.strips.binary_search_by_key(&strip.index, |it| it.index) {
                    Ok(_) => group.twins.push(strip.location),
                    Err(at) => group.strips.insert(at, strip),
                }
            }
        }
    }
    PutGroups { groups }
}
