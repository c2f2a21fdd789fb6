//! What travels in requests and answers about how a pool keeps data over its drives. Fields are only ever added.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a pool is to keep data.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePool {
    /// `none`, `mirror:N` or `ec:K+M`: new data are kept so, and what is stored is converted to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protect: Option<String>,
    /// Classes of the drives that new data may lie on, as `ssd,nvme`, or `any`: what lies on others is moved. Without
    /// it they stay what they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_class: Option<String>,
    /// Classes of the drives that copies of journals are to be on, as `nvme`, or `any`: while enough of these are
    /// there, they are. Without it they stay what they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_class: Option<String>,
    /// Goes back to how most of what is not converted yet is kept, in place of `protect`.
    #[serde(default)]
    pub cancel: bool,
    /// Changes nothing, and says what would follow.
    #[serde(default)]
    pub dry_run: bool,
}

/// What follows from another way to keep data.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct PoolChange {
    /// How new data are kept from now on, or would be.
    pub protect: String,
    /// How they were before.
    pub protect_before: String,
    /// Classes of the drives that new data lie on from now on, or would; `any` for all.
    #[serde(default)]
    pub data_class: String,
    /// Classes of the drives that copies of journals are to be on; `any` for all.
    #[serde(default)]
    pub journal_class: String,
    /// How many lost drives data survive once all are converted.
    pub survives: u8,
    /// What the pool holds then, in bytes.
    pub usable_bytes: u64,
    /// What it holds as data were kept before, in bytes.
    pub usable_before_bytes: u64,
    /// Space on all drives together, in bytes.
    pub raw_bytes: u64,
    /// Zones that hold data, or did: these have places on drives.
    pub zones: u64,
    /// Zones that are to be converted.
    pub unconverted: u64,
    /// Whether that was only said, and nothing changed.
    pub dry_run: bool,
}
