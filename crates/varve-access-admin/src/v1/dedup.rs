//! Deduplication settings in JSON: `"auto"`, `true` (on) and `false` (off). The words `"on"` and `"off"` are read too.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;
use varve_types::Dedup;

/// Whether blocks written from now on are deduplicated: always (`true`), never (`false`), or where it pays (`"auto"`).
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a dedup setting is auto, true or false")]
pub(super) enum DedupSetting {
    /// Always or never.
    Switch(bool),
    /// `auto`; `on` and `off` are read too.
    Word(String),
}

impl From<Dedup> for DedupSetting {
    fn from(dedup: Dedup) -> Self {
        match dedup {
            Dedup::On => Self::Switch(true),
            Dedup::Off => Self::Switch(false),
            Dedup::Auto => Self::Word(dedup.word().to_owned()),
        }
    }
}

impl DedupSetting {
    fn parse<E: Error>(&self) -> Result<Dedup, E> {
        match self {
            Self::Word(word) => word.parse().map_err(E::custom),
            Self::Switch(true) => Ok(Dedup::On),
            Self::Switch(false) => Ok(Dedup::Off),
        }
    }
}

/// One that is always there.
pub(super) mod setting {
    use super::{Dedup, DedupSetting, Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(in crate::v1) fn serialize<S: Serializer>(
        dedup: &Dedup,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        DedupSetting::from(*dedup).serialize(serializer)
    }

    pub(in crate::v1) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Dedup, D::Error> {
        DedupSetting::deserialize(deserializer)?.parse()
    }
}

/// One that may be left out, or `null`.
pub(super) mod wish {
    use super::{Dedup, DedupSetting, Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(in crate::v1) fn serialize<S: Serializer>(
        dedup: &Option<Dedup>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        dedup.map(DedupSetting::from).serialize(serializer)
    }

    pub(in crate::v1) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Dedup>, D::Error> {
        let setting = Option::<DedupSetting>::deserialize(deserializer)?;
        setting.as_ref().map(DedupSetting::parse).transpose()
    }
}
