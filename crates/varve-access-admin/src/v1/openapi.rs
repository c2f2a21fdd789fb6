//! The API's OpenAPI 3.1 document, from the table of endpoints and the types' own schemas.
//!
//! `docs/api/admin-v1.json` is the same document; a test compares the two.

use serde_json::{Map, Value, json};
use utoipa::{PartialSchema, ToSchema};
use varve_types::ErrorKind;

use crate::http::status_and_name;
use crate::v1::bucket_moves::{
    AddedUsersAndKeys, ArrivingBucket, BucketChanges, BucketDeletion, BucketSettings, MoveBucket,
    PartRead, PartWanted, PartsRead, ReadParts, Receive, ReceivedBody, ReceivedChange,
    ReceivedVersion, ReplaceSettings, Stage, StagedPiece, StoredKey, StoredUser, StoredVersion,
    UsersAndKeys, VersionName, VersionPage,
};
use crate::v1::checks::{CheckReport, CheckState, CheckStatus};
use crate::v1::clients::{DisconnectClients, DisconnectedClients, VolumeClient, VolumeClients};
use crate::v1::conditions::{DriveCondition, DriveLight, DriveWarning, LocateDrive};
use crate::v1::dedup::DedupSetting;
use crate::v1::drives::{Drive, DriveList, DriveState, Health, HealthReason, HealthState};
use crate::v1::encoded::Base64;
use crate::v1::moves::{
    AddDrive, ChangeDrive, DriveFaultCount, DriveGrowth, DriveMoves, GrowDrive, ScrubState,
    ScrubStatus, StartScrub, ZoneMove,
};
use crate::v1::object_endpoints;
use crate::v1::objects::{
    AccessKey, Bucket, BucketPage, BucketVersioning, ChangeBucket, ChangeUser, CreateBucket,
    CreateKey, CreateUser, NewKey, User, UserPage,
};
use crate::v1::protection::{ChangePool, PoolChange};
use crate::v1::snapshots::{
    BeginReceive, ChangeSnapshot, CloneVolume, CreateSnapshots, EndReceive, Extent, ExtentPage,
    RollBack, Snapshot, SnapshotPage,
};
use crate::v1::types::{
    BucketSpace, CellStatus, ChangeVolume, CreateVolume, ErrorBody, Fill, FillLevel, JournalStatus,
    ListenerStatus, MemoryStatus, MoveRemark, MoveState, MoveVolume, NodeStatus, Pool, Reservation,
    ServiceState, ShardState, ShardStatus, SnapshotSpace, Space, Status, Volume, VolumeFamily,
    VolumeMove, VolumePage, VolumeSpace,
};

/// One method of one path.
pub struct Endpoint {
    /// Lower-case HTTP method.
    pub method: &'static str,
    /// Path; `{name}` stands for the name of a volume, snapshot, user, access key or bucket.
    pub path: &'static str,
    /// Name of the operation, for generated clients.
    pub operation: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Type of the request body.
    pub request: Option<&'static str>,
    /// Status of success and the type of its answer.
    pub success: (u16, Option<&'static str>),
    /// Kinds of error that are the endpoint's own.
    pub errors: &'static [ErrorKind],
}

/// Every endpoint of this version.
pub fn endpoints() -> impl Iterator<Item = &'static Endpoint> {
    ENDPOINTS.iter().chain(&object_endpoints::ENDPOINTS)
}

/// Errors of all that changes drives.
const DRIVE_ERRORS: [ErrorKind; 7] = [
    ErrorKind::Exists,
    ErrorKind::Invalid,
    ErrorKind::NotFound,
    ErrorKind::Conflict,
    ErrorKind::NoSpace,
    ErrorKind::Unsupported,
    ErrorKind::Unavailable,
];

