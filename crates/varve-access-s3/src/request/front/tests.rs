//! Goal: requests are answered as Amazon answers them, in head and document. Method: they go to the front over a store
//! in memory, most of them sent by the administrator.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use ring::hmac;
use varve_object::MemoryStore;

use super::*;
use crate::body::seal::MasterKey;
use crate::bucket::administration::NewBucket;
use crate::gateway::{Gateway, Options};
use crate::identity::principal::VerifiedPrincipal;
use crate::identity::users::NewKey;
use crate::request::query::encode;

/// A gateway with an object `key` in the bucket `bucket`.
pub(crate) struct World {
    pub(crate) gateway: Gateway,
    front: Front,
    /// The administrator's.
    pub(crate) key: NewKey,
}

impl World {
    pub(crate) async fn new() -> Self {
        let domains = vec!["s3.example".to_owned()];
        Self::with(Options { domains, ..Options::default() }).await
    }

    async fn with(options: Options) -> Self {
        let (store, is_read_only) = (Arc::new(MemoryStore::default()), options.is_read_only);
        let opened = Gateway::open(store, MasterKey::of([7; 32]), options).await.unwrap();
        let gateway = opened.gateway;
        let named = NewBucket { name: "bucket".to_owned(), ..NewBucket::default() };
        gateway.create_bucket(named).await.unwrap();
        let front = Front::new(Arc::clone(&gateway.inner));
        let world = Self { gateway, front, key: opened.first_key.unwrap() };
        if !is_read_only {
            assert_eq!(world.ask("PUT", "/bucket/key", &[], "content").await.0, 200);
        }
        world
    }

    /// Status, headers and text of the answer.
    pub(crate) async fn respond(&self, request: Request<Body>) -> (u16, HeaderMap, String) {
        let response = self.front.answer(request, &Rate::new(0), Arc::default()).await;
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), head.headers, String::from_utf8_lossy(&body).into_owned())
    }

    /// The same of a request that the administrator has signed.
    async fn respond_to_owner(&self, mut request: Request<Body>) -> (u16, HeaderMap, String) {
        let user = self.gateway.inner.users.user("owner");
        request
            .extensions_mut()
            .insert(VerifiedPrincipal(Principal { user, ..Principal::default() }));
        self.respond(request).await
    }

    /// The same, with a body of this length.
    pub(crate) async fn answer(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) -> (u16, HeaderMap, String) {
        let mut request =
            Request::builder().method(method).uri(uri).header("content-length", body.len());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Body::from(Bytes::from_static(body.as_bytes()));
        self.respond_to_owner(request.body(body).unwrap()).await
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) -> (u16, String) {
        let (status, _, text) = self.answer(method, uri, headers, body).await;
        (status, text)
    }

    /// The request is refused with this status and code.
    async fn refuses_with(
        &self,
        (method, uri): (&str, &str),
        headers: &[(&str, &str)],
        (status, code): (u16, &str),
    ) {
        let (found, text) = self.ask(method, uri, headers, "").await;
        let what = format!("{method} {uri} {headers:?}: {text}");
        assert_eq!(found, status, "{what}");
        assert!(text.contains(&format!("<Code>{code}</Code>")), "{what}");
    }

    /// The URL of a request with signature version 2, which ends at a time in seconds since 1970.
    fn signed_v2(&self, method: &str, target: &str, expires: u64) -> String {
        let key =
            hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, self.key.secret_key.as_bytes());
        let text = format!("{method}\n\n\n{expires}\n{target}");
        let signature = BASE64_STANDARD.encode(hmac::sign(&key, text.as_bytes()));
        let (sign, key) = (if target.contains('?') { '&' } else { '?' }, &self.key.access_key);
        let signature = encode(&signature).replace('/', "%2F");
        format!("{target}{sign}AWSAccessKeyId={key}&Expires={expires}&Signature={signature}")
    }
}

/// A request whose body ends in an error after some bytes, as that of a client that goes away.
fn cut(method: &str, uri: &str) -> Request<Body> {
    let gone = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let pieces = [Ok(Frame::data(Bytes::from_static(b"<Tagging>"))), Err(gone)];
    let body = Body::http_body_unsync(StreamBody::new(stream::iter(pieces)));
    let request = Request::builder().method(method).uri(uri).header(CONTENT_LENGTH, 1000);
    request.body(body).unwrap()
}

/// A request that the protocol library is asked about twice (`repair`) is one that may do no more than others.
#[tokio::test]
async fn for_reading_only_changes_are_refused_in_words() {
    let world = World::with(Options { is_read_only: true, ..Options::default() }).await;
    for (method, uri) in [("PUT", "/b/k"), ("DELETE", "/b/k"), ("POST", "/b?delete")] {
        let (status, text) = world.ask(method, uri, &[], "").await;
        assert_eq!(status, 403, "{method} {uri}: {text}");
        assert!(text.contains("open for reading only"), "{method} {uri}: {text}");
    }
    let (status, text) = world.ask("GET", "/bucket/none", &[], "").await;
    assert!(status == 404 && text.contains("NoSuch"), "{status} {text}");
}

