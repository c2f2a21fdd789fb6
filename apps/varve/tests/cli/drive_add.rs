//! Goal: `varve drive add` reaches the API, and says where a pool cannot have another drive. Method: a memory backend
//! behind the real API, whose pool has no redundancy that could change.

use varve_access_admin::MemoryBackend;

use crate::rig::Api;

#[test]
fn a_pool_without_redundancy_gets_no_drive() {
    let said = Api::start().varve(&["drive", "add", "/srv/x=1GiB"]).refused(1);
    assert!(said.contains("no redundancy over drives") && said.contains("migrate"), "{said}");
}

#[test]
fn a_drive_needs_a_size_that_is_possible() {
    let api = Api::over(MemoryBackend::with_failed_drive());
    let said = api.varve(&["drive", "add", "/srv/x=1MiB"]).refused(2);
    assert!(said.contains("128 MiB"), "{said}");
}
