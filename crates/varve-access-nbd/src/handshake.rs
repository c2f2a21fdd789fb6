//! The handshake as a pure state machine: bytes in, bytes and events out.
//!
//! ```text
//!            greeting                client flags
//!   (start) ----------> ClientFlags --------------> Options --+--> Ready | Close
//!                                                   ^  |  ^   |
//!                                  too long an option  |  +---+ answered
//!                                                   |  v
//!                                                   Skip
//! ```
//!
//! HANDSHAKE-1. It holds no input: an incomplete option stays with the caller, who must be able to hold
//!     [`OPTION_BYTES_MAX`] bytes and an option header.
//! HANDSHAKE-2. After [`Event::List`] and [`Event::Open`] it takes no input before the matching answer.
//! HANDSHAKE-3. Nothing that a client said before STARTTLS counts afterwards.

use varve_access_block::ExportInfo;
use varve_nbd::Framing;
use varve_nbd::constant::{FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, IHAVEOPT, NBDMAGIC, can, opt, rep};
use varve_stdx::{BigEndian, Reader};
use varve_types::ErrorKind;

use crate::command::Contexts;
use crate::limits::{OPTION_BYTES_MAX, OPTIONS_MAX};
use crate::usage::ClientUsage;
use crate::wire::option::{
    BASE_ALLOCATION, CHANGES, InfoRequest, MetaRequest, OptionHeader, OptionReply, name, text,
};

/// Whether connections use TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TlsMode {
    /// STARTTLS is refused.
    #[default]
    Off,
    /// The client chooses.
    Allow,
    /// Every option but STARTTLS and ABORT is refused before TLS.
    Require,
}

/// What the handshake wants from its caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// More input than was handed in.
    NeedInput,
    /// The names of all exports, through [`Handshake::answer_list`].
    List,
    /// An export, through [`Handshake::answer_open`].
    Open(OpenRequest),
    /// Send what is in `out`, then begin TLS with the input not consumed, then call [`Handshake::tls_started`].
    StartTls,
    /// Send what is in `out`; the transmission phase begins with the export answered last.
    Ready(NegotiatedExport),
    /// Send what is in `out` and close.
    Close(CloseReason),
}

/// An export that the handshake asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenRequest {
    /// Its name; empty: the default one.
    pub name: String,
    /// Snapshots of it that matter.
    pub since: Since,
}

/// Which snapshots of an export matter: those since which it tells changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Since {
    /// Those of these names that are there.
    Named(Vec<String>),
    /// The names of what there is, up to [`CHANGES_LISTED_MAX`](crate::limits::CHANGES_LISTED_MAX).
    Listed,
}

/// Why the server ends a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// The client said ABORT.
    Aborted,
    /// Client flags nobody offered.
    BadClientFlags(u32),
    /// Not an option where one should begin.
    BadMagic,
    /// EXPORT_NAME cannot report errors but by closing.
    ExportRefused,
    /// More options than [`OPTIONS_MAX`].
    TooManyOptions,
}

/// What client and server agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NegotiatedExport {
    /// Which headers requests and replies have.
    pub framing: Framing,
    /// Metadata contexts that were selected for this export.
    pub contexts: Contexts,
}

/// Id of `base:allocation` in block status replies.
pub(crate) const BASE_ALLOCATION_ID: u32 = 1;

/// Id of the first context of changes; the others follow.
pub(crate) const CHANGES_ID_FIRST: u32 = 2;

/// Whose export is opened; lives for the length of one question.
#[derive(Clone, Copy, Debug)]
enum ExportQuestion {
    List,
    ExportName,
    Info { go: bool, name: bool, description: bool, block_size: bool },
    ListMeta { allocation: bool },
    SetMeta { allocation: bool },
}

#[derive(Debug)]
enum HandshakePhase {
    ClientFlags,
    Options,
    Skip { left: u32 },
    Asked(ExportQuestion),
    Tls,
    Done,
}

/// One handshake.
#[derive(Debug)]
pub struct Handshake {
    phase: HandshakePhase,
    tls_mode: TlsMode,
    tls_active: bool,
    no_zeroes: bool,
    framing: Framing,
    selected: Option<SelectedContexts>,
    options_seen: u32,
    usage: ClientUsage,
}

/// Contexts that are selected for one export.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SelectedContexts {
    /// Its proper name.
    export: String,
    allocation: bool,
    /// Snapshots, in the order of their contexts.
    since: Vec<String>,
}