#[tokio::test]
async fn headers_without_sense_open_no_bucket() {
    let world = World::new().await;
    for (method, name, value) in [
        (Method::GET, "range", "bytes=0-1"),
        (Method::GET, "range", "bytes=,"),
        (Method::HEAD, "if-match", "a_b"),
        (Method::DELETE, "if-match", "a_b"),
    ] {
        let request = Request::builder().method(method).uri("/bucket/key").header(name, value);
        let (status, _, _) = world.respond(request.body(Body::empty()).unwrap()).await;
        assert_eq!(status, 403, "{name}: {value}");
    }
}

#[tokio::test]
async fn a_body_that_is_cut_short_is_the_clients_fault_and_does_nothing() {
    let world = World::new().await;
    for (method, uri) in [
        ("PUT", "/bucket/new"),
        ("PUT", "/bucket/key?tagging"),
        ("PUT", "/bucket?lifecycle"),
        ("POST", "/bucket?delete"),
        ("POST", "/bucket/key?uploadId=0123456789abcdef"),
    ] {
        let (status, _, text) = world.respond_to_owner(cut(method, uri)).await;
        assert_eq!(status, 400, "{method} {uri}: {text}");
        assert!(text.contains("<Code>IncompleteBody</Code>"), "{method} {uri}: {text}");
    }
    world.refuses_with(("GET", "/bucket/new"), &[], (404, "NoSuchKey")).await;
}

#[tokio::test]
async fn documents_have_a_bound() {
    let world = World::new().await;
    for (method, uri) in [("PUT", "/bucket/key?tagging"), ("POST", "/bucket?delete")] {
        let request = |name: HeaderName, value: &str, pieces: usize| {
            let piece = || Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![b' '; 1 << 20])));
            let pieces: Vec<_> = (0..pieces).map(|_| piece()).collect();
            let body = Body::http_body_unsync(StreamBody::new(stream::iter(pieces)));
            Request::builder().method(method).uri(uri).header(name, value).body(body).unwrap()
        };
        let said = (XML_BYTES_MAX + 1).to_string();
        for request in [request(CONTENT_LENGTH, &said, 0), request(TRANSFER_ENCODING, "chunked", 5)]
        {
            let (status, _, text) = world.respond_to_owner(request).await;
            assert_eq!(status, 400, "{method} {uri}: {text}");
            assert!(
                text.contains("<Code>MaxMessageLengthExceeded</Code>"),
                "{method} {uri}: {text}"
            );
        }
        let longest = request(CONTENT_LENGTH, &XML_BYTES_MAX.to_string(), 4);
        let reserved = reservation(&longest, BodyContent::Document).unwrap();
        assert_eq!(reserved, XML_BYTES_MAX as u64 * DOCUMENT_COPIES + HEAD_OF_BODY_BYTES);
        let (_, _, text) = world.respond_to_owner(longest).await;
        assert!(text.contains("<Code>MalformedXML</Code>"), "{method} {uri}: {text}");
    }
}

#[tokio::test]
async fn urls_of_signature_version_2_are_taken_where_the_operator_says_so() {
    let on = World::with(Options { signature_v2: true, ..Options::default() }).await;
    let get = async |world: &World, uri: &str| {
        world.respond(Request::get(uri).body(Body::empty()).unwrap()).await
    };
    let expires = now_ms() / 1000 + 600;
    let url = on.signed_v2("GET", "/bucket/key", expires);
    assert_eq!(get(&on, &url).await.2, "content");
    let named = on.signed_v2("GET", "/bucket/key?response-content-type=plain", expires);
    assert_eq!(get(&on, &named).await.1["content-type"], "plain");
    for (url, code) in [
        (format!("{url}&response-content-type=plain"), "SignatureDoesNotMatch"),
        (format!("{url}&prefix=a"), "AccessDenied"),
        (url.replace("/bucket/key", "/bucket/other"), "SignatureDoesNotMatch"),
        (on.signed_v2("PUT", "/bucket/key", expires), "SignatureDoesNotMatch"),
        (on.signed_v2("GET", "/bucket/key", 1), "AccessDenied"),
    ] {
        let (status, _, text) = get(&on, &url).await;
        assert_eq!(status, 403, "{url}: {text}");
        assert!(text.contains(&format!("<Code>{code}</Code>")), "{url}: {text}");
    }
    let off = World::new().await;
    let (status, _, text) = get(&off, &off.signed_v2("GET", "/bucket/key", expires)).await;
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("<Code>InvalidRequest</Code>"), "{text}");
    assert!(text.contains("s3.signature_v2"), "it says how: {text}");
}

