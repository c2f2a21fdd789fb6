//! Goal: the published description is the API. Method: it equals `docs/api/admin-v1.json` (VARVE_UPDATE_SNAPSHOTS=1
//! writes the file), every endpoint in it exists, and every answer has exactly the fields that it names.

use std::path::Path;

use crate::moves;
use crate::peer::Server;
use serde_json::{Value, json};
use varve_access_admin::{LimitsConfig, MemoryBackend, v1};

#[test]
fn the_document_is_the_published_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api/admin-v1.json");
    let now = format!("{:#}\n", v1::document());
    if std::env::var_os("VARVE_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == now,
        "{} is not what the API serves; VARVE_UPDATE_SNAPSHOTS=1 writes it",
        path.display()
    );
}

/// Where the bucket `coming` is.
fn arriving() -> Value {
    moves("arriving", 1)
}

/// The answer of each endpoint that has one, by its operation.
async fn answers(server: &Server) -> Vec<(&'static v1::Endpoint, u16, Value)> {
    let mut answers = Vec::new();
    for endpoint in v1::endpoints() {
        let name = match endpoint.operation {
            "beginReceive" | "endReceive" => "vm3",
            _ if endpoint.path.starts_with("/v1/snapshots") => "vm1@monday",
            _ if endpoint.path.starts_with("/v1/drives") => "1",
            _ if endpoint.path.starts_with("/v1/users") => "ann",
            _ if endpoint.path.starts_with("/v1/keys") => "ANNS",
            _ if endpoint.path.starts_with("/v1/buckets") => "photos",
            _ => "vm1",
        };
        let name = match endpoint.operation {
            "replaceBucketSettings" | "stageBody" | "receiveVersions" => "coming",
            _ => name,
        };
        let path = endpoint.path.replace("{name}", name);
        let identity = "000102030405060708090a0b0c0d0e0f";
        let body = match endpoint.operation {
            "addDrive" | "replaceDrive" => Some(json!({"path": "/srv/x", "size_bytes": 4096})),
            "changePool" => Some(json!({"protect": "ec:2+1"})),
            "changeDrive" => Some(json!({"class": "ssd"})),
            "growDrive" => Some(json!({"size_bytes": 8192})),
            "locateDrive" => Some(json!({"on": true})),
            "startScrub" => Some(json!({"deep": true})),
            "createSnapshots" => Some(json!({"names": ["vm1@monday"]})),
            "changeSnapshot" => Some(json!({"protected": false})),
            "cloneVolume" => Some(json!({"source": "vm1@monday", "name": "vm4"})),
            "rollBack" => Some(json!({"snapshot": "monday"})),
            "beginReceive" => {
                Some(json!({"identity": identity, "size_bytes": 4096, "block_size_bytes": 4096}))
            }
            "moveVolume" => Some(json!({"after": moves("leaving", 1)})),
            "endReceive" => Some(json!({"identity": identity, "snapshot": "tuesday"})),
            "createVolume" => Some(json!({"name": "vm2", "size_bytes": 4096})),
            "createUser" => {
                Some(json!({"name": "ann", "access_key": "ANNS", "secret_key": "secret-of-ann"}))
            }
            "changeUser" => Some(json!({"quota_bytes": 4096, "policy": "{}", "quota_buckets": 3})),
            "createKey" => Some(json!({})),
            "createBucket" => Some(json!({"name": "photos", "quota_objects": 5})),
            "changeBucket" => Some(json!({"quota_bytes": 4096})),
            "moveBucket" => Some(json!({"after": moves("leaving", 1)})),
            "replaceBucketSettings" => Some(json!({"expects": arriving(), "record": "AAEC"})),
            "readBodies" => Some(json!({"parts": []})),
            "stageBody" => Some(json!({
                "expects": arriving(), "key": "k", "total_bytes": 0, "offset": 0, "bytes": 0, "crc32c": 0,
            })),
            "receiveVersions" => Some(json!({"expects": arriving(), "changes": []})),
            "addUsersAndKeys" => Some(json!({"key_check": "", "users": [], "keys": []})),
            "disconnectVolumeClients" => Some(json!({})),
            "changeVolume" => Some(json!({"size_bytes": 1u64 << 40, "dedup": "on"})),
            _ => None,
        };
        let method = endpoint.method.to_uppercase();
        let (status, answer) = match (endpoint.request, &body) {
            (Some(request), Some(head)) if request.starts_with("octets ") => {
                server.call_bulk(&path, head, b"").await
            }
            _ => server.call(&method, &path, body).await,
        };
        answers.push((endpoint, status, answer));
    }
    answers
}

#[tokio::test]
async fn endpoints_exist_and_answer_what_they_name() {
    let backend = MemoryBackend::with_failed_drive();
    let server = Server::start(backend, LimitsConfig::default()).await;
    let spec = json!({"name": "vm1", "size_bytes": 4096});
    assert_eq!(server.call("POST", "/v1/volumes", Some(spec)).await.0, 201);
    let coming = json!({"moves": arriving(), "record": "", "private_copy": false});
    let spec = json!({"name": "coming", "arriving": coming});
    assert_eq!(server.call("POST", "/v1/buckets", Some(spec)).await.0, 201);
    let document = v1::document();
    for (endpoint, status, answer) in answers(&server).await {
        let (expected, schema) = endpoint.success;
        assert_eq!(status, expected, "{}", endpoint.operation);
        let Some(schema) = schema.filter(|schema| !schema.starts_with("octets ")) else { continue };
        let required = &document["components"]["schemas"][schema]["required"];
        for field in required.as_array().unwrap() {
            assert!(answer.get(field.as_str().unwrap()).is_some(), "{schema} lacks {field}");
        }
        let properties = &document["components"]["schemas"][schema]["properties"];
        for field in answer.as_object().unwrap().keys() {
            assert!(properties.get(field).is_some(), "{schema} does not name {field}");
        }
    }
}

#[test]
fn every_reference_leads_to_a_schema() {
    let document = v1::document();
    let text = document.to_string();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
    }
}
