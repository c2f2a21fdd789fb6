//! Checksums of bodies: which one a request wants, computing it, comparing it, and putting those of parts together.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use crc_fast::CrcAlgorithm;
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Sha1, Sha256};
use s3s::dto::{self, ChecksumAlgorithm};
use s3s::{S3Result, s3_error};
use varve_object::{Checksum, ChecksumKind};

use crate::ops::Origin;

/// All kinds, as the order of a request's fields.
pub(crate) const KINDS: [ChecksumKind; 5] = [
    ChecksumKind::Crc32,
    ChecksumKind::Crc32c,
    ChecksumKind::Crc64Nvme,
    ChecksumKind::Sha1,
    ChecksumKind::Sha256,
];

/// The five fields that inputs and outputs of the protocol have, as one struct.
macro_rules! declared {
    ($from:expr) => {
        s3s::dto::Checksum {
            checksum_crc32: $from.checksum_crc32.clone(),
            checksum_crc32c: $from.checksum_crc32c.clone(),
            checksum_crc64nvme: $from.checksum_crc64nvme.clone(),
            checksum_sha1: $from.checksum_sha1.clone(),
            checksum_sha256: $from.checksum_sha256.clone(),
            checksum_type: None,
        }
    };
}

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

pub(crate) use {declared, show};

/// Computes a checksum.
pub(crate) enum Hasher {
    Crc32(Crc32),
    Crc32c(Crc32c),
    Crc64Nvme(Crc64Nvme),
    Sha1(Box<Sha1>),
    Sha256(Box<Sha256>),
}

/// The checksum that a request wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
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
        }
    }

    pub(crate) fn update(&mut self, data: &[u8]) {
        match self {
            Self::Crc32(sum) => sum.update(data),
            Self::Crc32c(sum) => sum.update(data),
            Self::Crc64Nvme(sum) => sum.update(data),
            Self::Sha1(sum) => sum.update(data),
            Self::Sha256(sum) => sum.update(data),
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        match self {
            Self::Crc32(sum) => sum.finalize().to_vec(),
            Self::Crc32c(sum) => sum.finalize().to_vec(),
            Self::Crc64Nvme(sum) => sum.finalize().to_vec(),
            Self::Sha1(sum) => sum.finalize().to_vec(),
            Self::Sha256(sum) => sum.finalize().to_vec(),
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
    }
}

/// Kind of a name in the protocol.
pub(crate) fn kind_of(name: &str) -> S3Result<ChecksumKind> {
    let found = KINDS.into_iter().find(|kind| self::name(*kind).eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let names = KINDS.map(self::name).join(", ");
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

/// The algorithm that a request names: in its fields, to the tools that made it, or by the trailer it announces.
pub(crate) fn algorithm(origin: &Origin, field: Option<&ChecksumAlgorithm>) -> Option<String> {
    let named = field.map(|algorithm| algorithm.as_str());
    let named = named.or_else(|| origin.header("x-amz-sdk-checksum-algorithm"));
    if let Some(named) = named {
        return Some(named.to_owned());
    }
    let trailer = origin.header("x-amz-trailer")?;
    let names = trailer.split(',').map(|name| name.trim().to_ascii_lowercase());
    let mut kinds = names.filter_map(|name| KINDS.into_iter().find(|kind| header(*kind) == name));
    kinds.next().map(|kind| name(kind).to_owned())
}

/// What a request wants, by its fields and its algorithm.
pub(crate) fn wanted(fields: &dto::Checksum, algorithm: Option<&str>) -> S3Result<Option<Wanted>> {
    let values = [
        &fields.checksum_crc32,
        &fields.checksum_crc32c,
        &fields.checksum_crc64nvme,
        &fields.checksum_sha1,
        &fields.checksum_sha256,
    ];
    let mut given = KINDS
        .into_iter()
        .zip(values)
        .filter_map(|(kind, value)| value.as_ref().map(|value| (kind, value)));
    let algorithm = algorithm.map(kind_of).transpose()?;
    let Some((kind, value)) = given.next() else {
        return Ok(algorithm.map(|kind| Wanted { kind, value: None }));
    };
    if given.next().is_some() {
        return Err(s3_error!(
            InvalidRequest,
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
        ));
    }
    if algorithm.is_some_and(|algorithm| algorithm != kind) {
        return Err(s3_error!(
            InvalidRequest,
            "Value for x-amz-sdk-checksum-algorithm header is invalid."
        ));
    }
    Ok(Some(Wanted { kind, value: Some(decode(kind, value)?) }))
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
    let field = match kind {
        ChecksumKind::Crc32 => &mut fields.checksum_crc32,
        ChecksumKind::Crc32c => &mut fields.checksum_crc32c,
        ChecksumKind::Crc64Nvme => &mut fields.checksum_crc64nvme,
        ChecksumKind::Sha1 => &mut fields.checksum_sha1,
        ChecksumKind::Sha256 => &mut fields.checksum_sha256,
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

/// Whether parts of an upload are checksummed together, as the client asked or as the kind has it.
pub(crate) fn composite(kind: ChecksumKind, asked: Option<&str>) -> S3Result<bool> {
    let sha = matches!(kind, ChecksumKind::Sha1 | ChecksumKind::Sha256);
    match asked.map(str::to_ascii_uppercase).as_deref() {
        Some(dto::ChecksumType::COMPOSITE) if kind != ChecksumKind::Crc64Nvme => Ok(true),
        Some(dto::ChecksumType::FULL_OBJECT) if !sha => Ok(false),
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
        ChecksumKind::Sha1 | ChecksumKind::Sha256 => unreachable!("hashes are composite"),
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
    fn known_values() {
        let of = |kind| BASE64_STANDARD.encode(sum(kind, b"123456789"));
        assert_eq!(of(ChecksumKind::Crc32), "y/Q5Jg==");
        assert_eq!(of(ChecksumKind::Crc32c), "4waSgw==");
        assert_eq!(of(ChecksumKind::Crc64Nvme), "rosUhgp5mIg=");
    }

    #[test]
    fn contradictions_are_refused() {
        let fields = |crc32: &str, sha1: Option<&str>| dto::Checksum {
            checksum_crc32: Some(crc32.to_owned()),
            checksum_sha1: sha1.map(str::to_owned),
            ..dto::Checksum::default()
        };
        assert!(wanted(&fields("y/Q5Jg==", None), None).unwrap().is_some());
        assert!(wanted(&fields("y/Q5Jg==", None), Some("sha1")).is_err());
        assert!(wanted(&fields("y/Q5Jg==", Some("x")), None).is_err());
        assert!(wanted(&fields("y/Q5", None), None).is_err());
        assert!(wanted(&dto::Checksum::default(), Some("md4")).is_err());
    }
}
