//! What is asked and answered on a link of the front-end [`Export`](super::FrontEnd::Export) before a client's bytes go
//! over it. Each message is the data of one frame.
//!
//! ```text
//!  question  1 list | 2 open: name, since | 3 begin: export, flags u8, changes u8, words u32 + bytes
//!  reply     1 names: last u8, names | 2 found: export | 3 refused: kind u8
//!  export    name, size u64, block u32, flags u8, names of snapshots, name of the client that has it if flag 4 is set
//!  since     0 listed | 1 named: names
//! ```
//! A name is u16 + bytes of UTF-8, names are u16 + so many of them. Of the flags of a beginning, 1 stands for
//! structured replies, 2 for `base:allocation` and 4 for extended headers, which come with 1; of an export's, 1 for
//! read-only and 2 for exclusive. Versions before exclusive volumes refuse an export with flag 2 or 4, those before
//! extended headers a beginning with flag 4.
//!
//! LINK-EXPORT-1. After [`ExportQuestion::Begin`] there is no reply: what comes is the client's.

use varve_stdx::{DecodeError, Reader};
use varve_types::ErrorKind;

use super::frame::DATA_BYTES_MAX;
use crate::{Error, Result};

/// What who carries asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExportQuestion {
    /// The names of all exports.
    List,
    /// An export. It is not open afterwards.
    Open {
        /// Its name; empty: the only one there is.
        name: String,
        /// Snapshots of it that matter: those of these names, or what there is.
        since: Option<Vec<String>>,
    },
    /// The client is to be served now (LINK-EXPORT-1).
    Begin(Box<BeginExport>),
}

/// What who serves replies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExportReply {
    /// Some of the names.
    Names {
        /// They.
        names: Vec<String>,
        /// Whether no more follow.
        is_last: bool,
    },
    /// An export.
    Found(LinkExport),
    /// What was asked for cannot be had.
    Refused(ErrorKind),
}

/// An export as it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkExport {
    /// Its proper name.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// Requests aligned to this many bytes are the cheapest.
    pub block_bytes: u32,
    /// Whether it can be read only.
    pub read_only: bool,
    /// Whether it is served to one connection at a time.
    pub exclusive: bool,
    /// The other client that has it, where it is exclusive.
    pub holder: Option<String>,
    /// Snapshots of it that were asked for, and are there.
    pub since: Vec<String>,
}

/// What was agreed on with a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BeginExport {
    /// What it is to be served, as it was told.
    pub export: LinkExport,
    /// Reads are answered in chunks.
    pub structured_reply: bool,
    /// Requests and replies have extended headers, and replies come in chunks.
    pub extended_headers: bool,
    /// `base:allocation` was selected.
    pub allocation: bool,
    /// How many contexts of changes were.
    pub changes: u8,
    /// What it is to be told once the export is open.
    pub words: Vec<u8>,
}

impl ExportQuestion {
    /// The bytes of the message; `None` when they are more than a frame holds.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        match self {
            Self::List => out.push(1),
            Self::Open { name, since } => {
                out.push(2);
                put_name(&mut out, name)?;
                out.push(u8::from(since.is_some()));
                if let Some(since) = since {
                    put_names(&mut out, since)?;
                }
            }
            Self::Begin(begin) => {
                out.push(3);
                begin.put(&mut out)?;
            }
        }
        (out.len() <= DATA_BYTES_MAX).then_some(out)
    }

    /// What the bytes say.
    ///
    /// # Errors
    /// [`Error::Hello`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        whole("question about an export", bytes, |fields| match fields.u8()? {
            1 => Ok(Self::List),
            2 => open(fields),
            3 => Ok(Self::Begin(Box::new(begin(fields)?))),
            kind => Err(fields.unknown(kind)),
        })
    }
}

impl ExportReply {
    /// Names, in as many replies as they need.
    #[must_use]
    pub fn names(names: &[String]) -> Vec<Self> {
        let mut replies = Vec::new();
        let (mut part, mut bytes) = (Vec::new(), 0);
        for name in names {
            if bytes + name.len() > DATA_BYTES_MAX / 2 {
                let names = std::mem::take(&mut part);
                replies.push(Self::Names { names, is_last: false });
                bytes = 0;
            }
            bytes += 2 + name.len();
            part.push(name.clone());
        }
        replies.push(Self::Names { names: part, is_last: true });
        replies
    }

    /// The bytes of the message; `None` when they are more than a frame holds.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        match self {
            Self::Names { names, is_last } => {
                out.extend([1, u8::from(*is_last)]);
                put_names(&mut out, names)?;
            }
            Self::Found(export) => {
                out.push(2);
                export.put(&mut out)?;
            }
            Self::Refused(kind) => out.extend([3, code(*kind)]),
        }
        (out.len() <= DATA_BYTES_MAX).then_some(out)
    }

    /// What the bytes say.
    ///
    /// # Errors
    /// [`Error::Hello`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        whole("reply about an export", bytes, |fields| match fields.u8()? {
            1 => Ok(Self::Names { is_last: flag("last", fields)?, names: names(fields)? }),
            2 => Ok(Self::Found(LinkExport::read(fields)?)),
            3 => {
                let found = fields.u8()?;
                let kind = KINDS.into_iter().find(|kind| code(*kind) == found);
                kind.map(Self::Refused).ok_or_else(|| fields.bad("reason", u64::from(found)))
            }
            kind => Err(fields.unknown(kind)),
        })
    }
}

