//! Goal: the command that `varve pool rados-caps` prints gives what a pool needs, and can be pasted into a shell.

use crate::rig::varve;

#[test]
fn rights_are_for_the_two_pools_only() {
    let text = varve(&[
        "pool",
        "rados-caps",
        "--data-pool",
        "d",
        "--meta-pool",
        "m.x",
        "--user",
        "client.v",
    ]);
    assert_eq!(
        text.ok(),
        "ceph auth get-or-create client.v mon 'allow r' osd 'allow rw pool=d, allow rw pool=m.x'\n"
    );
}

#[test]
fn what_a_shell_would_read_otherwise_is_refused() {
    for name in ["", "a b", "x'; rm -rf /; '", "$HOME", "a,allow"] {
        let run = varve(&["pool", "rados-caps", "--data-pool", name, "--meta-pool", "m"]);
        let said = run.refused(2);
        assert!(said.contains("quoted"), "{said}");
    }
}
