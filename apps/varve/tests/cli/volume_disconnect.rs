//! Goal: `varve volume disconnect` ends connections, after which the volume can be deleted. Method: a memory backend
//! behind the real API.

use crate::rig::Api;

#[test]
fn a_volume_without_clients_can_be_deleted() {
    let api = Api::start();
    api.varve(&["volume", "delete", "busy"]).refused(1);
    let said = api.varve(&["volume", "disconnect", "busy"]).ok();
    assert_eq!(said, "disconnected 1 client of volume busy\n");
    assert_eq!(api.varve(&["volume", "clients", "busy"]).ok(), "no NBD clients\n");
    api.varve(&["volume", "delete", "busy"]).ok();
}

#[test]
fn one_of_several_clients_goes_by_its_number() {
    let api = Api::start();
    let said = api.varve(&["volume", "disconnect", "busy", "--client", "7"]).refused(1);
    assert!(said.contains("volume `busy` has no client 7"), "{said}");
    let said = api.varve(&["volume", "disconnect", "busy", "--client", "1"]).ok();
    assert_eq!(said, "disconnected 1 client of volume busy\n");
}
