//! What the admin API and the gateway say to each other of buckets on their way between two pools.

use hyper::body::Bytes;
use varve_access_admin::v1::{
    self, Base64, BucketSettings, MoveBucket, PartWanted, ReceivedChange, StoredKey, StoredUser,
    StoredVersion, UsersAndKeys,
};
use varve_access_s3::{
    self as s3, ArrivingChange, BucketId, BucketInfo, Error, Gateway, Move, MoveState, MoveStep,
    ReceivedBody, StoredPart, StoredSettings, StoredUsers, Version,
};

use crate::moves::wanted_move;

/// Takes the step that is asked for: from arriving on to nowhere is where clients use it.
pub(super) async fn step(
    gateway: &Gateway,
    name: &str,
    step: MoveBucket,
) -> s3::Result<BucketInfo> {
    let MoveBucket { before, after, number, from_number } = step;
    let (before, after) = (before.map(wanted_move), after.map(wanted_move));
    let bucket = number.map(BucketId);
    let arrives = |after: &Move| after.state == MoveState::Arrived;
    match (before, after, from_number) {
        (Some(before), None, Some(from)) if before.state == MoveState::Arriving => {
            gateway.arrive(name, before, bucket, from).await
        }
        (_, _, Some(_)) => {
            let what = "`from_number` is needed where a bucket that arrives is taken into use";
            Err(Error::Invalid { what: what.to_owned() })
        }
        (_, Some(after), None) if arrives(&after) => {
            let what = "a bucket that arrives is taken into use with `from_number`, and no `after`";
            Err(Error::Invalid { what: what.to_owned() })
        }
        (before, after, None) => {
            gateway.move_bucket(name, MoveStep { before, after, bucket }).await
        }
    }
}

pub(super) fn arriving_of(name: String, arriving: v1::ArrivingBucket) -> s3::ArrivingBucket {
    let v1::ArrivingBucket { moves, record, private_copy } = arriving;
    let moves = wanted_move(moves);
    s3::ArrivingBucket { name, moves, record: record.0.into(), private_copy }
}

pub(super) fn settings_of(settings: StoredSettings) -> BucketSettings {
    let StoredSettings { number, private_copy, record, uploads } = settings;
    BucketSettings { number, private_copy, record: Base64(record.into()), uploads }
}

pub(super) fn stored_version(key: String, version: Version) -> StoredVersion {
    let Version { order, null, marker, size, modified_ms, attributes } = version;
    let attributes = Base64(attributes.into());
    StoredVersion { key, order, null, marker, size, modified_ms, attributes }
}

pub(super) fn part_of(part: PartWanted) -> StoredPart {
    let PartWanted { key, order, offset, bytes } = part;
    StoredPart { key, order, offset, bytes }
}

/// Changes with their bodies, which are those of the versions that come with theirs, in order.
pub(super) fn changes_of(changes: Vec<ReceivedChange>, bodies: Vec<Bytes>) -> Vec<ArrivingChange> {
    let mut bodies = bodies.into_iter();
    let change = |change| match change {
        ReceivedChange::Remove(v1::VersionName { key, order }) => {
            ArrivingChange::Remove { key, order }
        }
        ReceivedChange::Put(v1::ReceivedVersion { version, body }) => {
            let StoredVersion { key, order, null, marker, size, modified_ms, attributes } = version;
            let attributes = attributes.0.into();
            let version = Version { order, null, marker, size, modified_ms, attributes };
            let body = match body {
                None => ReceivedBody::Bytes(Bytes::new()),
                Some(v1::ReceivedBody::Inline { .. }) => {
                    ReceivedBody::Bytes(bodies.next().expect("the API counts them"))
                }
                Some(v1::ReceivedBody::Staged { id }) => ReceivedBody::Staged(id),
            };
            ArrivingChange::Put { key, version, body }
        }
    };
    changes.into_iter().map(change).collect()
}

pub(super) fn users_of(key_check: String, page: StoredUsers) -> UsersAndKeys {
    let StoredUsers { users, keys, next } = page;
    let user = |(name, record): (String, Bytes)| StoredUser { name, record: Base64(record.into()) };
    let key = |(access_key, record): (String, Bytes)| StoredKey {
        access_key,
        record: Base64(record.into()),
    };
    let (users, keys) = (users.into_iter().map(user), keys.into_iter().map(key));
    UsersAndKeys { key_check, users: users.collect(), keys: keys.collect(), next }
}

/// What the other pool says of its key, and its users.
pub(super) fn stored_users(all: UsersAndKeys) -> (String, StoredUsers) {
    let UsersAndKeys { key_check, users, keys, .. } = all;
    let users = users.into_iter().map(|user| (user.name, user.record.0.into()));
    let keys = keys.into_iter().map(|key| (key.access_key, key.record.0.into()));
    (key_check, StoredUsers { users: users.collect(), keys: keys.collect(), next: None })
}
