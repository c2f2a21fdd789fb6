//! Checksums of bodies: which one a request wants, computing it, comparing it, and putting those of parts together.
//!
//! Kinds that the protocol library has no fields for stand in that of another one (`checksum_names`).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use crc_fast::CrcAlgorithm;
use hyper::HeaderMap;
use ring::digest;
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256};
use s3s::dto::{self, ChecksumAlgorithm, CompletedPart};
use s3s::{S3Error, S3Result, s3_error};
use std::hash::Hasher as _;
use twox_hash::{XxHash3_64, XxHash3_128, XxHash64};
use varve_object::{Checksum, ChecksumKind};

pub(crate) const PREFIX: &str = "x-amz-checksum-";
const TRAILER: &str = "x-amz-trailer";

/// Sets these fields of an output.
macro_rules! show {
    ($fields:expr, $to:expr) => {{
        let fields = $fields;
        $to.checksum_crc32 = fields.checksum_crc32;
        $to.checksum_crc32c = fields.checksum_crc32c;
        $to.checksum_crc64nvme = fields.checksum_crc64nvme;
        $to.checksum_sha1 = fields.checksum_sha1;
        $to.checksum_sha256 = fields.checksum_sha256;
    }};
}

pub(crate) use show;

/// Computes a checksum.
pub(crate) enum Hasher {
    Crc32(Crc32),
    Crc32c(Crc32c),
    Crc64Nvme(Crc64Nvme),
    Sha1(Box<Sha1>),
    Sha256(Box<Sha256>),
    Sha512(digest::Context),
    Md5(Box<Md5>),
    XxHash64(XxHash64),
    XxHash3(Box<XxHash3_64>),
    XxHash128(Box<XxHash3_128>),
}

/// The checksum that a request wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChecksumRequest {
    pub(crate) kind: ChecksumKind,
    /// What it must be; none when a trailer will tell, or nobody does.
    pub(crate) value: Option<Vec<u8>>,
}

impl Hasher {
    pub(crate) fn new(kind: ChecksumKind) -> Self {
        match kind {
            ChecksumKind::Crc32 => Self::Crc32(Crc32::new()),
            ChecksumKind::Crc32c => Self::Crc32c(Crc32c::new()),
            ChecksumKind::Crc64Nvme => Self::Crc64Nvme(Crc64Nvme::new()),
            ChecksumKind::Sha1 => Self::Sha1(Box::new(Sha1::new())),
            ChecksumKind::Sha256 => Self::Sha256(Box::new(Sha256::new())),
            ChecksumKind::Sha512 => Self::Sha512(digest::Context::new(&digest::SHA512)),
            ChecksumKind::Md5 => Self::Md5(Box::new(Md5::new())),
            ChecksumKind::XxHash64 => Self::XxHash64(XxHash64::with_seed(0)),
            ChecksumKind::XxHash3 => Self::XxHash3(Box::new(XxHash3_64::new())),
            ChecksumKind::XxHash128 => Self::XxHash128(Box::new(XxHash3_128::new())),
        }
    }

    pub(crate) fn update(&mut self, data: &[u8]) {
        match self {
            Self::Crc32(sum) => sum.update(data),
            Self::Crc32c(sum) => sum.update(data),
            Self::Crc64Nvme(sum) => sum.update(data),
            Self::Sha1(sum) => sum.update(data),
            Self::Sha256(sum) => sum.update(data),
            Self::Sha512(sum) => sum.update(data),
            Self::Md5(sum) => sum.update(data),
            Self::XxHash64(sum) => sum.write(data),
            Self::XxHash3(sum) => sum.write(data),
            Self::XxHash128(sum) => sum.write(data),
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        match self {
            Self::Crc32(sum) => sum.finalize().to_vec(),
            Self::Crc32c(sum) => sum.finalize().to_vec(),
            Self::Crc64Nvme(sum) => sum.finalize().to_vec(),
            Self::Sha1(sum) => sum.finalize().to_vec(),
            Self::Sha256(sum) => sum.finalize().to_vec(),
            Self::Sha512(sum) => sum.finish().as_ref().to_vec(),
            Self::Md5(sum) => sum.finalize().to_vec(),
            Self::XxHash64(sum) => sum.finish().to_be_bytes().to_vec(),
            Self::XxHash3(sum) => sum.finish().to_be_bytes().to_vec(),
            Self::XxHash128(sum) => sum.finish_128().to_be_bytes().to_vec(),
        }
    }
}

/// Name in the protocol.
pub(crate) fn name(kind: ChecksumKind) -> &'static str {
    match kind {
        ChecksumKind::Crc32 => "CRC32",
        ChecksumKind::Crc32c => "CRC32C",
        ChecksumKind::Crc64Nvme => "CRC64NVME",
        ChecksumKind::Sha1 => "SHA1",
        ChecksumKind::Sha256 => "SHA256",
        ChecksumKind::Sha512 => "SHA512",
        ChecksumKind::Md5 => "MD5",
        ChecksumKind::XxHash64 => "XXHASH64",
        ChecksumKind::XxHash3 => "XXHASH3",
        ChecksumKind::XxHash128 => "XXHASH128",
    }
}

