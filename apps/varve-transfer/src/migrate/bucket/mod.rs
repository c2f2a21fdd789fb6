//! Buckets as what is moved: their versions as they are stored, by the admin API.
//!
//! ```text
//!  source   noting begins ──▶ all keys are compared ──▶ keys that changed, … ──▶ leaving …
//!  target                     what differs is sent      again and again
//!
//!  source   … leaving ──▶ the last keys, settings ──▶ left
//!  target                                         ──▶ arrived
//! ```
//!
//! MIGRATE-BUCKET-1. What the target lacks is told by comparing versions: key, order, time, and everything that is
//!     stored beside the body, its entity tag too. A body does not change while that stays.
//! MIGRATE-BUCKET-2. The source notes a key before who changed it gets an answer, and tells it once the change can be
//!     seen. So what was acknowledged before the fence is seen when the keys are looked at that it tells behind it.
//! MIGRATE-BUCKET-3. Versions of a key arrive from the oldest on, each newer than what is there: from the first one
//!     that differs, all are removed and sent anew.
//! MIGRATE-BUCKET-4. A body goes from the one daemon to the other with the checksum that the first one computed, and
//!     the second one stores it if it has that.

mod batch;
mod calls;
mod carry;
mod listing;
mod rounds;

use varve_access_admin::v1::{Bucket, VolumeMove};
use varve_client::{Progress, Result};
use varve_types::ByteCount;

use self::rounds::Rounds;
use super::kind::{DaemonView, Item, MigrationKind, Words};
use super::sending::Sender;
use super::side::{MigrationRun, MigrationSide};

/// Buckets.
pub(super) struct Buckets {
    /// Uploads in parts that are under way are lost.
    pub(super) drop_uploads: bool,
}

const WORDS: Words = Words {
    noun: "bucket",
    refused: "changes",
    not_same: "the number of another bucket",
    related: "that is what the source's is",
    names: "`varve bucket list` shows the names in use",
    delete_kept: "delete that first, by `DELETE /v1/buckets/NAME` of the admin API with its `moves` as `expects`",
    another_there: "empty the source's and delete it; run the command again then, and the target's is what it is",
    another_here: "delete one of the two: a bucket keeps its name. If the source's refuses changes, --cancel gives it back",
    in_the_way: "another command changes it",
    only_there: "`DELETE /v1/buckets/NAME` of the admin API, with its `moves` as `expects`, deletes what the source has",
};

fn seen(bucket: Bucket) -> DaemonView {
    DaemonView { name: bucket.name, moves: bucket.moves, notes: Vec::new() }
}

impl MigrationKind for Buckets {
    fn words(&self) -> &'static Words {
        &WORDS
    }

    fn all(&self, side: &MigrationSide) -> Result<Vec<DaemonView>> {
        Ok(side.buckets()?.into_iter().map(seen).collect())
    }

    fn look(&self, side: &MigrationSide, name: &str) -> Result<Option<DaemonView>> {
        Ok(side.bucket(name)?.map(seen))
    }

    fn step(
        &self,
        side: &MigrationSide,
        name: &str,
        before: Option<&VolumeMove>,
        after: Option<VolumeMove>,
    ) -> Result<()> {
        side.step_bucket(name, before, after)
    }

    fn delete(&self, side: &MigrationSide, name: &str, expects: &VolumeMove) -> Result<bool> {
        side.delete_bucket(name, expects)
    }

    fn last(&self, source: &MigrationSide, name: &str) -> Result<Option<String>> {
        Ok(source.bucket(name)?.map(|bucket| bucket.id.to_string()))
    }

    /// A bucket that went over was made at the same moment.
    fn is_related(&self, run: &MigrationRun, name: &str) -> Result<bool> {
        let there = run.source.bucket(name)?.map(|bucket| bucket.created_unix_ms);
        let here = run.target.bucket(name)?.map(|bucket| bucket.created_unix_ms);
        Ok(there.is_some() && there == here)
    }

    fn goes_on_behind_fences(&self) -> bool {
        false // What changed since another run looked was told to nobody, so all keys are to be compared.
    }

    fn sender<'a>(&self, item: Item<'a>, watch: &'a Progress) -> Box<dyn Sender + 'a> {
        Box::new(Rounds::new(item, watch, self.drop_uploads))
    }

    fn traces(&self, _: &MigrationSide, _: &str) -> Result<Option<String>> {
        Ok(None)
    }

    fn remove_traces(&self, _: &MigrationSide, _: &str, _: Option<&VolumeMove>) -> Result<()> {
        Ok(())
    }

    fn amount(&self, item: Item<'_>) -> Result<String> {
        let Some(bucket) = item.run.source.bucket(item.name)? else { return Ok(String::new()) };
        let uploads = match item.run.source.settings(item.name)?.uploads {
            0 => String::new(),
            some => format!(", and {some} uploads in parts, which are not moved"),
        };
        if bucket.usage_unknown {
            return Ok(format!("an unknown number of objects, as a shard is damaged{uploads}"));
        }
        let bytes = ByteCount(bucket.object_bytes);
        Ok(format!("{bytes} in {} objects{uploads}", bucket.objects))
    }

    fn kept(&self, item: Item<'_>) -> Result<String> {
        Ok(format!(
            "`DELETE /v1/buckets/{}` of the admin API, with the `moves` that it shows as `expects`, deletes it",
            item.name
        ))
    }

    fn without_target(&self, name: &str) -> String {
        format!(
            "`POST /v1/buckets/{name}/move` of the source's admin API, with `before` as it says it, gives it back"
        )
    }
}
