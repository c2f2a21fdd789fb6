//! Byte cursors for fixed-width structures: [`Writer`] into memory the caller owns, [`Reader`] over bytes nobody
//! vouches for. Numbers are little-endian, as in all stored formats; a [`Reader::big_endian`] reads those of NBD.
//!
//! Used by every `format` and `wire` module.
//!
//! BYTES-1. A [`Reader`] never panics and never reads past its end: it yields a [`DecodeError`] instead.
//! BYTES-2. A [`Writer`] is given room by its caller; a lack of room is a bug of the caller and panics.
//! BYTES-3. Every error names the structure that was read, and the field where one is wrong.

use std::fmt;
use std::marker::PhantomData;
use std::mem;

use crate::zero::is_zero;

/// Why bytes are not the structure that was to be read. `what` is the name of the structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// Bytes end before the structure does.
    Truncated {
        /// Which structure.
        what: &'static str,
        /// Bytes from its start that it needs, at least.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// Something else, or nothing, is stored where the structure should be.
    BadMagic {
        /// Which structure.
        what: &'static str,
        /// What stands in the place of its magic.
        found: u64,
    },
    /// The structure was written by a version this one does not know.
    BadVersion {
        /// Which structure.
        what: &'static str,
        /// Stored version.
        found: u16,
        /// Newest version that this build reads.
        known: u16,
    },
    /// A kind or tag that this version does not know.
    UnknownKind {
        /// Which structure.
        what: &'static str,
        /// Stored value.
        kind: u8,
    },
    /// A field has a value that no writer gives it, or that belongs elsewhere.
    BadField {
        /// Which structure.
        what: &'static str,
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A text is not UTF-8.
    NotText {
        /// Which structure.
        what: &'static str,
        /// Which field.
        field: &'static str,
    },
    /// Bytes kept for later versions are in use.
    ReservedNotZero {
        /// Which structure.
        what: &'static str,
    },
    /// Fields contradict each other, or what is known.
    Inconsistent {
        /// Which structure.
        what: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { what, need, have } => {
                write!(f, "{what} needs {need} bytes, and {have} are there")
            }
            Self::BadMagic { what, found } => write!(f, "not a {what}: magic is {found:#018x}"),
            Self::BadVersion { what, found, known } => {
                write!(f, "{what} has version {found}, and only {known} is known")
            }
            Self::UnknownKind { what, kind } => write!(f, "unknown kind {kind} of {what}"),
            Self::BadField { what, field, value } => {
                write!(f, "{field} of {what} cannot be {value}")
            }
            Self::NotText { what, field } => write!(f, "{field} of {what} is not text"),
            Self::ReservedNotZero { what } => write!(f, "reserved bytes of {what} are not zero"),
            Self::Inconsistent { what, reason } => write!(f, "{what}: {reason}"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Order of the bytes of numbers.
pub trait ByteOrder {
    /// A number of two bytes.
    fn u16(bytes: [u8; 2]) -> u16;
    /// A number of four bytes.
    fn u32(bytes: [u8; 4]) -> u32;
    /// A number of eight bytes.
    fn u64(bytes: [u8; 8]) -> u64;
}

/// The lowest byte first.
#[derive(Clone, Copy, Debug)]
pub struct LittleEndian;

/// The highest byte first.
#[derive(Clone, Copy, Debug)]
pub struct BigEndian;

macro_rules! byte_order {
    ($order:ty: $u16:path, $u32:path, $u64:path) => {
        impl ByteOrder for $order {
            #[inline]
            fn u16(bytes: [u8; 2]) -> u16 {
                $u16(bytes)
            }

            #[inline]
            fn u32(bytes: [u8; 4]) -> u32 {
                $u32(bytes)
            }

            #[inline]
            fn u64(bytes: [u8; 8]) -> u64 {
                $u64(bytes)
            }
        }
    };
}

byte_order!(LittleEndian: u16::from_le_bytes, u32::from_le_bytes, u64::from_le_bytes);
byte_order!(BigEndian: u16::from_be_bytes, u32::from_be_bytes, u64::from_be_bytes);

/// Reads the fields of one structure, one after the other, and knows its name for errors (BYTES-3). Each call costs
/// O(1) and copies only what it returns. A call that fails consumes nothing.
#[derive(Clone, Debug)]
pub struct Reader<'a, O = LittleEndian> {
    what: &'static str,
    rest: &'a [u8],
    position: usize,
    order: PhantomData<O>,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of a structure of that name, whose numbers are little-endian.
    #[must_use]
    #[inline]
    pub const fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, rest: bytes, position: 0, order: PhantomData }
    }

    /// The next three bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn u24(&mut self) -> Result<u32, DecodeError> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// The next six bytes: the value always fits a 48-bit id.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn u48(&mut self) -> Result<u64, DecodeError> {
        let [a, b, c, d, e, f] = self.array()?;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    /// The next sixteen bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn u128(&mut self) -> Result<u128, DecodeError> {
        self.array().map(u128::from_le_bytes)
    }

    /// Eight bytes that spell the name of a format.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::BadMagic`].
    #[inline]
    pub fn magic(&mut self, magic: [u8; 8]) -> Result<(), DecodeError> {
        match self.u64()? {
            found if found == u64::from_le_bytes(magic) => Ok(()),
            found => Err(DecodeError::BadMagic { what: self.what, found }),
        }
    }

    /// Two bytes that hold the only version that is known.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::BadVersion`].
    #[inline]
    pub fn version(&mut self, known: u16) -> Result<(), DecodeError> {
        match self.u16()? {
            found if found == known => Ok(()),
            found => Err(DecodeError::BadVersion { what: self.what, found, known }),
        }
    }
}

