//! The API's OpenAPI 3.1 document, from the table of endpoints and the types' own schemas.
//!
//! `docs/api/admin-v1.json` is the same document; a test compares the two.

use serde_json::{Map, Value, json};
use utoipa::{PartialSchema, ToSchema};
use varve_types::ErrorKind;

use crate::http::status_and_name;
use crate::v1::types::{
    ChangeVolume, CreateVolume, Drive, ErrorBody, ListenerStatus, MemoryStatus, Pool, ServiceState,
    ShardState, ShardStatus, Space, Status, Volume, VolumePage, VolumeSpace,
};

/// One method of one path.
pub struct Endpoint {
    /// Lower-case HTTP method.
    pub method: &'static str,
    /// Path; `{name}` stands for a volume's name.
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
#[must_use]
pub fn endpoints() -> &'static [Endpoint] {
    &ENDPOINTS
}

const ENDPOINTS: [Endpoint; 10] = [
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
        method: "get",
        path: "/v1/space",
        operation: "getSpace",
        summary: "What is stored, by volume and in sum; walks the maps of all volumes.",
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
        summary: "Makes a volume; durable when answered.",
        request: Some("CreateVolume"),
        success: (201, Some("Volume")),
        errors: &[ErrorKind::Invalid, ErrorKind::Exists, ErrorKind::NoSpace],
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
        method: "patch",
        path: "/v1/volumes/{name}",
        operation: "changeVolume",
        summary: "Changes size and reduction of a volume, also while clients have it open.",
        request: Some("ChangeVolume"),
        success: (200, Some("Volume")),
        errors: &[ErrorKind::Invalid, ErrorKind::NotFound],
    },
    Endpoint {
        method: "delete",
        path: "/v1/volumes/{name}",
        operation: "deleteVolume",
        summary: "Deletes a volume and what it holds; refused while a client has it open.",
        request: None,
        success: (204, None),
        errors: &[ErrorKind::NotFound, ErrorKind::Conflict],
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
    if endpoint.path.contains("{name}") {
        value["parameters"] = json!([{
            "name": "name", "in": "path", "required": true,
            "description": "Name of the volume.", "schema": { "type": "string" },
        }]);
    }
    if endpoint.operation == "listVolumes" {
        value["parameters"] = json!([
            {
                "name": "after", "in": "query", "description": "Leaves out names up to this one.",
                "schema": { "type": "string" },
            },
            {
                "name": "limit", "in": "query", "description": "Most volumes in the page.",
                "schema": { "type": "integer", "minimum": 1, "maximum": 10000, "default": 1000 },
            },
        ]);
    }
    value
}

fn responses(endpoint: &Endpoint) -> Value {
    let mut responses = Map::new();
    let (status, answer) = endpoint.success;
    let mut success = json!({ "description": "Done." });
    if let Some(answer) = answer {
        success["content"] = content(answer);
    }
    responses.insert(status.to_string(), success);
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

fn content(schema: &str) -> Value {
    json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{schema}") } } })
}

fn schemas() -> Value {
    let mut all = Map::new();
    add::<ChangeVolume>(&mut all);
    add::<CreateVolume>(&mut all);
    add::<Drive>(&mut all);
    add::<ErrorBody>(&mut all);
    add::<ListenerStatus>(&mut all);
    add::<MemoryStatus>(&mut all);
    add::<Pool>(&mut all);
    add::<ServiceState>(&mut all);
    add::<ShardState>(&mut all);
    add::<ShardStatus>(&mut all);
    add::<Space>(&mut all);
    add::<Status>(&mut all);
    add::<Volume>(&mut all);
    add::<VolumePage>(&mut all);
    add::<VolumeSpace>(&mut all);
    Value::Object(all)
}

fn add<T: ToSchema + PartialSchema>(all: &mut Map<String, Value>) {
    let schema = serde_json::to_value(T::schema()).expect("a derived schema is plain JSON");
    all.insert(T::name().into_owned(), schema);
}
