//! The words of policies: actions, and keys of conditions. New policies are checked
//! against them.

use super::pattern::matches;

/// Whether a pattern in lower case, as `s3:get*`, fits any action.
pub(super) fn is_action(pattern: &str) -> bool {
    ACTIONS
        .split_whitespace()
        .any(|name| matches(pattern, &format!("s3:{}", name.to_ascii_lowercase())))
}

/// Whether conditions may ask for it; `key` as conditions keep it, lower-case but for names of tags.
pub(super) fn is_condition_key(key: &str) -> bool {
    let known = |keys: &str| keys.split_whitespace().any(|known| known == key);
    let begins = |prefix: &str| key.len() > prefix.len() && key.starts_with(prefix);
    known(CONDITION_KEYS)
        || begins("s3:existingobjecttag/")
        || begins("s3:requestobjecttag/")
        || begins("s3:x-amz-")
        || begins("aws:principaltag/")
        || begins("aws:requesttag/")
        || begins("aws:resourcetag/")
}

/// Whether a request for an action, or for one that the pattern in lower case fits, can have a value for a condition's
/// key.
pub(super) fn applies(key: &str, action: &str) -> bool {
    let among =
        |names: &str| names.split_whitespace().any(|name| matches(action, &format!("s3:{name}")));
    match key {
        "s3:prefix" | "s3:delimiter" | "s3:max-keys" => among("listbucket listbucketversions"),
        "s3:x-amz-acl" => among(
            "createbucket putbucketacl putobject putobjectacl putobjectversionacl replicateobject",
        ),
        "s3:versionid" => among(
            "deleteobjectversion deleteobjectversiontagging getobjectversion getobjectversionacl getobjectversionattributes \
             getobjectversionforreplication getobjectversiontagging getobjectversiontorrent putobjectversionacl \
             putobjectversiontagging putobjectretention putobjectlegalhold getobjectretention getobjectlegalhold",
        ),
        _ => true,
    }
}

const ACTIONS: &str = "
    CreateBucket DeleteBucket DeleteBucketOwnershipControls DeleteBucketPolicy DeleteBucketTagging DeleteBucketWebsite
    GetAccelerateConfiguration GetAnalyticsConfiguration GetBucketAcl GetBucketCORS GetBucketLocation GetBucketLogging
    GetBucketNotification GetBucketObjectLockConfiguration GetBucketOwnershipControls GetBucketPolicy GetBucketPolicyStatus
    GetBucketPublicAccessBlock GetBucketRequestPayment GetBucketTagging GetBucketVersioning GetBucketWebsite
    GetEncryptionConfiguration GetIntelligentTieringConfiguration GetInventoryConfiguration GetLifecycleConfiguration
    GetMetricsConfiguration GetReplicationConfiguration ListAllMyBuckets ListBucket ListBucketMultipartUploads ListBucketVersions
    PutAccelerateConfiguration PutAnalyticsConfiguration PutBucketAcl PutBucketCORS PutBucketLogging PutBucketNotification
    PutBucketObjectLockConfiguration PutBucketOwnershipControls PutBucketPolicy PutBucketPublicAccessBlock
    PutBucketRequestPayment PutBucketTagging PutBucketVersioning PutBucketWebsite PutEncryptionConfiguration
    PutIntelligentTieringConfiguration PutInventoryConfiguration PutLifecycleConfiguration PutMetricsConfiguration
    PutReplicationConfiguration
    AbortMultipartUpload BypassGovernanceRetention DeleteObject DeleteObjectTagging DeleteObjectVersion DeleteObjectVersionTagging
    GetObject GetObjectAcl GetObjectAttributes GetObjectLegalHold GetObjectRetention GetObjectTagging GetObjectTorrent
    GetObjectVersion GetObjectVersionAcl GetObjectVersionAttributes GetObjectVersionForReplication GetObjectVersionTagging
    GetObjectVersionTorrent InitiateReplication ListMultipartUploadParts ObjectOwnerOverrideToBucketOwner PutObject PutObjectAcl
    PutObjectLegalHold PutObjectRetention PutObjectTagging PutObjectVersionAcl PutObjectVersionTagging ReplicateDelete
    ReplicateObject ReplicateTags RestoreObject UpdateObjectEncryption";

const CONDITION_KEYS: &str = "
    aws:calledvia aws:calledviafirst aws:calledvialast aws:currenttime aws:epochtime aws:federatedprovider
    aws:multifactorauthage aws:multifactorauthpresent aws:principalaccount aws:principalarn aws:principalisawsservice
    aws:principalorgid aws:principalorgpaths aws:principalservicename aws:principalservicenameslist aws:principaltype aws:referer
    aws:requestedregion aws:resourceaccount aws:resourceorgid aws:resourceorgpaths aws:securetransport aws:sourceaccount
    aws:sourcearn aws:sourceidentity aws:sourceip aws:sourceorgid aws:sourceorgpaths aws:sourcevpc aws:sourcevpcarn
    aws:sourcevpce aws:tagkeys aws:tokenissuetime aws:useragent aws:userid aws:username aws:viaawsservice aws:vpcsourceip
    s3:accessgrantsinstancearn s3:accesspointnetworkorigin s3:authtype s3:dataaccesspointaccount s3:dataaccesspointarn
    s3:delimiter s3:if-match s3:if-none-match s3:inventoryaccessibleoptionalfields s3:jobsuspendedcause s3:locationconstraint
    s3:max-keys s3:object-lock-legal-hold s3:object-lock-mode s3:object-lock-remaining-retention-days
    s3:object-lock-retain-until-date s3:objectcreationoperation s3:prefix s3:requestobjecttagkeys s3:resourceaccount
    s3:signatureage s3:signatureversion s3:tlsversion s3:versionid";
