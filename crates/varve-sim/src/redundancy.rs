//! Figures of a redundant pool, and what happens to its drives.

use varve_media_redundancy::{LABEL_BYTES, StripGeometry, StripeShape, UNIT_BYTES, zones_that_fit};
use varve_stdx::Rng;

/// Drives of a pool.
const DRIVES_MIN: usize = 2;
const DRIVES_MAX: usize = 6;

/// Largest class: 4+2.
const DATA_STRIPS_MAX: u8 = 4;
const PARITY_STRIPS_MAX: u8 = 2;

/// Zones that a layout page has rows of.
const ZONES_A_PAGE: u32 = 14;

/// A redundant pool.
#[derive(Clone, Debug)]
pub struct Redundancy {
    /// Its class.
    pub shape: StripeShape,
    /// Units of each drive.
    pub drive_units: Vec<u32>,
    /// Slots of a zone.
    pub zone_segments: u32,
    /// Zones that its drives have room for.
    pub zones: u32,
    /// Pages for rows of zones.
    pub layout_pages: u32,
    /// How long a drive may not answer, in ns.
    pub patience_nanos: u64,
    /// How long a copy of a journal may not answer while others do, in ns.
    pub journal_patience_nanos: u64,
    /// What happens to drives.
    pub faults: DriveFaults,
}

/// What happens to the drives of a redundant pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriveFaults {
    /// Nothing: power cuts only, which each strip survives or not.
    None,
    /// Drives fail at any step, by errors or silence, or are not there at a start; as many as the class survives, or
    /// more.
    Losing,
    /// Drives leave between lives and return, in any sets.
    Returning,
    /// What drives hold rots, or is what belongs elsewhere, on as many of them as the class survives.
    Rotting,
    /// A drive answers late, or not at all for seconds.
    Slow,
    /// Drives leave and fail, and the class of zones changes: rows move.
    Moving,
    /// Drives fail as where they are lost, rows move, and the pool is nearly full.
    Full,
}

impl DriveFaults {
    /// Whether drives fail at any step.
    pub(crate) fn loses_drives(self) -> bool {
        self == Self::Losing || self == Self::Full
    }

    /// Whether what lacks strips is rebuilt.
    pub(crate) fn moves_rows(self) -> bool {
        self == Self::Moving || self == Self::Full
    }
}

/// What a redundant pool is drawn from.
pub(crate) struct PoolFigures {
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// Segments that the pool has to have.
    pub segments: u32,
    /// Bytes of a journal.
    pub lane_bytes: u64,
    /// Shards.
    pub shards: u16,
}

impl Redundancy {
    /// Most bytes of a root: what two pages hold, one of which is for the owners of zones.
    pub(crate) const ROOT_BYTES_MAX: u32 = 8192;

    /// Draws one: `rng` is of its own, so that the rest of the world is what its seed says.
    pub(crate) fn draw(rng: &mut Rng, figures: &PoolFigures, faults: DriveFaults) -> Self {
        let shape = draw_shape(rng, faults);
        let drives = draw_drives(rng, shape, faults);
        let zone_segments = 4 + small_below(rng, 5);
        let zones = figures.segments.div_ceil(zone_segments);
        let geometry = StripGeometry { shape, segment_bytes: figures.segment_bytes, zone_segments };
        let drive_units =
            draw_sizes(rng, figures, geometry, &SizeRequest { zones, drives, faults });
        // Some pools have room for the rows of more zones than their drives have.
        let layout_pages = zones.div_ceil(ZONES_A_PAGE) + small_below(rng, 2);
        // Far above what a simulated disk takes for anything.
        let patience_nanos = (200 + rng.below(2_000)) * 1_000_000;
        let journal_patience_nanos = (60 + rng.below(120)) * 1_000_000;
        Self {
            shape,
            drive_units,
            zone_segments,
            zones,
            layout_pages,
            patience_nanos,
            journal_patience_nanos,
            faults,
        }
    }

    /// Drives that may be lost without loss of data.
    #[must_use]
    pub fn survives(&self) -> usize {
        usize::from(self.shape.parity())
    }

    /// Drives.
    #[must_use]
    pub fn drives(&self) -> usize {
        self.drive_units.len()
    }
}

