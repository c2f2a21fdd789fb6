//! `varve bucket list`: every bucket, by name, and what it holds.

use clap::Args;
use serde_json::json;
use varve_access_admin::percent_encoded;
use varve_access_admin::v1::{self, BucketPage};
use varve_client::table::{self, Align};
use varve_client::{Client, Result, age};
use varve_types::ByteCount;

use crate::cli::{self, Format};

/// List buckets, with their objects and sizes
#[derive(Args, Debug)]
pub(crate) struct BucketList {
    #[command(flatten)]
    format: Format,
}

impl BucketList {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let (mut buckets, mut incomplete) = (Vec::new(), None);
        let mut path = "/v1/buckets".to_owned();
        loop {
            let page = client.get::<BucketPage>(&path)?.value;
            buckets.extend(page.buckets);
            incomplete = incomplete.or(page.incomplete);
            match page.next {
                Some(after) => path = format!("/v1/buckets?after={}", percent_encoded(&after)),
                None => break,
            }
        }
        if self.format.json {
            let mut list = json!({ "buckets": buckets });
            if let Some(reason) = incomplete {
                list["incomplete"] = reason.into();
            }
            return Ok(format!("{list:#}\n"));
        }
        if buckets.is_empty() && incomplete.is_none() {
            return Ok("no buckets; create one with `varve bucket create NAME`\n".to_owned());
        }
        let rows: Vec<Vec<String>> = buckets.iter().map(row).collect();
        let header = [
            ("NAME", Align::Left),
            ("OWNER", Align::Left),
            ("OBJECTS", Align::Right),
            ("SIZE", Align::Right),
            ("QUOTA", Align::Right),
            ("DEDUP", Align::Left),
            ("COMPRESSION", Align::Left),
            ("CREATED", Align::Right),
        ];
        Ok(table::columns(&header, &rows) + &cli::incomplete(incomplete.as_deref()))
    }
}

fn row(bucket: &v1::Bucket) -> Vec<String> {
    let counted = |count: String| if bucket.usage_unknown { "?".to_owned() } else { count };
    vec![
        bucket.name.clone(),
        bucket.owner.clone(),
        counted(bucket.objects.to_string()),
        counted(ByteCount(bucket.object_bytes).to_string()),
        cli::shown_quota(bucket.quota_bytes),
        bucket.dedup.to_string(),
        bucket.compression.to_string(),
        age::since(bucket.created_unix_ms),
    ]
}
