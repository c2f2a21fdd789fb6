//! Clients of volumes: what travels in requests and answers about them. Fields are only ever added.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A connection that has a volume, or a snapshot of it, open.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct VolumeClient {
    /// Number of the connection, which no other one of this daemon has.
    pub id: u64,
    /// Who is at its other end: an address, or a process of this machine.
    pub address: String,
    /// The volume or snapshot that it has open.
    pub export: String,
    /// Whether it can only read.
    pub read_only: bool,
    /// When it was opened, in milliseconds since 1970.
    pub connected_unix_ms: u64,
    /// Its requests that have arrived and are not answered.
    pub requests: u64,
}

/// The clients of a volume, in the order in which they came.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct VolumeClients {
    /// The connections.
    pub clients: Vec<VolumeClient>,
}

/// Which clients of a volume are disconnected.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DisconnectClients {
    /// The one with this number; all without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<u64>,
}

/// What was disconnected.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct DisconnectedClients {
    /// How many connections.
    pub clients: u64,
}
