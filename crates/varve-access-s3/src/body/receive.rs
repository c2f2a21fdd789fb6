//! Bodies on their way in: counted, hashed, checked, encrypted, and passed on as they come.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use s3s::dto::StreamingBlob;
use s3s::{S3Result, s3_error};
use varve_object::{BodyReader, BodyWriter, BucketId, NewBody, ObjectStore, SMALL_BODY_MAX};

use crate::answers::error::{bad_digest, of_store};
use crate::body::cipher::{BodyKey, Sealer, sealed_len};
use crate::body::md5_queue::{BodyMd5, Md5Queue};
use crate::body::refusal::BodyRefusal;
use crate::body::sums::{self, ChecksumRequest, Hasher};
use crate::compat::body_end::BodyEnd;
use crate::compat::unframed::{BodyOutcome, TrailerPlace};

#[cfg(test)]
mod tests;

/// Longest body of one request, in bytes.
pub(crate) const BODY_BYTES_MAX: u64 = 5 << 30;

/// What is known of the length of a body that has not arrived, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    Exactly(u64),
    AtMost(u64),
}

impl Length {
    pub(crate) fn most(self) -> u64 {
        match self {
            Self::Exactly(len) | Self::AtMost(len) => len,
        }
    }
}

/// The length of a body, by the header that every request with a body must have.
pub(crate) fn declared_len(content_length: Option<i64>) -> S3Result<u64> {
    let len = content_length.and_then(|len| u64::try_from(len).ok());
    len.ok_or_else(|| s3_error!(MissingContentLength))
}

/// What is to be done with a body.
pub(crate) struct Intake {
    /// What the client declared of its length.
    pub(crate) len: Length,
    /// MD5 that the client declared.
    pub(crate) md5: Option<[u8; 16]>,
    /// Checksum to compute, and to compare where it is known.
    pub(crate) sum: Option<ChecksumRequest>,
    /// What is told when it has ended.
    pub(crate) outcome: BodyOutcome,
    /// Key to encrypt with.
    pub(crate) key: Option<BodyKey>,
}

/// A body that has arrived.
pub(crate) struct ReceivedBody {
    pub(crate) body: NewBody,
    pub(crate) size: u64,
    pub(crate) md5: [u8; 16],
    pub(crate) sum: Option<Vec<u8>>,
}

/// Where a body goes.
#[derive(Clone, Copy)]
pub(crate) struct BodyDestination<'a> {
    pub(crate) store: &'a dyn ObjectStore,
    pub(crate) md5: &'a Md5Queue,
    pub(crate) bucket: BucketId,
    pub(crate) key: &'a str,
}

/// Keeps a small body in memory and stages what is larger.
struct Sink<'a> {
    place: BodyDestination<'a>,
    /// Most bytes that are stored.
    room: u64,
    small: BytesMut,
    writer: Option<Box<dyn BodyWriter>>,
}

impl<'a> Sink<'a> {
    /// For at most `len` bytes before they are encrypted with `key`.
    fn new(place: BodyDestination<'a>, len: u64, key: Option<&BodyKey>) -> Self {
        let room = if key.is_some() { sealed_len(len) } else { len };
        Self { place, room, small: BytesMut::new(), writer: None }
    }

    async fn write(&mut self, data: Bytes) -> varve_object::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        if let Some(writer) = &mut self.writer {
            return writer.write(data).await;
        }
        if self.small.len() + data.len() <= SMALL_BODY_MAX {
            self.small.extend_from_slice(&data);
            return Ok(());
        }
        let mut writer =
            self.place.store.stage(self.place.bucket, self.place.key, self.room).await?;
        if !self.small.is_empty() {
            writer.write(std::mem::take(&mut self.small).freeze()).await?;
        }
        writer.write(data).await?;
        self.writer = Some(writer);
        Ok(())
    }

    async fn finish(self) -> varve_object::Result<NewBody> {
        match self.writer {
            Some(writer) => writer.finish().await.map(NewBody::Staged),
            None => Ok(NewBody::Small(self.small.freeze())),
        }
    }
}