/// Kind of a name in the protocol.
pub(crate) fn kind_of(name: &str) -> S3Result<ChecksumKind> {
    let found =
        ChecksumKind::ALL.into_iter().find(|kind| self::name(*kind).eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let mut names = ChecksumKind::ALL.map(self::name);
        names.sort_unstable();
        let names = names.join(", ");
        s3_error!(
            InvalidRequest,
            "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [{names}]"
        )
    })
}

/// Header or trailer that carries it.
pub(crate) fn header(kind: ChecksumKind) -> String {
    format!("x-amz-checksum-{}", name(kind).to_ascii_lowercase())
}

/// The kind of a header or trailer that carries a checksum.
fn kind_of_header(name: &str) -> Option<ChecksumKind> {
    let kind = name.strip_prefix(PREFIX)?;
    ChecksumKind::ALL.into_iter().find(|known| self::name(*known).eq_ignore_ascii_case(kind))
}

/// The checksum in the headers of a request, as it is written there.
pub(crate) fn parse_checksum(headers: &HeaderMap) -> S3Result<Option<(ChecksumKind, String)>> {
    let mut found = None;
    for (header, value) in headers {
        let Some(rest) = header.as_str().strip_prefix(PREFIX) else { continue };
        if matches!(rest, "type" | "algorithm" | "mode") {
            continue;
        }
        let kind = kind_of_header(header.as_str()).ok_or_else(|| {
            s3_error!(
                InvalidRequest,
                "The algorithm type you specified in x-amz-checksum- header is invalid."
            )
        })?;
        if found.replace((kind, value.to_str().unwrap_or_default().to_owned())).is_some() {
            return Err(several());
        }
    }
    Ok(found)
}

fn several() -> S3Error {
    let text =
        "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.";
    s3_error!(InvalidRequest, "{text}")
}

/// The kind of checksum that the headers announce in a trailer; it fails where there are several, it is unknown, or no
/// trailer can come.
fn announced(headers: &HeaderMap) -> S3Result<Option<ChecksumKind>> {
    let names = headers.get(TRAILER).map(|names| names.to_str().unwrap_or_default());
    let names = names.unwrap_or_default().to_ascii_lowercase();
    let mut sums = names.split(',').map(str::trim).filter(|name| name.starts_with(PREFIX));
    let Some(name) = sums.next() else { return Ok(None) };
    let kind = kind_of_header(name).ok_or_else(|| {
        s3_error!(
            InvalidRequest,
            "The value specified in the x-amz-trailer header is not supported"
        )
    })?;
    if sums.next().is_some() {
        return Err(several());
    }
    let mode = headers.get("x-amz-content-sha256").and_then(|mode| mode.to_str().ok());
    if !mode.is_some_and(|mode| mode.ends_with("-TRAILER")) {
        return Err(s3_error!(InvalidRequest, "A trailer was announced for a body that has none"));
    }
    Ok(Some(kind))
}

