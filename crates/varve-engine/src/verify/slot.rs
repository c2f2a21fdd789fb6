//! Verifies segments of a shard that cannot be opened: of a slot it is not known what should be in it.

use varve_logstore::chain_reader::{decode_summary, unit_bytes, unit_is_whole};
use varve_logstore::format::segment::{STRIP_HEADER_BYTES, StripHeader};
use varve_media::{Media, SegmentId};
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
    let unknown = SegmentId { number, generation: Generation::ZERO };
    let read = media.segments.get(unknown, 0, STRIP_HEADER_BYTES).await;
    let bytes = read.map_err(varve_logstore::Error::from).map_err(Error::from)?;
    let Ok((header, _)) = StripHeader::decode(&bytes) else {
        return Ok(Vec::new());
    };
    let segment_bytes = media.segments.geometry().segment_bytes;
    let ours = header.check_place(config.pool, number).is_ok() && header.shard == config.shard;
    if !ours || header.used_bytes > segment_bytes {
        return Ok(Vec::new());
    }
    let segment = header.segment();
    let damage = |part, offset, len, reason| Damage {
        segment,
        offset,
        len,
        part,
        is_needed: true,
        is_copied: false,
        reason,
    };
    let bytes = match media.segments.get(segment, 0, header.used_bytes).await {
        Ok(bytes) => bytes,
        Err(error) => {
            let part = DamagedPart::Range;
            return Ok(vec![damage(part, 0, header.used_bytes, error.to_string())]);
        }
    };
    let (start, len) = (header.summary_offset, header.summary_bytes());
    let end = u64::from(start) + u64::from(len);
    let end = usize::try_from(end).expect("a sum of two u32 fits");
    let summary = bytes.get(start as usize..end).unwrap_or(&[]);
    let entries = match decode_summary(&header, summary) {
        Ok(entries) => entries,
        Err(error) => {
            return Ok(vec![damage(DamagedPart::Summary, start, len, error.to_string())]);
        }
    };
    let units = entries.iter().filter_map(|entry| Some((entry, entry.unit()?)));
    let broken = units.filter(|(_, unit)| {
        !unit_bytes(&bytes, unit).is_some_and(|found| unit_is_whole(unit, found))
    });
    let found = broken.map(|(entry, unit)| {
        damage(
            DamagedPart::of_entry(entry),
            unit.offset(),
            unit.stored_len,
            "checksum mismatch".to_owned(),
        )
    });
    Ok(found.collect())
}