/// Takes a body of a client.
pub(crate) async fn from_client(
    place: BodyDestination<'_>,
    blob: Option<StreamingBlob>,
    intake: Intake,
) -> S3Result<ReceivedBody> {
    let len_max = match intake.len {
        Length::Exactly(len) if len > BODY_BYTES_MAX => return Err(s3_error!(EntityTooLarge)),
        len => len.most().min(BODY_BYTES_MAX),
    };
    let mut sink = Sink::new(place, len_max, intake.key.as_ref());
    let mut sealer = intake.key.as_ref().map(Sealer::new);
    let mut hasher = intake.sum.as_ref().map(|sum| Hasher::new(sum.kind));
    let (mut md5, mut size) = (BodyMd5::new(place.md5), 0u64);
    let mut blob = blob;
    while let Some(data) = next(&mut blob, &intake.outcome.end).await? {
        size += data.len() as u64;
        if size > len_max {
            return Err(match intake.len {
                Length::Exactly(_) => BodyRefusal::Length.into(),
                Length::AtMost(_) => s3_error!(EntityTooLarge),
            });
        }
        hasher.iter_mut().for_each(|hasher| hasher.update(&data));
        md5.update(data.clone()).await;
        let data = match &mut sealer {
            Some(sealer) => sealer.push(&data),
            None => data,
        };
        sink.write(data).await.map_err(of_store)?;
    }
    if matches!(intake.len, Length::Exactly(len) if len != size) {
        return Err(BodyRefusal::Length.into());
    }
    if let Some(sealer) = sealer {
        sink.write(sealer.finish()).await.map_err(of_store)?;
    }
    let md5 = md5.finish().await;
    if let Some(declared) = intake.md5.filter(|declared| *declared != md5) {
        return Err(bad_digest(&declared, &md5));
    }
    let sum = hasher.map(Hasher::finish);
    check_sum(intake.sum.as_ref(), sum.as_deref(), intake.outcome.trailers.as_ref())?;
    Ok(ReceivedBody { body: sink.finish().await.map_err(of_store)?, size, md5, sum })
}

/// Takes a body of `len` bytes that this gateway has, such as the source of a copy that is to be encrypted.
pub(crate) async fn from_reader(
    place: BodyDestination<'_>,
    mut reader: BodyReader,
    len: u64,
    key: Option<&BodyKey>,
    sum: Option<varve_object::ChecksumKind>,
) -> varve_object::Result<ReceivedBody> {
    let mut sink = Sink::new(place, len, key);
    let mut sealer = key.map(Sealer::new);
    let mut hasher = sum.map(Hasher::new);
    let (mut md5, mut size) = (BodyMd5::new(place.md5), 0u64);
    while let Some(data) = reader.next().await {
        let data = data?;
        size += data.len() as u64;
        hasher.iter_mut().for_each(|hasher| hasher.update(&data));
        md5.update(data.clone()).await;
        let data = match &mut sealer {
            Some(sealer) => sealer.push(&data),
            None => data,
        };
        sink.write(data).await?;
    }
    if let Some(sealer) = sealer {
        sink.write(sealer.finish()).await?;
    }
    Ok(ReceivedBody {
        body: sink.finish().await?,
        size,
        md5: md5.finish().await,
        sum: hasher.map(Hasher::finish),
    })
}

async fn next(blob: &mut Option<StreamingBlob>, end: &BodyEnd) -> S3Result<Option<Bytes>> {
    let Some(blob) = blob else { return Ok(None) };
    blob.next().await.transpose().map_err(|error| end.cause(&*error).into())
}

pub(crate) fn check_sum(
    wanted: Option<&ChecksumRequest>,
    found: Option<&[u8]>,
    trailers: Option<&TrailerPlace>,
) -> S3Result<()> {
    let (Some(wanted), Some(found)) = (wanted, found) else { return Ok(()) };
    let header = sums::header(wanted.kind);
    let trailer = trailers.and_then(|trailers| trailers.value(&header));
    let in_trailer = |value: String| {
        let refused =
            |_| s3_error!(InvalidRequest, "Value for {header} trailing header is invalid.");
        sums::decode(wanted.kind, &value).map_err(refused)
    };
    let trailer = trailer.map(in_trailer).transpose()?;
    for declared in [wanted.value.as_deref(), trailer.as_deref()].into_iter().flatten() {
        if declared != found {
            let name = sums::name(wanted.kind);
            return Err(s3_error!(
                BadDigest,
                "The {name} you specified did not match the calculated checksum."
            ));
        }
    }
    Ok(())
}
