//! How records of this crate become bytes: a version, then fields of a tag, a length and a value, in the order of their
//! tags.
//!
//! `[version u8] ([tag u8][length u32 little-endian][value])*`. A tag may repeat: a list. Unknown tags are refused, so
//! that an older release does not drop what a newer one wrote.

use bytes::Bytes;
use varve_stdx::Reader;

use crate::error::{Error, Result};

const VERSION: u8 = 1;

#[derive(Debug)]
pub(crate) struct TaggedWriter {
    bytes: Vec<u8>,
}

#[derive(Debug, Clone)]
pub(crate) struct TaggedReader<'a> {
    fields: Reader<'a>,
    what: &'static str,
    /// Tag of the field that was read last.
    tag: u8,
}

impl TaggedWriter {
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

impl<'a> TaggedReader<'a> {
    /// Reads `bytes`, which are the `what` of errors.
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Result<Self> {
        let mut fields = Reader::new(what, bytes);
        match fields.u8()? {
            VERSION => Ok(Self { fields, what, tag: 0 }),
            found => Err(fields.bad("version", u64::from(found)).into()),
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<(u8, &'a [u8])>> {
        if self.fields.is_empty() {
            return Ok(None);
        }
        self.tag = self.fields.u8()?;
        Ok(Some((self.tag, self.fields.counted()?)))
    }

    /// The error for a value that no writer gives the field that was read last.
    pub(crate) fn damaged(&self) -> Error {
        Error::Corrupt { what: format!("field {} of {}", self.tag, self.what) }
    }

    pub(crate) fn text(&self, value: &[u8]) -> Result<String> {
        String::from_utf8(value.to_vec()).map_err(|_| self.damaged())
    }

    pub(crate) fn number(&self, value: &[u8]) -> Result<u64> {
        value.try_into().map(u64::from_le_bytes).map_err(|_| self.damaged())
    }

    pub(crate) fn pair(&self, value: &[u8]) -> Result<(String, String)> {
        let mut pair = Reader::new(self.what, value);
        let len = usize::from(pair.u16().map_err(|_| self.damaged())?);
        let first = pair.bytes(len).map_err(|_| self.damaged())?;
        Ok((self.text(first)?, self.text(pair.rest())?))
    }
}
