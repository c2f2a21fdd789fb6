//! Attributes of an object, those asked for.

use s3s::dto::{
    GetObjectAttributesInput, GetObjectAttributesOutput, GetObjectAttributesParts,
    ObjectAttributes, ObjectPart, StorageClass,
};
use s3s::{S3Request, s3_error};
use varve_object::Attributes;

use super::list::{at_least_0, limit};
use super::{Answer, answer, etag, found, signed, version_id};
use crate::body::sums::{self, show};
use crate::clock::timestamp;
use crate::gateway::GatewayInner;
use crate::identity::access::selected;
use crate::request::given::{customer, open_key};

pub(crate) async fn get(
    inner: &GatewayInner,
    request: S3Request<GetObjectAttributesInput>,
) -> Answer<GetObjectAttributesOutput> {
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let asked: Vec<&str> = input
        .object_attributes
        .iter()
        .flat_map(|list| list.as_str().split(','))
        .map(str::trim)
        .collect();
    let known = [
        ObjectAttributes::ETAG,
        ObjectAttributes::CHECKSUM,
        ObjectAttributes::OBJECT_PARTS,
        ObjectAttributes::STORAGE_CLASS,
        ObjectAttributes::OBJECT_SIZE,
    ];
    if asked.iter().all(|name| name.is_empty()) {
        return Err(s3_error!(
            InvalidRequest,
            "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty"
        ));
    }
    if asked.iter().any(|name| !known.contains(name)) {
        return Err(s3_error!(InvalidArgument, "Invalid attribute name specified."));
    }
    let wants = |name: &str| asked.contains(&name);
    let max = limit(input.max_parts, "x-amz-max-parts")?;
    let after = at_least_0(input.part_number_marker, "x-amz-part-number-marker")?.unwrap_or(0);
    let (found, attributes) = found(inner, &view, &input.key, selected(&input.version_id)?).await?;
    open_key(inner, attributes.encryption.as_ref(), &customer!(input))?;
    let checksum = wants(ObjectAttributes::CHECKSUM)
        .then(|| sums::fields(attributes.checksum.as_ref(), attributes.parts.len()));
    let parts = wants(ObjectAttributes::OBJECT_PARTS) && !attributes.parts.is_empty();
    let class = match attributes.storage_class.as_str() {
        "" => StorageClass::from_static(StorageClass::STANDARD),
        class => StorageClass::from(class.to_owned()),
    };
    answer(GetObjectAttributesOutput {
        checksum: checksum.filter(|_| attributes.checksum.is_some()),
        delete_marker: None,
        e_tag: wants(ObjectAttributes::ETAG).then(|| etag(&attributes.etag)),
        last_modified: Some(timestamp(found.version.modified_ms)),
        object_parts: parts.then(|| page(&attributes, max, after)),
        object_size: wants(ObjectAttributes::OBJECT_SIZE).then(|| signed(found.version.size)),
        request_charged: None,
        storage_class: wants(ObjectAttributes::STORAGE_CLASS).then_some(class),
        version_id: version_id(&view, &found.version),
    })
}

/// At most `max` parts behind one of this number.
fn page(attributes: &Attributes, max: i32, after: i32) -> GetObjectAttributesParts {
    let kind = attributes.checksum.as_ref().map(|checksum| checksum.kind);
    let behind: Vec<_> =
        attributes.parts.iter().filter(|part| i32::from(part.number) > after).collect();
    let shown = usize::try_from(max).unwrap_or(0).min(behind.len());
    let parts = behind.iter().take(shown).map(|part| {
        let mut entry = ObjectPart {
            part_number: Some(i32::from(part.number)),
            size: Some(signed(part.size)),
            ..ObjectPart::default()
        };
        show!(sums::part(kind, &part.checksum), entry);
        entry
    });
    let parts: Vec<ObjectPart> = parts.collect();
    GetObjectAttributesParts {
        is_truncated: Some(shown < behind.len()),
        max_parts: Some(max),
        next_part_number_marker: parts.last().and_then(|part| part.part_number),
        part_number_marker: Some(after),
        parts: Some(parts),
        total_parts_count: i32::try_from(attributes.parts.len()).ok(),
    }
}