static ENDPOINTS: [Endpoint; 43] = [
    Endpoint {
        method: "get",
        path: "/v1/status",
        operation: "getStatus",
        summary: "What the daemon is doing now.",
        request: None,
        success: (200, Some("Status")),
        errors: &[],
    },
    Endpoint {
        method: "get",
        path: "/v1/pool",
        operation: "getPool",
        summary: "The pool and its drives.",
        request: None,
        success: (200, Some("Pool")),
        errors: &[],
    },
    Endpoint {
        method: "patch",
        path: "/v1/pool",
        operation: "changePool",
        summary: "Has the pool keep data in another way over its drives, and converts what is stored; with dry_run it answers 200, and says what would follow.",
        request: Some("ChangePool"),
        success: (202, Some("PoolChange")),
        errors: &DRIVE_ERRORS,
    },
    Endpoint {
        method: "get",
        path: "/v1/drives",
        operation: "listDrives",
        summary: "The pool's drives: where each is, its state, and what failed on it.",
        request: None,
        success: (200, Some("DriveList")),
        errors: &[],
    },
    Endpoint {
        method: "post",
        path: "/v1/drives",
        operation: "addDrive",
        summary: "Adds a drive to the pool, and says what is moved.",
        request: Some("AddDrive"),
        success: (202, Some("DriveMoves")),
        errors: &DRIVE_ERRORS,
    },
    Endpoint {
        method: "get",
        path: "/v1/drives/{name}",
        operation: "getDrive",
        summary: "One drive, by its number, its path or the beginning of its identity, with its condition.",
        request: None,
        success: (200, Some("Drive")),
        errors: &[ErrorKind::NotFound, ErrorKind::Invalid],
    },
    Endpoint {
        method: "post",
        path: "/v1/drives/{name}/locate",
        operation: "locateDrive",
        summary: "Lights the light at the bay of a drive, or puts it out.",
        request: Some("LocateDrive"),
        success: (200, Some("DriveLight")),
        errors: &[ErrorKind::NotFound, ErrorKind::Invalid, ErrorKind::Unsupported],
    },
    Endpoint {
        method: "patch",
        path: "/v1/drives/{name}",
        operation: "changeDrive",
        summary: "Says what a drive is, where the system says it wrongly; data and journals that are to be on drives of some classes follow.",
        request: Some("ChangeDrive"),
        success: (202, Some("DriveMoves")),
        errors: &DRIVE_ERRORS,
    },
    Endpoint {
        method: "delete",
        path: "/v1/drives/{name}",
        operation: "removeDrive",
        summary: "Has a drive go once all of it was moved elsewhere; with ?failed=true one that failed, once nothing names it.",
        request: None,
        success: (202, Some("DriveMoves")),
        errors: &DRIVE_ERRORS,
    },
    Endpoint {
        method: "post",
        path: "/v1/drives/{name}/drain",
        operation: "drainDrive",
        summary: "Has all of a drive moved elsewhere.",
        request: None,
        success: (202, Some("DriveMoves")),
        errors: &DRIVE_ERRORS,
    },
    Endpoint {
        method: "delete",
        path: "/v1/drives/{name}/drain",
        operation: "keepDrive",
        summary: "Has a drive stay that leaves: a drain, removal or replacement is cancelled, and what was moved stays where it is.",
        request: None,
        success: (202, Some("DriveMoves")),
        errors: &DRIVE_ERRORS,
    },
    Endpoint {
        method: "post",
        path: "/v1/drives/{name}/replace",
        operation: "replaceDrive",
        summary: "Adds a drive that takes the place of another one, which goes then.",
        request: Some("AddDrive"),
        success: (202, Some("DriveMoves")),
        errors: &DRIVE_ERRORS,
    },
    Endpoint {
        method: "post",
        path: "/v1/drives/{name}/grow",
        operation: "growDrive",
        summary: "Has the pool use what a drive has become larger by; nothing changes where it is as large as before.",
        request: Some("GrowDrive"),
        success: (200, Some("DriveGrowth")),
        errors: &DRIVE_ERRORS,
    },
    Endpoint {
        method: "get",
        path: "/v1/moves",
        operation: "getMoves",
        summary: "What is moved between drives: how far, how fast, and what waits.",
        request: None,
        success: (200, Some("DriveMoves")),
        errors: &[ErrorKind::Unsupported],
    },
    Endpoint {
        method: "get",
        path: "/v1/scrub",
        operation: "getScrub",
        summary: "How far the scrub is, or how the last one ended.",
        request: None,
        success: (200, Some("ScrubStatus")),
        errors: &[ErrorKind::Unsupported],
    },
    Endpoint {
        method: "post",
        path: "/v1/scrub",
        operation: "startScrub",
        summary: "Begins a scrub of all drives, or of some; one that runs ends.",
        request: Some("StartScrub"),
        success: (202, Some("ScrubStatus")),
        errors: &[ErrorKind::NotFound, ErrorKind::Unsupported],
    },
    Endpoint {
        method: "delete",
        path: "/v1/scrub",
        operation: "stopScrub",
        summary: "Ends the scrub that runs, if one does.",
        request: None,
        success: (200, Some("ScrubStatus")),
        errors: &[ErrorKind::Unsupported],
    },
    Endpoint {
        method: "get",
        path: "/v1/health",
        operation: "getHealth",
        summary: "How safe what the pool holds is, why, and what to do.",
        request: None,
        success: (200, Some("Health")),
        errors: &[],
    },
    Endpoint {
        method: "get",
        path: "/v1/space",
        operation: "getSpace",
        summary: "What is stored, by volume and in sum; walks the maps of all volumes and snapshots.",
        request: None,
        success: (200, Some("Space")),
        errors: &[ErrorKind::Corrupt, ErrorKind::Unavailable],
    },
    Endpoint {
        method: "get",
        path: "/v1/volumes",
        operation: "listVolumes",
        summary: "Volumes in the order of their names, a page at a time.",
        request: None,
        success: (200, Some("VolumePage")),
        errors: &[ErrorKind::Invalid],
    },
    Endpoint {
        method: "post",
        path: "/v1/volumes",
        operation: "createVolume",
        summary: "Creates a volume; durable when answered.",
        request: Some("CreateVolume"),
        success: (201, Some("Volume")),
        errors: &[ErrorKind::Invalid, ErrorKind::NotFound, ErrorKind::Exists, ErrorKind::NoSpace],
    },
    Endpoint {
        method: "get",
        path: "/v1/volumes/{name}",
        operation: "getVolume",
        summary: "One volume.",
        request: None,
        success: (200, Some("Volume")),
        errors: &[ErrorKind::NotFound],
    },
    Endpoint {
        method: "get",
        path: "/v1/volumes/{name}/space",
        operation: "getVolumeSpace",
        summary: "What a volume and each of its snapshots hold, and what comes back when they go; costs what getSpace does.",
        request: None,
        success: (200, Some("VolumeFamily")),
        errors: &[ErrorKind::NotFound, ErrorKind::Corrupt, ErrorKind::Unavailable],
    },
    Endpoint {
        method: "get",
        path: "/v1/volumes/{name}/clients",
        operation: "listVolumeClients",
        summary: "The connections that have a volume, or a snapshot of it, open.",
        request: None,
        success: (200, Some("VolumeClients")),
        errors: &[ErrorKind::NotFound],
    },
    Endpoint {
        method: "post",
        path: "/v1/volumes/{name}/disconnect",
        operation: "disconnectVolumeClients",
        summary: "Ends connections to a volume: requests under way are answered, and the client may connect again.",
        request: Some("DisconnectClients"),
        success: (200, Some("DisconnectedClients")),
        errors: &[ErrorKind::NotFound],
    },
    Endpoint {
        method: "patch",
        path: "/v1/volumes/{name}",
        operation: "changeVolume",
        summary: "Changes size, reduction, quota and reservation of a volume, also while clients have it open.",
        request: Some("ChangeVolume"),
        success: (200, Some("Volume")),
        errors: &[ErrorKind::Invalid, ErrorKind::NotFound],
    },
    Endpoint {
        method: "get",
        path: "/v1/snapshots",
        operation: "listSnapshots",
        summary: "Snapshots of one volume or of all, in the order of their names, a page at a time.",
        request: None,
        success: (200, Some("SnapshotPage")),
        errors: &[ErrorKind::Invalid, ErrorKind::NotFound],
    },
    Endpoint {
        method: "post",
        path: "/v1/snapshots",
        operation: "createSnapshots",
        summary: "Takes snapshots of one or several volumes at one instant, all or none; durable when answered.",
        request: Some("CreateSnapshots"),
        success: (201, Some("SnapshotPage")),
        errors: &[ErrorKind::Invalid, ErrorKind::NotFound, ErrorKind::Exists, ErrorKind::NoSpace],
    },
    Endpoint {
        method: "get",
        path: "/v1/snapshots/{name}",
        operation: "getSnapshot",
        summary: "One snapshot.",
        request: None,
        success: (200, Some("Snapshot")),
        errors: &[ErrorKind::NotFound],
    },
    Endpoint {
        method: "patch",
        path: "/v1/snapshots/{name}",
        operation: "changeSnapshot",
        summary: "Protects a snapshot from being deleted, or no longer.",
        request: Some("ChangeSnapshot"),
        success: (200, Some("Snapshot")),
        errors: &[ErrorKind::Invalid, ErrorKind::NotFound],
    },
    Endpoint {
        method: "get",
        path: "/v1/extents/{name}",
        operation: "listExtents",
        summary: "Parts of a volume or snapshot that hold data, or that may differ from an earlier snapshot, a page at a time.",
        request: None,
        success: (200, Some("ExtentPage")),
        errors: &[ErrorKind::Invalid, ErrorKind::NotFound, ErrorKind::Conflict],
    },
    Endpoint {
        method: "post",
        path: "/v1/clones",
        operation: "cloneVolume",
        summary: "Creates a volume from a snapshot or volume; it depends on neither.",
        request: Some("CloneVolume"),
        success: (201, Some("Volume")),
        errors: &[ErrorKind::Invalid, ErrorKind::NotFound, ErrorKind::Exists],
    },
    Endpoint {
        method: "post",
        path: "/v1/volumes/{name}/rollback",
        operation: "rollBack",
        summary: "Rolls a volume back to its snapshot; refused while a client has it open.",
        request: Some("RollBack"),
        success: (200, Some("Volume")),
        errors: &[ErrorKind::NotFound, ErrorKind::Conflict],
    },
    Endpoint {
        method: "delete",
        path: "/v1/snapshots/{name}",
        operation: "deleteSnapshot",
        summary: "Deletes a snapshot; refused while it is protected or a client has it open.",
        request: None,
        success: (204, None),
        errors: &[ErrorKind::NotFound, ErrorKind::Conflict],
    },
    Endpoint {
        method: "post",
        path: "/v1/volumes/{name}/receive",
        operation: "beginReceive",
        summary: "Prepares a volume to receive a snapshot, in full or as changes since one that it has and equals.",
        request: Some("BeginReceive"),
        success: (200, Some("Volume")),
        errors: &[ErrorKind::Invalid, ErrorKind::NotFound, ErrorKind::Exists, ErrorKind::Conflict],
    },
    Endpoint {
        method: "post",
        path: "/v1/volumes/{name}/received",
        operation: "endReceive",
        summary: "Creates a snapshot of what a volume has received.",
        request: Some("EndReceive"),
        success: (200, Some("Snapshot")),
        errors: &[ErrorKind::Invalid, ErrorKind::NotFound, ErrorKind::Exists, ErrorKind::Conflict],
    },
    Endpoint {
        method: "post",
        path: "/v1/volumes/{name}/move",
        operation: "moveVolume",
        summary: "Takes a volume a step further on its way to another pool, or from one, or back; durable when answered, and no write is under way to one that is leaving.",
        request: Some("MoveVolume"),
        success: (200, Some("Volume")),
        errors: &[
            ErrorKind::Invalid,
            ErrorKind::NotFound,
            ErrorKind::Conflict,
            ErrorKind::Unavailable,
        ],
    },
    Endpoint {
        method: "delete",
        path: "/v1/volumes/{name}",
        operation: "deleteVolume",
        summary: "Deletes a volume and what it holds; refused while a client has it open, and for its snapshots.",
        request: None,
        success: (204, None),
        errors: &[ErrorKind::NotFound, ErrorKind::Conflict],
    },
    Endpoint {
        method: "get",
        path: "/v1/check",
        operation: "getCheck",
        summary: "How far the check of the serving pool is, or what the last one found.",
        request: None,
        success: (200, Some("CheckStatus")),
        errors: &[],
    },
    Endpoint {
        method: "post",
        path: "/v1/check",
        operation: "startCheck",
        summary: "Begins a check of the serving pool, unless one runs: every reference is followed, and what nothing names is given back.",
        request: None,
        success: (202, Some("CheckStatus")),
        errors: &[ErrorKind::Unavailable],
    },
    Endpoint {
        method: "delete",
        path: "/v1/check",
        operation: "stopCheck",
        summary: "Ends the check that runs, if one does.",
        request: None,
        success: (200, Some("CheckStatus")),
        errors: &[],
    },
    Endpoint {
        method: "get",
        path: "/v1/openapi.json",
        operation: "getOpenApi",
        summary: "This document.",
        request: None,
        success: (200, None),
        errors: &[],
    },
    Endpoint {
        method: "get",
        path: "/metrics",
        operation: "getMetrics",
        summary: "Counters and gauges as Prometheus reads them.",
        request: None,
        success: (200, None),
        errors: &[],
    },
];

