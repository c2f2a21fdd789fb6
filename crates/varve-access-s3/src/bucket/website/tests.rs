//! Goal: a bucket with a website's configuration is served as one, and shows no more than a visitor may read. Method:
//! requests to the front over a store in memory, whose bucket lets everybody read what does not begin with `private/`.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use varve_object::{Document, MemoryStore};

use super::*;
use crate::body::seal::MasterKey;
use crate::bucket::administration::NewBucket;
use crate::gateway::{Gateway, Options};
use crate::request::front::{Front, Rate};

const POLICY: &str = r#"{"Statement": [
    {"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": "arn:aws:s3:::site/*"},
    {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/private/*"}]}"#;

const SITE: &str = "<WebsiteConfiguration><ErrorDocument><Key>error.html</Key></ErrorDocument><IndexDocument><Suffix>index.html</Suffix></IndexDocument>\
    <RoutingRules>\
    <RoutingRule><Condition><KeyPrefixEquals>old/</KeyPrefixEquals></Condition><Redirect><ReplaceKeyPrefixWith>new/</ReplaceKeyPrefixWith></Redirect></RoutingRule>\
    <RoutingRule><Condition><KeyPrefixEquals>gone/</KeyPrefixEquals><HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals></Condition>\
    <Redirect><HostName>archive.example</HostName><HttpRedirectCode>307</HttpRedirectCode><Protocol>https</Protocol><ReplaceKeyWith>all.html</ReplaceKeyWith></Redirect></RoutingRule>\
    </RoutingRules></WebsiteConfiguration>";

struct World {
    gateway: Gateway,
    front: Front,
}

impl World {
    async fn new(site: Option<&'static str>) -> Self {
        let options =
            Options { website_domain: Some("web.example".to_owned()), ..Options::default() };
        let store = Arc::new(MemoryStore::default());
        let opened = Gateway::open(store, MasterKey::of([7; 32]), options).await;
        let gateway = opened.unwrap().gateway;
        let named = NewBucket { name: "site".to_owned(), ..NewBucket::default() };
        gateway.create_bucket(named).await.unwrap();
        let front = Front::new(Arc::clone(&gateway.inner));
        let world = Self { gateway, front };
        world.set(Document::Policy, POLICY).await;
        if let Some(site) = site {
            world.set(Document::Website, site).await;
        }
        world
    }

    async fn set(&self, kind: Document, text: &'static str) {
        let edit = move |settings: &mut varve_object::Settings| {
            settings.documents.insert(kind, Bytes::from_static(text.as_bytes()));
            Ok(())
        };
        self.gateway.inner.edit("site", edit).await.unwrap();
    }

    async fn put(&self, key: &str, text: &'static str, redirect: Option<&str>) {
        let mut request = Request::put(format!("/site/{key}")).header("content-length", text.len());
        if let Some(redirect) = redirect {
            request = request.header(REDIRECT, redirect);
        }
        let request = request.body(Body::from(Bytes::from_static(text.as_bytes()))).unwrap();
        let response = self.front.answer(request, &Rate::new(0), Arc::default()).await;
        assert_eq!(response.status(), StatusCode::OK, "{key}");
    }

    /// Status, place and text of an answer to a visitor.
    async fn visit(&self, method: Method, path: &str, host: &str) -> (u16, String, String) {
        let request = Request::builder().method(method).uri(path).header(HOST, host);
        // What a visitor sends of himself counts for nothing. WEBSITE-1.
        let request = request.header("authorization", "AWS4-HMAC-SHA256 Credential=nobody");
        let request = request.body(Body::empty()).unwrap();
        let response = self.front.answer(request, &Rate::new(0), Arc::default()).await;
        let place =
            response.headers().get(LOCATION).map(|place| place.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, place.unwrap_or_default(), String::from_utf8(body.to_vec()).unwrap())
    }

    async fn get(&self, path: &str) -> (u16, String, String) {
        self.visit(Method::GET, path, "site.web.example:9000").await
    }
}

#[tokio::test]
async fn pages_redirects_and_errors_are_served() {
    let world = World::new(Some(SITE)).await;
    for (key, text) in [
        ("index.html", "home"),
        ("docs/index.html", "docs"),
        ("a%20b", "plain"),
        ("private/x", "secret"),
    ] {
        world.put(key, text, None).await;
    }
    world.put("moved", "", Some("/docs/")).await;
    let page = |text: &str| (200, String::new(), text.to_owned());
    let moved = |status, to: &str| (status, to.to_owned(), String::new());
    let here = "http://site.web.example:9000";
    for (path, wanted) in [
        ("/", page("home")),
        ("/index.html", page("home")),
        ("/docs/", page("docs")),
        ("/a%20b?versionId=null&acl", page("plain")),
        ("/docs", moved(302, &format!("{here}/docs/"))),
        ("/moved", moved(301, "/docs/")),
        ("/old/a%20b", moved(301, &format!("{here}/new/a%20b"))),
        ("/gone/x", moved(307, "https://archive.example/all.html")),
    ] {
        assert_eq!(world.get(path).await, wanted, "{path}");
    }
    for (path, code, text) in [("/private/x", 403, "AccessDenied"), ("/none", 404, "NoSuchKey")] {
        let (status, _, page) = world.get(path).await;
        assert_eq!(status, code, "{path}");
        assert!(page.contains(&format!("<li>Code: {text}</li>")), "{page}");
    }
    world.put("error.html", "sorry", None).await;
    for (path, code) in [("/private/x", 403), ("/none", 404)] {
        assert_eq!(world.get(path).await, (code, String::new(), "sorry".to_owned()), "{path}");
    }
    assert_eq!(world.visit(Method::HEAD, "/", "Site.Web.Example").await, page(""));
    assert_eq!(world.visit(Method::PUT, "/x", "site.web.example").await.0, 405);
}

#[tokio::test]
async fn all_may_lead_elsewhere() {
    let site = "<WebsiteConfiguration><RedirectAllRequestsTo><HostName>new.example</HostName><Protocol>https</Protocol></RedirectAllRequestsTo></WebsiteConfiguration>";
    let world = World::new(Some(site)).await;
    let (status, place, _) = world.get("/a/b").await;
    assert_eq!((status, place.as_str()), (301, "https://new.example/a/b"));
}

#[tokio::test]
async fn what_is_no_website_is_not_served() {
    let world = World::new(None).await;
    world.put("index.html", "home", None).await;
    let (status, _, text) = world.get("/").await;
    assert_eq!(status, 404);
    assert!(text.contains("<li>Code: NoSuchWebsiteConfiguration</li>"), "{text}");
    let (status, _, text) = world.visit(Method::GET, "/", "other.web.example").await;
    assert_eq!(status, 404);
    assert!(text.contains("<li>Code: NoSuchBucket</li>"), "{text}");
}

#[test]
fn hosts_name_buckets_before_the_domain() {
    let domain = "web.example";
    assert_eq!(bucket_of("site.web.example", domain), Some("site"));
    assert_eq!(bucket_of("a.site.web.example:80", domain), Some("a.site"));
    for host in [
        "web.example",
        ".web.example",
        "site.web.example.org",
        "siteweb.example",
        "",
        "site.web.example:@other.example",
    ] {
        assert_eq!(bucket_of(host, domain), None, "{host}");
    }
}
