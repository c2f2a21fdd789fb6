//! Goal: `varve pool attach` names only a pool that is there. Method: as of `pool_create`.

use crate::rig::{varve, varve_in};

#[test]
fn a_cluster_that_cannot_be_reached_attaches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let rados = ["--rados", "/nonexistent/ceph.conf", "--data-pool", "d", "--meta-pool", "m"];
    let id = ["--pool", "12121212-1212-1212-1212-121212121212"];
    for more in [&[][..], &id] {
        let command = [&["pool", "attach", "--data", "p"], &rados[..], more].concat();
        let said = varve_in(dir.path(), &command).refused(1);
        assert!(said.contains("librados") || said.contains("/nonexistent/ceph.conf"), "{said}");
        assert!(!dir.path().join("p/rados.json").exists());
    }
    let command = [&["pool", "attach", "--pool", "12"], &rados[..]].concat();
    let said = varve_in(dir.path(), &command).refused(2);
    assert!(said.contains("`12` is not the identity of a pool"), "{said}");
}

#[test]
fn a_pool_on_drives_is_found_by_serve() {
    for more in [&["/dev/sdb"][..], &["--drive", "/dev/sdb"][..], &[][..]] {
        let said = varve(&[&["pool", "attach"], more].concat()).refused(2);
        assert!(said.contains("`varve serve --drive …` finds the pool"), "{said}");
        assert!(said.contains("try: `varve serve --data NEW --drive"), "{said}");
    }
    let said = varve(&["pool", "attach", "--data-pool", "d"]).refused(2);
    assert!(said.contains("--meta-pool"), "{said}");
}
