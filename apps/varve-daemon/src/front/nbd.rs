//! A client of NBD: the front is the end of its TLS, and agrees with it on an export that whoever serves tells of.
//!
//! The client's own time for the handshake does not count what it waits for others: a node that serves may be missing
//! for a while.

use std::io;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Duration, Instant, timeout_at};
use varve_access_nbd::limits::{AGREEMENT_RECEIVE_BYTES, HANDSHAKE_TIMEOUT_MS};
use varve_access_nbd::{AgreedTerms, Agreement, AgreementStep, KnownExport, OpenRequest, Since};
use varve_nbd::Framing;
use varve_relay::wire::{BeginExport, ExportQuestion, ExportReply, FrontEnd};
use varve_relay::{
    CellRoute, ClientStream, OwnerLink, RETRY_PAUSE, RelayedClient, RouteError, answer,
    decode_export, encode_export,
};
use varve_types::{CellId, ErrorKind};

use super::{CARRIED_MAX, HOLD_MAX, Reception};

/// How long a client may take to be told of its end.
const FAREWELL_MAX: Duration = Duration::from_secs(1);

/// What a client asks before it is served.
enum ClientQuestion {
    List,
    Open(OpenRequest),
}

/// What is known of it.
enum Reply {
    Names(Result<Vec<String>, ErrorKind>),
    Found(Result<KnownExport, ErrorKind>),
}

/// A client's handshake.
struct ClientHandshake<'a> {
    reception: &'a Arc<Reception>,
    stream: &'a ClientStream,
    /// By when the client must be done.
    deadline: Instant,
    /// The cell of the export that it asked for last.
    cell: CellId,
    /// To who answered last, if that was another node.
    line: Option<Box<OwnerLink>>,
}

impl Reception {
    pub(super) async fn receive_nbd(
        self: &Arc<Self>,
        stream: ClientStream,
        place: OwnedSemaphorePermit,
    ) {
        let mut agreement = Agreement::new(self.tls.mode, self.tls.config.clone());
        let way = {
            let deadline = Instant::now() + Duration::from_millis(HANDSHAKE_TIMEOUT_MS);
            let mut handshake = ClientHandshake {
                reception: self,
                stream: &stream,
                deadline,
                cell: CellId::FIRST,
                line: None,
            };
            match handshake.agree(&mut agreement).await {
                Ok(()) => handshake.way().await.map(|way| (way, handshake.cell)),
                Err(why) => Err(why),
            }
        };
        let begun = match way {
            Ok((CellRoute::Here, cell)) => {
                return self.serve_here(cell, stream, agreement.finish());
            }
            Ok((CellRoute::There(line), _)) => {
                drop(place); // Others may shake hands meanwhile.
                self.serve_there(line, stream, agreement.finish()).await
            }
            Err(why) => {
                let last = agreement.close();
                // It may have gone.
                let _ = tokio::time::timeout(FAREWELL_MAX, stream.write_all(&last)).await;
                stream.end();
                Err(why)
            }
        };
        if let Err(why) = begun {
            tracing::debug!(%why, "a client of NBD is not served");
        }
    }

    /// FRONT-2
    fn serve_here(&self, cell: CellId, stream: ClientStream, agreed: AgreedTerms) {
        let begun = stream.into_fd().map(|fd| {
            let begun = self.ways.here(cell, |fronts| fronts.nbd.begin(fd, agreed, None));
            begun.unwrap_or_default() // It said why not, or this node ends.
        });
        if let Err(error) = begun {
            tracing::debug!(%error, "a client of NBD was lost on its way to its thread");
        }
    }

    async fn serve_there(
        &self,
        mut line: Box<OwnerLink>,
        stream: ClientStream,
        agreed: AgreedTerms,
    ) -> io::Result<()> {
        let Ok(_place) = self.carried.try_acquire() else {
            let most = CARRIED_MAX;
            tracing::warn!("a client of NBD is let go of: {most} others are carried already");
            stream.end();
            return Err(io::Error::other("too many clients are carried"));
        };
        let AgreedTerms { export, negotiated, words, early, session, .. } = agreed;
        let begin = BeginExport {
            export: encode_export(export),
            structured_reply: negotiated.framing.has_chunks(),
            extended_headers: negotiated.framing == Framing::Extended,
            allocation: negotiated.contexts.allocation,
            changes: negotiated.contexts.changes,
            words,
        };
        line.say(&ExportQuestion::Begin(Box::new(begin))).await?;
        self.ways.carry(line, &RelayedClient::new(stream, session), &early).await;
        Ok(())
    }
}

