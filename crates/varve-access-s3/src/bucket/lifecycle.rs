//! Lifecycle rules: checking what clients put, telling when an object ends, and the pass that ends them.
//!
//! LIFECYCLE-1. A pass deletes only what it has looked at: the step that deletes compares the version's order again.
//! LIFECYCLE-2. Locks hold against rules: what is locked is passed over.
//! LIFECYCLE-3. A bucket that leaves, left or arrives is let alone.

use std::time::Duration;

use s3s::dto::{
    BucketLifecycleConfiguration, ExpirationStatus, LifecycleRule, LifecycleRuleFilter, Tag,
};
use s3s::{S3Result, s3_error};
use varve_object::rules::{self, Conditions};
use varve_object::{Attributes, Error, Item, ListQuery, MoveState, NewBody, Select, Version};
use varve_stdx::hex;

use crate::bucket::view::BucketView;
use crate::clock::{ms_of, now_ms, timestamp};
use crate::gateway::{Gateway, GatewayInner};
use crate::request::given::http_date;

const RULES_MAX: usize = 1000;
const ID_CHARS_MAX: usize = 255;
const PAGE: usize = 1000;
const DAY_MS: u64 = 24 * 3600 * 1000;

/// Checks rules, and gives those a name that have none.
pub(crate) fn check(configuration: &mut BucketLifecycleConfiguration) -> S3Result<()> {
    if configuration.rules.is_empty() || configuration.rules.len() > RULES_MAX {
        return Err(s3_error!(MalformedXML));
    }
    let mut names = std::collections::HashSet::new();
    for rule in &mut configuration.rules {
        let id = rule.id.get_or_insert_with(|| hex(&crate::body::seal::random::<12>()));
        if id.chars().count() > ID_CHARS_MAX {
            return Err(s3_error!(
                InvalidArgument,
                "ID length should not exceed allowed limit of {ID_CHARS_MAX}"
            ));
        }
        if !names.insert(id.clone()) {
            return Err(s3_error!(
                InvalidArgument,
                "Rule ID must be unique. Found same ID for more than one rule"
            ));
        }
        check_rule(rule)?;
    }
    Ok(())
}

fn check_rule(rule: &LifecycleRule) -> S3Result<()> {
    if !matches!(rule.status.as_str(), ExpirationStatus::ENABLED | ExpirationStatus::DISABLED) {
        return Err(s3_error!(MalformedXML));
    }
    if rule.transitions.as_ref().is_some_and(|all| !all.is_empty())
        || rule.noncurrent_version_transitions.as_ref().is_some_and(|all| !all.is_empty())
    {
        return Err(s3_error!(NotImplemented, "There is one storage class, so nothing to move to"));
    }
    if rule.filter.as_ref().is_some_and(|filter| predicates(filter) > 1) {
        return Err(s3_error!(MalformedXML)); // Several stand in And.
    }
    let positive = |days: Option<i32>, name: &str| match days {
        Some(days) if days <= 0 => {
            Err(s3_error!(InvalidArgument, "'{name}' for this action must be a positive integer"))
        }
        _ => Ok(()),
    };
    let mut actions = 0;
    if let Some(expiration) = &rule.expiration {
        actions += 1;
        positive(expiration.days, "Days")?;
        let given = [
            expiration.days.is_some(),
            expiration.date.is_some(),
            expiration.expired_object_delete_marker.is_some(),
        ];
        if given.iter().filter(|given| **given).count() != 1 {
            return Err(s3_error!(MalformedXML));
        }
        if expiration.date.as_ref().is_some_and(|date| !ms_of(date).is_multiple_of(DAY_MS)) {
            return Err(s3_error!(InvalidArgument, "'Date' must be at midnight GMT"));
        }
    }
    if let Some(noncurrent) = &rule.noncurrent_version_expiration {
        actions += 1;
        positive(noncurrent.noncurrent_days, "NoncurrentDays")?;
    }
    if let Some(abort) = &rule.abort_incomplete_multipart_upload {
        actions += 1;
        positive(abort.days_after_initiation, "DaysAfterInitiation")?;
        if looks_beyond_key(rule) {
            let text =
                "AbortIncompleteMultipartUpload cannot be specified with Tags or object sizes.";
            return Err(s3_error!(InvalidRequest, "{text}"));
        }
    }
    if actions == 0 {
        Err(s3_error!(InvalidRequest, "At least one action needs to be specified in a rule."))
    } else {
        Ok(())
    }
}

/// What of an object a rule looks at.
struct Subject<'a> {
    key: &'a str,
    size: u64,
    tags: &'a [(String, String)],
}

fn enabled(rule: &LifecycleRule) -> bool {
    rule.status.as_str() == ExpirationStatus::ENABLED
}

