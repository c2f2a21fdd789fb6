//! Fields of messages: how they are written, and read from bytes of a peer.

use varve_membership::NodeId;
use varve_stdx::{Reader, Short};
use varve_types::{ByteRange, ChunkId, Compression, StreamId};

use super::WireError;
use super::operation::ITEMS_MAX;

const LZ4: u8 = 32;

const _: () = assert!(Compression::ZSTD_LEVEL_MAX < LZ4);

/// Fields of a body, one after another.
pub(super) struct Out<'a>(pub(super) &'a mut Vec<u8>);

impl Out<'_> {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn range(&mut self, range: ByteRange) {
        self.u64(range.start);
        self.u64(range.end);
    }

    pub(super) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("within its limit"));
    }

    pub(super) fn maybe_bytes(&mut self, bytes: Option<&[u8]>) {
        self.u8(u8::from(bytes.is_some()));
        if let Some(bytes) = bytes {
            self.bytes(bytes);
        }
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("within its limit"));
        self.0.extend(bytes);
    }
}

pub(super) fn position<T: PartialEq>(known: &[T], value: &T) -> u8 {
    let found = known.iter().position(|one| one == value);
    found.and_then(|at| u8::try_from(at).ok()).expect("all are listed")
}

/// 0 is off, 1 to 19 a level of Zstandard, 32 LZ4.
pub(super) fn compression_number(compression: Compression) -> u8 {
    match compression {
        Compression::Off => 0,
        Compression::Zstd(level) => level,
        Compression::Lz4 => LZ4,
    }
}

/// Bytes of a peer.
pub(super) struct In<'a> {
    pub(super) kind: u8,
    pub(super) reader: Reader<'a>,
}

impl In<'_> {
    pub(super) fn senseless(&self, what: &'static str) -> WireError {
        WireError::Senseless { kind: self.kind, what }
    }

    pub(super) fn whole<T>(&self, read: Result<T, Short>) -> Result<T, WireError> {
        read.map_err(|_| self.senseless("it is too short"))
    }

    pub(super) fn u8(&mut self) -> Result<u8, WireError> {
        let read = self.reader.u8();
        self.whole(read)
    }

    pub(super) fn u16(&mut self) -> Result<u16, WireError> {
        let read = self.reader.u16();
        self.whole(read)
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireError> {
        let read = self.reader.u32();
        self.whole(read)
    }

    pub(super) fn u64(&mut self) -> Result<u64, WireError> {
        let read = self.reader.u64();
        self.whole(read)
    }

    pub(super) fn sixteen(&mut self) -> Result<[u8; 16], WireError> {
        let read = self.reader.array();
        self.whole(read)
    }

    pub(super) fn node(&mut self) -> Result<NodeId, WireError> {
        Ok(NodeId(u128::from_le_bytes(self.sixteen()?)))
    }

    pub(super) fn stream(&mut self) -> Result<StreamId, WireError> {
        let number = self.u64()?;
        StreamId::from_untrusted(number).ok_or_else(|| self.senseless("no stream has that number"))
    }

    pub(super) fn bytes(&mut self, limit: usize) -> Result<Vec<u8>, WireError> {
        let len = self.u32()? as usize;
        if len > limit {
            return Err(self.senseless("a field is over its limit"));
        }
        let read = self.reader.bytes(len);
        Ok(self.whole(read)?.to_vec())
    }

    pub(super) fn maybe_bytes(&mut self, limit: usize) -> Result<Option<Vec<u8>>, WireError> {
        if self.flag()? { self.bytes(limit).map(Some) } else { Ok(None) }
    }

    pub(super) fn chunk(&mut self) -> Result<ChunkId, WireError> {
        let number = self.u64()?;
        ChunkId::from_untrusted(number).ok_or_else(|| self.senseless("no chunk has that number"))
    }

    pub(super) fn range(&mut self) -> Result<ByteRange, WireError> {
        let range = ByteRange { start: self.u64()?, end: self.u64()? };
        if range.start > range.end {
            return Err(self.senseless("a range ends before it begins"));
        }
        Ok(range)
    }

    /// How many are asked for, or follow.
    pub(super) fn number_of_items(&mut self) -> Result<u32, WireError> {
        let count = self.u32()?;
        if count > ITEMS_MAX {
            return Err(self.senseless("more items than are allowed"));
        }
        Ok(count)
    }

    /// Items of one kind, and their number before them.
    pub(super) fn items<T>(
        &mut self,
        read: impl Fn(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let count = self.number_of_items()?;
        (0..count).map(|_| read(self)).collect()
    }

    pub(super) fn flag(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.senseless("neither yes nor no")),
        }
    }

    pub(super) fn one_of<T: Copy>(&mut self, known: &[T]) -> Result<T, WireError> {
        let at = usize::from(self.u8()?);
        known.get(at).copied().ok_or_else(|| self.senseless("a number that is not known"))
    }

    pub(super) fn compression(&mut self) -> Result<Compression, WireError> {
        match self.u8()? {
            0 => Ok(Compression::Off),
            LZ4 => Ok(Compression::Lz4),
            level if level <= Compression::ZSTD_LEVEL_MAX => Ok(Compression::Zstd(level)),
            _ => Err(self.senseless("a compression that is not known")),
        }
    }
}