/// An export that was found.
#[derive(Clone, Copy, Debug)]
pub struct FoundExport<'a> {
    /// Its proper name, also when it was asked for as the default one.
    pub name: &'a str,
    /// Its size and properties.
    pub info: ExportInfo,
    /// The snapshots that were asked for and are there.
    pub since: &'a [String],
    /// The other client that has it, where it is exclusive: this one cannot.
    pub holder: Option<&'a str>,
}

impl Handshake {
    /// Begins: `out` receives the greeting.
    pub fn new(tls_mode: TlsMode, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(&NBDMAGIC.to_be_bytes());
        out.extend_from_slice(&IHAVEOPT.to_be_bytes());
        out.extend_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
        Self {
            phase: HandshakePhase::ClientFlags,
            tls_mode,
            tls_active: false,
            no_zeroes: false,
            framing: Framing::default(),
            selected: None,
            options_seen: 0,
            usage: ClientUsage::default(),
        }
    }

    /// Works on `input` until something is needed; returns the bytes consumed and what is needed.
    ///
    /// # Panics
    /// While an answer is due (HANDSHAKE-2), and after the end.
    pub fn advance(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Event) {
        let mut rest = Reader::big_endian("handshake", input);
        let event = loop {
            match self.step(&mut rest, out) {
                HandshakeStep::Again => {}
                HandshakeStep::Yield(event) => break event,
            }
        };
        (rest.position(), event)
    }

    fn step(&mut self, rest: &mut Reader<'_, BigEndian>, out: &mut Vec<u8>) -> HandshakeStep {
        match self.phase {
            HandshakePhase::ClientFlags => match rest.u32() {
                Err(_) => HandshakeStep::Yield(Event::NeedInput),
                Ok(flags) => self.client_flags(flags),
            },
            HandshakePhase::Skip { left } => {
                let available = u32::try_from(rest.rest().len()).unwrap_or(u32::MAX).min(left);
                let taken = usize::try_from(available).expect("bounded by a slice's length");
                rest.bytes(taken).expect("bounded by the bytes there are");
                if available < left {
                    self.phase = HandshakePhase::Skip { left: left - available };
                    return HandshakeStep::Yield(Event::NeedInput);
                }
                self.phase = HandshakePhase::Options;
                HandshakeStep::Again
            }
            HandshakePhase::Options => self.next_option(rest, out),
            HandshakePhase::Asked(_) | HandshakePhase::Tls => {
                panic!("input while an answer is due (HANDSHAKE-2)")
            }
            HandshakePhase::Done => panic!("input after the end of the handshake"),
        }
    }

    /// What the client used so far.
    #[must_use]
    pub fn usage(&self) -> ClientUsage {
        self.usage
    }

    fn client_flags(&mut self, flags: u32) -> HandshakeStep {
        let known = u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
        if flags & !known != 0 {
            return self.close(CloseReason::BadClientFlags(flags));
        }
        // A client without FIXED_NEWSTYLE only knows EXPORT_NAME; should it send more, it is understood anyway.
        self.no_zeroes = flags & u32::from(FLAG_NO_ZEROES) != 0;
        self.phase = HandshakePhase::Options;
        HandshakeStep::Again
    }

    fn next_option(
        &mut self,
        rest: &mut Reader<'_, BigEndian>,
        out: &mut Vec<u8>,
    ) -> HandshakeStep {
        let header = match OptionHeader::decode(rest.rest()) {
            Err(_) => return self.close(CloseReason::BadMagic),
            Ok(None) => return HandshakeStep::Yield(Event::NeedInput),
            Ok(Some(header)) => header,
        };
        let mut reply = OptionReply { option: header.option, out };
        if header.len > OPTION_BYTES_MAX {
            rest.bytes(OptionHeader::BYTES).expect("the header was decoded from these bytes");
            return self.too_long(header, &mut reply);
        }
        let data_len = usize::try_from(header.len).expect("at most OPTION_BYTES_MAX");
        let mut ahead = rest.clone();
        let whole = ahead.bytes(OptionHeader::BYTES).and_then(|_| ahead.bytes(data_len));
        let Ok(data) = whole else { return HandshakeStep::Yield(Event::NeedInput) }; // HANDSHAKE-1
        *rest = ahead;
        if let Some(close) = self.count_option(header.option) {
            return close;
        }
        self.option(header.option, data, &mut reply)
    }