/// The whole document.
#[must_use]
pub fn document() -> Value {
    let mut paths = Map::new();
    for endpoint in endpoints() {
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        if let Value::Object(methods) = path {
            methods.insert(endpoint.method.to_owned(), operation(endpoint));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Varve admin API",
            "version": "1",
            "description": "Amounts are bytes, times are milliseconds. Every error answer is an ErrorBody.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": { "schemas": schemas() },
    })
}

fn operation(endpoint: &Endpoint) -> Value {
    let mut value = json!({
        "operationId": endpoint.operation,
        "summary": endpoint.summary,
        "responses": responses(endpoint),
    });
    if let Some(request) = endpoint.request {
        value["requestBody"] = json!({ "required": true, "content": content(request) });
    }
    let parameters = parameters(endpoint);
    if !parameters.is_empty() {
        value["parameters"] = Value::Array(parameters);
    }
    value
}

/// The name in a path, if there is one.
fn name_in(path: &str) -> Option<Value> {
    let what = match path.split('/').nth(2) {
        Some("volumes") => "Name of the volume.",
        Some("snapshots") => "Name of the snapshot, `volume@snapshot`.",
        Some("users") => "Name of the user.",
        Some("keys") => "Public half of the access key.",
        Some("buckets") => "Name of the bucket.",
        _ => "Name of the volume, or of a snapshot, `volume@snapshot`.",
    };
    path.contains("{name}").then(|| {
        json!({
            "name": "name", "in": "path", "required": true,
            "description": what, "schema": { "type": "string" },
        })
    })
}

