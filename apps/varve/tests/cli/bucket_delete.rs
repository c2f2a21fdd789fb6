//! Goal: `varve bucket delete` deletes what is empty. Method: a memory backend behind the real API.

use crate::rig::Api;

#[test]
fn an_empty_bucket_is_deleted_and_a_full_one_stays() {
    let api = Api::start();
    api.varve(&["bucket", "create", "photos"]).ok();
    api.varve(&["bucket", "create", "full"]).ok();
    assert_eq!(api.varve(&["bucket", "delete", "photos"]).ok(), "deleted bucket photos\n");
    assert!(api.varve(&["bucket", "delete", "photos"]).refused(1).contains("no bucket `photos`"));
    assert!(
        api.varve(&["bucket", "delete", "full"]).refused(1).contains("bucket `full` is not empty")
    );
    assert!(api.varve(&["bucket", "list"]).ok().contains("full"));
    api.varve(&["bucket", "create", "logs"]).ok();
    let json = api.varve(&["bucket", "delete", "logs", "--json"]).json();
    assert_eq!(json, serde_json::json!({ "deleted": ["logs"] }));
}