#[tokio::test]
async fn tokens_and_ids_that_mean_nothing_are_refused() {
    let world = World::new().await;
    let key = ("GET", "/bucket/key");
    let token = "x-amz-security-token";
    world.refuses_with(key, &[(token, "t")], (400, "InvalidToken")).await;
    let asked = ("GET", "/bucket/key?X-Amz-Security-Token=t");
    world.refuses_with(asked, &[], (400, "InvalidToken")).await;
    assert_eq!(world.ask("GET", "/bucket/key", &[(token, "")], "").await.0, 200);
    for (id, status, code) in [
        ("%2a", 400, "InvalidArgument"),
        ("a/b", 400, "InvalidArgument"),
        ("0123456789abcdef", 404, "NoSuchVersion"),
        ("of-another-store.1", 404, "NoSuchVersion"),
    ] {
        let uri = format!("/bucket/key?versionId={id}");
        world.refuses_with(("GET", uri.as_str()), &[], (status, code)).await;
    }
    assert_eq!(world.ask("GET", "/bucket/key?versionId=null", &[], "").await.1, "content");
}

#[tokio::test]
async fn metadata_that_comes_twice_is_one_text() {
    let world = World::new().await;
    let twice = [("x-amz-meta-a", "1"), ("x-amz-meta-b", "3"), ("x-amz-meta-a", "2")];
    assert_eq!(world.ask("PUT", "/bucket/key", &twice, "content").await.0, 200);
    let (_, headers, _) = world.answer("HEAD", "/bucket/key", &[], "").await;
    assert_eq!(headers["x-amz-meta-a"], "1,2");
    assert_eq!(headers["x-amz-meta-b"], "3");
}

#[tokio::test]
async fn a_range_behind_the_end_tells_the_size() {
    let world = World::new().await;
    for method in ["GET", "HEAD"] {
        let range = [("range", "bytes=100-200")];
        let (status, headers, text) = world.answer(method, "/bucket/key", &range, "").await;
        assert_eq!(status, 416, "{method}: {text}");
        assert_eq!(headers["content-range"], "bytes */7", "{method}");
        let document =
            "<RangeRequested>bytes=100-200</RangeRequested><ActualObjectSize>7</ActualObjectSize>";
        assert_eq!(text.contains("<Code>InvalidRange</Code>"), method == "GET", "{text}");
        assert_eq!(text.contains(document), method == "GET", "{text}");
    }
    let (status, headers, text) =
        world.answer("GET", "/bucket/key", &[("range", "bytes=5-200")], "").await;
    assert_eq!((status, text.as_str()), (206, "nt"));
    assert_eq!(headers["content-range"], "bytes 5-6/7");
}

#[tokio::test]
async fn the_least_size_of_transitions_is_kept_for_the_client() {
    const RULES: &str = "<LifecycleConfiguration><Rule><ID>a</ID><Status>Enabled</Status><Filter/><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>";
    const NAME: &str = "x-amz-transition-default-minimum-object-size";
    let world = World::new().await;
    for (asked, wanted) in [
        (Some("varies_by_storage_class"), "varies_by_storage_class"),
        (None, "all_storage_classes_128K"),
        (Some("all_storage_classes_128K"), "all_storage_classes_128K"),
    ] {
        let headers: Vec<_> = asked.map(|asked| (NAME, asked)).into_iter().collect();
        let (status, headers, text) =
            world.answer("PUT", "/bucket?lifecycle", &headers, RULES).await;
        assert_eq!(status, 200, "{asked:?}: {text}");
        assert_eq!(headers[NAME], wanted);
        let (_, headers, text) = world.answer("GET", "/bucket?lifecycle", &[], "").await;
        assert_eq!(headers[NAME], wanted);
        assert!(text.contains("<ID>a</ID>") && !text.contains("<!--"), "{text}");
    }
    let (status, text) = world.ask("PUT", "/bucket?lifecycle", &[(NAME, "other")], RULES).await;
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("<Code>InvalidArgument</Code>"), "{text}");
}

#[tokio::test]
async fn directory_buckets_are_not_created_as_others() {
    let world = World::new().await;
    for document in [
        "<CreateBucketConfiguration><Bucket><DataRedundancy>SingleAvailabilityZone</DataRedundancy><Type>Directory</Type></Bucket></CreateBucketConfiguration>",
        "<CreateBucketConfiguration><Location><Name>zone</Name><Type>AvailabilityZone</Type></Location></CreateBucketConfiguration>",
    ] {
        let (status, text) = world.ask("PUT", "/other", &[], document).await;
        assert_eq!(status, 501, "{document}: {text}");
        assert!(text.contains("<Code>NotImplemented</Code>"), "{text}");
        assert_eq!(world.ask("HEAD", "/other", &[], "").await.0, 404);
    }
    let document = "<CreateBucketConfiguration><LocationConstraint>us-east-1</LocationConstraint></CreateBucketConfiguration>";
    assert_eq!(world.ask("PUT", "/other", &[], document).await.0, 200);
}

