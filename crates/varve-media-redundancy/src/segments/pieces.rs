//! Reads of a range of a segment: from the strips that have it, and from others where these are late, slow, or cannot
//! be read (3.2, 3.3, 3.11). Callers verify what they get.

use std::ops::Range;
use std::pin::{Pin, pin};
use std::rc::Rc;

use futures_util::future::{Either, join_all, select};
use varve_media::{Result, SegmentId};
use varve_stdx::{AlignedBuf, BufSlice};

use super::{SegmentsInner, part_of};
use crate::class::LABEL_BYTES;
use crate::decode::ColumnRequest;
use crate::handles::DriveHandle;
use crate::view::{LayoutView, StripLocation};

/// Most pieces of a range that are computed one by one; where there are more, the slot is read as a whole.
const PIECES_MAX: usize = 2;

/// A range of a segment.
#[derive(Clone, Copy)]
pub(super) struct RangeRequest<'a> {
    pub(super) id: SegmentId,
    /// Where the strips of its slot are.
    pub(super) locations: &'a [StripLocation],
    pub(super) offset: u32,
    pub(super) len: u32,
}

/// A part of a strip that a range of a segment has.
struct Piece {
    strip: u8,
    /// Columns of it, counted from the end of its label; multiples of 4 KiB.
    columns: Range<u32>,
}

/// A read that goes on by itself.
type PieceRead = Pin<Box<dyn Future<Output = Result<AlignedBuf>>>>;

impl RangeRequest<'_> {
    fn location_of(&self, piece: &Piece) -> Option<&StripLocation> {
        self.locations.iter().find(|location| location.strip == piece.strip)
    }

    /// Whether strips are copies of each other.
    fn is_copied(&self) -> bool {
        self.locations.first().is_some_and(|it| it.geometry.shape.data() == 1)
    }
}

impl SegmentsInner {
    /// Reads the strips that have the range, and computes what of it cannot be read. `None` when that is not possible,
    /// or would cost more than reading the slot as a whole.
    pub(super) async fn get_striped(
        &self,
        view: &LayoutView,
        request: &RangeRequest<'_>,
    ) -> Option<BufSlice> {
        let strip_bytes = request.locations.first()?.geometry.strip_bytes();
        let range = aligned(request.offset, request.len);
        let pieces = pieces_of(&range, strip_bytes);
        let is_whole = |piece: &Piece| piece.columns.len() as u64 >= u64::from(strip_bytes);
        let is_large = pieces.len() > PIECES_MAX || pieces.iter().any(is_whole);
        let lacks = |piece: &Piece| {
            let location = request.location_of(piece);
            let drive = location.and_then(|it| self.reader.readable(view, it.place.drive));
            drive.is_none_or(|drive| self.handles.is_avoided(view, drive.number()))
        };
        if is_large && !request.is_copied() && pieces.iter().any(lacks) {
            self.handles.hedging().note_degraded();
            return None;
        }
        let reads = pieces.iter().map(|piece| self.get_piece(view, request, piece));
        let parts = join_all(reads).await;
        let parts: Vec<BufSlice> = parts.into_iter().collect::<Option<_>>()?;
        Some(part_of(&join(&pieces, &parts), request.offset - range.start, request.len))
    }

    /// One piece: from its strip, and where that is late from others beside it (3.11).
    async fn get_piece(
        &self,
        view: &LayoutView,
        request: &RangeRequest<'_>,
        piece: &Piece,
    ) -> Option<BufSlice> {
        let hedging = self.handles.hedging();
        let location = request.location_of(piece);
        let drive = location.and_then(|it| self.reader.readable(view, it.place.drive));
        let Some((location, drive)) = location.zip(drive) else {
            hedging.note_degraded();
            return self.get_elsewhere(view, request, piece).await;
        };
        let reactor = self.handles.reactor();
        let (number, late_after) = (drive.number(), self.handles.late_after(drive.number()));
        hedging.note_read(reactor.now());
        if self.handles.is_avoided(view, number) {
            return self.get_around(view, request, piece, drive).await;
        }
        let read = begin_read(drive, location, piece);
        let late = match select(read, reactor.sleep(late_after)).await {
            Either::Left((Ok(bytes), _)) => return Some(bytes.freeze()),
            Either::Left((Err(_), _)) => {
                hedging.note_degraded();
                return self.get_elsewhere(view, request, piece).await;
            }
            Either::Right(((), late)) => late,
        };
        if !hedging.begin(reactor.now()) {
            return match late.await {
                Ok(bytes) => Some(bytes.freeze()),
                Err(_) => self.get_elsewhere(view, request, piece).await,
            };
        }
        let elsewhere = pin!(self.get_elsewhere(view, request, piece));
        match select(late, elsewhere).await {
            Either::Left((Ok(bytes), _)) => Some(bytes.freeze()),
            Either::Left((Err(_), elsewhere)) => elsewhere.await,
            Either::Right((None, late)) => Some(late.await.ok()?.freeze()),
            Either::Right((bytes, late)) => {
                reactor.spawn(async move { drop(late.await) }); // HEDGE-2
                bytes
            }
        }
    }