    fn too_long(&mut self, header: OptionHeader, reply: &mut OptionReply<'_>) -> HandshakeStep {
        if let Some(close) = self.count_option(header.option) {
            return close;
        }
        if header.option == opt::EXPORT_NAME {
            return self.close(CloseReason::ExportRefused);
        }
        if self.tls_missing() {
            reply.error(rep::ERR_TLS_REQD, "start TLS first");
        } else {
            reply.error(rep::ERR_TOO_BIG, "option is longer than 64 KiB");
        }
        self.phase = HandshakePhase::Skip { left: header.len };
        HandshakeStep::Again
    }

    fn count_option(&mut self, option: u32) -> Option<HandshakeStep> {
        self.usage.option(option);
        self.options_seen += 1;
        (self.options_seen > OPTIONS_MAX).then(|| self.close(CloseReason::TooManyOptions))
    }

    fn option(&mut self, option: u32, data: &[u8], reply: &mut OptionReply<'_>) -> HandshakeStep {
        match option {
            opt::ABORT => {
                reply.ack();
                return self.close(CloseReason::Aborted);
            }
            opt::STARTTLS => return self.start_tls(data, reply),
            opt::EXPORT_NAME => return self.export_name(data),
            _ if self.tls_missing() => {
                reply.error(rep::ERR_TLS_REQD, "start TLS first");
                return HandshakeStep::Again;
            }
            _ => {}
        }
        match option {
            opt::LIST | opt::STRUCTURED_REPLY | opt::EXTENDED_HEADERS if !data.is_empty() => {
                reply.error(rep::ERR_INVALID, "option takes no data");
            }
            opt::LIST => return self.ask(ExportQuestion::List, Event::List),
            opt::STRUCTURED_REPLY if self.framing == Framing::Extended => {
                reply.error(rep::ERR_EXT_HEADER_REQD, "extended headers were negotiated");
            }
            opt::STRUCTURED_REPLY => {
                self.framing = Framing::Structured;
                reply.ack();
            }
            opt::EXTENDED_HEADERS => {
                self.framing = Framing::Extended;
                reply.ack();
            }
            opt::INFO | opt::GO => match InfoRequest::decode(data) {
                Err(why) => reply.bad(why),
                Ok(InfoRequest { export, name, description, block_size }) => {
                    let question = ExportQuestion::Info {
                        go: option == opt::GO,
                        name,
                        description,
                        block_size,
                    };
                    let since = match option {
                        opt::GO => self.selected_since(),
                        _ => Since::Named(Vec::new()),
                    };
                    return self.ask(question, open(export, since));
                }
            },
            opt::LIST_META_CONTEXT | opt::SET_META_CONTEXT => {
                return self.meta_context(option, data, reply);
            }
            _ => reply.error(rep::ERR_UNSUP, "option is not supported"),
        }
        HandshakeStep::Again
    }

    fn start_tls(&mut self, data: &[u8], reply: &mut OptionReply<'_>) -> HandshakeStep {
        if self.tls_mode == TlsMode::Off {
            reply.error(rep::ERR_POLICY, "TLS is not configured");
        } else if !data.is_empty() || self.tls_active {
            reply.error(rep::ERR_INVALID, "option takes no data and is given once");
        } else {
            reply.ack();
            self.phase = HandshakePhase::Tls;
            return HandshakeStep::Yield(Event::StartTls);
        }
        HandshakeStep::Again
    }

    /// TLS is up: from now on input and output are its plain text.
    ///
    /// # Panics
    /// Unless the last event was [`Event::StartTls`].
    pub fn tls_started(&mut self) {
        assert!(matches!(self.phase, HandshakePhase::Tls), "TLS was not asked for");
        self.tls_active = true;
        self.usage.tls();
        self.framing = Framing::default(); // HANDSHAKE-3
        self.selected = None; // HANDSHAKE-3
        self.phase = HandshakePhase::Options;
    }

    fn export_name(&mut self, data: &[u8]) -> HandshakeStep {
        match text(data) {
            // With extended headers only GO may follow.
            Ok(export) if !self.tls_missing() && self.framing != Framing::Extended => {
                self.ask(ExportQuestion::ExportName, open(export, self.selected_since()))
            }
            _ => self.close(CloseReason::ExportRefused),
        }
    }

