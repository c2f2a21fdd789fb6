//! A bucket with its settings and documents parsed, kept while its revision stays.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use s3s::dto::{
    BucketLifecycleConfiguration, CORSConfiguration, ObjectLockConfiguration, ObjectOwnership,
    OwnershipControls, PublicAccessBlockConfiguration, ServerSideEncryptionByDefault,
    ServerSideEncryptionConfiguration, WebsiteConfiguration,
};
use s3s::xml::{Deserialize, Deserializer, Serialize, Serializer};
use varve_object::{Bucket, BucketId, Document, Settings};

use crate::identity::policy::Policy;

/// Most buckets whose parsed documents are kept.
const KEPT_MAX: usize = 10_000;

/// A bucket as operations see it.
#[derive(Debug)]
pub(crate) struct BucketView {
    pub(crate) bucket: Arc<Bucket>,
    pub(crate) settings: Settings,
    pub(crate) policy: Option<Policy>,
    pub(crate) cors: Option<CORSConfiguration>,
    pub(crate) lifecycle: Option<BucketLifecycleConfiguration>,
    pub(crate) encryption: Option<ServerSideEncryptionByDefault>,
    pub(crate) lock: Option<ObjectLockConfiguration>,
    pub(crate) public_access: PublicAccess,
    pub(crate) website: Option<WebsiteConfiguration>,
    /// Lists of objects say nothing: all belongs to the bucket's owner.
    pub(crate) owner_enforced: bool,
    /// Objects that are put with full control for the bucket's owner belong to it.
    pub(crate) owner_preferred: bool,
}

/// The public access block.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PublicAccess {
    pub(crate) block_acls: bool,
    pub(crate) ignore_acls: bool,
    pub(crate) block_policy: bool,
    pub(crate) restrict: bool,
}

/// Views by bucket.
#[derive(Debug, Default)]
pub(crate) struct BucketViews {
    /// Guards the map; held for moments.
    kept: Mutex<HashMap<BucketId, Arc<BucketView>>>,
}

impl BucketViews {
    pub(crate) fn of(&self, bucket: Arc<Bucket>) -> varve_object::Result<Arc<BucketView>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) =
            kept.get(&bucket.id).filter(|view| view.bucket.revision == bucket.revision)
        {
            return Ok(Arc::clone(view));
        }
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        let id = bucket.id;
        let view = Arc::new(BucketView::parse(bucket)?);
        kept.insert(id, Arc::clone(&view));
        Ok(view)
    }
}

impl BucketView {
    pub(crate) fn parse(bucket: Arc<Bucket>) -> varve_object::Result<Self> {
        let settings = Settings::decode(&bucket.record)?;
        let encryption: Option<ServerSideEncryptionConfiguration> =
            document(&settings, Document::Encryption)?;
        let ownership: Option<OwnershipControls> = document(&settings, Document::Ownership)?;
        let public_access: Option<PublicAccessBlockConfiguration> =
            document(&settings, Document::PublicAccess)?;
        let policy = settings
            .documents
            .get(&Document::Policy)
            .map(|text| Policy::parse_for_bucket(text, &bucket.name));
        let ownership = ownership
            .and_then(|controls| controls.rules.into_iter().next())
            .map(|rule| rule.object_ownership);
        let owned = |by: &str| ownership.as_ref().is_some_and(|ownership| ownership.as_str() == by);
        Ok(Self {
            policy: policy.transpose().map_err(|_| damaged(Document::Policy))?,
            cors: document(&settings, Document::Cors)?,
            lifecycle: document(&settings, Document::Lifecycle)?,
            encryption: encryption.and_then(|all| {
                all.rules.into_iter().find_map(|rule| rule.apply_server_side_encryption_by_default)
            }),
            lock: document(&settings, Document::ObjectLock)?,
            website: document(&settings, Document::Website)?,
            public_access: public_access.map(PublicAccess::of).unwrap_or_default(),
            owner_enforced: owned(ObjectOwnership::BUCKET_OWNER_ENFORCED),
            owner_preferred: owned(ObjectOwnership::BUCKET_OWNER_PREFERRED),
            bucket,
            settings,
        })
    }

    pub(crate) fn id(&self) -> BucketId {
        self.bucket.id
    }

    pub(crate) fn document<T: for<'xml> Deserialize<'xml>>(
        &self,
        kind: Document,
    ) -> varve_object::Result<Option<T>> {
        document(&self.settings, kind)
    }

    pub(crate) fn owner(&self) -> &str {
        &self.settings.owner
    }
}

impl PublicAccess {
    pub(crate) fn of(block: PublicAccessBlockConfiguration) -> Self {
        Self {
            block_acls: block.block_public_acls == Some(true),
            ignore_acls: block.ignore_public_acls == Some(true),
            block_policy: block.block_public_policy == Some(true),
            restrict: block.restrict_public_buckets == Some(true),
        }
    }
}

/// A document as its XML.
pub(crate) fn to_xml<T: Serialize>(document: &T) -> s3s::S3Result<bytes::Bytes> {
    let mut bytes = Vec::new();
    document.serialize(&mut Serializer::new(&mut bytes)).map_err(s3s::S3Error::internal_error)?;
    Ok(bytes.into())
}

fn document<T: for<'xml> Deserialize<'xml>>(
    settings: &Settings,
    kind: Document,
) -> varve_object::Result<Option<T>> {
    let Some(xml) = settings.documents.get(&kind) else { return Ok(None) };
    let mut reader = Deserializer::new(xml);
    T::deserialize(&mut reader).map(Some).map_err(|_| damaged(kind))
}

fn damaged(kind: Document) -> varve_object::Error {
    varve_object::Error::Corrupt { what: format!("the {kind:?} document of a bucket") }
}