    /// A piece whose drive is known to be late: from others, and only where that does not do from it.
    async fn get_around(
        &self,
        view: &LayoutView,
        request: &RangeRequest<'_>,
        piece: &Piece,
        drive: Rc<DriveHandle>,
    ) -> Option<BufSlice> {
        let location = request.location_of(piece)?;
        self.handles.hedging().note_degraded();
        let mut probe = None;
        if self.handles.hedging().is_probe() {
            let read = begin_read(Rc::clone(&drive), location, piece);
            probe = Some(self.handles.reactor().spawn_join(read)); // HEDGE-2
        }
        if let Some(bytes) = self.get_elsewhere(view, request, piece).await {
            return Some(bytes);
        }
        let read = match probe {
            Some(probe) => probe.await,
            None => begin_read(drive, location, piece).await,
        };
        Some(read.ok()?.freeze())
    }

    /// A piece from other strips than its own.
    async fn get_elsewhere(
        &self,
        view: &LayoutView,
        request: &RangeRequest<'_>,
        piece: &Piece,
    ) -> Option<BufSlice> {
        if request.is_copied() {
            return self.read_other_copy(view, request, piece).await;
        }
        self.decode_piece(view, request, piece).await
    }

    /// Columns of a piece from another copy, of those on slow drives last. As of the first one, the caller's checksum
    /// says whether they are right.
    async fn read_other_copy(
        &self,
        view: &LayoutView,
        request: &RangeRequest<'_>,
        piece: &Piece,
    ) -> Option<BufSlice> {
        let columns = LABEL_BYTES + piece.columns.start..LABEL_BYTES + piece.columns.end;
        let others = request.locations.iter().filter(|location| location.strip != piece.strip);
        let mut others: Vec<&StripLocation> = others.collect();
        others.sort_by_key(|location| self.handles.is_avoided(view, location.place.drive));
        for location in others {
            if let Ok(bytes) = self.reader.read_at(view, location, columns.clone()).await {
                return Some(bytes);
            }
        }
        None
    }

    /// Columns of a piece from other strips; zeros behind the strip's end.
    async fn decode_piece(
        &self,
        view: &LayoutView,
        request: &RangeRequest<'_>,
        piece: &Piece,
    ) -> Option<BufSlice> {
        let (id, locations) = (request.id, request.locations);
        let columns = piece.columns.clone();
        let wanted = ColumnRequest { id, locations, wanted: piece.strip, columns };
        let bytes = self.reader.decode_columns(view, &wanted).await?;
        if bytes.len() == piece.columns.len() {
            return Some(bytes);
        }
        let mut padded = AlignedBuf::zeroed(piece.columns.len());
        padded.get_mut(..bytes.len())?.copy_from_slice(&bytes);
        Some(padded.freeze())
    }

    /// A range with each part of it computed from strips that do not have it.
    pub(super) async fn decode_range(
        &self,
        view: &LayoutView,
        request: &RangeRequest<'_>,
    ) -> Option<BufSlice> {
        let strip_bytes = request.locations.first()?.geometry.strip_bytes();
        let range = aligned(request.offset, request.len);
        let pieces = pieces_of(&range, strip_bytes);
        if pieces.len() > PIECES_MAX {
            return None;
        }
        let mut parts = Vec::new();
        for piece in &pieces {
            parts.push(self.decode_piece(view, request, piece).await?);
        }
        Some(part_of(&join(&pieces, &parts), request.offset - range.start, request.len))
    }
}

/// The read of a piece, which begins when it is polled.
fn begin_read(drive: Rc<DriveHandle>, location: &StripLocation, piece: &Piece) -> PieceRead {
    drive.note_client();
    let at = location.offset + u64::from(LABEL_BYTES) + u64::from(piece.columns.start);
    let len = piece.columns.len();
    Box::pin(async move { drive.read(at, len).await })
}

/// The smallest range of whole blocks that has `len` bytes at `offset`.
pub(super) fn aligned(offset: u32, len: u32) -> Range<u32> {
    let first = offset - offset % LABEL_BYTES;
    first..(offset + len).next_multiple_of(LABEL_BYTES)
}

/// Which strips have the blocks of a range.
fn pieces_of(range: &Range<u32>, strip_bytes: u32) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let strip = at / strip_bytes;
        let begins = strip * strip_bytes;
        let end = range.end.min(begins + strip_bytes);
        let strip = u8::try_from(strip).expect("a slot has at most 16 strips");
        pieces.push(Piece { strip, columns: at - begins..end - begins });
        at = end;
    }
    pieces
}

/// Parts one after the other; a single one is not copied.
fn join(pieces: &[Piece], parts: &[BufSlice]) -> BufSlice {
    match parts {
        [] => BufSlice::copy_from(&[]),
        [part] => part.clone(),
        _ => {
            let len = pieces.iter().map(|piece| piece.columns.len()).sum();
            let mut joined = AlignedBuf::scratch(len);
            let mut rest = &mut *joined;
            for part in parts {
                let (room, behind) = rest.split_at_mut(part.len());
                room.copy_from_slice(part);
                rest = behind;
            }
            assert!(rest.is_empty(), "parts are as long as their pieces");
            joined.freeze()
        }
    }
}