    fn meta_context(
        &mut self,
        option: u32,
        data: &[u8],
        reply: &mut OptionReply<'_>,
    ) -> HandshakeStep {
        if option == opt::SET_META_CONTEXT {
            self.selected = None; // Even a request that fails replaces what was selected.
        }
        if !self.framing.has_chunks() {
            let why = "negotiate structured replies or extended headers first";
            reply.error(rep::ERR_INVALID, why);
            return HandshakeStep::Again;
        }
        match MetaRequest::decode(data) {
            Err(why) => {
                reply.bad(why);
                HandshakeStep::Again
            }
            Ok(request) if option == opt::SET_META_CONTEXT => {
                let question = ExportQuestion::SetMeta { allocation: request.allocation };
                self.ask(question, open(request.export, Since::Named(request.since)))
            }
            Ok(request) => {
                let MetaRequest { unfiltered, wildcard, allocation, all_changes, .. } = request;
                let allocation = unfiltered || wildcard || allocation;
                let since = match unfiltered || all_changes {
                    true => Since::Listed,
                    false => Since::Named(request.since),
                };
                self.ask(ExportQuestion::ListMeta { allocation }, open(request.export, since))
            }
        }
    }

    /// Snapshots whose contexts are selected, for whatever export.
    fn selected_since(&self) -> Since {
        Since::Named(self.selected.as_ref().map_or(Vec::new(), |selected| selected.since.clone()))
    }

    /// Answers [`Event::List`]; [`Self::advance`] goes on.
    ///
    /// # Panics
    /// Unless the last event was [`Event::List`].
    pub fn answer_list(&mut self, names: Result<&[String], ErrorKind>, out: &mut Vec<u8>) {
        let HandshakePhase::Asked(ExportQuestion::List) = self.phase else {
            panic!("no list was asked for")
        };
        self.phase = HandshakePhase::Options;
        let mut reply = OptionReply { option: opt::LIST, out };
        match names {
            Ok(names) => {
                names.iter().for_each(|name| reply.server(name));
                reply.ack();
            }
            Err(kind) => refuse(kind, &mut reply),
        }
    }

    /// Answers [`Event::Open`]; on `None` [`Self::advance`] goes on.
    ///
    /// # Panics
    /// Unless the last event was [`Event::Open`].
    pub fn answer_open(
        &mut self,
        found: Result<FoundExport<'_>, ErrorKind>,
        out: &mut Vec<u8>,
    ) -> Option<Event> {
        let HandshakePhase::Asked(question) = self.phase else { panic!("no export was asked for") };
        self.phase = HandshakePhase::Options;
        let mut reply = OptionReply { option: question.option(), out };
        let found = match found {
            Ok(found) => found,
            Err(_) if matches!(question, ExportQuestion::ExportName) => {
                self.phase = HandshakePhase::Done;
                return Some(Event::Close(CloseReason::ExportRefused));
            }
            Err(kind) => {
                refuse(kind, &mut reply);
                return None;
            }
        };
        if let Some(holder) = found.holder.filter(|_| question.takes()) {
            return self.refuse_held(question, found.name, holder, &mut reply);
        }
        match question {
            ExportQuestion::List => panic!("a list was asked for, not an export"),
            ExportQuestion::ListMeta { allocation } => {
                if allocation {
                    reply.meta_context(0, BASE_ALLOCATION);
                }
                found
                    .since
                    .iter()
                    .for_each(|name| reply.meta_context(0, &format!("{CHANGES}{name}")));
            }
            ExportQuestion::SetMeta { allocation } => self.select(allocation, &found, &mut reply),
            ExportQuestion::ExportName => {
                let out = reply.out;
                out.extend_from_slice(&found.info.size_bytes.to_be_bytes());
                out.extend_from_slice(&self.transmission_flags(found.info).to_be_bytes());
                if !self.no_zeroes {
                    out.resize(out.len() + 124, 0);
                }
                return Some(self.ready(&found));
            }
            ExportQuestion::Info { go, name, description, block_size } => {
                reply.info_export(found.info.size_bytes, self.transmission_flags(found.info));
                if name {
                    reply.info_name(found.name);
                }
                if description {
                    reply.info_description(&found.info);
                }
                if block_size {
                    reply.info_block_size(found.info);
                }
                if go {
                    reply.ack();
                    return Some(self.ready(&found));
                }
            }
        }
        reply.ack();
        None
    }