impl BeginExport {
    fn put(&self, out: &mut Vec<u8>) -> Option<()> {
        let Self { export, structured_reply, extended_headers, allocation, changes, words } = self;
        export.put(out)?;
        let extended_flag = u8::from(*extended_headers) << 2;
        out.push(u8::from(*structured_reply) | u8::from(*allocation) << 1 | extended_flag);
        out.push(*changes);
        out.extend(u32::try_from(words.len()).ok()?.to_le_bytes());
        out.extend(words);
        Some(())
    }
}

impl LinkExport {
    fn put(&self, out: &mut Vec<u8>) -> Option<()> {
        put_name(out, &self.name)?;
        out.extend(self.size_bytes.to_le_bytes());
        out.extend(self.block_bytes.to_le_bytes());
        let holder_flag = u8::from(self.holder.is_some()) << 2;
        out.push(u8::from(self.read_only) | u8::from(self.exclusive) << 1 | holder_flag);
        put_names(out, &self.since)?;
        self.holder.as_ref().map_or(Some(()), |holder| put_name(out, holder))
    }

    fn read(fields: &mut Reader<'_>) -> Read<Self> {
        let name = name(fields)?;
        let (size_bytes, block_bytes) = (fields.u64()?, fields.u32()?);
        let flags = fields.u8()?;
        let since = names(fields)?;
        let holder = match flags & 4 {
            0 => None,
            _ => Some(self::name(fields)?),
        };
        if flags > 7 {
            return Err(fields.bad("flags", u64::from(flags)));
        }
        let (read_only, exclusive) = (flags & 1 != 0, flags & 2 != 0);
        Ok(Self { name, size_bytes, block_bytes, read_only, exclusive, holder, since })
    }
}

type Read<T> = std::result::Result<T, DecodeError>;

fn open(fields: &mut Reader<'_>) -> Read<ExportQuestion> {
    let name = name(fields)?;
    let since = if flag("since", fields)? { Some(names(fields)?) } else { None };
    Ok(ExportQuestion::Open { name, since })
}

fn begin(fields: &mut Reader<'_>) -> Read<BeginExport> {
    let export = LinkExport::read(fields)?;
    let (flags, changes) = (fields.u8()?, fields.u8()?);
    let words = fields.counted()?.to_vec();
    if flags > 7 {
        return Err(fields.bad("flags", u64::from(flags)));
    }
    let (structured_reply, allocation) = (flags & 1 != 0, flags & 2 != 0);
    let extended_headers = flags & 4 != 0;
    // Contexts are told of in chunks, and each is of a snapshot.
    let needs_chunks = extended_headers || allocation || changes > 0;
    if needs_chunks && !structured_reply {
        return Err(fields.inconsistent("contexts without structured replies"));
    }
    if usize::from(changes) > export.since.len() {
        return Err(fields.bad("changes", u64::from(changes)));
    }
    Ok(BeginExport { export, structured_reply, extended_headers, allocation, changes, words })
}

fn whole<T>(
    what: &'static str,
    bytes: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Read<T>,
) -> Result<T> {
    let mut fields = Reader::new(what, bytes);
    let found = read(&mut fields).map_err(Error::Hello)?;
    fields.end().map_err(Error::Hello)?;
    Ok(found)
}

fn flag(field: &'static str, fields: &mut Reader<'_>) -> Read<bool> {
    match fields.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(fields.bad(field, u64::from(value))),
    }
}

fn name(fields: &mut Reader<'_>) -> Read<String> {
    let len = usize::from(fields.u16()?);
    Ok(fields.text("a name", len)?.to_owned())
}

fn names(fields: &mut Reader<'_>) -> Read<Vec<String>> {
    // Each takes two bytes or fails, so a huge count ends with the bytes.
    (0..fields.u16()?).map(|_| name(fields)).collect()
}

fn put_name(out: &mut Vec<u8>, name: &str) -> Option<()> {
    out.extend(u16::try_from(name.len()).ok()?.to_le_bytes());
    out.extend(name.as_bytes());
    Some(())
}

fn put_names(out: &mut Vec<u8>, names: &[String]) -> Option<()> {
    out.extend(u16::try_from(names.len()).ok()?.to_le_bytes());
    names.iter().try_for_each(|name| put_name(out, name))
}

/// All there are.
const KINDS: [ErrorKind; 12] = [
    ErrorKind::NotFound,
    ErrorKind::Exists,
    ErrorKind::Invalid,
    ErrorKind::Unsupported,
    ErrorKind::Denied,
    ErrorKind::Conflict,
    ErrorKind::NoSpace,
    ErrorKind::Unavailable,
    ErrorKind::Corrupt,
    ErrorKind::Fenced,
    ErrorKind::Closed,
    ErrorKind::Internal,
];