/// Whether a key begins as the rule wants it: with each of its prefixes, wherever they stand.
fn has_prefix(rule: &LifecycleRule, key: &str) -> bool {
    let filter = rule.filter.as_ref();
    let joined = filter.and_then(|filter| filter.and.as_ref());
    let prefixes = [
        rule.prefix.as_deref(),
        filter.and_then(|filter| filter.prefix.as_deref()),
        joined.and_then(|and| and.prefix.as_deref()),
    ];
    prefixes.into_iter().flatten().all(|prefix| key.starts_with(prefix))
}

fn predicates(filter: &LifecycleRuleFilter) -> usize {
    let given = [
        filter.prefix.is_some(),
        filter.tag.is_some(),
        filter.object_size_greater_than.is_some(),
        filter.object_size_less_than.is_some(),
        filter.and.is_some(),
    ];
    given.into_iter().filter(|given| *given).count()
}

/// Whether the rule looks at more of an object than its key, which uploads do not have.
fn looks_beyond_key(rule: &LifecycleRule) -> bool {
    let Some(filter) = &rule.filter else { return false };
    let alone = filter.tag.is_some()
        || filter.object_size_greater_than.is_some()
        || filter.object_size_less_than.is_some();
    alone
        || filter.and.as_ref().is_some_and(|and| {
            and.tags.as_ref().is_some_and(|tags| !tags.is_empty())
                || and.object_size_greater_than.is_some()
                || and.object_size_less_than.is_some()
        })
}

fn applies(rule: &LifecycleRule, subject: &Subject<'_>) -> bool {
    if !enabled(rule) || !has_prefix(rule, subject.key) {
        return false;
    }
    let has = |tag: &Tag| {
        subject
            .tags
            .iter()
            .any(|(key, value)| Some(key) == tag.key.as_ref() && Some(value) == tag.value.as_ref())
    };
    let over = |least: Option<i64>| {
        least.is_none_or(|least| u64::try_from(least).is_ok_and(|least| subject.size > least))
    };
    let under = |most: Option<i64>| {
        most.is_none_or(|most| u64::try_from(most).is_ok_and(|most| subject.size < most))
    };
    rule.filter.as_ref().is_none_or(|filter| {
        let alone = filter.tag.as_ref().is_none_or(has)
            && over(filter.object_size_greater_than)
            && under(filter.object_size_less_than);
        let joined = filter.and.as_ref().is_none_or(|and| {
            and.tags.iter().flatten().all(has)
                && over(and.object_size_greater_than)
                && under(and.object_size_less_than)
        });
        alone && joined
    })
}

fn days_ms(inner: &GatewayInner, days: i32) -> u64 {
    let day = u64::try_from(inner.options.day.as_millis()).unwrap_or(DAY_MS);
    day.saturating_mul(u64::try_from(days).unwrap_or(0))
}

/// When a rule ends a current version.
fn ends_ms(inner: &GatewayInner, rule: &LifecycleRule, version: &Version) -> Option<u64> {
    let expiration = rule.expiration.as_ref()?;
    match (expiration.days, &expiration.date) {
        (Some(days), _) => Some(version.modified_ms.saturating_add(days_ms(inner, days))),
        (None, Some(date)) => Some(ms_of(date)),
        (None, None) => None,
    }
}

/// The header that tells when an object ends, and by which rule.
pub(crate) fn expiration(
    inner: &GatewayInner,
    view: &BucketView,
    key: &str,
    version: &Version,
    attributes: &Attributes,
) -> Option<String> {
    let rules = &view.lifecycle.as_ref()?.rules;
    let subject = Subject { key, size: version.size, tags: &attributes.tags };
    let due = rules.iter().filter(|rule| applies(rule, &subject));
    let (ends, rule) = due
        .filter_map(|rule| Some((ends_ms(inner, rule, version)?, rule)))
        .min_by_key(|(ends, _)| *ends)?;
    let day = u64::try_from(inner.options.day.as_millis()).unwrap_or(DAY_MS).max(1);
    let date = http_date(&timestamp(ends.div_ceil(day).saturating_mul(day)))?;
    Some(format!("expiry-date=\"{date}\", rule-id=\"{}\"", rule.id.as_deref().unwrap_or_default()))
}

impl Gateway {
    /// Ends what is due, again and again, until dropped. One pass follows another after a sixth of a day, at most 10
    /// minutes.
    pub async fn run_lifecycle(&self) {
        let pause = (self.inner.options.day / 6)
            .clamp(Duration::from_millis(100), Duration::from_secs(600));
        loop {
            tokio::time::sleep(pause).await;
            crate::bucket::moving::tidy(&self.inner).await;
            if let Err(error) = self.lifecycle_pass().await {
                tracing::warn!(%error, "lifecycle pass ended early, and is tried again");
            }
        }
    }

