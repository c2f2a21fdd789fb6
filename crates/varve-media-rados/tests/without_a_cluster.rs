//! Goal: where librados, its configuration or the cluster is missing, a connection fails with words that help; nothing
//! panics.

use varve_media_rados::{Cluster, ClusterOptions};
use varve_types::ErrorKind;

#[test]
fn a_missing_library_or_configuration_is_told() {
    let options = ClusterOptions {
        config: "/nonexistent/ceph.conf".to_owned(),
        user: "client.varve".to_owned(),
    };
    let error = Cluster::connect(&options).err().expect("there is no cluster");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let text = error.to_string();
    assert!(text.contains("librados") || text.contains("/nonexistent/ceph.conf"), "{text}");
}