fn parameters(endpoint: &Endpoint) -> Vec<Value> {
    let mut all: Vec<Value> = name_in(endpoint.path).into_iter().collect();
    let expected = |otherwise: &str| {
        let what = format!(
            "Where it has to be on its way between two pools, as JSON of a `VolumeMove`{otherwise}."
        );
        [query("expects", &what, text())]
    };
    match endpoint.operation {
        "listVolumes" => {
            all.push(query("after", "Leaves out names up to this one.", text()));
            all.push(limit("Most volumes in the page."));
        }
        "listUsers" => {
            all.push(query("after", "Leaves out names up to this one.", text()));
            all.push(limit("Most users in the page."));
        }
        "listBuckets" => {
            all.push(query("after", "Leaves out names up to this one.", text()));
            all.push(limit("Most buckets in the page."));
        }
        "deleteUser" => {
            let schema = json!({ "type": "boolean", "default": false });
            let what = "Deletes a user that owns buckets too; they stay, without an owner.";
            all.push(query("leave_buckets", what, schema));
        }
        "listSnapshots" => {
            all.push(query("volume", "Only snapshots of this volume.", text()));
            all.push(query("after", "Leaves out names up to this one.", text()));
            all.push(limit("Most snapshots in the page."));
        }
        "listExtents" => {
            let since = "Parts that may differ from this snapshot of the same volume.";
            all.push(query("since", since, text()));
            let identity = "Identity that the snapshot has to have; refused otherwise.";
            all.push(query("identity", identity, text()));
            let identity = "Identity that the snapshot `since` has to have; refused otherwise.";
            all.push(query("since_identity", identity, text()));
            all.extend(expected("; it is to be in use here when absent"));
            let schema = json!({ "type": "integer", "minimum": 0, "default": 0 });
            all.push(query("offset", "Leaves out what is before this byte.", schema));
            all.push(limit("Most parts in the page."));
        }
        "deleteVolume" => {
            let schema = json!({ "type": "boolean", "default": false });
            all.push(query("snapshots", "Deletes its snapshots too.", schema));
            all.extend(expected("; it does not matter when absent, unless it is `arrived`"));
        }
        "deleteBucket" => all.extend(expected(", which is `left`; absent for one that is here")),
        "deleteSnapshot" => all.extend(expected(", which should not move when absent")),
        other => all.extend(parameters_of_bucket_moves(other)),
    }
    all
}

