//! Reads of content.

use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use varve_engine::{BLOCK_BYTES, ReadPart};
use varve_stdx::BufSlice;
use varve_types::{ByteOffset, ShardId};

use crate::content::{ContentExtent, Reference, SeriesId, StoredContent};
use crate::hold::HeldContent;
use crate::series::SeriesMember;
use crate::shard::{BATCH, ContentShard};
use crate::{Error, Result, keys};

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A piece of a content.
#[derive(Debug)]
pub enum ContentPiece {
    /// Its bytes.
    Here(Bytes),
    /// On another shard: that of the reference's home reads it. It stays there as long as the content that it belongs
    /// to is held.
    Elsewhere {
        /// The shard whose record names it.
        taker: ShardId,
        /// By what.
        reference: Reference,
        /// Of what the reference names.
        range: Range<u64>,
    },
}

impl ContentShard {
    /// Bytes of a content that is held, in pieces.
    ///
    /// # Errors
    /// `Corrupt`; `Unavailable` when the shard was reopened since.
    ///
    /// # Panics
    /// When the range is not within the content.
    pub async fn read(&self, held: &HeldContent, range: Range<u64>) -> Result<Vec<ContentPiece>> {
        self.check_known(held.hold())?;
        let mut pieces = Vec::new();
        self.read_content(held.content(), range, &mut pieces).await?;
        Ok(pieces)
    }

    /// All bytes of a content that is held, or whose record cannot change meanwhile, in pieces.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`.
    pub async fn read_all(&self, content: &StoredContent) -> Result<Vec<ContentPiece>> {
        let mut pieces = Vec::new();
        self.read_content(content, 0..content.len(), &mut pieces).await?;
        Ok(pieces)
    }

    async fn read_content(
        &self,
        content: &StoredContent,
        range: Range<u64>,
        pieces: &mut Vec<ContentPiece>,
    ) -> Result<()> {
        assert!(range.end <= content.len(), "inside the content");
        if range.is_empty() {
            return Ok(());
        }
        match content {
            StoredContent::None => Ok(()),
            StoredContent::Inline(bytes) => {
                let at = |offset: u64| usize::try_from(offset).expect("inside the record");
                pieces.push(ContentPiece::Here(bytes.slice(at(range.start)..at(range.end))));
                Ok(())
            }
            StoredContent::Extent(extent) => {
                let read = self.read_extent(extent, range).await?;
                pieces.extend(read.into_iter().map(ContentPiece::Here));
                Ok(())
            }
            StoredContent::Series { series, .. } => self.read_series(*series, range, pieces).await,
            StoredContent::Reference { reference, offset, .. } => {
                let (reference, range) = (*reference, offset + range.start..offset + range.end);
                let taker = self.shard.id();
                if reference.home() == taker {
                    self.check_referenced(taker, &reference).await?;
                    return Box::pin(self.read_target(reference.target, range, pieces)).await;
                }
                pieces.push(ContentPiece::Elsewhere { taker, reference, range });
                Ok(())
            }
        }
    }

    /// Bytes of an extent that is held, or whose record cannot change meanwhile.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`.
    pub async fn read_extent(
        &self,
        extent: &ContentExtent,
        range: Range<u64>,
    ) -> Result<Vec<Bytes>> {
        let at = extent.first() * BLOCK_BYTES as u64 + range.start;
        let len = usize::try_from(range.end - range.start)
            .map_err(|_| Error::State { reason: "more bytes than memory" })?;
        let parts = self.shard.read(self.stream, ByteOffset(at), len).await?;
        let mut pieces = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                ReadPart::Data(data) => pieces.push(Bytes::from_owner(OwnedBytes(data))),
                ReadPart::Zero(len) => {
                    let whole = std::iter::repeat_n(ZEROS.len(), len / ZEROS.len());
                    let rest = Some(len % ZEROS.len()).filter(|rest| *rest > 0);
                    pieces.extend(whole.chain(rest).map(|len| Bytes::from_static(&ZEROS[..len])));
                }
            }
        }
        Ok(pieces)
    }

    /// The member that a range of a series lies in, if that is one, and where it begins.
    pub(crate) async fn member_with(
        &self,
        series: SeriesId,
        range: &Range<u64>,
    ) -> Result<Option<(StoredContent, u64)>> {
        let members = self.members_of(series).await?;
        let at = members.partition_point(|member| member.end <= range.start);
        let begin = at.checked_sub(1).map_or(0, |before| members[before].end);
        let member = members.get(at).filter(|member| range.end <= member.end);
        Ok(member.map(|member| (member.content.clone(), begin)))
    }

    pub(crate) async fn read_series(
        &self,
        series: SeriesId,
        range: Range<u64>,
        pieces: &mut Vec<ContentPiece>,
    ) -> Result<()> {
        let members = self.members_of(series).await?;
        let first = members.partition_point(|member| member.end <= range.start);
        let mut begin = first.checked_sub(1).map_or(0, |before| members[before].end);
        for member in &members[first..] {
            if begin >= range.end {
                break;
            }
            let inside = range.start.max(begin) - begin..range.end.min(member.end) - begin;
            Box::pin(self.read_content(&member.content, inside, pieces)).await?;
            begin = member.end;
        }
        if begin < range.end {
            return Err(Error::damaged("a content of which parts are missing"));
        }
        Ok(())
    }

    /// Where the members of a series are. They do not change any more.
    async fn members_of(&self, series: SeriesId) -> Result<Rc<Vec<SeriesMember>>> {
        let known = self.series_read.borrow().find(series);
        if let Some(members) = known {
            return Ok(members);
        }
        let range = keys::members(self.stream, series);
        let (mut from, mut members, mut end) = (range.start, Vec::new(), 0);
        loop {
            let found = self.shard.key_range(&from, Some(&range.end), BATCH).await?;
            let Some((last, _)) = found.last() else { break };
            from = [last.as_slice(), &[0]].concat();
            for (_, value) in &found {
                let content = (self.read_record)(value)?.main;
                end += content.len();
                members.push(SeriesMember { end, content });
            }
        }
        let members = Rc::new(members);
        self.series_read.borrow_mut().add(series, Rc::clone(&members));
        Ok(members)
    }
}

/// Bytes that stay where they were read to.
struct OwnedBytes(BufSlice);

impl AsRef<[u8]> for OwnedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