    /// Another client has the export, which is exclusive.
    fn refuse_held(
        &mut self,
        question: ExportQuestion,
        name: &str,
        holder: &str,
        reply: &mut OptionReply<'_>,
    ) -> Option<Event> {
        if matches!(question, ExportQuestion::ExportName) {
            self.phase = HandshakePhase::Done;
            return Some(Event::Close(CloseReason::ExportRefused));
        }
        let why = format!(
            "volume `{name}` is exclusive, and {holder} has it open: disconnect that client, or have `varve volume disconnect {name}` do it"
        );
        reply.error(rep::ERR_POLICY, &why);
        None
    }

    fn select(&mut self, allocation: bool, found: &FoundExport<'_>, reply: &mut OptionReply<'_>) {
        if allocation {
            reply.meta_context(BASE_ALLOCATION_ID, BASE_ALLOCATION);
        }
        for (id, name) in (CHANGES_ID_FIRST..).zip(found.since) {
            reply.meta_context(id, &format!("{CHANGES}{name}"));
        }
        let (export, since) = (found.name.to_owned(), found.since.to_vec());
        self.selected = Some(SelectedContexts { export, allocation, since });
    }

    fn ready(&mut self, found: &FoundExport<'_>) -> Event {
        self.phase = HandshakePhase::Done;
        let selected = self.selected.take().filter(|selected| selected.export == found.name);
        let contexts = selected.map_or(Contexts::default(), |selected| Contexts {
            allocation: selected.allocation,
            // A snapshot that was deleted since it was selected leaves none, as their numbers have moved.
            changes: match selected.since == found.since {
                true => u8::try_from(found.since.len()).expect("at most CHANGES_MAX"),
                false => 0,
            },
        });
        let agreed = NegotiatedExport { framing: self.framing, contexts };
        self.usage.negotiated(agreed);
        Event::Ready(agreed)
    }

    fn transmission_flags(&self, info: ExportInfo) -> u16 {
        let mut flags = can::HAS_FLAGS | can::FLUSH | can::FUA | can::CACHE;
        if !info.exclusive {
            flags |= can::MULTI_CONN;
        }
        if info.read_only {
            flags |= can::READ_ONLY;
        } else {
            flags |= can::TRIM | can::WRITE_ZEROES | can::FAST_ZERO;
        }
        if self.framing.has_chunks() {
            flags |= can::DF;
        }
        flags
    }

    fn tls_missing(&self) -> bool {
        self.tls_mode == TlsMode::Require && !self.tls_active
    }

    fn ask(&mut self, question: ExportQuestion, event: Event) -> HandshakeStep {
        self.phase = HandshakePhase::Asked(question);
        HandshakeStep::Yield(event)
    }

    fn close(&mut self, reason: CloseReason) -> HandshakeStep {
        self.phase = HandshakePhase::Done;
        HandshakeStep::Yield(Event::Close(reason))
    }
}

enum HandshakeStep {
    Again,
    Yield(Event),
}

impl ExportQuestion {
    /// Whether the client wants to use the export, and not only to know it.
    fn takes(self) -> bool {
        matches!(self, Self::ExportName | Self::Info { go: true, .. })
    }

    fn option(self) -> u32 {
        match self {
            Self::List => opt::LIST,
            Self::ExportName => opt::EXPORT_NAME,
            Self::Info { go: true, .. } => opt::GO,
            Self::Info { go: false, .. } => opt::INFO,
            Self::ListMeta { .. } => opt::LIST_META_CONTEXT,
            Self::SetMeta { .. } => opt::SET_META_CONTEXT,
        }
    }
}

fn open(export: &str, since: Since) -> Event {
    Event::Open(OpenRequest { name: export.to_owned(), since })
}

/// The option reply for an error of listing or opening.
fn refuse(kind: ErrorKind, reply: &mut OptionReply<'_>) {
    match kind {
        ErrorKind::NotFound => reply.error(rep::ERR_UNKNOWN, "export does not exist"),
        ErrorKind::Closed | ErrorKind::Fenced => {
            reply.error(rep::ERR_SHUTDOWN, "server is shutting down");
        }
        ErrorKind::Invalid => reply.error(rep::ERR_INVALID, "export name is not valid"),
        ErrorKind::Exists
        | ErrorKind::Unsupported
        | ErrorKind::Denied
        | ErrorKind::Conflict
        | ErrorKind::NoSpace
        | ErrorKind::Unavailable
        | ErrorKind::Corrupt
        | ErrorKind::Internal => {
            let message = format!("{} failed: {kind}", name(reply.option));
            reply.error(rep::ERR_POLICY, &message);
        }
    }
}

#[cfg(test)]
mod tests;