/// Of the endpoints by which buckets move.
fn parameters_of_bucket_moves(operation: &str) -> Vec<Value> {
    let order = "Leaves out versions of `after_key`, or `key`, from the newest down to this order, and not its older ones.";
    match operation {
        "listVersions" => vec![
            query("key", "Only versions of this key.", text()),
            query("after_key", "Leaves out keys up to this one.", text()),
            query("after_order", order, json!({ "type": "integer", "minimum": 0 })),
            limit("Most versions in the page."),
        ],
        "listChanges" => {
            vec![query("since", "Token of the last answer; absent: noting begins.", text())]
        }
        "listUsersAndKeys" => {
            vec![query("after", "Where the page begins, as the last one says.", text())]
        }
        _ => Vec::new(),
    }
}

fn query(name: &str, description: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "query", "description": description, "schema": schema })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn limit(what: &str) -> Value {
    let schema = json!({ "type": "integer", "minimum": 1, "maximum": 10000, "default": 1000 });
    query("limit", what, schema)
}

fn responses(endpoint: &Endpoint) -> Value {
    let mut responses = Map::new();
    let (status, answer) = endpoint.success;
    let mut success = json!({ "description": "Done." });
    if let Some(answer) = answer {
        success["content"] = content(answer);
    }
    responses.insert(status.to_string(), success);
    if endpoint.operation == "deleteBucket" {
        let what = "Some of a bucket that left is deleted, or all.";
        let some = json!({ "description": what, "content": content("BucketDeletion") });
        responses.insert("200".to_owned(), some);
    }
    for kind in endpoint.errors {
        let (status, name) = status_and_name(*kind);
        let status = status.as_u16().to_string();
        let described = match responses.get(&status) {
            Some(earlier) => format!("{}, `{name}`", earlier["description"].as_str().unwrap_or("")),
            None => format!("`{name}`"),
        };
        responses
            .insert(status, json!({ "description": described, "content": content("ErrorBody") }));
    }
    responses.insert(
        "default".to_owned(),
        json!({ "description": "Any other error.", "content": content("ErrorBody") }),
    );
    Value::Object(responses)
}