/// An answer, unless it says that who gave it serves no more: then there is somebody else to be asked.
fn served<T>(answer: Result<T, ErrorKind>) -> Result<Result<T, ErrorKind>, RouteError> {
    match answer {
        Err(ErrorKind::Closed | ErrorKind::Fenced | ErrorKind::Unavailable) => {
            Err(RouteError::not_yet("who is to serve it does not any more"))
        }
        answer => Ok(answer),
    }
}

impl ClientHandshake<'_> {
    async fn agree(&mut self, agreement: &mut Agreement) -> io::Result<()> {
        let mut room = vec![0; AGREEMENT_RECEIVE_BYTES];
        loop {
            let step = agreement.advance();
            if !matches!(step, Ok(AgreementStep::Agreed)) {
                self.send(agreement).await?;
            }
            match step? {
                AgreementStep::Receive => {
                    let received = timeout_at(self.deadline, self.stream.read(&mut room)).await??;
                    if received == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    if let Err(error) = agreement.received(&room[..received]) {
                        self.send(agreement).await?; // Tells the client why.
                        return Err(error);
                    }
                }
                AgreementStep::List => {
                    let names = self.names().await?;
                    agreement.answer_list(names.as_deref().map_err(|kind| *kind));
                }
                AgreementStep::Open(mut request) => {
                    if request.name.is_empty() && self.reception.names.is_some() {
                        let Some(only) = self.only_name().await? else {
                            agreement.answer_open(Err(ErrorKind::NotFound));
                            continue;
                        };
                        request.name = only;
                    }
                    self.cell = self.cell_of(&request.name).await?;
                    match self.ask(&ClientQuestion::Open(request)).await? {
                        Reply::Found(found) => agreement.answer_open(found),
                        Reply::Names(_) => return Err(io::Error::other("an export was asked for")),
                    }
                }
                AgreementStep::Agreed => return Ok(()),
                AgreementStep::Close(reason) => {
                    return Err(io::Error::other(format!("{reason:?}")));
                }
                AgreementStep::Ended => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    async fn send(&self, agreement: &mut Agreement) -> io::Result<()> {
        let bytes = agreement.take_output()?;
        timeout_at(self.deadline, self.stream.write_all(&bytes)).await?
    }

    /// The exports of all cells: all of them are needed.
    async fn names(&mut self) -> io::Result<Result<Vec<String>, ErrorKind>> {
        let mut all = Vec::new();
        for cell in (0..self.reception.ways.cells()).map(CellId) {
            self.cell = cell;
            match self.ask(&ClientQuestion::List).await? {
                Reply::Names(Ok(names)) => all.extend(names),
                Reply::Names(Err(kind)) => return Ok(Err(kind)),
                Reply::Found(_) => return Err(io::Error::other("names were asked for")),
            }
        }
        Ok(Ok(all))
    }

    /// What the empty name means: the only export of all cells.
    async fn only_name(&mut self) -> io::Result<Option<String>> {
        let mut names = self.names().await?.unwrap_or_default();
        Ok(names.pop().filter(|_| names.is_empty()))
    }

    /// The cell of an export.
    async fn cell_of(&mut self, export: &str) -> io::Result<CellId> {
        let begin = Instant::now();
        let until = begin + HOLD_MAX;
        loop {
            let cell = timeout_at(until, self.reception.cell_of(export)).await;
            match cell.unwrap_or_else(|_| Err("the register of names does not answer".to_owned())) {
                Ok(cell) => {
                    self.deadline += begin.elapsed();
                    return Ok(cell.unwrap_or(CellId::FIRST)); // Whoever does not have it refuses it.
                }
                Err(why) => self.hold(RouteError::NotYet(why), until).await?,
            }
        }
    }

    /// Asks whoever serves (FRONT-3), while somebody does (FRONT-1).
    async fn ask(&mut self, question: &ClientQuestion) -> io::Result<Reply> {
        let begin = Instant::now();
        let until = begin + HOLD_MAX;
        loop {
            let asked = timeout_at(until, self.try_ask(question)).await;
            let asked = asked.unwrap_or_else(|_| Err(RouteError::not_yet("it does not answer")));
            match asked {
                Ok(reply) => {
                    self.deadline += begin.elapsed();
                    return Ok(reply);
                }
                Err(why) => self.hold(why, until).await?,
            }
        }
    }

    async fn try_ask(&mut self, question: &ClientQuestion) -> Result<Reply, RouteError> {
        let no_more = |_| RouteError::not_yet("it takes no more questions now");
        let cell = self.cell;
        match self.find().await? {
            CellRoute::Here => {
                let ways = &self.reception.ways;
                match question {
                    ClientQuestion::List => {
                        let (answer, told) = answer();
                        ways.here(cell, |fronts| fronts.nbd.list(answer));
                        served(told.await.map_err(no_more)?).map(Reply::Names)
                    }
                    ClientQuestion::Open(request) => {
                        let (answer, told) = answer();
                        ways.here(cell, |fronts| fronts.nbd.look(request.clone(), answer));
                        served(told.await.map_err(no_more)?).map(Reply::Found)
                    }
                }
            }
            CellRoute::There(mut line) => {
                let asked = self.ask_there(&mut line, question).await;
                let reply = match asked.map_err(|error| RouteError::NotYet(error.to_string()))? {
                    Reply::Names(names) => Reply::Names(served(names)?),
                    Reply::Found(found) => Reply::Found(served(found)?),
                };
                self.line = Some(line);
                Ok(reply)
            }
        }
    }

    async fn ask_there(
        &self,
        line: &mut OwnerLink,
        question: &ClientQuestion,
    ) -> io::Result<Reply> {
        let asked = match question {
            ClientQuestion::List => ExportQuestion::List,
            ClientQuestion::Open(OpenRequest { name, since }) => {
                let since = match since {
                    Since::Named(since) => Some(since.clone()),
                    Since::Listed => None,
                };
                ExportQuestion::Open { name: name.clone(), since }
            }
        };
        let (mut all, mut reply) = (Vec::new(), None);
        let ways = &self.reception.ways;
        let is_list = matches!(question, ClientQuestion::List);
        let took = ways.ask(line, &asked, |said| {
            reply = match said {
                ExportReply::Names { names, is_last } => {
                    all.extend(names);
                    is_last.then(|| Reply::Names(Ok(std::mem::take(&mut all))))
                }
                ExportReply::Found(found) => Some(Reply::Found(Ok(decode_export(found)))),
                ExportReply::Refused(kind) if is_list => Some(Reply::Names(Err(kind))),
                ExportReply::Refused(kind) => Some(Reply::Found(Err(kind))),
            };
            reply.is_some()
        });
        took.await?;
        reply.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// The way to who is to serve the client.
    async fn way(&mut self) -> io::Result<CellRoute> {
        let until = Instant::now() + HOLD_MAX;
        loop {
            let found = timeout_at(until, self.find()).await;
            match found.unwrap_or_else(|_| Err(RouteError::not_yet("it does not answer"))) {
                Ok(way) => return Ok(way),
                Err(why) => self.hold(why, until).await?,
            }
        }
    }

    /// The one that was there last, if it still leads to who serves.
    async fn find(&mut self) -> Result<CellRoute, RouteError> {
        let ways = &self.reception.ways;
        match self.line.take().filter(|line| line.cell() == self.cell && ways.leads(line)) {
            Some(line) => Ok(CellRoute::There(line)),
            None => ways.find(FrontEnd::Export, self.cell, self.stream.address()).await,
        }
    }

    /// Waits before another attempt, if there is to be one.
    async fn hold(&self, why: RouteError, until: Instant) -> io::Result<()> {
        match why {
            RouteError::Never(answer) => {
                tracing::warn!(
                    "a client of NBD is not carried: the node that serves the pool says that {answer}"
                );
                Err(io::Error::other(answer.to_string()))
            }
            RouteError::NotYet(why) if Instant::now() >= until => {
                tracing::warn!(why, "a client of NBD was let go of: no node takes it"); // FRONT-1
                Err(io::Error::other(why))
            }
            RouteError::NotYet(_) => {
                tokio::time::sleep(RETRY_PAUSE).await;
                Ok(())
            }
        }
    }
}