fn code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::NotFound => 1,
        ErrorKind::Exists => 2,
        ErrorKind::Invalid => 3,
        ErrorKind::Unsupported => 4,
        ErrorKind::Denied => 5,
        ErrorKind::Conflict => 6,
        ErrorKind::NoSpace => 7,
        ErrorKind::Unavailable => 8,
        ErrorKind::Corrupt => 9,
        ErrorKind::Fenced => 10,
        ErrorKind::Closed => 11,
        ErrorKind::Internal => 12,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn export() -> LinkExport {
        let since = strings(&["monday", "tuesday"]);
        let name = "vm/1".to_owned();
        LinkExport {
            name,
            size_bytes: 1 << 40,
            block_bytes: 4096,
            read_only: true,
            exclusive: false,
            holder: None,
            since,
        }
    }

    fn questions() -> Vec<ExportQuestion> {
        let open = |since| ExportQuestion::Open { name: "ä".to_owned(), since };
        let begin = |structured_reply, extended_headers, allocation, changes| {
            let (export, words) = (export(), b"so it is".to_vec());
            let begin = BeginExport {
                export,
                structured_reply,
                extended_headers,
                allocation,
                changes,
                words,
            };
            ExportQuestion::Begin(Box::new(begin))
        };
        vec![
            ExportQuestion::List,
            open(None),
            open(Some(strings(&[]))),
            open(Some(strings(&["a", ""]))),
            begin(false, false, false, 0),
            begin(true, false, true, 2),
            begin(true, true, true, 1),
        ]
    }

    fn replies() -> Vec<ExportReply> {
        let names = ExportReply::Names { names: strings(&["a", "b"]), is_last: false };
        let refusals = KINDS.into_iter().map(ExportReply::Refused);
        let holder = Some("10.0.0.7:4711".to_owned());
        let held = LinkExport { read_only: false, exclusive: true, holder, ..export() };
        let found = [export(), held].map(ExportReply::Found);
        [names].into_iter().chain(found).chain(refusals).collect()
    }

    /// Every message comes back; cut or longer it is refused; and what is decoded of a flipped one is encoded to the
    /// same bytes.
    fn check<T: PartialEq + std::fmt::Debug>(
        messages: Vec<T>,
        encode: fn(&T) -> Option<Vec<u8>>,
        decode: fn(&[u8]) -> Result<T>,
    ) {
        for message in messages {
            let bytes = encode(&message).unwrap();
            for len in 0..bytes.len() {
                assert!(decode(&bytes[..len]).is_err(), "{message:?} cut to {len}");
            }
            assert!(decode(&[&bytes[..], &[0]].concat()).is_err());
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                if let Ok(other) = decode(&flipped) {
                    assert_eq!(encode(&other), Some(flipped), "bit {bit} of {message:?}");
                }
            }
            assert_eq!(decode(&bytes), Ok(message));
        }
    }

    #[test]
    fn messages_come_back_and_nothing_else_is_one() {
        check(questions(), ExportQuestion::encode, ExportQuestion::decode);
        check(replies(), ExportReply::encode, ExportReply::decode);
    }

    #[test]
    fn contexts_and_extended_headers_need_structured_replies_and_contexts_snapshots() {
        for (structured_reply, extended_headers, allocation, changes, is_sound) in [
            (true, false, true, 2, true),
            (true, true, false, 0, true),
            (true, false, false, 3, false),
            (false, false, true, 0, false),
            (false, false, false, 1, false),
            (false, true, false, 0, false),
        ] {
            let (export, words) = (export(), Vec::new());
            let begin = BeginExport {
                export,
                structured_reply,
                extended_headers,
                allocation,
                changes,
                words,
            };
            let bytes = ExportQuestion::Begin(Box::new(begin)).encode().unwrap();
            assert_eq!(ExportQuestion::decode(&bytes).is_ok(), is_sound);
        }
    }

    #[test]
    fn any_number_of_names_is_told_in_order_and_what_is_too_long_is_not() {
        for count in [0, 1, 5000] {
            let names: Vec<_> = (0..count).map(|number| format!("{number:0>255}")).collect();
            let replies = ExportReply::names(&names);
            assert!(replies.iter().all(|reply| reply.encode().is_some()));
            let mut told = Vec::new();
            let count = replies.len();
            for (index, reply) in replies.into_iter().enumerate() {
                let ExportReply::Names { names, is_last } = reply else { panic!("{reply:?}") };
                assert_eq!(is_last, index + 1 == count);
                told.extend(names);
            }
            assert_eq!(told, names);
        }
        let name = "x".repeat(70_000);
        assert_eq!(ExportQuestion::Open { name: name.clone(), since: None }.encode(), None);
        let since = vec!["x".repeat(60_000); 2];
        assert_eq!(ExportQuestion::Open { name: String::new(), since: Some(since) }.encode(), None);
    }
}
