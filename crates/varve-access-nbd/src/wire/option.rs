//! Options of the handshake and their replies.

use varve_access_block::ExportInfo;
use varve_nbd::constant::{IHAVEOPT, REPLY_MAGIC, info, opt, rep};
use varve_stdx::{BigEndian, DecodeError, Reader};
use varve_types::ByteCount;
use varve_types::limits::REQUEST_BYTES_MAX;

use crate::limits::{CHANGES_MAX, STRING_BYTES_MAX};

/// Front of an option; `len` bytes of data follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionHeader {
    pub(crate) option: u32,
    pub(crate) len: u32,
}

/// The peer sent something else where an option should begin.
pub(crate) struct BadOptionMagic;

impl OptionHeader {
    pub(crate) const BYTES: usize = 16;

    /// The header at the front of `bytes`, `None` while it is incomplete.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>, BadOptionMagic> {
        let mut fields = Reader::big_endian("option", bytes);
        match fields.u64() {
            Err(_) => return Ok(None),
            Ok(IHAVEOPT) => {}
            Ok(_) => return Err(BadOptionMagic),
        }
        let mut rest = || Ok::<_, DecodeError>(Self { option: fields.u32()?, len: fields.u32()? });
        Ok(rest().ok())
    }
}

/// Why the data of an option makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadOption {
    /// Lengths that do not add up, or text that is not UTF-8.
    Malformed(&'static str),
    /// A string longer than the protocol allows.
    TooBig,
}

impl From<DecodeError> for BadOption {
    fn from(_: DecodeError) -> Self {
        Self::Malformed("lengths exceed the option")
    }
}

/// Data of INFO and GO.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct InfoRequest<'a> {
    pub(crate) export: &'a str,
    pub(crate) name: bool,
    pub(crate) description: bool,
    pub(crate) block_size: bool,
}

impl<'a> InfoRequest<'a> {
    pub(crate) fn decode(data: &'a [u8]) -> Result<Self, BadOption> {
        let mut fields = Reader::big_endian("INFO or GO", data);
        let export = counted_text(&mut fields)?;
        let count = fields.u16()?;
        let mut request = Self { export, name: false, description: false, block_size: false };
        for _ in 0..count {
            match fields.u16()? {
                info::NAME => request.name = true,
                info::DESCRIPTION => request.description = true,
                info::BLOCK_SIZE => request.block_size = true,
                _ => {}
            }
        }
        if !fields.is_empty() {
            return Err(BadOption::Malformed("bytes after the last information request"));
        }
        Ok(request)
    }
}

/// Data of LIST_META_CONTEXT and SET_META_CONTEXT, as far as there are such contexts.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct MetaRequest<'a> {
    pub(crate) export: &'a str,
    /// No query at all.
    pub(crate) unfiltered: bool,
    /// A query for every context of the namespace `base`.
    pub(crate) wildcard: bool,
    /// A query for `base:allocation` itself.
    pub(crate) allocation: bool,
    /// A query for every context of changes.
    pub(crate) all_changes: bool,
    /// Snapshots whose contexts are asked for, each once; at most [`CHANGES_MAX`].
    pub(crate) since: Vec<String>,
}

/// The metadata context that every export has.
pub(crate) const BASE_ALLOCATION: &str = "base:allocation";

/// Begins the contexts of changes; the name of a snapshot follows. Backup tools know these as bitmaps of dirty blocks.
pub(crate) const CHANGES: &str = "qemu:dirty-bitmap:";

impl<'a> MetaRequest<'a> {
    pub(crate) fn decode(data: &'a [u8]) -> Result<Self, BadOption> {
        let mut fields = Reader::big_endian("LIST or SET_META_CONTEXT", data);
        let export = counted_text(&mut fields)?;
        let count = fields.u32()?;
        let mut request = Self {
            export,
            unfiltered: count == 0,
            wildcard: false,
            allocation: false,
            all_changes: false,
            since: Vec::new(),
        };
        for _ in 0..count {
            // Each round takes four bytes or fails, so a huge count ends with the data.
            match counted_text(&mut fields)? {
                "base:" => request.wildcard = true,
                BASE_ALLOCATION => request.allocation = true,
                "qemu:" | CHANGES => request.all_changes = true,
                query => request.ask_changes(query),
            }
        }
        if !fields.is_empty() {
            return Err(BadOption::Malformed("bytes after the last query"));
        }
        Ok(request)
    }

    fn ask_changes(&mut self, query: &str) {
        let Some(snapshot) = query.strip_prefix(CHANGES) else { return };
        let is_new = !self.since.iter().any(|known| known == snapshot);
        if is_new && self.since.len() < CHANGES_MAX {
            self.since.push(snapshot.to_owned());
        }
    }
}

