//! Coming to an agreement with a client: the handshake, and TLS beneath it where the client begins that. Bytes of the
//! stream in, bytes and questions out; no I/O.
//!
//! ```text
//!  stream ──received()──▶ TLS ──▶ Handshake ──advance()──▶ AgreementStep: a question, an agreement, or the end
//!         ◀─take_output()─ TLS ◀──    │     ◀──answer_*()──
//! ```
//!
//! Whoever shakes hands need not be who serves the export: [`AgreedTerms`] is all that the other one needs.
//!
//! AGREE-1. After [`AgreementStep::Agreed`] what the client is owed, the answer to GO at least, is in
//! [`AgreedTerms::words`]: it is
//!     told once the export is open, and not before.
//! AGREE-2. Nothing is taken in while an answer is due, so what waits is an option and one receive at most.

use std::io;

use varve_access_block::ExportInfo;
use varve_types::ErrorKind;

use crate::handshake::{
    CloseReason, Event, FoundExport, Handshake, NegotiatedExport, OpenRequest, TlsMode,
};
use crate::tls::{CIPHER_BYTES, TlsConfig, TlsSession};
use crate::usage::ClientUsage;

/// An export as it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownExport {
    /// Its proper name, also when it was asked for as the default one.
    pub name: String,
    /// Its size and properties.
    pub info: ExportInfo,
    /// The snapshots that were asked for and are there.
    pub since: Vec<String>,
    /// The other client that has it, where it is exclusive: this one cannot.
    pub holder: Option<String>,
}

/// What an agreement needs from whoever carries it on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgreementStep {
    /// Send what there is, then receive more.
    Receive,
    /// The names of all exports, through [`Agreement::answer_list`].
    List,
    /// An export, through [`Agreement::answer_open`].
    Open(OpenRequest),
    /// Done; [`Agreement::finish`] has what was agreed on.
    Agreed,
    /// Send what there is and close.
    Close(CloseReason),
    /// The client has ended TLS.
    Ended,
}

/// What was agreed on with a client.
#[derive(Debug)]
pub struct AgreedTerms {
    /// The export, as the client was told of it.
    pub export: KnownExport,
    /// How to speak.
    pub negotiated: NegotiatedExport,
    /// What the client used.
    pub usage: ClientUsage,
    /// What the client is to be told once the export is open, in plain text (AGREE-1).
    pub words: Vec<u8>,
    /// What arrived behind the handshake, in plain text.
    pub early: Vec<u8>,
    /// The session to go on with, where the client uses TLS.
    pub session: Option<TlsSession>,
}

/// See the module.
#[derive(Debug)]
pub struct Agreement {
    handshake: Handshake,
    tls: Option<TlsConfig>,
    session: Option<TlsSession>,
    /// Plain text that was received and not consumed.
    plain: Vec<u8>,
    /// Plain text to send.
    out: Vec<u8>,
    /// What was to be sent before TLS began.
    before_tls: Vec<u8>,
    found: Option<KnownExport>,
    /// What the last answer led to.
    next: Option<Event>,
    has_ended: bool,
}

impl KnownExport {
    fn borrowed(&self) -> FoundExport<'_> {
        FoundExport {
            name: &self.name,
            info: self.info,
            since: &self.since,
            holder: self.holder.as_deref(),
        }
    }
}

impl Agreement {
    /// Begins; the greeting is there to be sent. Without `tls` there is none, whatever the mode.
    #[must_use]
    pub fn new(tls_mode: TlsMode, tls: Option<TlsConfig>) -> Self {
        let mut out = Vec::new();
        let tls_mode = if tls.is_some() { tls_mode } else { TlsMode::Off };
        Self {
            handshake: Handshake::new(tls_mode, &mut out),
            tls,
            session: None,
            plain: Vec::new(),
            out,
            before_tls: Vec::new(),
            found: None,
            next: None,
            has_ended: false,
        }
    }

    /// Takes in what was received, at least one byte.
    ///
    /// # Errors
    /// When it breaks TLS; what there is to be sent tells the client why.
    pub fn received(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(session) = &mut self.session else {
            self.plain.extend_from_slice(bytes);
            return Ok(());
        };
        for piece in bytes.chunks(CIPHER_BYTES) {
            assert!(session.put(piece), "all that was received before was taken in");
            self.has_ended |= read_all(session, &mut self.plain)?;
            if self.has_ended {
                return Ok(()); // What follows the end of a session has no meaning.
            }
        }
        Ok(())
    }

