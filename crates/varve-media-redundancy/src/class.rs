//! Classes of redundancy, and how one of them cuts the segments of a zone into strips.

use std::fmt;
use std::str::FromStr;

use varve_types::limits::MEDIA_ALIGN;

use crate::ids::{UNIT_BYTES, UnitNumber};

/// Most strips of a segment.
pub const STRIPS_MAX: usize = 16;

/// Bytes of the label before each strip.
pub const LABEL_BYTES: u32 = 4096;

/// Most strips of parity where there are several of data: what the codes of [`StripCode`] have.
const PARITY_OF_SEVERAL_MAX: u8 = 4;

/// Number of a class in its pool, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClassId(u8);

impl ClassId {
    /// A number, where it is one.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// How many strips of data and of parity a segment has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StripeShape {
    data: u8,
    parity: u8,
}

impl StripeShape {
    /// One copy.
    pub const NONE: Self = Self { data: 1, parity: 0 };
    /// Most strips of parity: roots are on at most 8 drives, and so many of those may be lost.
    pub const PARITY_MAX: u8 = 7;

    /// A shape that there is a code for.
    #[must_use]
    pub fn new(data: u8, parity: u8) -> Option<Self> {
        let fits = usize::from(data) + usize::from(parity) <= STRIPS_MAX;
        let has_code = match data {
            0 => false,
            1 => parity <= Self::PARITY_MAX,
            _ => (1..=PARITY_OF_SEVERAL_MAX).contains(&parity),
        };
        (fits && has_code).then_some(Self { data, parity })
    }

    /// Strips of data, *k*: so many suffice, whichever they are.
    #[must_use]
    pub const fn data(self) -> u8 {
        self.data
    }

    /// Strips of parity, *m*: so many drives may be lost.
    #[must_use]
    pub const fn parity(self) -> u8 {
        self.parity
    }

    /// All strips.
    #[must_use]
    pub fn strips(self) -> usize {
        usize::from(self.data) + usize::from(self.parity)
    }

    /// What its parity is.
    #[must_use]
    pub const fn code(self) -> StripCode {
        match (self.data, self.parity) {
            (1, _) => StripCode::Copies,
            (_, 0 | 1) => StripCode::Xor,
            (_, 2) => StripCode::DoubleParity,
            (_, _) => StripCode::Cauchy,
        }
    }
}

impl fmt::Display for StripeShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.data, self.parity) {
            (1, 0) => f.write_str("none"),
            (1, parity) => write!(f, "mirror:{}", parity + 1),
            (data, parity) => write!(f, "ec:{data}+{parity}"),
        }
    }
}

/// How parity is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StripCode {
    /// Each strip is a copy of the segment.
    Copies,
    /// Exclusive or of the data.
    Xor,
    /// P and Q, as of RAID 6.
    DoubleParity,
    /// Rows of a Cauchy matrix.
    Cauchy,
}

/// What a drive is made of, as far as clients notice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MediumKind {
    /// Flash on NVMe.
    Nvme,
    /// Flash on SATA or SAS.
    Ssd,
    /// Rotating disks.
    Hdd,
    /// Nobody says.
    Unknown,
}

impl MediumKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Nvme, Self::Ssd, Self::Hdd, Self::Unknown];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::Ssd => "ssd",
            Self::Hdd => "hdd",
            Self::Unknown => "unknown",
        }
    }

    /// Its bit in stored bytes; none of an unknown one, which is in no choice but that of all.
    #[must_use]
    pub const fn bit(self) -> u8 {
        match self {
            Self::Nvme => 1,
            Self::Ssd => 2,
            Self::Hdd => 4,
            Self::Unknown => 0,
        }
    }
}

impl FromStr for MediumKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut named = Self::ALL.into_iter().filter(|kind| *kind != Self::Unknown);
        let found = named.find(|kind| kind.word() == text);
        found.ok_or_else(|| format!("{text} is not nvme, ssd or hdd"))
    }
}

/// Kinds of drives that a class may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MediumKinds(u8);

impl MediumKinds {
    /// Any.
    pub const ALL: Self = Self(0);
    const KNOWN: u8 = 7;

    /// Those whose bits are set; all of them where none is.
    #[must_use]
    pub const fn new(bits: u8) -> Option<Self> {
        if bits & !Self::KNOWN == 0 { Some(Self(bits)) } else { None }
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether drives of `kind` are among them.
    #[must_use]
    pub const fn has(self, kind: MediumKind) -> bool {
        self.0 == 0 || self.0 & kind.bit() != 0
    }
}

impl fmt::Display for MediumKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("any");
        }
        let named = MediumKind::ALL.into_iter().filter(|kind| self.has(*kind));
        f.write_str(&named.map(MediumKind::word).collect::<Vec<_>>().join(","))
    }
}

impl FromStr for MediumKinds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "any" {
            return Ok(Self::ALL);
        }
        let kinds = text.split(',').map(str::parse::<MediumKind>);
        let mut bits = kinds.map(|kind| kind.map(MediumKind::bit));
        let bits = bits.try_fold(0, |all, bit| bit.map(|bit| all | bit));
        bits.map(Self).map_err(|fault| format!("{fault}: give any, or some of them as ssd,nvme"))
    }
}