#[tokio::test]
async fn listings_are_of_the_version_that_was_asked_for() {
    let world = World::new().await;
    for (asked, is_first) in
        [("", true), ("list-type=", true), ("list-type=1", true), ("list-type=2", false)]
    {
        let (status, text) = world.ask("GET", &format!("/bucket?{asked}"), &[], "").await;
        assert_eq!(status, 200, "{asked}: {text}");
        assert_eq!(text.contains("<Marker>"), is_first, "{asked}: {text}");
        assert_eq!(text.contains("<KeyCount>"), !is_first, "{asked}: {text}");
    }
    for asked in ["/bucket?list-type=3", "/bucket?list-type=02", "/bucket?list-type=two"] {
        world.refuses_with(("GET", asked), &[], (400, "InvalidArgument")).await;
    }
}

#[tokio::test]
async fn parts_are_counted_from_0_on() {
    let world = World::new().await;
    let (_, text) = world.ask("POST", "/bucket/parts?uploads", &[], "").await;
    let (_, id) = text.split_once("<UploadId>").unwrap();
    let parts = format!("/bucket/parts?uploadId={}", id.split('<').next().unwrap());
    let (status, text) = world.ask("PUT", &format!("{parts}&partNumber=1"), &[], "part").await;
    assert_eq!(status, 200, "{text}");
    for (marker, count) in [(0, 1), (1, 0), (70_000, 0)] {
        let asked = format!("{parts}&part-number-marker={marker}");
        let (status, text) = world.ask("GET", &asked, &[], "").await;
        assert_eq!(status, 200, "{marker}: {text}");
        assert_eq!(text.matches("<Part>").count(), count, "{marker}: {text}");
        assert!(text.contains(&format!("<PartNumberMarker>{marker}</PartNumberMarker>")), "{text}");
    }
    let attributes = ("GET", "/bucket/key?attributes");
    let asked = ("x-amz-object-attributes", "ObjectParts");
    for name in ["max-parts", "part-number-marker"] {
        let uri = format!("{parts}&{name}=-1");
        world.refuses_with(("GET", uri.as_str()), &[], (400, "InvalidArgument")).await;
        let header = format!("x-amz-{name}");
        let negative = [asked, (header.as_str(), "-1")];
        world.refuses_with(attributes, &negative, (400, "InvalidArgument")).await;
        let (status, text) =
            world.ask("GET", attributes.1, &[asked, (header.as_str(), "0")], "").await;
        assert_eq!(status, 200, "{name}: {text}");
    }
}

#[tokio::test]
async fn keys_with_carriage_returns_are_listed_as_they_are() {
    const KEYS: &str = "<Delete><Object><Key>a&#13;b/&#13;&#10;&#9;c</Key></Object></Delete>";
    let world = World::new().await;
    assert_eq!(world.ask("PUT", "/bucket/a%0Db/%0D%0A%09c", &[], "content").await.0, 200);
    for (query, wanted) in [
        ("", "<Key>a&#13;b/&#13;\n\tc</Key>"),
        ("list-type=2&start-after=a%0d", "<StartAfter>a&#13;</StartAfter>"),
        ("versions", "<Key>a&#13;b/&#13;\n\tc</Key>"),
        ("list-type=2&delimiter=/", "<Prefix>a&#13;b/</Prefix>"),
        ("list-type=2&encoding-type=url", "<Key>a%0Db/%0D%0A%09c</Key>"),
    ] {
        let (status, text) = world.ask("GET", &format!("/bucket?{query}"), &[], "").await;
        assert_eq!(status, 200, "{query}: {text}");
        assert!(text.contains(wanted) && !text.contains('\r'), "{query}: {text:?}");
    }
    let (status, text) = world.ask("POST", "/bucket?delete", &[], KEYS).await;
    assert_eq!(status, 200, "{text}");
    assert!(
        text.contains("<Deleted>") && text.contains("<Key>a&#13;b/&#13;\n\tc</Key>"),
        "{text:?}"
    );
    world.refuses_with(("GET", "/bucket/a%0Db/%0D%0A%09c"), &[], (404, "NoSuchKey")).await;
    // Objects are what they are.
    let xml = ("content-type", "application/xml");
    assert_eq!(world.ask("PUT", "/bucket/xml", &[xml], "<a>\r</a>").await.0, 200);
    assert_eq!(world.ask("GET", "/bucket/xml", &[], "").await.1, "<a>\r</a>");
}