    /// Ends what is due now.
    ///
    /// # Errors
    /// Those of the store; what has been ended stays so.
    pub async fn lifecycle_pass(&self) -> varve_object::Result<()> {
        let inner = &*self.inner;
        let mut after = String::new();
        loop {
            let page = inner.store.list_buckets(&after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after.clone_from(&last.name);
            for bucket in page {
                if bucket.moves.as_ref().is_some_and(|moves| moves.state != MoveState::Arrived) {
                    continue; // LIFECYCLE-3
                }
                let Ok(view) = inner.view_of(bucket) else { continue };
                match pass(inner, &view).await {
                    // Deleted meanwhile, or on its way to another pool (LIFECYCLE-3).
                    Err(Error::NoBucket { .. } | Error::Moves { .. }) | Ok(()) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

async fn pass(inner: &GatewayInner, view: &BucketView) -> varve_object::Result<()> {
    let Some(lifecycle) = &view.lifecycle else { return Ok(()) };
    if !lifecycle.rules.iter().any(enabled) {
        return Ok(());
    }
    let mut walk = Walk {
        inner,
        view,
        rules: &lifecycle.rules,
        now_ms: now_ms(),
        key: String::new(),
        newer: Vec::new(),
        lone_marker: None,
    };
    let mut query = ListQuery { limit: PAGE, versions: true, ..ListQuery::default() };
    loop {
        let now = inner.store.bucket(&view.bucket.name).await?;
        if (now.id, now.revision) != (view.bucket.id, view.bucket.revision) {
            return Ok(()); // Rules or versioning may be others by now: the next pass knows them.
        }
        let page = inner.store.list(view.id(), &query).await?;
        for item in &page.items {
            if let Item::Version { key, newest, version } = item {
                walk.meet(key, *newest, version).await?;
            }
        }
        let Some(last) = page.items.last().filter(|_| page.more) else { break };
        query.after = last.marker();
    }
    walk.leave_key().await?;
    abort_uploads(inner, view, &lifecycle.rules).await
}

/// A walk over all versions of a bucket.
struct Walk<'a> {
    inner: &'a GatewayInner,
    view: &'a BucketView,
    rules: &'a [LifecycleRule],
    now_ms: u64,
    key: String,
    /// When the next newer version was made, and how many noncurrent ones are newer.
    newer: Vec<u64>,
    /// The key's newest version is a marker, and nothing else has been met.
    lone_marker: Option<Version>,
}

impl Walk<'_> {
    async fn meet(
        &mut self,
        key: &str,
        newest: bool,
        version: &Version,
    ) -> varve_object::Result<()> {
        if newest || self.key != key {
            self.leave_key().await?;
            key.clone_into(&mut self.key);
            self.newer.clear();
        }
        let attributes = Attributes::decode(&version.attributes)?;
        let subject = Subject { key, size: version.size, tags: &attributes.tags };
        if newest && version.marker {
            self.lone_marker = Some(version.clone());
        } else if newest {
            let due = self
                .rules
                .iter()
                .filter(|rule| applies(rule, &subject))
                .filter_map(|rule| ends_ms(self.inner, rule, version));
            if due.min().is_some_and(|ends| ends <= self.now_ms) {
                self.end(version, false).await?;
            }
        } else {
            self.lone_marker = None;
            if self.noncurrent_due(&subject) {
                self.end(version, true).await?;
                return Ok(());
            }
        }
        self.newer.push(version.modified_ms);
        Ok(())
    }

    /// A version that is not the newest ends so long after its successor came, when enough newer ones stay.
    fn noncurrent_due(&self, subject: &Subject<'_>) -> bool {
        let since = self.newer.last().copied().unwrap_or(self.now_ms);
        let kept = self.newer.len().saturating_sub(1);
        self.rules.iter().filter(|rule| applies(rule, subject)).any(|rule| {
            rule.noncurrent_version_expiration.as_ref().is_some_and(|rule| {
                let enough = rule
                    .newer_noncurrent_versions
                    .is_none_or(|least| usize::try_from(least).is_ok_and(|least| kept >= least));
                let old = since
                    .saturating_add(days_ms(self.inner, rule.noncurrent_days.unwrap_or(0)))
                    <= self.now_ms;
                enough && old
            })
        })
    }

    /// A marker with nothing behind it goes, where a rule says so.
    async fn leave_key(&mut self) -> varve_object::Result<()> {
        let Some(marker) = self.lone_marker.take() else { return Ok(()) };
        let subject = Subject { key: &self.key, size: 0, tags: &[] };
        let due = self.rules.iter().filter(|rule| applies(rule, &subject)).any(|rule| {
            let wanted = rule
                .expiration
                .as_ref()
                .is_some_and(|expiration| expiration.expired_object_delete_marker == Some(true));
            wanted || ends_ms(self.inner, rule, &marker).is_some_and(|ends| ends <= self.now_ms)
        });
        if due { self.end(&marker, true).await } else { Ok(()) }
    }

    async fn end(&self, version: &Version, for_good: bool) -> varve_object::Result<()> {
        let delete = rules::ObjectDeletion {
            key: self.key.clone(),
            versioning: self.view.settings.versioning,
            now_ms: self.now_ms,
            named: for_good,
            bypass: false,
            owner: self.view.owner().to_owned(),
            conditions: Conditions::default(),
        };
        let order = version.order;
        let decide = Box::new(move |view: &varve_object::KeyView| {
            // LIFECYCLE-1
            let met = if for_good { &view.named } else { &view.newest };
            if met.as_ref().is_none_or(|met| met.order != order) {
                return Ok(varve_object::KeyChange::default());
            }
            rules::delete(view, delete)
        });
        let empty = NewBody::Small(bytes::Bytes::new());
        match self
            .inner
            .store
            .change_key(self.view.id(), &self.key, Some(Select::Order(order)), empty, decide)
            .await
        {
            // LIFECYCLE-2
            Ok(_) | Err(Error::Locked { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

async fn abort_uploads(
    inner: &GatewayInner,
    view: &BucketView,
    rules: &[LifecycleRule],
) -> varve_object::Result<()> {
    let aborting = |key: &str, started_ms: u64| {
        let applies = |rule: &&LifecycleRule| {
            enabled(rule) && has_prefix(rule, key) && !looks_beyond_key(rule)
        };
        rules.iter().filter(applies).any(|rule| {
            let days = rule
                .abort_incomplete_multipart_upload
                .as_ref()
                .and_then(|abort| abort.days_after_initiation);
            days.is_some_and(|days| started_ms.saturating_add(days_ms(inner, days)) <= now_ms())
        })
    };
    let mut after: Option<(String, varve_object::UploadId)> = None;
    loop {
        let from = after.as_ref().map(|(key, id)| (key.as_str(), Some(*id)));
        let page = inner.store.list_uploads(view.id(), "", from, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.key.clone(), last.id));
        for upload in page.iter().filter(|upload| aborting(&upload.key, upload.started_ms)) {
            match inner.store.abort_upload(view.id(), &upload.key, upload.id).await {
                Ok(()) | Err(Error::NoUpload { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use s3s::dto::{AbortIncompleteMultipartUpload, LifecycleExpiration, LifecycleRuleAndOperator};

    use super::*;

    fn rule(filter: LifecycleRuleFilter) -> LifecycleRule {
        LifecycleRule {
            status: ExpirationStatus::from_static(ExpirationStatus::ENABLED),
            filter: Some(filter),
            expiration: Some(LifecycleExpiration { days: Some(1), ..Default::default() }),
            abort_incomplete_multipart_upload: None,
            id: None,
            noncurrent_version_expiration: None,
            noncurrent_version_transitions: None,
            prefix: None,
            transitions: None,
        }
    }

    #[test]
    fn all_prefixes_of_a_rule_hold() {
        let and =
            LifecycleRuleAndOperator { prefix: Some("a/b/".to_owned()), ..Default::default() };
        let filter = LifecycleRuleFilter {
            prefix: Some("a/".to_owned()),
            and: Some(and),
            ..LifecycleRuleFilter::default()
        };
        let rule = LifecycleRule { prefix: Some("a/b/c".to_owned()), ..rule(filter) };
        let applies = |key| applies(&rule, &Subject { key, size: 1, tags: &[] });
        assert!(applies("a/b/c/d"));
        assert!(!applies("a/x"), "the prefix of the filter alone");
        assert!(!applies("a/b/x"), "both prefixes of the filter");
    }

    #[test]
    fn uploads_do_not_end_by_what_they_do_not_have() {
        let abort = Some(AbortIncompleteMultipartUpload { days_after_initiation: Some(1) });
        let sized = LifecycleRuleFilter {
            object_size_less_than: Some(9),
            ..LifecycleRuleFilter::default()
        };
        let mut rule = rule(sized);
        assert!(check_rule(&rule).is_ok());
        rule.abort_incomplete_multipart_upload = abort;
        assert_eq!(check_rule(&rule).unwrap_err().code().as_str(), "InvalidRequest");
        rule.filter =
            Some(LifecycleRuleFilter { prefix: Some("a".to_owned()), ..Default::default() });
        assert!(check_rule(&rule).is_ok());
        rule.filter = Some(LifecycleRuleFilter {
            prefix: Some("a".to_owned()),
            object_size_less_than: Some(9),
            ..Default::default()
        });
        assert_eq!(check_rule(&rule).unwrap_err().code().as_str(), "MalformedXML");
    }
}
