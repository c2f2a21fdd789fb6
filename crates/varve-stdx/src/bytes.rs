//! Byte cursors for fixed-width little-endian structures: [`Writer`] into memory the caller owns, [`Reader`] over bytes
//! nobody vouches for.
//!
//! Used by every `format` and `wire` module.
//!
//! BYTES-1. A [`Reader`] never panics and never reads past its end: it yields [`Short`] instead.
//! BYTES-2. A [`Writer`] is given room by its caller; a lack of room is a bug of the caller and panics.

use std::mem;

/// Bytes ended before the value did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Short {
    /// Bytes from the start that the value needs.
    pub need: usize,
    /// Bytes there are.
    pub have: usize,
}

/// Reads values one after the other. Each call costs O(1) and copies only what it returns.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    #[must_use]
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, position: 0 }
    }

    /// Bytes read so far.
    #[must_use]
    #[inline]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// What has not been read.
    #[must_use]
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[cold]
    fn short(&self, need: usize) -> Short {
        Short {
            need: self.position.saturating_add(need),
            have: self.position.saturating_add(self.rest.len()),
        }
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// [`Short`] when fewer are left; nothing is consumed then. The same holds for every method below.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.short(N))?;
        self.rest = tail;
        self.position += N;
        Ok(*head)
    }

    /// The next `count` bytes, not copied.
    ///
    /// # Errors
    /// [`Short`].
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Short> {
        let (head, tail) = self.rest.split_at_checked(count).ok_or_else(|| self.short(count))?;
        self.rest = tail;
        self.position += count;
        Ok(head)
    }

    /// One byte.
    ///
    /// # Errors
    /// [`Short`].
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Short> {
        self.array().map(u8::from_le_bytes)
    }

    /// Two bytes.
    ///
    /// # Errors
    /// [`Short`].
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Short> {
        self.array().map(u16::from_le_bytes)
    }

    /// Three bytes.
    ///
    /// # Errors
    /// [`Short`].
    #[inline]
    pub fn u24(&mut self) -> Result<u32, Short> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// Four bytes.
    ///
    /// # Errors
    /// [`Short`].
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Short> {
        self.array().map(u32::from_le_bytes)
    }

    /// Six bytes: the value always fits a 48-bit id.
    ///
    /// # Errors
    /// [`Short`].
    #[inline]
    pub fn u48(&mut self) -> Result<u64, Short> {
        let [a, b, c, d, e, f] = self.array()?;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// [`Short`].
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Short> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Writes values one after the other. Each call costs O(1), allocates nothing, and panics when there is no room
/// (BYTES-2).
#[derive(Debug)]
pub struct Writer<'a> {
    rest: &'a mut [u8],
    position: usize,
}

impl<'a> Writer<'a> {
    /// Starts at the first byte.
    #[must_use]
    #[inline]
    pub const fn new(out: &'a mut [u8]) -> Self {
        Self { rest: out, position: 0 }
    }

    /// Bytes written so far.
    #[must_use]
    #[inline]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Copies `bytes`.
    #[inline]
    pub fn array<const N: usize>(&mut self, bytes: [u8; N]) {
        let (head, tail) = mem::take(&mut self.rest)
            .split_first_chunk_mut::<N>()
            .expect("the caller gave room for the structure"); // BYTES-2
        *head = bytes;
        self.rest = tail;
        self.position += N;
    }

    /// Copies `bytes`.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let (head, tail) = mem::take(&mut self.rest)
            .split_at_mut_checked(bytes.len())
            .expect("the caller gave room for the structure"); // BYTES-2
        head.copy_from_slice(bytes);
        self.rest = tail;
        self.position += bytes.len();
    }

    /// `count` zero bytes.
    #[inline]
    pub fn zeros(&mut self, count: usize) {
        let (head, tail) = mem::take(&mut self.rest)
            .split_at_mut_checked(count)
            .expect("the caller gave room for the structure"); // BYTES-2
        head.fill(0);
        self.rest = tail;
        self.position += count;
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.array([value]);
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.array(value.to_le_bytes());
    }

    /// The low three bytes.
    ///
    /// # Panics
    /// When `value` needs more than 24 bits.
    #[inline]
    pub fn u24(&mut self, value: u32) {
        let [a, b, c, high] = value.to_le_bytes();
        assert!(high == 0, "value does not fit 24 bits");
        self.array([a, b, c]);
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.array(value.to_le_bytes());
    }

    /// The low six bytes.
    ///
    /// # Panics
    /// When `value` needs more than 48 bits.
    #[inline]
    pub fn u48(&mut self, value: u64) {
        assert!(value >> 48 == 0, "value does not fit 48 bits");
        let [a, b, c, d, e, f, _, _] = value.to_le_bytes();
        self.array([a, b, c, d, e, f]);
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.array(value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut out = [0xFFu8; 31];
        let mut writer = Writer::new(&mut out);
        writer.u8(1);
        writer.u16(0x0203);
        writer.u24(0x04_0506);
        writer.u32(0x0708_090A);
        writer.u48(0x0B0C_0D0E_0F10);
        writer.u64(0x1112_1314_1516_1718);
        writer.zeros(2);
        writer.bytes(b"end");
        writer.array(*b"..");
        assert_eq!(writer.position(), out.len());

        let mut reader = Reader::new(&out);
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.u16(), Ok(0x0203));
        assert_eq!(reader.u24(), Ok(0x04_0506));
        assert_eq!(reader.u32(), Ok(0x0708_090A));
        assert_eq!(reader.u48(), Ok(0x0B0C_0D0E_0F10));
        assert_eq!(reader.u64(), Ok(0x1112_1314_1516_1718));
        assert_eq!(reader.array(), Ok([0u8; 2]));
        assert_eq!(reader.bytes(3), Ok(&b"end"[..]));
        assert_eq!(reader.position(), 29);
        assert_eq!(reader.rest(), b"..");
    }

    #[test]
    fn a_short_read_consumes_nothing() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.u32(), Err(Short { need: 5, have: 3 })); // BYTES-1
        assert_eq!(reader.bytes(usize::MAX), Err(Short { need: usize::MAX, have: 3 }));
        assert_eq!(reader.u16(), Ok(0x0302));
    }

    #[test]
    #[should_panic(expected = "gave room")]
    fn a_writer_without_room_panics() {
        Writer::new(&mut [0; 3]).u32(1); // BYTES-2
    }

    #[test]
    #[should_panic(expected = "48 bits")]
    fn ids_are_not_cut_off() {
        Writer::new(&mut [0; 8]).u48(1 << 48);
    }
}