/// What a request wants, by its headers; `field` is the algorithm that it names.
pub(crate) fn resolve_checksum(
    headers: &HeaderMap,
    field: Option<&ChecksumAlgorithm>,
) -> S3Result<Option<ChecksumRequest>> {
    // The library's field is the trailer's algorithm where there is one.
    let of_tools = headers.get("x-amz-sdk-checksum-algorithm").and_then(|name| name.to_str().ok());
    let named = of_tools.or(field.map(ChecksumAlgorithm::as_str));
    let algorithm = named.map(kind_of).transpose()?;
    let wanted = match (parse_checksum(headers)?, announced(headers)?) {
        (Some(_), Some(_)) => return Err(several()),
        (Some((kind, value)), None) => ChecksumRequest { kind, value: Some(decode(kind, &value)?) },
        (None, Some(kind)) => ChecksumRequest { kind, value: None },
        (None, None) => return Ok(algorithm.map(|kind| ChecksumRequest { kind, value: None })),
    };
    if algorithm.is_some_and(|algorithm| algorithm != wanted.kind) {
        return Err(s3_error!(
            InvalidRequest,
            "Value for x-amz-sdk-checksum-algorithm header is invalid."
        ));
    }
    Ok(Some(wanted))
}

/// The checksum that a completion names for a part; it fails where there are several, or one is badly written.
pub(crate) fn of_completed(part: &CompletedPart) -> S3Result<Option<(ChecksumKind, Vec<u8>)>> {
    let fields = [
        (ChecksumKind::Crc32, &part.checksum_crc32),
        (ChecksumKind::Crc32c, &part.checksum_crc32c),
        (ChecksumKind::Crc64Nvme, &part.checksum_crc64nvme),
        (ChecksumKind::Sha1, &part.checksum_sha1),
        (ChecksumKind::Sha256, &part.checksum_sha256),
    ];
    let mut given = fields.into_iter().filter_map(|(kind, text)| Some((kind, text.as_deref()?)));
    let Some((kind, text)) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(several());
    }
    let (kind, text) = match text.split_once(':') {
        Some((name, text)) => (kind_of(name)?, text), // CHECKSUM-NAMES-1
        None => (kind, text),
    };
    Ok(Some((kind, decode(kind, text)?)))
}

/// The bytes of a checksum in base64.
pub(crate) fn decode(kind: ChecksumKind, text: &str) -> S3Result<Vec<u8>> {
    let bytes = BASE64_STANDARD.decode(text).ok().filter(|bytes| bytes.len() == kind.size_bytes());
    bytes.ok_or_else(|| s3_error!(InvalidRequest, "Value for {} header is invalid.", header(kind)))
}

/// The fields of an answer.
pub(crate) fn fields(checksum: Option<&Checksum>, parts: usize) -> dto::Checksum {
    let Some(checksum) = checksum.filter(|checksum| !checksum.value.is_empty()) else {
        return dto::Checksum::default();
    };
    let mut text = BASE64_STANDARD.encode(&checksum.value);
    if checksum.composite {
        text = format!("{text}-{parts}");
    }
    let mut fields = part_fields(checksum.kind, text);
    fields.checksum_type = Some(checksum_type(checksum.composite));
    fields
}

/// The fields of a part.
pub(crate) fn part(kind: Option<ChecksumKind>, value: &[u8]) -> dto::Checksum {
    match kind {
        Some(kind) if !value.is_empty() => part_fields(kind, BASE64_STANDARD.encode(value)),
        _ => dto::Checksum::default(),
    }
}

fn part_fields(kind: ChecksumKind, text: String) -> dto::Checksum {
    let mut fields = dto::Checksum::default();
    let foreign = || format!("{}:{text}", name(kind)); // CHECKSUM-NAMES-1
    let field = match kind {
        ChecksumKind::Crc32 => &mut fields.checksum_crc32,
        ChecksumKind::Crc32c => &mut fields.checksum_crc32c,
        ChecksumKind::Crc64Nvme => &mut fields.checksum_crc64nvme,
        ChecksumKind::Sha1 => &mut fields.checksum_sha1,
        ChecksumKind::Sha256 => &mut fields.checksum_sha256,
        ChecksumKind::Sha512
        | ChecksumKind::Md5
        | ChecksumKind::XxHash64
        | ChecksumKind::XxHash3
        | ChecksumKind::XxHash128 => {
            fields.checksum_sha256 = Some(foreign());
            return fields;
        }
    };
    *field = Some(text);
    fields
}

