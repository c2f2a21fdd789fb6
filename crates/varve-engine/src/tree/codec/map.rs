//! The payload of map pages: runs, or 512 words where runs would take more.
//!
//! ```text
//!  holes     1 | count 2                                             to the end of the page if it is the last
//!  zeros     2 | count 2
//!  run       3 | count 2 | slot 8                                    slots with consecutive ids
//!  literals  4 | count 2 | kind and shard 2 | base 6 | width 1 | (id − base) width × count
//! ```
//! Slots after the last piece are holes.

use varve_stdx::Reader;
use varve_types::{BlockIndex, ChunkId, StreamId};

use crate::tree::map::{MAP_SLOTS, MapPage, level_fits};
use crate::tree::{MapSlot, PAGE_BYTES, SlotKind};

use super::{MAP_PACKED, MAP_RAW, PageError};

const HOLES: u8 = 1;
const ZEROS: u8 = 2;
const RUN: u8 = 3;
const LITERALS: u8 = 4;

const RAW_BYTES: usize = MAP_SLOTS * 8;

const _: () = assert!(RAW_BYTES == PAGE_BYTES, "words take what they take in memory");
/// Shortest run that interrupts literals: it and the restart of the literals cost 23 bytes.
const RUN_MIN: usize = 8;
const ID_MASK: u64 = (1 << 48) - 1;

const _: () = assert!(ID_MASK == ChunkId::MAX.get());

/// Appends the payload; returns its encoding.
pub(super) fn encode(page: &MapPage, out: &mut Vec<u8>) -> u8 {
    let start = out.len();
    let mut slots = &page.slots()[..];
    while let [first, ..] = slots {
        let len = match first.kind() {
            SlotKind::Hole | SlotKind::Zero => {
                let len = slots.iter().take_while(|slot| *slot == first).count();
                if *first == MapSlot::ZERO {
                    put_head(out, ZEROS, len);
                } else if len < slots.len() {
                    put_head(out, HOLES, len);
                }
                len
            }
            SlotKind::Data | SlotKind::Page => encode_named(slots, out),
        };
        slots = &slots[len..];
    }
    if out.len() - start <= RAW_BYTES {
        return MAP_PACKED;
    }
    out.truncate(start);
    out.extend(page.slots().iter().flat_map(|slot| slot.bits().to_le_bytes()));
    assert_eq!(out.len() - start, RAW_BYTES, "one word a slot");
    MAP_RAW
}

/// A run or literals from the first slot on; returns how many slots they hold.
fn encode_named(slots: &[MapSlot], out: &mut Vec<u8>) -> usize {
    let run = run_len(slots);
    let literals = if run >= RUN_MIN { 0 } else { literal_len(slots) };
    assert!(run > 0 && literals <= slots.len(), "a piece holds slots");
    if literals <= run {
        put_head(out, RUN, run);
        out.extend_from_slice(&slots[0].bits().to_le_bytes());
        return run;
    }
    let ids = || slots[..literals].iter().map(|slot| slot.id().get());
    let base = ids().min().expect("there is a slot");
    let span = ids().max().expect("there is a slot") - base;
    let width = (64 - span.leading_zeros()).div_ceil(8).max(1);
    assert!(width <= 6, "ids have 48 bits");
    put_head(out, LITERALS, literals);
    out.extend_from_slice(&slots[0].bits().to_le_bytes()[6..]);
    out.extend_from_slice(&base.to_le_bytes()[..6]);
    out.extend_from_slice(&width.to_le_bytes()[..1]);
    let (start, width) = (out.len(), width as usize);
    out.resize(start + literals * width + size_of::<u64>(), 0);
    for (index, id) in ids().enumerate() {
        // Whole words; the next one overwrites what is too much.
        let at = start + index * width;
        out[at..at + 8].copy_from_slice(&(id - base).to_le_bytes());
    }
    out.truncate(start + literals * width);
    literals
}

/// Slots at the start with consecutive ids.
fn run_len(slots: &[MapSlot]) -> usize {
    let follows = |pair: &&[MapSlot]| pair[0].bits() + 1 == pair[1].bits();
    1 + slots.windows(2).take_while(follows).count()
}

