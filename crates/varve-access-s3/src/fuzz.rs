//! Entries over everything that reads a client's bytes, for fuzzing: no socket, no store. Each asserts what holds for
//! any bytes, and panics where it does not.

mod head;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use http_body_util::StreamBody;
use hyper::Request;
use hyper::body::Frame;
use hyper::header::CONTENT_TYPE;
use s3s::Body;
use s3s::dto;
use s3s::xml::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use varve_object::User;

pub use head::{request_target, signed_header, signed_query};

use crate::body::refusal::BodyRefusal;
use crate::bucket::lifecycle;
use crate::bucket::view::to_xml;
use crate::compat::frames::{ChunkedHead, cut};
use crate::compat::xml;
use crate::identity::chain::Chain;
use crate::identity::policy::{self, Policy, PolicyQuestion, Verdict};
use crate::request::form::{self, FIELDS_BYTES_MAX};
use crate::request::query::tags_of_set;

/// What can be a policy, and a question: texts between zero bytes. Its verdict is that of its statements together,
/// stays when the document is written in another way, and no document is a policy of both a bucket and a user.
///
/// # Panics
/// When that does not hold.
pub fn bucket_policy(bytes: &[u8]) {
    let mut texts = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let mut next = || texts.next().unwrap_or_default().into_owned();
    let (document, user, action, resource, value) = (next(), next(), next(), next(), next());
    check_patterns(&action, &resource, &value);
    let of_user = Policy::parse_for_user(document.as_bytes());
    let of_bucket = Policy::parse_for_bucket(document.as_bytes(), "b");
    assert!(of_user.is_err() || of_bucket.is_err(), "a policy of a bucket and of a user");
    let Ok(policy) = of_bucket else { return };
    let user = (!user.is_empty()).then(|| User { id: user, ..User::default() });
    let values = |_: &str| (!value.is_empty()).then(|| value.clone());
    let question = PolicyQuestion {
        user: user.as_ref(),
        action: &action,
        resource: &resource,
        value: &values,
    };
    let verdict = policy.ask(&question);
    let members: Value = serde_json::from_str(&document).expect("it was parsed");
    let written = Policy::parse_for_bucket(members.to_string().as_bytes(), "b");
    // Written without spaces it is no longer.
    if let Ok(written) = written {
        assert_eq!(written.ask(&question), verdict, "written in another way");
        assert_eq!(written.is_public(), policy.is_public());
        if policy.check(|_| true).is_ok() {
            assert!(written.check(|_| true).is_ok());
        }
    }
    let statements = match members.get("Statement") {
        Some(Value::Array(all)) => all.clone(),
        Some(one) => vec![one.clone()],
        None => panic!("a policy without statements"),
    };
    let alone = statements.iter().map(|statement| {
        let mut document = members.clone();
        document["Statement"] = statement.clone();
        let alone = Policy::parse_for_bucket(document.to_string().as_bytes(), "b");
        alone.map_or(Verdict::Silent, |policy| policy.ask(&question))
    });
    let alone: Vec<_> = alone.collect();
    let together = match () {
        () if alone.contains(&Verdict::Deny) => Verdict::Deny,
        () if alone.contains(&Verdict::Allow) => Verdict::Allow,
        () => Verdict::Silent,
    };
    assert_eq!(verdict, together, "statements together");
    let is_conditional = statements.iter().any(|statement| statement.get("Condition").is_some());
    if verdict == Verdict::Allow && user.is_none() && !is_conditional {
        assert!(policy.is_public(), "it allows something to everybody");
    }
}

/// Patterns fit what a plain comparison of every suffix says, and what replaces a variable fits itself alone.
fn check_patterns(pattern: &str, text: &str, value: &str) {
    let (pattern, text) = (bounded(pattern), bounded(text));
    let is_fit = policy::matches(pattern, text);
    assert_eq!(is_fit, fits_plainly(pattern.as_bytes(), text.as_bytes()), "{pattern:?} {text:?}");
    if let Some(fits) = policy::fits_variable(value, text) {
        assert_eq!(fits, value == text, "{value:?} {text:?}");
    }
}