pub(crate) fn checksum_type(composite: bool) -> dto::ChecksumType {
    dto::ChecksumType::from_static(if composite {
        dto::ChecksumType::COMPOSITE
    } else {
        dto::ChecksumType::FULL_OBJECT
    })
}

/// Whether the checksum of a whole follows from those of its parts.
fn joins(kind: ChecksumKind) -> bool {
    matches!(kind, ChecksumKind::Crc32 | ChecksumKind::Crc32c | ChecksumKind::Crc64Nvme)
}

/// Whether parts of an upload are checksummed together, as the client asked or as the kind has it.
pub(crate) fn composite(kind: ChecksumKind, asked: Option<&str>) -> S3Result<bool> {
    match asked.map(str::to_ascii_uppercase).as_deref() {
        Some(dto::ChecksumType::COMPOSITE) if kind != ChecksumKind::Crc64Nvme => Ok(true),
        Some(dto::ChecksumType::FULL_OBJECT) if joins(kind) => Ok(false),
        Some(other @ (dto::ChecksumType::COMPOSITE | dto::ChecksumType::FULL_OBJECT)) => {
            Err(s3_error!(
                InvalidRequest,
                "The {other} checksum type cannot be used with the {} checksum algorithm.",
                name(kind).to_ascii_lowercase()
            ))
        }
        Some(_) => Err(invalid_type()),
        None => Ok(kind != ChecksumKind::Crc64Nvme),
    }
}

/// No such type of checksums.
pub(crate) fn invalid_type() -> s3s::S3Error {
    s3_error!(InvalidRequest, "Value for x-amz-checksum-type header is invalid.")
}

/// Whether a text names a type of checksums.
pub(crate) fn is_type(text: &str) -> bool {
    let known = [dto::ChecksumType::COMPOSITE, dto::ChecksumType::FULL_OBJECT];
    known.iter().any(|known| known.eq_ignore_ascii_case(text))
}

/// The checksum of an object, by those of its parts with their sizes in bytes.
pub(crate) fn of_parts(kind: ChecksumKind, composite: bool, parts: &[(Vec<u8>, u64)]) -> Checksum {
    let value = if composite {
        let mut hasher = Hasher::new(kind);
        parts.iter().for_each(|(value, _)| hasher.update(value));
        hasher.finish()
    } else {
        combine(kind, parts)
    };
    Checksum { kind, composite, value }
}