impl<'a> Reader<'a, BigEndian> {
    /// Starts at the first byte of a structure of that name, whose numbers are big-endian.
    #[must_use]
    #[inline]
    pub const fn big_endian(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, rest: bytes, position: 0, order: PhantomData }
    }
}

impl<'a, O: ByteOrder> Reader<'a, O> {
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

    /// Whether everything has been read.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[cold]
    fn truncated(&self, need: usize) -> DecodeError {
        DecodeError::Truncated {
            what: self.what,
            need: self.position.saturating_add(need),
            have: self.position.saturating_add(self.rest.len()),
        }
    }

    /// The error for a field that has a wrong value.
    #[must_use]
    #[cold]
    pub fn bad(&self, field: &'static str, value: u64) -> DecodeError {
        DecodeError::BadField { what: self.what, field, value }
    }

    /// The error for an unknown kind.
    #[must_use]
    #[cold]
    pub fn unknown(&self, kind: u8) -> DecodeError {
        DecodeError::UnknownKind { what: self.what, kind }
    }

    /// The error for fields that contradict each other, or what is known.
    #[must_use]
    #[cold]
    pub fn inconsistent(&self, reason: &'static str) -> DecodeError {
        DecodeError::Inconsistent { what: self.what, reason }
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] when fewer are left. The same holds for every method below.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.truncated(N))?;
        self.rest = tail;
        self.position += N;
        Ok(*head)
    }

    /// The next `count` bytes, not copied.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) =
            self.rest.split_at_checked(count).ok_or_else(|| self.truncated(count))?;
        self.rest = tail;
        self.position += count;
        Ok(head)
    }

    /// One byte.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(|[byte]| byte)
    }

    /// Two bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(O::u16)
    }

    /// Four bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(O::u32)
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(O::u64)
    }

    /// Eight bytes that hold the number of an id.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`]; [`DecodeError::BadField`] when no id has the number.
    #[inline]
    pub fn id<T>(
        &mut self,
        field: &'static str,
        from: fn(u64) -> Option<T>,
    ) -> Result<T, DecodeError> {
        let value = self.u64()?;
        from(value).ok_or_else(|| self.bad(field, value))
    }

    /// A length of four bytes, and as many bytes, not copied.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn counted(&mut self) -> Result<&'a [u8], DecodeError> {
        let mut ahead = Self { rest: self.rest, ..*self };
        let len = usize::try_from(ahead.u32()?).unwrap_or(usize::MAX);
        let bytes = ahead.bytes(len)?;
        *self = ahead;
        Ok(bytes)
    }

    /// `len` bytes that are UTF-8.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::NotText`].
    pub fn text(&mut self, field: &'static str, len: usize) -> Result<&'a str, DecodeError> {
        let bytes = self.bytes(len)?;
        str::from_utf8(bytes).map_err(|_| DecodeError::NotText { what: self.what, field })
    }

    /// `count` reserved bytes, which are zero.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`], [`DecodeError::ReservedNotZero`].
    #[inline]
    pub fn zeros(&mut self, count: usize) -> Result<(), DecodeError> {
        if !is_zero(self.bytes(count)?) {
            return Err(DecodeError::ReservedNotZero { what: self.what });
        }
        Ok(())
    }

    /// The end: every byte has been read.
    ///
    /// # Errors
    /// [`DecodeError::BadField`] of the length.
    #[inline]
    pub fn end(&self) -> Result<(), DecodeError> {
        match self.rest {
            [] => Ok(()),
            rest => Err(self.bad("length", (self.position + rest.len()) as u64)),
        }
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

        let mut reader = Reader::new("box", &out);
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
        assert!(!reader.is_empty());
    }

    #[test]
    fn numbers_of_the_network_begin_with_the_highest_byte() {
        let bytes = [1, 2, 3, 4, 5, 6, 0, 0, 0, 1, b'x', 0, 0, 0, 9];
        let mut reader = Reader::big_endian("a reply", &bytes);
        assert_eq!(reader.u16(), Ok(0x0102));
        assert_eq!(reader.u32(), Ok(0x0304_0506));
        assert_eq!(reader.counted(), Ok(&b"x"[..]));
        let short = DecodeError::Truncated { what: "a reply", need: 24, have: 15 };
        assert_eq!(reader.counted(), Err(short)); // BYTES-1
        assert_eq!(reader.rest(), [0, 0, 0, 9]);
        assert_eq!(Reader::big_endian("a reply", &[0, 0, 0, 0, 0, 0, 1, 0]).u64(), Ok(256));
    }

    #[test]
    fn errors_name_the_structure_and_the_field() {
        let shown = |error: DecodeError| error.to_string(); // BYTES-3
        let reader = |bytes| Reader::new("box", bytes);
        let magic = reader(b"12345678").magic(*b"87654321").unwrap_err();
        assert!(shown(magic).starts_with("not a box: magic is 0x"), "{magic}");
        let version = reader(&[2, 0]).version(1).unwrap_err();
        assert_eq!(shown(version), "box has version 2, and only 1 is known");
        let id = reader(&[7; 8]).id("lid", |_| None::<u64>).unwrap_err();
        assert_eq!(shown(id), "lid of box cannot be 506381209866536711");
        assert_eq!(reader(&[7; 8]).id("lid", Some), Ok(0x0707_0707_0707_0707));
        let text = reader(&[0xFF]).text("label", 1).unwrap_err();
        assert_eq!(shown(text), "label of box is not text");
        assert_eq!(reader(b"ab").text("label", 2), Ok("ab"));
        let zeros = reader(&[0, 1]).zeros(2).unwrap_err();
        assert_eq!(shown(zeros), "reserved bytes of box are not zero");
        let end = reader(&[0]).end().unwrap_err();
        assert_eq!(shown(end), "length of box cannot be 1");
        assert_eq!(reader(&[]).end(), Ok(()));
        assert_eq!(shown(reader(&[]).u16().unwrap_err()), "box needs 2 bytes, and 0 are there");
        assert_eq!(shown(reader(&[]).unknown(3)), "unknown kind 3 of box");
        assert_eq!(shown(reader(&[]).inconsistent("it is ajar")), "box: it is ajar");
        assert_eq!(reader(&[1; 16]).u128(), Ok(u128::from_le_bytes([1; 16])));
    }

    #[test]
    fn a_short_read_consumes_nothing() {
        let mut reader = Reader::new("box", &[1, 2, 3]);
        let short = |need| DecodeError::Truncated { what: "box", need, have: 3 };
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.u32(), Err(short(5))); // BYTES-1
        assert_eq!(reader.bytes(usize::MAX), Err(short(usize::MAX)));
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
