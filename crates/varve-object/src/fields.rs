//! How records of this crate become bytes: a version, then fields of a tag, a length and a value, in the order of their
//! tags.
//!
//! `[version u8] ([tag u8][length u32 little-endian][value])*`. A tag may repeat: a list. Unknown tags are refused, so
//! that an older release does not drop what a newer one wrote.

use bytes::Bytes;

use crate::error::{Error, Result};

const VERSION: u8 = 1;

#[derive(Debug)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![VERSION] }
    }

    pub(crate) fn bytes(&mut self, tag: u8, value: &[u8]) {
        let len = u32::try_from(value.len()).expect("a field is shorter than 4 GiB");
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&len.to_le_bytes());
        self.bytes.extend_from_slice(value);
    }

    /// A text, left out when it is empty.
    pub(crate) fn text(&mut self, tag: u8, value: &str) {
        if !value.is_empty() {
            self.bytes(tag, value.as_bytes());
        }
    }

    pub(crate) fn number(&mut self, tag: u8, value: u64) {
        self.bytes(tag, &value.to_le_bytes());
    }

    /// Two texts: the length of the first in two bytes, then both.
    pub(crate) fn pair(&mut self, tag: u8, first: &str, second: &str) {
        let len = u16::try_from(first.len()).expect("names are shorter than 64 KiB");
        let mut value = Vec::with_capacity(2 + first.len() + second.len());
        value.extend_from_slice(&len.to_le_bytes());
        value.extend_from_slice(first.as_bytes());
        value.extend_from_slice(second.as_bytes());
        self.bytes(tag, &value);
    }

    pub(crate) fn finish(self) -> Bytes {
        self.bytes.into()
    }
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, which are the `what` of errors.
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Result<Self> {
        match bytes.split_first() {
            Some((&VERSION, rest)) => Ok(Self { rest, what }),
            _ => Err(Error::Corrupt { what: what.to_owned() }),
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<(u8, &'a [u8])>> {
        let Some((&tag, rest)) = self.rest.split_first() else { return Ok(None) };
        let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(|| self.damaged())?;
        let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| self.damaged())?;
        let (value, rest) = rest.split_at_checked(len).ok_or_else(|| self.damaged())?;
        self.rest = rest;
        Ok(Some((tag, value)))
    }

    pub(crate) fn damaged(&self) -> Error {
        Error::Corrupt { what: self.what.to_owned() }
    }

    pub(crate) fn text(&self, value: &[u8]) -> Result<String> {
        String::from_utf8(value.to_vec()).map_err(|_| self.damaged())
    }

    pub(crate) fn number(&self, value: &[u8]) -> Result<u64> {
        value.try_into().map(u64::from_le_bytes).map_err(|_| self.damaged())
    }

    pub(crate) fn pair(&self, value: &[u8]) -> Result<(String, String)> {
        let (len, rest) = value.split_first_chunk::<2>().ok_or_else(|| self.damaged())?;
        let (first, second) = rest
            .split_at_checked(usize::from(u16::from_le_bytes(*len)))
            .ok_or_else(|| self.damaged())?;
        Ok((self.text(first)?, self.text(second)?))
    }
}