/// A string of the protocol.
fn counted_text<'a>(fields: &mut Reader<'a, BigEndian>) -> Result<&'a str, BadOption> {
    text(fields.counted()?)
}

pub(crate) fn text(bytes: &[u8]) -> Result<&str, BadOption> {
    if bytes.len() > STRING_BYTES_MAX {
        return Err(BadOption::TooBig);
    }
    let text = str::from_utf8(bytes).map_err(|_| BadOption::Malformed("text is not UTF-8"))?;
    if text.contains('\0') {
        return Err(BadOption::Malformed("text contains a zero byte"));
    }
    Ok(text)
}

/// Appends replies to one option to `out`.
pub(crate) struct OptionReply<'a> {
    pub(crate) option: u32,
    pub(crate) out: &'a mut Vec<u8>,
}

impl OptionReply<'_> {
    fn reply(&mut self, kind: u32, data: &[&[u8]]) {
        let len: usize = data.iter().map(|part| part.len()).sum();
        let len =
            u32::try_from(len).expect("replies consist of strings bounded by STRING_BYTES_MAX");
        self.out.extend_from_slice(&REPLY_MAGIC.to_be_bytes());
        self.out.extend_from_slice(&self.option.to_be_bytes());
        self.out.extend_from_slice(&kind.to_be_bytes());
        self.out.extend_from_slice(&len.to_be_bytes());
        data.iter().for_each(|part| self.out.extend_from_slice(part));
    }

    pub(crate) fn ack(&mut self) {
        self.reply(rep::ACK, &[]);
    }

    pub(crate) fn error(&mut self, kind: u32, message: &str) {
        self.reply(kind, &[message.as_bytes()]);
    }

    pub(crate) fn bad(&mut self, why: BadOption) {
        match why {
            BadOption::Malformed(message) => self.error(rep::ERR_INVALID, message),
            BadOption::TooBig => self.error(rep::ERR_TOO_BIG, "string is longer than 4096 bytes"),
        }
    }

    pub(crate) fn server(&mut self, name: &str) {
        let len = u32::try_from(name.len()).expect("names are bounded by STRING_BYTES_MAX");
        self.reply(rep::SERVER, &[&len.to_be_bytes(), name.as_bytes()]);
    }

    pub(crate) fn meta_context(&mut self, id: u32, name: &str) {
        self.reply(rep::META_CONTEXT, &[&id.to_be_bytes(), name.as_bytes()]);
    }

    pub(crate) fn info_export(&mut self, size_bytes: u64, transmission_flags: u16) {
        let (size, flags) = (size_bytes.to_be_bytes(), transmission_flags.to_be_bytes());
        self.reply(rep::INFO, &[&info::EXPORT.to_be_bytes(), &size, &flags]);
    }

    pub(crate) fn info_name(&mut self, name: &str) {
        self.reply(rep::INFO, &[&info::NAME.to_be_bytes(), name.as_bytes()]);
    }

    /// A text for people.
    pub(crate) fn info_description(&mut self, export: &ExportInfo) {
        let access = if export.read_only { ", read-only" } else { "" };
        let description = format!("Varve volume, {}{access}", ByteCount(export.size_bytes));
        self.reply(rep::INFO, &[&info::DESCRIPTION.to_be_bytes(), description.as_bytes()]);
    }

    /// Smallest, preferred and largest request: any byte, a block, [`REQUEST_BYTES_MAX`].
    pub(crate) fn info_block_size(&mut self, export: ExportInfo) {
        let preferred = export.block_bytes.max(512);
        self.reply(
            rep::INFO,
            &[
                &info::BLOCK_SIZE.to_be_bytes(),
                &1u32.to_be_bytes(),
                &preferred.to_be_bytes(),
                &REQUEST_BYTES_MAX.to_be_bytes(),
            ],
        );
    }
}

/// Name of an option, for log lines and error texts.
pub(crate) fn name(option: u32) -> &'static str {
    match option {
        opt::EXPORT_NAME => "EXPORT_NAME",
        opt::ABORT => "ABORT",
        opt::LIST => "LIST",
        opt::STARTTLS => "STARTTLS",
        opt::INFO => "INFO",
        opt::GO => "GO",
        opt::STRUCTURED_REPLY => "STRUCTURED_REPLY",
        opt::LIST_META_CONTEXT => "LIST_META_CONTEXT",
        opt::SET_META_CONTEXT => "SET_META_CONTEXT",
        opt::EXTENDED_HEADERS => "EXTENDED_HEADERS",
        _ => "unknown option",
    }
}
