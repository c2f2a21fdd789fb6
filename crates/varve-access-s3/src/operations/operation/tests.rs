//! Goal: nothing is done that was not asked for. Method: every operation of the S3 API's current model, and parameters,
//! headers and conditions that operations do not have, go to the front over a store in memory, sent by the
//! administrator.

use super::*;
use crate::request::front::tests::World;

const MODEL: &str = include_str!("model.txt");

/// Operations of the model that are not served, by the end of their names behind the method's word.
const NOT_SERVED: [&str; 26] = [
    "AbacOf",
    "Accelerate",
    "Analytics",
    "Annotation",
    "Annotations",
    "Analytics",
    "IntelligentTiering",
    "Inventory",
    "Metrics",
    "MetadataConfiguration",
    "MetadataTable",
    "MetadataAnnotationTable",
    "MetadataInventoryTable",
    "MetadataJournalTable",
    "Session",
    "Abac",
    "Logging",
    "Notification",
    "Replication",
    "Torrent",
    "Rename",
    "Restore",
    "Select",
    "WriteGetObject",
    "ObjectEncryption",
    "PutBucketRequestPayment",
];

impl World {
    /// Everything that a request could change.
    async fn state(&self) -> String {
        let view = self.gateway.inner.view("bucket").await.unwrap();
        let mut state = format!("{:?}", view.settings);
        for uri in [
            "/bucket?versions",
            "/bucket?uploads",
            "/bucket/key",
            "/bucket/key?tagging",
            "/bucket/key?acl",
        ] {
            let (status, text) = self.ask("GET", uri, &[], "").await;
            // All but the number of the request.
            state.push_str(&format!(
                "{uri} {status} {}\n",
                text.split("<RequestId>").next().unwrap()
            ));
        }
        state
    }

    /// The request is refused as not implemented, and nothing has changed.
    async fn refuses(&self, method: &str, uri: &str, headers: &[(&str, &str)]) {
        let before = self.state().await;
        let (status, text) = self.ask(method, uri, headers, "").await;
        let what = format!("{method} {uri} {headers:?}: {status} {text}");
        // The service itself has no POST at all.
        let (wanted, code) = match (method, uri) {
            ("POST", "/") => (405, "MethodNotAllowed"),
            _ => (501, "NotImplemented"),
        };
        assert_eq!(status, wanted, "{what}");
        assert!(method == "HEAD" || text.contains(&format!("<Code>{code}</Code>")), "{what}");
        assert_eq!(self.state().await, before, "{what}");
    }
}

#[tokio::test]
async fn operations_of_the_model_are_served_or_refused() {
    let mut refused = 0;
    for line in MODEL.lines().filter(|line| !line.starts_with('#')) {
        let world = World::new().await;
        let fields: Vec<&str> = line.split(' ').collect();
        let [name, method, place, query, headers] = fields[..] else { panic!("{line}") };
        let path = match place {
            "root" => "/",
            "bucket" => "/bucket",
            _ => "/bucket/key",
        };
        let uri = if query == "-" { path.to_owned() } else { format!("{path}?{query}") };
        let headers = headers.split(',').filter(|header| *header != "-");
        let headers: Vec<_> = headers.map(|header| (header, "bucket/other")).collect();
        let reads_setting = method == "GET"
            && SERVED.iter().any(|operation| {
                operation.1 == Bucket && query.split('&').next() == Some(operation.2)
            });
        if NOT_SERVED.iter().any(|part| name.contains(part)) && !reads_setting {
            world.refuses(method, &uri, &headers).await;
            refused += 1;
        } else {
            let (status, text) = world.ask(method, &uri, &headers, "").await;
            assert_ne!(status, 501, "{name}: {text}");
        }
    }
    assert!(refused > 30, "{refused}");
}

#[tokio::test]
async fn what_an_operation_does_not_have_is_refused() {
    let world = World::new().await;
    for (method, uri) in [
        ("DELETE", "/bucket/key?annotation&annotationName=n"),
        ("DELETE", "/bucket/key?other"),
        ("DELETE", "/bucket/key?%61nnotation"),
        ("DELETE", "/bucket/key?acl"),
        ("DELETE", "/bucket/key?uploads"),
        ("DELETE", "/bucket?other=1"),
        ("DELETE", "/bucket?versionId=1"),
        ("PUT", "/bucket/key?append"),
        ("PUT", "/bucket/key?versionId=1"),
        ("PUT", "/bucket/key?renameObject"),
        ("GET", "/bucket/key?annotation"),
        ("HEAD", "/bucket/key?annotation"),
        ("GET", "/bucket?abac"),
        ("GET", "/?other"),
        ("POST", "/bucket/key?restore"),
    ] {
        world.refuses(method, uri, &[]).await;
    }
    world.refuses("DELETE", "/key?annotation", &[("host", "bucket.s3.example:9000")]).await;
    for (method, header) in [
        ("PUT", "x-amz-rename-source"),
        ("PUT", "x-amz-write-offset-bytes"),
        ("PUT", "x-amz-object-annotation-directive"),
        ("PUT", "x-amz-object-lock-event-hold"),
        ("PUT", "x-amz-checksum-new"),
        ("PUT", "x-amz-if-match-size"),
        ("PUT", "if-unmodified-since"),
        ("DELETE", "if-none-match"),
        ("DELETE", "if-unmodified-since"),
        ("DELETE", "x-minio-force-delete"),
    ] {
        world.refuses(method, "/bucket/key", &[(header, "1")]).await;
    }
    for uri in ["/bucket/key?uploadId=1&partNumber=1", "/bucket/key?tagging", "/bucket/key?acl"] {
        world.refuses("PUT", uri, &[("if-none-match", "*")]).await;
        let copy = [("if-match", "*"), ("x-amz-copy-source", "bucket/key")];
        world.refuses("PUT", uri, &copy).await;
    }
    world.refuses("POST", "/bucket/key?uploads", &[("if-none-match", "*")]).await;
    world.refuses("DELETE", "/bucket", &[("if-match", "*")]).await;
}