/// How many zones on how many drives.
struct SizeRequest {
    zones: u32,
    drives: usize,
    faults: DriveFaults,
}

/// A class of at least one strip of parity. Halves that go apart are mirrors: no others can.
fn draw_shape(rng: &mut Rng, faults: DriveFaults) -> StripeShape {
    let halves = faults == DriveFaults::Returning && rng.chance(1, 2);
    let data = if halves || rng.chance(1, 4) { 1 } else { 1 + below_u8(rng, DATA_STRIPS_MAX) };
    let parity = 1 + below_u8(rng, PARITY_STRIPS_MAX);
    StripeShape::new(data, parity).expect("there is a code for it")
}

fn draw_drives(rng: &mut Rng, shape: StripeShape, faults: DriveFaults) -> usize {
    let least = shape.strips().max(DRIVES_MIN);
    let has_fewest = faults == DriveFaults::Returning && rng.chance(2, 3);
    if has_fewest { least } else { least + rng.index(DRIVES_MAX - least + 1) }
}

/// Units of each drive, of different numbers mostly, so that the zones fit beside the journals.
fn draw_sizes(
    rng: &mut Rng,
    figures: &PoolFigures,
    geometry: StripGeometry,
    request: &SizeRequest,
) -> Vec<u32> {
    let parts: Vec<u32> = (0..request.drives).map(|_| 2 + small_below(rng, 3)).collect();
    let lane_units = u32::try_from(figures.lane_bytes.div_ceil(UNIT_BYTES)).expect("some MiB");
    // Copies of all journals, and room for substitutes.
    let journals = 2 * lane_units * u32::from(figures.shards);
    let (place, strips) = (geometry.place_units(), geometry.shape.strips());
    let mut scale = 1;
    loop {
        let rooms: Vec<u32> = parts.iter().map(|part| part * scale).collect();
        if zones_that_fit(&rooms, strips) >= request.zones {
            let spare = match request.faults {
                // Zones of another class may take more, and what a drive has goes elsewhere when it leaves.
                DriveFaults::Moving => 1 + small_below(rng, 3) + rooms.iter().sum::<u32>() / 2,
                // What a drive had finds room elsewhere in part.
                DriveFaults::Full => small_below(rng, 3),
                _ => 1 + small_below(rng, 3),
            };
            return rooms.iter().map(|room| (room + spare) * place + journals).collect();
        }
        scale += 1;
    }
}

fn small_below(rng: &mut Rng, bound: u32) -> u32 {
    u32::try_from(rng.below(u64::from(bound))).expect("below a u32")
}

fn below_u8(rng: &mut Rng, bound: u8) -> u8 {
    u8::try_from(rng.below(u64::from(bound))).expect("below a u8")
}

const _: () = assert!(LABEL_BYTES == 4096, "damage is aimed at labels of one page");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_have_two_to_six_drives_and_room_for_their_zones() {
        let figures =
            PoolFigures { segment_bytes: 64 << 10, segments: 70, lane_bytes: 512 << 10, shards: 2 };
        for seed in 0..200 {
            let faults = [DriveFaults::Losing, DriveFaults::Returning][usize::from(seed % 2 == 0)];
            let pool = Redundancy::draw(&mut Rng::new(seed), &figures, faults);
            assert!((DRIVES_MIN..=DRIVES_MAX).contains(&pool.drives()), "seed {seed}");
            assert!(pool.drives() >= pool.shape.strips() && pool.survives() > 0, "seed {seed}");
            assert!(pool.zones * pool.zone_segments >= figures.segments);
            assert!(pool.zones <= pool.layout_pages * ZONES_A_PAGE);
            let geometry = StripGeometry {
                shape: pool.shape,
                segment_bytes: figures.segment_bytes,
                zone_segments: pool.zone_segments,
            };
            let journals = 2 * 8 * 2;
            let rooms = pool.drive_units.iter();
            let rooms: Vec<_> =
                rooms.map(|units| (units - journals) / geometry.place_units()).collect();
            assert!(zones_that_fit(&rooms, pool.shape.strips()) >= pool.zones, "seed {seed}");
        }
    }
}
