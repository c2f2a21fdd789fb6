//! Compressions as JSON strings, in the words of the command line: `off`, `lz4`, `zstd:3`.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use varve_types::Compression;

fn parse<E: Error>(text: &str) -> Result<Compression, E> {
    text.parse().map_err(E::custom)
}

/// One that is always there.
pub(super) mod text {
    use serde::Serializer;

    use super::{Compression, Deserialize, Deserializer, parse};

    pub(in crate::v1) fn serialize<S: Serializer>(
        compression: &Compression,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(compression)
    }

    pub(in crate::v1) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Compression, D::Error> {
        parse(&String::deserialize(deserializer)?)
    }
}

/// One that may be left out, or `null`.
pub(super) mod wish {
    use serde::{Serialize, Serializer};

    use super::{Compression, Deserialize, Deserializer, parse};

    pub(in crate::v1) fn serialize<S: Serializer>(
        compression: &Option<Compression>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        compression.map(|compression| compression.to_string()).serialize(serializer)
    }

    pub(in crate::v1) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Compression>, D::Error> {
        Option::<String>::deserialize(deserializer)?.as_deref().map(parse).transpose()
    }
}