/// Slots at the start of one kind and shard, up to a run that is worth its own piece.
fn literal_len(slots: &[MapSlot]) -> usize {
    let mut run = 1;
    for (index, pair) in slots.windows(2).enumerate() {
        let (now, next) = (pair[0].bits(), pair[1].bits());
        if next >> 48 != slots[0].bits() >> 48 {
            return index + 1;
        }
        run = if now + 1 == next { run + 1 } else { 1 };
        if run == RUN_MIN {
            return index + 2 - RUN_MIN;
        }
    }
    slots.len()
}

fn put_head(out: &mut Vec<u8>, piece: u8, count: usize) {
    assert!(count > 0 && count <= MAP_SLOTS, "a piece holds slots of one page");
    let count = u16::try_from(count).expect("at most the slots of a page");
    out.push(piece);
    out.extend_from_slice(&count.to_le_bytes());
}

/// Reads a payload.
pub(super) fn decode(
    encoding: u8,
    stream: StreamId,
    level: u8,
    first_block: BlockIndex,
    payload: &[u8],
) -> Result<MapPage, PageError> {
    if !level_fits(level, first_block) {
        return Err(PageError::Payload("level"));
    }
    let slots = match encoding {
        MAP_PACKED => decode_pieces(payload)?,
        MAP_RAW if payload.len() == RAW_BYTES => {
            let words = payload.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            words.map(slot_of).collect::<Result<_, _>>()?
        }
        _ => return Err(PageError::Payload("encoding")),
    };
    let mut page = MapPage::filled(stream, level, first_block, MapSlot::HOLE);
    for (index, slot) in slots.into_iter().enumerate() {
        match slot.kind() {
            SlotKind::Data if level > 0 => {
                return Err(PageError::Payload("slot: data above leaves"));
            }
            SlotKind::Page if level == 0 => return Err(PageError::Payload("slot: page in a leaf")),
            _ => page.set(index, slot),
        }
    }
    if page.used() == 0 {
        return Err(PageError::Payload("slots: only holes"));
    }
    Ok(page)
}

fn decode_pieces(payload: &[u8]) -> Result<Vec<MapSlot>, PageError> {
    let mut slots = Vec::with_capacity(MAP_SLOTS);
    let mut reader = Reader::new("payload of a map page", payload);
    while !reader.rest().is_empty() {
        let piece = reader.u8()?;
        let count = usize::from(reader.u16()?);
        if count == 0 || count > MAP_SLOTS - slots.len() {
            return Err(PageError::Payload("count of slots"));
        }
        match piece {
            HOLES => slots.resize(slots.len() + count, MapSlot::HOLE),
            ZEROS => slots.resize(slots.len() + count, MapSlot::ZERO),
            RUN => {
                let first = reader.u64()?;
                if (first & ID_MASK) + count as u64 - 1 > ID_MASK {
                    return Err(PageError::Payload("run"));
                }
                for index in 0..count as u64 {
                    slots.push(named(first + index)?);
                }
            }
            LITERALS => {
                let kind_and_shard = u64::from(reader.u16()?) << 48;
                let base = reader.u48()?;
                let width = usize::from(reader.u8()?);
                if !(1..=6).contains(&width) {
                    return Err(PageError::Payload("width"));
                }
                for delta in reader.bytes(count * width)?.chunks_exact(width) {
                    let delta = delta.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                    let id = base + delta;
                    if id > ID_MASK {
                        return Err(PageError::Payload("literal"));
                    }
                    slots.push(named(kind_and_shard | id)?);
                }
            }
            _ => return Err(PageError::Payload("piece")),
        }
    }
    assert!(slots.len() <= MAP_SLOTS, "counts were compared with what is left");
    Ok(slots)
}

fn slot_of(bits: u64) -> Result<MapSlot, PageError> {
    MapSlot::from_untrusted(bits).ok_or(PageError::Payload("slot"))
}

fn named(bits: u64) -> Result<MapSlot, PageError> {
    let slot = slot_of(bits)?;
    let is_named = matches!(slot.kind(), SlotKind::Data | SlotKind::Page);
    if is_named { Ok(slot) } else { Err(PageError::Payload("slot")) }
}
