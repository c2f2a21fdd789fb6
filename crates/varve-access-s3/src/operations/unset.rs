//! Settings of a bucket that cannot be made here, read as S3 reads them where nobody has made them: clients that look
//! at all settings of a bucket go on. Making one answers `NotImplemented` (`operation`).

use hyper::StatusCode;
use s3s::dto::*;
use s3s::{S3Error, S3Request};

use super::{Answer, answer};
use crate::answers::error::named;
use crate::gateway::GatewayInner;

/// Answers without any setting, if the bucket is there.
macro_rules! unset {
    ($($name:ident($input:ty) -> $output:ty = $answer:expr;)*) => {
        $(
            pub(crate) async fn $name(inner: &GatewayInner, request: S3Request<$input>) -> Answer<$output> {
                inner.view(&request.input.bucket).await?;
                $answer
            }
        )*
    };
}

unset! {
    notification(GetBucketNotificationConfigurationInput) -> GetBucketNotificationConfigurationOutput =
        answer(Default::default());
    logging(GetBucketLoggingInput) -> GetBucketLoggingOutput = answer(Default::default());
    accelerate(GetBucketAccelerateConfigurationInput) -> GetBucketAccelerateConfigurationOutput =
        answer(Default::default());
    replication(GetBucketReplicationInput) -> GetBucketReplicationOutput = Err(no_replication());
    analytics(GetBucketAnalyticsConfigurationInput) -> GetBucketAnalyticsConfigurationOutput =
        Err(no_configuration());
    inventory(GetBucketInventoryConfigurationInput) -> GetBucketInventoryConfigurationOutput =
        Err(no_configuration());
    metrics(GetBucketMetricsConfigurationInput) -> GetBucketMetricsConfigurationOutput =
        Err(no_configuration());
    tiering(GetBucketIntelligentTieringConfigurationInput) -> GetBucketIntelligentTieringConfigurationOutput =
        Err(no_configuration());
    all_analytics(ListBucketAnalyticsConfigurationsInput) -> ListBucketAnalyticsConfigurationsOutput =
        answer(ListBucketAnalyticsConfigurationsOutput { is_truncated: Some(false), ..Default::default() });
    all_inventories(ListBucketInventoryConfigurationsInput) -> ListBucketInventoryConfigurationsOutput =
        answer(ListBucketInventoryConfigurationsOutput { is_truncated: Some(false), ..Default::default() });
    all_metrics(ListBucketMetricsConfigurationsInput) -> ListBucketMetricsConfigurationsOutput =
        answer(ListBucketMetricsConfigurationsOutput { is_truncated: Some(false), ..Default::default() });
    all_tiering(ListBucketIntelligentTieringConfigurationsInput) -> ListBucketIntelligentTieringConfigurationsOutput =
        answer(ListBucketIntelligentTieringConfigurationsOutput { is_truncated: Some(false), ..Default::default() });
}

fn no_replication() -> S3Error {
    let text = "The replication configuration was not found";
    named("ReplicationConfigurationNotFoundError", StatusCode::NOT_FOUND, text)
}

fn no_configuration() -> S3Error {
    let text = "The specified configuration does not exist.";
    named("NoSuchConfiguration", StatusCode::NOT_FOUND, text)
}