fn combine(kind: ChecksumKind, parts: &[(Vec<u8>, u64)]) -> Vec<u8> {
    let algorithm = match kind {
        ChecksumKind::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
        ChecksumKind::Crc32c => CrcAlgorithm::Crc32Iscsi,
        ChecksumKind::Crc64Nvme => CrcAlgorithm::Crc64Nvme,
        ChecksumKind::Sha1
        | ChecksumKind::Sha256
        | ChecksumKind::Sha512
        | ChecksumKind::Md5
        | ChecksumKind::XxHash64
        | ChecksumKind::XxHash3
        | ChecksumKind::XxHash128 => unreachable!("hashes are composite"),
    };
    let number = |bytes: &[u8]| bytes.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    let sum = parts.iter().map(|(value, size)| (number(value), *size));
    let whole = sum.reduce(|(left, before), (right, size)| {
        (crc_fast::checksum_combine(algorithm, left, right, size), before + size)
    });
    let bytes = whole.map_or(0, |(sum, _)| sum).to_be_bytes();
    bytes.get(8 - kind.size_bytes()..).map(<[u8]>::to_vec).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn sum(kind: ChecksumKind, data: &[u8]) -> Vec<u8> {
        let mut hasher = Hasher::new(kind);
        hasher.update(data);
        hasher.finish()
    }

    #[test]
    fn sums_of_parts_join_to_that_of_the_whole() {
        let data: Vec<u8> = (0..100_000u32).map(|index| (index % 251) as u8).collect();
        for kind in [ChecksumKind::Crc32, ChecksumKind::Crc32c, ChecksumKind::Crc64Nvme] {
            let parts: Vec<_> =
                data.chunks(33_333).map(|part| (sum(kind, part), part.len() as u64)).collect();
            assert_eq!(of_parts(kind, false, &parts).value, sum(kind, &data), "{kind:?}");
        }
    }

    #[test]
    fn a_trailer_is_announced_where_one_can_come() {
        let of = |names: &str, mode: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(TRAILER, HeaderValue::from_str(names).unwrap());
            headers.insert("x-amz-content-sha256", HeaderValue::from_static(mode));
            announced(&headers)
        };
        let mode = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
        assert_eq!(of("X-Amz-Checksum-CRC32", mode).unwrap(), Some(ChecksumKind::Crc32));
        assert_eq!(of("x-other", mode).unwrap(), None);
        assert_eq!(of("", "UNSIGNED-PAYLOAD").unwrap(), None);
        for (names, mode) in [
            ("x-amz-checksum-crc32", "UNSIGNED-PAYLOAD"),
            ("x-amz-checksum-crc32,x-amz-checksum-sha256", mode),
            ("x-amz-checksum-md4", mode),
        ] {
            assert!(of(names, mode).is_err(), "{names} {mode}");
        }
    }

    #[test]
    fn known_values() {
        let of = |kind| BASE64_STANDARD.encode(sum(kind, b"123456789"));
        assert_eq!(of(ChecksumKind::Crc32), "y/Q5Jg==");
        assert_eq!(of(ChecksumKind::Crc32c), "4waSgw==");
        assert_eq!(of(ChecksumKind::Crc64Nvme), "rosUhgp5mIg=");
        let of = |kind| BASE64_STANDARD.encode(sum(kind, b"hello world"));
        assert_eq!(of(ChecksumKind::Md5), "XrY7u+Ae7tCTyyK7j1rNww==");
        let of = |kind| BASE64_STANDARD.encode(sum(kind, b"abcdefg"));
        assert_eq!(of(ChecksumKind::XxHash64), "GGCUDikCgi0=");
        assert_eq!(of(ChecksumKind::XxHash3), "WkDcP9RMBS8=");
        assert_eq!(of(ChecksumKind::XxHash128), "Kq/YOGmlnDE/55jA7aptxg==");
        assert_eq!(
            of(ChecksumKind::Sha512),
            "1xakGIVptoqxtt+sF45XARTN8Oo6HMDjFIbD5BJBvGp2Qk6MN6sm8Jb8he+YhsjLY0GH9P3f9kX7CZ8f9UxrjA=="
        );
        for kind in ChecksumKind::ALL {
            assert_eq!(sum(kind, b"abc").len(), kind.size_bytes());
            assert_eq!(kind_of_header(&header(kind)), Some(kind));
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs.iter().map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            resolve_checksum(&pairs.collect(), None)
        };
        let (crc32, sha1) = ("x-amz-checksum-crc32", "x-amz-checksum-sha1");
        let (tools, trailer) = ("x-amz-sdk-checksum-algorithm", "x-amz-trailer");
        assert!(of(&[(crc32, "y/Q5Jg==")]).unwrap().is_some());
        assert!(of(&[(crc32, "y/Q5Jg=="), (tools, "crc32")]).unwrap().is_some());
        let mode = ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
        assert!(of(&[mode, (trailer, crc32), (tools, "CRC32")]).unwrap().is_some());
        assert!(of(&[(trailer, crc32), (tools, "CRC32")]).is_err());
        assert!(of(&[("x-amz-checksum-type", "FULL_OBJECT")]).unwrap().is_none());
        assert!(of(&[(crc32, "y/Q5Jg=="), (tools, "sha1")]).is_err());
        assert!(of(&[mode, (trailer, crc32), (tools, "sha1")]).is_err());
        assert!(of(&[(crc32, "y/Q5Jg=="), (trailer, crc32)]).is_err());
        assert!(of(&[(crc32, ""), (sha1, "")]).is_err());
        assert!(of(&[(crc32, "y/Q5")]).is_err());
        assert!(of(&[(crc32, "")]).is_err());
        assert!(of(&[("x-amz-checksum-md4", "y/Q5Jg==")]).is_err());
        assert!(of(&[(tools, "md4")]).is_err());
    }
}