/// Of `octets TYPE` the type is that of the head, behind which bytes follow.
fn content(schema: &str) -> Value {
    if let Some(head) = schema.strip_prefix("octets ") {
        let head = format!("#/components/schemas/{head}");
        let what = "The length of a head in 4 bytes, little-endian; the head, JSON as `contentSchema` says; and the bytes that it counts, one piece after another.";
        return json!({
            "application/octet-stream": {
                "schema": { "type": "string", "format": "binary", "description": what, "contentSchema": { "$ref": head } },
            },
        });
    }
    json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{schema}") } } })
}

fn schemas() -> Value {
    let mut all = schemas_of_bucket_moves();
    add_schemas_of_drives(&mut all);
    add::<AccessKey>(&mut all);
    add::<BeginReceive>(&mut all);
    add::<Bucket>(&mut all);
    add::<BucketPage>(&mut all);
    add::<BucketVersioning>(&mut all);
    add::<CellStatus>(&mut all);
    add::<BucketSpace>(&mut all);
    add::<ChangeBucket>(&mut all);
    add::<ChangeSnapshot>(&mut all);
    add::<ChangeUser>(&mut all);
    add::<ChangeVolume>(&mut all);
    add::<CheckReport>(&mut all);
    add::<CheckState>(&mut all);
    add::<CheckStatus>(&mut all);
    add::<CloneVolume>(&mut all);
    add::<CreateBucket>(&mut all);
    add::<CreateKey>(&mut all);
    add::<CreateSnapshots>(&mut all);
    add::<CreateUser>(&mut all);
    add::<CreateVolume>(&mut all);
    add::<DedupSetting>(&mut all);
    add::<DisconnectClients>(&mut all);
    add::<DisconnectedClients>(&mut all);
    add::<EndReceive>(&mut all);
    add::<ErrorBody>(&mut all);
    add::<Extent>(&mut all);
    add::<ExtentPage>(&mut all);
    add::<Fill>(&mut all);
    add::<FillLevel>(&mut all);
    add::<JournalStatus>(&mut all);
    add::<ListenerStatus>(&mut all);
    add::<MemoryStatus>(&mut all);
    add::<MoveState>(&mut all);
    add::<MoveVolume>(&mut all);
    add::<NewKey>(&mut all);
    add::<NodeStatus>(&mut all);
    add::<Pool>(&mut all);
    add::<ServiceState>(&mut all);
    add::<ShardState>(&mut all);
    add::<ShardStatus>(&mut all);
    add::<Reservation>(&mut all);
    add::<RollBack>(&mut all);
    add::<Snapshot>(&mut all);
    add::<SnapshotPage>(&mut all);
    add::<SnapshotSpace>(&mut all);
    add::<Space>(&mut all);
    add::<Status>(&mut all);
    add::<User>(&mut all);
    add::<UserPage>(&mut all);
    add::<Volume>(&mut all);
    add::<VolumeClient>(&mut all);
    add::<VolumeClients>(&mut all);
    add::<VolumeFamily>(&mut all);
    add::<VolumeMove>(&mut all);
    add::<MoveRemark>(&mut all);
    add::<VolumePage>(&mut all);
    add::<VolumeSpace>(&mut all);
    Value::Object(all)
}

