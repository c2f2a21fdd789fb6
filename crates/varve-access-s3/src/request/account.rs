//! A request from its head to the last byte of its answer, which is when it is counted and logged.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::{Response, StatusCode};
use s3s::Body;

use crate::figures::{OperationCounters, RequestEnd};
use crate::gateway::GatewayInner;
use crate::identity::principal::Principal;
use crate::request::access_log::{LogEntry, ResponseRecord};

/// What becomes known while a request is looked at: what it asks for, and who asks. Travels with it.
#[derive(Clone, Default)]
pub(crate) struct RequestNotes {
    found: Arc<OnceLock<(Arc<OperationCounters>, Principal)>>,
}

impl RequestNotes {
    /// The first note counts.
    pub(crate) fn note(&self, operation: Arc<OperationCounters>, caller: &Principal) {
        let _ = self.found.set((operation, caller.clone()));
    }
}

/// Code of the error document of an answer; travels with it.
#[derive(Clone)]
pub(crate) struct ErrorCode(pub(crate) String);

/// A request under way.
pub(crate) struct Account {
    pub(crate) inner: Arc<GatewayInner>,
    pub(crate) id: String,
    pub(crate) noted: RequestNotes,
    /// Bytes of its body so far.
    pub(crate) received: Arc<AtomicU64>,
    pub(crate) begun: Instant,
    /// Its line of the bucket's access log, if that has one.
    pub(crate) entry: Option<Box<LogEntry>>,
}

/// The body of an answer, which closes the account when it has ended, or the client has left.
pub(crate) struct MeteredBody {
    body: Body,
    account: Account,
    status: StatusCode,
    error: Option<String>,
    turnaround: Duration,
    sent_bytes: u64,
}

impl Account {
    /// The answer as it goes out.
    pub(crate) fn answered(mut self, mut response: Response<Body>) -> Response<MeteredBody> {
        let error = response.extensions_mut().remove::<ErrorCode>().map(|ErrorCode(code)| code);
        let status = response.status();
        if let Some(entry) = &mut self.entry {
            entry.note(status, response.headers());
        }
        let turnaround = self.begun.elapsed();
        response.map(|body| MeteredBody {
            body,
            account: self,
            status,
            error,
            turnaround,
            sent_bytes: 0,
        })
    }
}

impl Drop for MeteredBody {
    fn drop(&mut self) {
        let Account { inner, id, noted, received, begun, entry } = &mut self.account;
        let noted = noted.found.get();
        let outcome = RequestEnd {
            status: self.status,
            received_bytes: received.load(Ordering::Relaxed),
            sent_bytes: self.sent_bytes,
            turnaround: self.turnaround,
        };
        match noted {
            Some((operation, _)) => operation.count(&outcome),
            None => inner.figures.unknown().count(&outcome),
        }
        if let Some(code) = &self.error {
            inner.figures.count_error(code);
        }
        let (Some(entry), Some(log)) = (entry.take(), &inner.access_log) else { return };
        let line = entry.line(&ResponseRecord {
            id,
            operation: noted.map(|(operation, _)| &*operation.name),
            requester: noted.map_or("", |(_, caller)| caller.id()),
            status: self.status,
            error: self.error.as_deref(),
            sent_bytes: self.sent_bytes,
            total_ms: begun.elapsed().as_millis(),
            turnaround_ms: self.turnaround.as_millis(),
        });
        log.add(entry.bucket, line);
    }
}

impl HttpBody for MeteredBody {
    type Data = Bytes;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.sent_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