/// The first bytes of a text.
fn bounded(text: &str) -> &str {
    let end = (0..=text.len().min(200)).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// For each length of the text whether the pattern so far fits it.
fn fits_plainly(pattern: &[u8], text: &[u8]) -> bool {
    let mut fits: Vec<bool> = (0..=text.len()).map(|len| len == 0).collect();
    for sign in pattern {
        let mut any = false;
        let mut before = false;
        for (at, fit) in fits.iter_mut().enumerate() {
            any |= *fit;
            let here = at.checked_sub(1).and_then(|at| text.get(at));
            let next = match sign {
                b'*' => any,
                b'?' => before && here.is_some(),
                sign => before && here == Some(sign),
            };
            before = std::mem::replace(fit, next);
        }
    }
    fits.last() == Some(&true)
}

/// A body in chunks that anybody wrote: cut alike whatever pieces it comes in, of bounded length, and nothing that is
/// not exactly in chunks passes.
///
/// # Panics
/// When that does not hold.
pub fn chunked_body(bytes: &[u8]) {
    let Some(([choice, step, low, high], body)) = bytes.split_first_chunk::<4>() else { return };
    let len = u64::from(u16::from_le_bytes([*low, *high]));
    let signed = choice % 3 != 0;
    let trailers = (choice % 3 != 1).then(|| vec!["x-amz-checksum-crc32".to_owned()]);
    let announced = || ChunkedHead::for_fuzzing(len, signed, trailers.clone());
    for chain in [true, false] {
        let chain = || (chain && signed).then(Chain::of_test);
        let whole = cut(announced(), chain(), body, body.len());
        let pieces = cut(announced(), chain(), body, usize::from(*step) + 1);
        assert_eq!(whole, pieces, "in pieces");
        let Ok((out, _)) = whole else { continue };
        assert!(chain().is_none(), "a signature was guessed");
        assert!(out.len() <= body.len() + 32);
        let data = unframed(body).expect("what passes is in chunks");
        assert_eq!(data.len() as u64, len, "the announced length");
        assert_eq!(unframed(&out).as_ref(), Some(&data), "what the library gets");
    }
}

/// A body in signed chunks, and in it one changed byte: either it is refused, or what comes out is what was signed.
///
/// # Panics
/// When that does not hold.
pub fn signed_body(bytes: &[u8]) {
    let Some(([choice, step, at_low, at_high, change], seed)) = bytes.split_first_chunk::<5>()
    else {
        return;
    };
    let trailers = (choice % 2 == 1).then(|| vec!["x-amz-checksum-crc32".to_owned()]);
    let repeats = if seed.is_empty() { 0 } else { usize::from(*choice) * 256 / seed.len() };
    let data = seed.repeat(repeats.min(4096));
    let mut chain = Chain::of_test();
    let mut body = Vec::new();
    for chunk in data.chunks(8192 + usize::from(*step)).chain([&[][..]]) {
        let signature = chain.sign(chunk);
        body.extend(format!("{:x};chunk-signature={signature}\r\n", chunk.len()).bytes());
        body.extend_from_slice(chunk);
        if !chunk.is_empty() || trailers.is_none() {
            body.extend_from_slice(b"\r\n");
        }
    }
    if trailers.is_some() {
        let line = "x-amz-checksum-crc32:AAAAAA==";
        let signature = chain.sign_trailers(&format!("{line}\n"));
        body.extend(format!("{line}\r\nx-amz-trailer-signature:{signature}\r\n\r\n").bytes());
    }
    let at = usize::from(u16::from_le_bytes([*at_low, *at_high])) % body.len();
    if let Some(byte) = body.get_mut(at) {
        *byte ^= *change;
    }
    let announced = ChunkedHead::for_fuzzing(data.len() as u64, true, trailers.clone());
    match cut(announced, Some(Chain::of_test()), &body, usize::from(*step) * 64 + 1) {
        Err(refused) => assert!(*change != 0, "a good body is refused: {refused}"),
        Ok((out, told)) => {
            assert_eq!(out, data, "other bytes have passed");
            assert_eq!(told.len(), usize::from(trailers.is_some()));
            assert!(told.iter().all(|(_, value)| value == "AAAAAA=="), "{told:?}");
        }
    }
}

/// Data of a body in chunks, by its sizes alone.
fn unframed(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    loop {
        let end = body.windows(2).position(|pair| pair == b"\r\n")?;
        let (line, rest) = body.split_at(end);
        let size = std::str::from_utf8(line).ok()?.split(';').next()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        body = rest.get(2..)?;
        if size == 0 {
            return Some(data);
        }
        data.extend_from_slice(body.get(..size)?);
        body = body.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

/// A form: read alike whatever pieces it comes in, with no field twice and none of unbounded length; what was read,
/// written again, is read as the same.
///
/// # Panics
/// When that does not hold.
pub fn post_form(bytes: &[u8]) {
    let Some((step, body)) = bytes.split_first() else { return };
    let whole = read_form(body, body.len());
    let pieces = read_form(body, usize::from(*step) + 1);
    assert_eq!(whole, pieces, "in pieces");
    let Ok((fields, filename, file)) = whole else { return };
    let len: usize = fields.iter().map(|(_, value)| value.len()).sum();
    assert!(len <= FIELDS_BYTES_MAX);
    for (index, (name, _)) in fields.iter().enumerate() {
        assert!(fields.iter().skip(index + 1).all(|(other, _)| other != name), "{name} twice");
    }
    let policy = fields.iter().find(|(name, _)| name == "policy");
    if let Some((_, policy)) = policy {
        check_form_policy(policy, &fields);
    }
    let Ok(file) = file else { return };
    assert!(file.is_empty() || body.windows(file.len()).any(|window| window == file));
    let is_plain = |text: &str| !text.contains(['"', '\r', '\n']);
    if !is_plain(&filename) || !fields.iter().all(|(name, _)| is_plain(name)) {
        return;
    }
    let mut again = Vec::new();
    for (name, value) in &fields {
        let head = format!("--xyz\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        again.extend_from_slice(format!("{head}{value}\r\n").as_bytes());
    }
    let head = "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=";
    again.extend_from_slice(format!("{head}\"{filename}\"\r\n\r\n").as_bytes());
    again.extend_from_slice(&file);
    again.extend_from_slice(b"\r\n--xyz--\r\n");
    // Its heads may be longer than they were.
    if len + fields.len() * 100 < FIELDS_BYTES_MAX / 2 && filename.len() < 1000 {
        assert_eq!(read_form(&again, again.len()), Ok((fields, filename, Ok(file))));
    }
}

/// The policy of a form, and fields between zero bytes, name and value in turn: what it lets pass meets every condition
/// as it is written.
///
/// # Panics
/// When that does not hold.
pub fn post_policy(bytes: &[u8]) {
    let mut texts = bytes.split(|byte| *byte == 0);
    let document = texts.next().unwrap_or_default();
    let mut fields = Vec::new();
    while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        fields.push((text(name).to_ascii_lowercase(), text(value)));
    }
    check_form_policy(&BASE64_STANDARD.encode(document), &fields);
}

fn check_form_policy(policy: &str, fields: &[(String, String)]) {
    let Some(length) = form::passes(policy, "b", fields) else { return };
    let document = BASE64_STANDARD.decode(policy).expect("it was parsed");
    let document: Value = serde_json::from_slice(&document).expect("it was parsed");
    let conditions = document.get("conditions").and_then(Value::as_array);
    let value = |name: &str| match name {
        "bucket" => Some("b"),
        name => fields.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str()),
    };
    let mut named = Vec::new();
    for condition in conditions.expect("it was parsed") {
        let (operator, name, wanted) = match condition {
            Value::Object(pair) => {
                let (name, wanted) = pair.iter().next().expect("it was parsed");
                ("eq".to_owned(), name.clone(), wanted.clone())
            }
            _ => {
                let text = |at: usize| condition[at].as_str().unwrap_or_default().to_owned();
                (text(0).to_ascii_lowercase(), text(1).replacen('$', "", 1), condition[2].clone())
            }
        };
        if operator == "content-length-range" {
            let (least, most) = length.expect("it was parsed");
            let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
            assert!(number(&condition[1]).is_some_and(|bound| least >= bound));
            assert!(number(&condition[2]).is_some_and(|bound| most <= bound));
            continue;
        }
        let name = name.to_ascii_lowercase();
        let found = value(&name).unwrap_or_default();
        let wanted = wanted.as_str().expect("it was parsed");
        match operator.as_str() {
            "eq" => assert_eq!(found, wanted, "{name}"),
            _ if name == "content-type" => assert!(found.trim_ascii().contains(wanted)),
            _ => assert!(found.starts_with(wanted), "{name}"),
        }
        named.push(name);
    }
    for (name, _) in fields {
        let is_free =
            ["policy", "file", "signature", "awsaccesskeyid", "x-amz-signature", "bucket"]
                .contains(&name.as_str());
        let only_checks = name.starts_with("x-ignore-") || name.starts_with("x-amz-checksum-");
        assert!(is_free || only_checks || named.contains(name), "{name} is free");
    }
}

type ReadForm =
    Result<(Vec<(String, String)>, String, Result<Vec<u8>, Option<BodyRefusal>>), String>;

/// Fields, name of the file and the file.
fn read_form(body: &[u8], step: usize) -> ReadForm {
    let pieces: Vec<_> = body
        .chunks(step.max(1))
        .map(|piece| Ok::<_, std::io::Error>(Frame::data(Bytes::copy_from_slice(piece))))
        .collect();
    let body = Body::http_body_unsync(StreamBody::new(stream::iter(pieces)));
    let request = Request::builder().header(CONTENT_TYPE, "multipart/form-data; boundary=xyz");
    let request = request.body(body).expect("a good request");
    let read = async {
        let read = form::read(request).await;
        let (fields, filename, mut file) = read.map_err(|e| e.code().as_str().to_owned())?;
        let mut all = Vec::new();
        while let Some(piece) = file.next().await {
            match piece {
                Ok(piece) => all.extend_from_slice(&piece),
                Err(error) => return Ok((fields, filename, Err(BodyRefusal::find(&*error)))),
            }
        }
        Ok((fields, filename, Ok(all)))
    };
    read.now_or_never().expect("memory never waits")
}

/// An XML document: at most one kind of configuration, read from what is stored as the one that came, and without
/// elements that were skipped where that matters.
///
/// # Panics
/// When that does not hold.
pub fn document(bytes: &[u8]) {
    let is_clear = xml::is_clear(bytes);
    let rules = stored::<dto::BucketLifecycleConfiguration>(bytes);
    let tags = stored::<dto::Tagging>(bytes);
    let kinds = [
        rules.is_some(),
        tags.is_some(),
        stored::<dto::CORSConfiguration>(bytes).is_some(),
        stored::<dto::AccessControlPolicy>(bytes).is_some(),
        stored::<dto::WebsiteConfiguration>(bytes).is_some(),
        stored::<dto::VersioningConfiguration>(bytes).is_some(),
        stored::<dto::ObjectLockConfiguration>(bytes).is_some(),
        stored::<dto::ServerSideEncryptionConfiguration>(bytes).is_some(),
        stored::<dto::PublicAccessBlockConfiguration>(bytes).is_some(),
        stored::<dto::OwnershipControls>(bytes).is_some(),
    ];
    assert!(kinds.iter().filter(|is_kind| **is_kind).count() <= 1, "a document of two kinds");
    if let Some(tags) = tags
        && let Ok(tags) = tags_of_set(&tags.tag_set, 50)
    {
        assert!(tags.len() <= 50 && tags.iter().all(|(name, _)| !name.is_empty()));
    }
    let Some(mut rules) = rules else { return };
    let again = to_xml(&rules).expect("memory takes it");
    if is_clear && to_end(bytes) {
        assert_eq!(elements(bytes), elements(&again), "an element was skipped");
    }
    if lifecycle::check(&mut rules).is_ok() {
        let again = to_xml(&rules).expect("memory takes it");
        let stored = stored::<dto::BucketLifecycleConfiguration>(&again);
        assert!(stored.as_ref() == Some(&rules), "what passed is stored as something else");
        assert!(rules.rules.iter().all(|rule| rule.id.is_some()));
    }
}

/// A document as it is read from what was written of it.
fn stored<T>(bytes: &[u8]) -> Option<T>
where
    T: for<'xml> Deserialize<'xml> + Serialize + PartialEq + std::fmt::Debug,
{
    let read = |bytes: &[u8]| T::deserialize(&mut Deserializer::new(bytes));
    let found = read(bytes).ok()?;
    let written = to_xml(&found).expect("memory takes it");
    let again = read(&written).expect("what was written is read");
    assert_eq!(again, found, "written as something else");
    Some(found)
}

/// Whether the library reads the whole document.
fn to_end(bytes: &[u8]) -> bool {
    let mut deserializer = Deserializer::new(bytes);
    dto::BucketLifecycleConfiguration::deserialize(&mut deserializer).is_ok()
        && deserializer.expect_eof().is_ok()
}

/// Names of all elements but the root, which has two names, in order of the alphabet.
fn elements(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = quick_xml::Reader::from_reader(bytes);
    let mut names = Vec::new();
    loop {
        match reader.read_event() {
            Ok(quick_xml::events::Event::Start(start) | quick_xml::events::Event::Empty(start)) => {
                names.push(start.name().as_ref().to_vec());
            }
            Ok(quick_xml::events::Event::Eof) | Err(_) => break,
            Ok(_) => {}
        }
    }
    let mut names = names.split_off(names.len().min(1));
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every seed of the fuzz targets, and each with a byte changed, left out or doubled.
    fn play(target: &str, entry: fn(&[u8])) {
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/");
        let mut count = 0;
        for seed in std::fs::read_dir(format!("{seeds}{target}")).unwrap() {
            let seed = std::fs::read(seed.unwrap().path()).unwrap();
            entry(&seed);
            for at in 0..seed.len() {
                for change in [1, 0x20, 0x80] {
                    let mut changed = seed.clone();
                    changed[at] ^= change;
                    entry(&changed);
                }
                entry(&[&seed[..at], &seed[at + 1..]].concat());
                entry(&[&seed[..=at], &seed[at..]].concat());
                entry(&seed[..at]);
            }
            count += 1;
        }
        assert!(count > 0, "no seeds for {target}");
    }

    #[test]
    fn what_the_targets_assert_holds_near_their_seeds() {
        play("s3_policy", bucket_policy);
        play("s3_chunked", chunked_body);
        play("s3_signed_chunks", signed_body);
        play("s3_form", post_form);
        play("s3_form_policy", post_policy);
        play("s3_query", signed_query);
        play("s3_authorization", signed_header);
        play("s3_target", request_target);
        play("s3_document", document);
    }
}
