//! Goal: `varve drive moves` says where nothing can be moved. Method: a memory backend behind the real API, whose pool
//! has no redundancy.

use varve_access_admin::MemoryBackend;

use crate::rig::Api;

#[test]
fn a_pool_without_redundancy_moves_nothing() {
    let said = Api::start().varve(&["drive", "moves"]).refused(1);
    assert!(said.contains("no redundancy over drives") && said.contains("migrate"), "{said}");
}

#[test]
fn programs_see_all_fields() {
    let json = Api::over(MemoryBackend::with_failed_drive()).varve(&["drive", "moves", "--json"]);
    assert_eq!(json.json()["zones"], 0);
}