/// A class of a pool: how zones may be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// Its number.
    pub id: ClassId,
    /// Strips.
    pub shape: StripeShape,
    /// Drives it may use.
    pub kinds: MediumKinds,
}

/// Sizes of the strips of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripGeometry {
    /// Strips of a segment.
    pub shape: StripeShape,
    /// Bytes of a segment's slot, a multiple of 4 KiB of at most 32 MiB.
    pub segment_bytes: u32,
    /// Slots of a zone, at most 65,535.
    pub zone_segments: u32,
}

impl StripGeometry {
    /// Most bytes of a strip behind its label: the data strips' share of a slot, a multiple of 4 KiB.
    #[must_use]
    pub fn strip_bytes(self) -> u32 {
        self.segment_bytes.div_ceil(self.shape.data.into()).next_multiple_of(LABEL_BYTES)
    }

    /// Bytes from the label of one slot to that of the next.
    #[must_use]
    pub fn slot_stride(self) -> u64 {
        u64::from(LABEL_BYTES) + u64::from(self.strip_bytes())
    }

    /// Units of a place.
    #[must_use]
    pub fn place_units(self) -> u32 {
        units_of(u64::from(self.zone_segments) * self.slot_stride())
    }

    /// Where the label of a slot of the zone is, in bytes behind the beginning of the drive's space.
    #[must_use]
    pub fn slot_offset(self, place: UnitNumber, slot: u32) -> u64 {
        place.offset() + u64::from(slot) * self.slot_stride()
    }

    /// Bytes behind the label of strip `strip` of a segment of `used_bytes`.
    #[must_use]
    pub fn data_bytes(self, strip: u8, used_bytes: u32) -> u32 {
        let strip_bytes = self.strip_bytes();
        let begins = if strip < self.shape.data { u32::from(strip) * strip_bytes } else { 0 };
        used_bytes.saturating_sub(begins).min(strip_bytes)
    }
}

/// Units that hold so many bytes.
pub(crate) fn units_of(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).expect("zones and lanes are below 256 TiB")
}

const _: () = assert!(LABEL_BYTES as usize == MEDIA_ALIGN);

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(data: u8, parity: u8) -> StripGeometry {
        let shape = StripeShape::new(data, parity).unwrap();
        StripGeometry { shape, segment_bytes: 2 << 20, zone_segments: 128 }
    }

    #[test]
    fn kinds_are_any_or_some_and_what_is_unknown_is_in_none_but_any() {
        let kinds = |text: &str| text.parse::<MediumKinds>();
        for text in ["any", "nvme", "ssd,hdd", "nvme,ssd,hdd"] {
            assert_eq!(kinds(text).unwrap().to_string(), text);
        }
        for kind in MediumKind::ALL {
            assert!(MediumKinds::ALL.has(kind));
            let is_named = kind == MediumKind::Nvme || kind == MediumKind::Ssd;
            assert_eq!(kinds("nvme,ssd").unwrap().has(kind), is_named);
        }
        for bad in ["", "unknown", "nvme,", "flash", "any,ssd"] {
            assert!(kinds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shapes_have_a_code_or_are_none() {
        for (data, parity, there) in [
            (0, 1, false),
            (1, 0, true),
            (1, 7, true),
            (1, 8, false),
            (2, 0, false),
            (2, 1, true),
            (2, 5, false),
            (12, 4, true),
            (13, 4, false),
            (255, 255, false),
        ] {
            assert_eq!(StripeShape::new(data, parity).is_some(), there, "{data}+{parity}");
        }
        assert_eq!(geometry(1, 2).shape.to_string(), "mirror:3");
        assert_eq!(geometry(10, 4).shape.to_string(), "ec:10+4");
    }

    #[test]
    fn places_take_what_the_format_says() {
        for (data, parity, strip_kib, units) in [
            (1, 1, 2048, 4104),
            (2, 1, 1024, 2056),
            (4, 2, 512, 1032),
            (8, 3, 256, 520),
            (10, 4, 208, 424),
        ] {
            let geometry = geometry(data, parity);
            assert_eq!(geometry.strip_bytes(), strip_kib << 10, "{}", geometry.shape);
            assert_eq!(geometry.place_units(), units, "{}", geometry.shape);
        }
    }

    #[test]
    fn data_strips_hold_a_segment_once() {
        for (data, parity) in [(1, 2), (2, 1), (3, 1), (4, 2), (10, 4), (12, 4)] {
            let geometry = geometry(data, parity);
            for used in (4096..=2 << 20).step_by(4096) {
                let total: u32 = (0..data).map(|strip| geometry.data_bytes(strip, used)).sum();
                assert_eq!(total, used, "{data}+{parity}");
                let longest = (0..data).map(|strip| geometry.data_bytes(strip, used)).max();
                for strip in data..data + parity {
                    assert_eq!(Some(geometry.data_bytes(strip, used)), longest);
                }
            }
        }
    }
}