#[tokio::test]
async fn what_means_nothing_is_no_obstacle() {
    let world = World::new().await;
    for uri in [
        "/bucket/key?x-id=GetObject",
        "/bucket/key?x-user=ann&response-content-type=a%2Fb",
        "/bucket?list-type=2&prefix=k&fetch-owner=true&x-id=ListObjectsV2",
        "/bucket?",
        "/bucket/key?X-Amz-Security-Tok=1",
    ] {
        let (status, text) = world.ask("GET", uri, &[("x-amz-new", "1")], "").await;
        assert_eq!(status, 200, "{uri}: {text}");
    }
    for uri in ["/bucket/key?versionId=null&versionId=null", "/bucket?prefix=a&prefix=b"] {
        assert_eq!(world.ask("GET", uri, &[], "").await.0, 400, "{uri}");
    }
    let (status, _) = world.ask("GET", "/bucket/key?acl&tagging", &[], "").await;
    assert_eq!(status, 400, "two operations at once");
}

#[tokio::test]
async fn a_copy_obeys_conditions_on_what_it_replaces() {
    let world = World::new().await;
    assert_eq!(world.ask("PUT", "/bucket/source", &[], "source").await.0, 200);
    let (_, headers, _) = world.answer("HEAD", "/bucket/key", &[], "").await;
    let etag = headers["etag"].to_str().unwrap();
    let from = ("x-amz-copy-source", "bucket/source");
    for (key, condition, wanted) in [
        ("key", ("if-none-match", "*"), 412),
        ("key", ("if-none-match", etag), 412),
        ("key", ("if-match", "\"00000000000000000000000000000000\""), 412),
        ("none", ("if-match", "*"), 404),
        ("none", ("if-match", etag), 404),
    ] {
        let (status, text) =
            world.ask("PUT", &format!("/bucket/{key}"), &[from, condition], "").await;
        assert_eq!(status, wanted, "{key} {condition:?}: {text}");
        assert_eq!(world.ask("GET", "/bucket/key", &[], "").await.1, "content");
    }
    for (key, condition) in [("new", ("if-none-match", "*")), ("key", ("if-match", etag))] {
        let (status, text) =
            world.ask("PUT", &format!("/bucket/{key}"), &[from, condition], "").await;
        assert_eq!(status, 200, "{key} {condition:?}: {text}");
        assert_eq!(world.ask("GET", &format!("/bucket/{key}"), &[], "").await.1, "source");
    }
}

#[tokio::test]
async fn headers_in_the_query_count_as_headers() {
    let world = World::new().await;
    let query = "x-amz-meta-who=me%20too&x-amz-tagging=a%3Db&x-amz-acl=public-read&x-amz-storage-class=STANDARD_IA&x-amz-checksum-crc32=5uMxIw%3D%3D";
    let (status, text) = world.ask("PUT", &format!("/bucket/new?{query}"), &[], "content").await;
    assert_eq!(status, 400, "another checksum: {text}");
    assert!(text.contains("<Code>BadDigest</Code>"), "{text}");
    let query = query
        .replace("5uMxIw%3D%3D", "CMjY0g%3D%3D")
        .replace("&x-amz-checksum-crc32=CMjY0g%3D%3D", "");
    let (status, text) = world.ask("PUT", &format!("/bucket/new?{query}"), &[], "content").await;
    assert_eq!(status, 200, "{text}");
    let (_, headers, _) = world.answer("HEAD", "/bucket/new", &[], "").await;
    assert_eq!(headers["x-amz-meta-who"], "me too");
    assert_eq!(headers["x-amz-storage-class"], "STANDARD_IA");
    let (_, tags) = world.ask("GET", "/bucket/new?tagging", &[], "").await;
    assert!(tags.contains("<Key>a</Key><Value>b</Value>"), "{tags}");
    let (_, acl) = world.ask("GET", "/bucket/new?acl", &[], "").await;
    assert!(acl.contains("AllUsers"), "{acl}");
    // A copy by a presigned URL.
    let (status, _) =
        world.ask("PUT", "/bucket/copy?x-amz-copy-source=bucket%2Fnew", &[], "").await;
    assert_eq!(status, 200);
    assert_eq!(world.ask("GET", "/bucket/copy", &[], "").await.1, "content");
    // What is unknown is as unknown as in a header, and both must agree.
    world.refuses("PUT", "/bucket/key?x-amz-rename-source=a", &[]).await;
    let (status, _) = world
        .ask("PUT", "/bucket/key?x-amz-acl=private", &[("x-amz-acl", "public-read")], "x")
        .await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn a_host_names_a_bucket() {
    let world = World::new().await;
    let host = ("host", "bucket.s3.example:9000");
    assert_eq!(world.ask("GET", "/key", &[host], "").await, (200, "content".to_owned()));
    assert_eq!(world.ask("PUT", "/dir/new", &[host], "new").await.0, 200);
    assert_eq!(world.ask("GET", "/bucket/dir/new", &[("host", "s3.example")], "").await.1, "new");
    let (status, listed) = world.ask("GET", "/?list-type=2", &[host], "").await;
    assert!(status == 200 && listed.contains("<Key>dir/new</Key>"), "{listed}");
    let (status, _) = world.ask("GET", "/", &[("host", "none.s3.example")], "").await;
    assert_eq!(status, 404);
    let (status, all) = world.ask("GET", "/", &[("host", "s3.example")], "").await;
    assert!(status == 200 && all.contains("<ListAllMyBucketsResult"), "{all}");
}
