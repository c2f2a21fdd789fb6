//! Verifies segments of a shard that cannot be opened: of a slot it is not known what should be in it.

use varve_logstore::chain_reader::{
    ReadVerdict, decode_summary, read_summary, read_units, read_whole, summary_within, unit_bytes,
    unit_is_whole, units_are_whole,
};
use varve_logstore::format::segment::{STRIP_HEADER_BYTES, StripHeader};
use varve_media::{Media, SegmentId};
use varve_stdx::BufSlice;
use varve_types::{Generation, SegmentNumber};

use super::report::{Damage, DamagedPart};
use crate::{Error, Result, ShardConfig};

/// Verifies a segment without knowing what of it is needed, for a shard that cannot be opened. Damage counts as needed.
///
/// Free slots may hold anything: what does not carry the shard's own sound header is passed by.
///
/// # Errors
/// When the media fail to give the header back.
pub async fn verify_slot(
    media: &Media,
    config: &ShardConfig,
    number: SegmentNumber,
) -> Result<Vec<Damage>> {
    let segments = &media.segments;
    let segment_bytes = segments.geometry().segment_bytes;
    let unknown = SegmentId { number, generation: Generation::ZERO };
    let own_header = |bytes: &[u8]| {
        let (header, _) = StripHeader::decode(bytes).ok()?;
        let is_own = header.check_place(config.pool, number).is_ok()
            && header.shard == config.shard
            && header.used_bytes <= segment_bytes;
        is_own.then_some(header)
    };
    let is_right = |bytes: &BufSlice| own_header(bytes).is_some();
    let read = read_whole(segments, unknown, 0, STRIP_HEADER_BYTES, is_right).await;
    let bytes = read.map_err(varve_logstore::Error::from).map_err(Error::from)?.bytes;
    let Some(header) = own_header(&bytes) else { return Ok(Vec::new()) };
    Ok(damage_of(media, &header).await)
}

/// Damage of a segment whose header is sound. What the media can read in another way is not lost.
async fn damage_of(media: &Media, header: &StripHeader) -> Vec<Damage> {
    let (segments, segment) = (&media.segments, header.segment());
    let damage = |part, offset, len, is_copied: bool, reason| Damage {
        segment,
        offset,
        len,
        part,
        is_needed: !is_copied,
        is_copied,
        reason,
    };
    let entries_in = |bytes: &[u8]| {
        let summary = summary_within(header, bytes).unwrap_or(&[]);
        decode_summary(header, summary)
    };
    let is_right =
        |bytes: &BufSlice| entries_in(bytes).is_ok_and(|entries| units_are_whole(bytes, &entries));
    let read = match read_whole(segments, segment, 0, header.used_bytes, is_right).await {
        Ok(read) => read,
        Err(error) => {
            let part = DamagedPart::Range;
            return vec![damage(part, 0, header.used_bytes, false, error.to_string())];
        }
    };
    match read.verdict {
        ReadVerdict::Right => return Vec::new(),
        ReadVerdict::RightElsewhere => {
            let reason = "checksum mismatch where it is read first".to_owned();
            return vec![damage(DamagedPart::Range, 0, header.used_bytes, true, reason)];
        }
        ReadVerdict::Wrong => {}
    }
    let mut found = Vec::new();
    let entries = match entries_in(&read.bytes) {
        Ok(entries) => entries,
        Err(error) => {
            let (start, len) = (header.summary_offset, header.summary_bytes());
            let again = read_summary(segments, header).await;
            let reason = error.to_string();
            found.push(damage(DamagedPart::Summary, start, len, again.is_ok(), reason));
            again.map(|summary| summary.entries).unwrap_or_default()
        }
    };
    for (entry, unit) in entries.iter().filter_map(|entry| Some((entry, entry.unit()?))) {
        if unit_bytes(&read.bytes, unit).is_some_and(|found| unit_is_whole(unit, found)) {
            continue;
        }
        let is_copied = read_units(segments, segment, std::slice::from_ref(unit)).await.is_ok();
        let (part, reason) = (DamagedPart::of_entry(entry), "checksum mismatch".to_owned());
        found.push(damage(part, unit.offset(), unit.stored_len, is_copied, reason));
    }
    found
}
