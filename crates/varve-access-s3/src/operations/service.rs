//! The operations, handed to the protocol library.

use std::sync::Arc;

use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result};

use crate::gateway::GatewayInner;
use crate::operations::{
    attributes, bucket, config, copy, delete, get, list, multipart, object_config, put, unset,
    website,
};

/// The library's view of the gateway. What is not listed answers `NotImplemented`.
pub(crate) struct Service {
    pub(crate) inner: Arc<GatewayInner>,
}

macro_rules! operations {
    ($($name:ident($input:ty) -> $output:ty = $call:path;)*) => {
        #[async_trait::async_trait]
        impl S3 for Service {
            $(
                async fn $name(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                    $call(&self.inner, request).await
                }
            )*
        }
    };
}

operations! {
    create_bucket(CreateBucketInput) -> CreateBucketOutput = bucket::create;
    delete_bucket(DeleteBucketInput) -> DeleteBucketOutput = bucket::delete;
    head_bucket(HeadBucketInput) -> HeadBucketOutput = bucket::head;
    list_buckets(ListBucketsInput) -> ListBucketsOutput = bucket::list;
    get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput = bucket::location;

    put_object(PutObjectInput) -> PutObjectOutput = put::put_object;
    get_object(GetObjectInput) -> GetObjectOutput = get::get_object;
    head_object(HeadObjectInput) -> HeadObjectOutput = get::head_object;
    get_object_attributes(GetObjectAttributesInput) -> GetObjectAttributesOutput = attributes::get;
    delete_object(DeleteObjectInput) -> DeleteObjectOutput = delete::delete_object;
    delete_objects(DeleteObjectsInput) -> DeleteObjectsOutput = delete::delete_objects;
    copy_object(CopyObjectInput) -> CopyObjectOutput = copy::copy_object;
    list_objects(ListObjectsInput) -> ListObjectsOutput = list::list_objects;
    list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output = list::list_objects_v2;
    list_object_versions(ListObjectVersionsInput) -> ListObjectVersionsOutput = list::list_object_versions;

    create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput = multipart::create;
    upload_part(UploadPartInput) -> UploadPartOutput = multipart::upload_part;
    upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput = copy::upload_part_copy;
    complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput = multipart::complete;
    abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput = multipart::abort;
    list_parts(ListPartsInput) -> ListPartsOutput = multipart::list_parts;
    list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput = multipart::list_uploads;

    get_object_tagging(GetObjectTaggingInput) -> GetObjectTaggingOutput = object_config::get_tagging;
    put_object_tagging(PutObjectTaggingInput) -> PutObjectTaggingOutput = object_config::put_tagging;
    delete_object_tagging(DeleteObjectTaggingInput) -> DeleteObjectTaggingOutput = object_config::delete_tagging;
    get_object_acl(GetObjectAclInput) -> GetObjectAclOutput = object_config::get_acl;
    put_object_acl(PutObjectAclInput) -> PutObjectAclOutput = object_config::put_acl;
    get_object_retention(GetObjectRetentionInput) -> GetObjectRetentionOutput = object_config::get_retention;
    put_object_retention(PutObjectRetentionInput) -> PutObjectRetentionOutput = object_config::put_retention;
    get_object_legal_hold(GetObjectLegalHoldInput) -> GetObjectLegalHoldOutput = object_config::get_hold;
    put_object_legal_hold(PutObjectLegalHoldInput) -> PutObjectLegalHoldOutput = object_config::put_hold;

    get_bucket_acl(GetBucketAclInput) -> GetBucketAclOutput = config::get_acl;
    put_bucket_acl(PutBucketAclInput) -> PutBucketAclOutput = config::put_acl;
    get_bucket_cors(GetBucketCorsInput) -> GetBucketCorsOutput = config::get_cors;
    put_bucket_cors(PutBucketCorsInput) -> PutBucketCorsOutput = config::put_cors;
    delete_bucket_cors(DeleteBucketCorsInput) -> DeleteBucketCorsOutput = config::delete_cors;
    get_bucket_encryption(GetBucketEncryptionInput) -> GetBucketEncryptionOutput = config::get_encryption;
    put_bucket_encryption(PutBucketEncryptionInput) -> PutBucketEncryptionOutput = config::put_encryption;
    delete_bucket_encryption(DeleteBucketEncryptionInput) -> DeleteBucketEncryptionOutput = config::delete_encryption;
    get_bucket_lifecycle_configuration(GetBucketLifecycleConfigurationInput) -> GetBucketLifecycleConfigurationOutput = config::get_lifecycle;
    put_bucket_lifecycle_configuration(PutBucketLifecycleConfigurationInput) -> PutBucketLifecycleConfigurationOutput = config::put_lifecycle;
    delete_bucket_lifecycle(DeleteBucketLifecycleInput) -> DeleteBucketLifecycleOutput = config::delete_lifecycle;
    get_bucket_policy(GetBucketPolicyInput) -> GetBucketPolicyOutput = config::get_policy;
    put_bucket_policy(PutBucketPolicyInput) -> PutBucketPolicyOutput = config::put_policy;
    delete_bucket_policy(DeleteBucketPolicyInput) -> DeleteBucketPolicyOutput = config::delete_policy;
    get_bucket_policy_status(GetBucketPolicyStatusInput) -> GetBucketPolicyStatusOutput = config::policy_status;
    get_bucket_tagging(GetBucketTaggingInput) -> GetBucketTaggingOutput = config::get_tagging;
    put_bucket_tagging(PutBucketTaggingInput) -> PutBucketTaggingOutput = config::put_tagging;
    delete_bucket_tagging(DeleteBucketTaggingInput) -> DeleteBucketTaggingOutput = config::delete_tagging;
    get_bucket_website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput = website::get_website;
    put_bucket_website(PutBucketWebsiteInput) -> PutBucketWebsiteOutput = website::put_website;
    delete_bucket_website(DeleteBucketWebsiteInput) -> DeleteBucketWebsiteOutput = website::delete_website;
    get_bucket_versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput = config::get_versioning;
    put_bucket_versioning(PutBucketVersioningInput) -> PutBucketVersioningOutput = config::put_versioning;
    get_bucket_ownership_controls(GetBucketOwnershipControlsInput) -> GetBucketOwnershipControlsOutput = config::get_ownership;
    put_bucket_ownership_controls(PutBucketOwnershipControlsInput) -> PutBucketOwnershipControlsOutput = config::put_ownership;
    delete_bucket_ownership_controls(DeleteBucketOwnershipControlsInput) -> DeleteBucketOwnershipControlsOutput = config::delete_ownership;
    get_public_access_block(GetPublicAccessBlockInput) -> GetPublicAccessBlockOutput = config::get_public_access;
    put_public_access_block(PutPublicAccessBlockInput) -> PutPublicAccessBlockOutput = config::put_public_access;
    delete_public_access_block(DeletePublicAccessBlockInput) -> DeletePublicAccessBlockOutput = config::delete_public_access;
    get_object_lock_configuration(GetObjectLockConfigurationInput) -> GetObjectLockConfigurationOutput = config::get_lock;
    put_object_lock_configuration(PutObjectLockConfigurationInput) -> PutObjectLockConfigurationOutput = config::put_lock;
    get_bucket_request_payment(GetBucketRequestPaymentInput) -> GetBucketRequestPaymentOutput = config::request_payment;

    get_bucket_notification_configuration(GetBucketNotificationConfigurationInput) -> GetBucketNotificationConfigurationOutput = unset::notification;
    get_bucket_logging(GetBucketLoggingInput) -> GetBucketLoggingOutput = unset::logging;
    get_bucket_accelerate_configuration(GetBucketAccelerateConfigurationInput) -> GetBucketAccelerateConfigurationOutput = unset::accelerate;
    get_bucket_replication(GetBucketReplicationInput) -> GetBucketReplicationOutput = unset::replication;
    get_bucket_analytics_configuration(GetBucketAnalyticsConfigurationInput) -> GetBucketAnalyticsConfigurationOutput = unset::analytics;
    get_bucket_inventory_configuration(GetBucketInventoryConfigurationInput) -> GetBucketInventoryConfigurationOutput = unset::inventory;
    get_bucket_metrics_configuration(GetBucketMetricsConfigurationInput) -> GetBucketMetricsConfigurationOutput = unset::metrics;
    get_bucket_intelligent_tiering_configuration(GetBucketIntelligentTieringConfigurationInput) -> GetBucketIntelligentTieringConfigurationOutput = unset::tiering;
    list_bucket_analytics_configurations(ListBucketAnalyticsConfigurationsInput) -> ListBucketAnalyticsConfigurationsOutput = unset::all_analytics;
    list_bucket_inventory_configurations(ListBucketInventoryConfigurationsInput) -> ListBucketInventoryConfigurationsOutput = unset::all_inventories;
    list_bucket_metrics_configurations(ListBucketMetricsConfigurationsInput) -> ListBucketMetricsConfigurationsOutput = unset::all_metrics;
    list_bucket_intelligent_tiering_configurations(ListBucketIntelligentTieringConfigurationsInput) -> ListBucketIntelligentTieringConfigurationsOutput = unset::all_tiering;
}