    /// Goes on until something is needed (AGREE-2).
    ///
    /// # Errors
    /// As [`Self::received`].
    ///
    /// # Panics
    /// While an answer is due, and after the end.
    pub fn advance(&mut self) -> io::Result<AgreementStep> {
        loop {
            let event = match self.next.take() {
                Some(event) => event,
                None => {
                    let (consumed, event) = self.handshake.advance(&self.plain, &mut self.out);
                    self.plain.drain(..consumed);
                    event
                }
            };
            return Ok(match event {
                Event::StartTls => {
                    self.start_tls()?;
                    continue;
                }
                Event::NeedInput if self.has_ended => AgreementStep::Ended,
                Event::NeedInput => AgreementStep::Receive,
                Event::List => AgreementStep::List,
                Event::Open(request) => AgreementStep::Open(request),
                Event::Ready(negotiated) => {
                    self.next = Some(Event::Ready(negotiated));
                    AgreementStep::Agreed
                }
                Event::Close(reason) => AgreementStep::Close(reason),
            });
        }
    }

    /// Answers [`AgreementStep::List`].
    ///
    /// # Panics
    /// Unless that was the last step.
    pub fn answer_list(&mut self, names: Result<&[String], ErrorKind>) {
        self.handshake.answer_list(names, &mut self.out);
    }

    /// Answers [`AgreementStep::Open`].
    ///
    /// # Panics
    /// Unless that was the last step.
    pub fn answer_open(&mut self, found: Result<KnownExport, ErrorKind>) {
        let answer = found.as_ref().map(KnownExport::borrowed).map_err(|kind| *kind);
        self.next = self.handshake.answer_open(answer, &mut self.out);
        self.found = found.ok();
    }

    /// What is to be sent now; nothing may be.
    ///
    /// # Errors
    /// When TLS refuses to go on.
    pub fn take_output(&mut self) -> io::Result<Vec<u8>> {
        let mut raw = std::mem::take(&mut self.before_tls);
        match &mut self.session {
            None => raw.append(&mut self.out),
            Some(session) => session.seal(&std::mem::take(&mut self.out), &mut raw)?,
        }
        Ok(raw)
    }

    /// Whether the client has begun TLS. Then a stream that ends without a word was cut off.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.session.is_some()
    }

    /// What the client used so far.
    #[must_use]
    pub fn usage(&self) -> ClientUsage {
        self.handshake.usage()
    }

    /// Ends it; what is to be sent before the stream is closed.
    #[must_use]
    pub fn close(self) -> Vec<u8> {
        self.session.map_or(Vec::new(), TlsSession::close)
    }

    /// What was agreed on.
    ///
    /// # Panics
    /// Unless the last step was [`AgreementStep::Agreed`].
    #[must_use]
    pub fn finish(self) -> AgreedTerms {
        let Some(Event::Ready(negotiated)) = self.next else { panic!("nothing is agreed on") };
        let usage = self.handshake.usage();
        let Self { session, plain: early, out: words, found, .. } = self;
        let export = found.expect("the handshake ends with an export");
        AgreedTerms { export, negotiated, usage, words, early, session }
    }

    fn start_tls(&mut self) -> io::Result<()> {
        let config = self.tls.as_ref().expect("STARTTLS is refused without a configuration");
        let session = TlsSession::new(config).map_err(io::Error::other)?;
        let session = self.session.insert(session);
        self.before_tls.append(&mut self.out);
        if !session.put(&std::mem::take(&mut self.plain)) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.handshake.tls_started();
        self.found = None;
        self.has_ended = read_all(session, &mut self.plain)?;
        Ok(())
    }
}

/// Moves all plain text out; true once the peer has ended the session.
fn read_all(session: &mut TlsSession, plain: &mut Vec<u8>) -> io::Result<bool> {
    let mut piece = [0; 4096];
    loop {
        match session.read_plain(&mut piece) {
            Ok(0) => return Ok(true),
            Ok(count) => plain.extend_from_slice(piece.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}