fn add_schemas_of_drives(all: &mut Map<String, Value>) {
    add::<Drive>(all);
    add::<DriveList>(all);
    add::<DriveState>(all);
    add::<DriveCondition>(all);
    add::<DriveLight>(all);
    add::<DriveWarning>(all);
    add::<LocateDrive>(all);
    add::<AddDrive>(all);
    add::<ChangeDrive>(all);
    add::<GrowDrive>(all);
    add::<DriveGrowth>(all);
    add::<ChangePool>(all);
    add::<PoolChange>(all);
    add::<DriveFaultCount>(all);
    add::<DriveMoves>(all);
    add::<ScrubState>(all);
    add::<ScrubStatus>(all);
    add::<StartScrub>(all);
    add::<ZoneMove>(all);
    add::<Health>(all);
    add::<HealthReason>(all);
    add::<HealthState>(all);
}

fn schemas_of_bucket_moves() -> Map<String, Value> {
    let mut all = Map::new();
    add::<AddedUsersAndKeys>(&mut all);
    add::<ArrivingBucket>(&mut all);
    add::<Base64>(&mut all);
    add::<BucketChanges>(&mut all);
    add::<BucketDeletion>(&mut all);
    add::<BucketSettings>(&mut all);
    add::<MoveBucket>(&mut all);
    add::<PartRead>(&mut all);
    add::<PartWanted>(&mut all);
    add::<PartsRead>(&mut all);
    add::<ReadParts>(&mut all);
    add::<Receive>(&mut all);
    add::<ReceivedBody>(&mut all);
    add::<ReceivedChange>(&mut all);
    add::<ReceivedVersion>(&mut all);
    add::<ReplaceSettings>(&mut all);
    add::<Stage>(&mut all);
    add::<StagedPiece>(&mut all);
    add::<StoredKey>(&mut all);
    add::<StoredUser>(&mut all);
    add::<StoredVersion>(&mut all);
    add::<UsersAndKeys>(&mut all);
    add::<VersionName>(&mut all);
    add::<VersionPage>(&mut all);
    all
}

fn add<T: ToSchema + PartialSchema>(all: &mut Map<String, Value>) {
    let schema = serde_json::to_value(T::schema()).expect("a derived schema is plain JSON");
    all.insert(T::name().into_owned(), schema);
}
