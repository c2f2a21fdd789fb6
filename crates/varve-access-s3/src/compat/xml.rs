//! The library skips what it does not know in XML documents of clients: what would change their meaning is refused.
//! Called when the body of a document has arrived (`digests`).
//!
//! Where an element narrows what a document means, it would mean more without it: a lifecycle rule whose filter is
//! misspelled deletes every object of its bucket.
//!
//! XML-1. CDATA sections are refused, since the library takes their text for none, and document types, which it does
//!     not read.
//! XML-2. A lifecycle configuration consists of the elements that there are, where they belong, and has text only in
//!     those that hold text.

use quick_xml::Reader;
use quick_xml::events::Event;

/// Longest XML document of a client, in bytes: a completion of 10,000 parts with checksums.
pub(crate) const XML_BYTES_MAX: usize = 4 << 20;

/// Elements of a lifecycle configuration, and what each may contain; those that are not listed hold text.
const LIFECYCLE: [(&str, &[&str]); 9] = [
    ("LifecycleConfiguration", &["Rule"]),
    (
        "Rule",
        &[
            "AbortIncompleteMultipartUpload",
            "Expiration",
            "Filter",
            "ID",
            "NoncurrentVersionExpiration",
            "NoncurrentVersionTransition",
            "Prefix",
            "Status",
            "Transition",
        ],
    ),
    ("Filter", &["And", "ObjectSizeGreaterThan", "ObjectSizeLessThan", "Prefix", "Tag"]),
    ("And", &["ObjectSizeGreaterThan", "ObjectSizeLessThan", "Prefix", "Tag"]),
    ("Tag", &["Key", "Value"]),
    ("Expiration", &["Date", "Days", "ExpiredObjectDeleteMarker"]),
    ("NoncurrentVersionExpiration", &["NewerNoncurrentVersions", "NoncurrentDays"]),
    ("AbortIncompleteMultipartUpload", &["DaysAfterInitiation"]),
    // Transitions are refused elsewhere, with the reason.
    ("Transition", &["Date", "Days", "StorageClass"]),
];

/// Roots of lifecycle configurations.
const LIFECYCLE_ROOTS: [&[u8]; 2] = [b"LifecycleConfiguration", b"BucketLifecycleConfiguration"];

/// What the element may contain; nothing where it holds text.
fn children(element: &[u8]) -> Option<&'static [&'static str]> {
    let element = match element {
        b"BucketLifecycleConfiguration" => b"LifecycleConfiguration",
        b"NoncurrentVersionTransition" => {
            return Some(&["NewerNoncurrentVersions", "NoncurrentDays", "StorageClass"]);
        }
        other => other,
    };
    let found = LIFECYCLE.iter().find(|(name, _)| name.as_bytes() == element);
    found.map(|(_, children)| *children)
}

/// Whether a document means what its author wrote, as far as the protocol library does not see to that. What is no XML
/// passes, JSON too, for the library to take or refuse it.
pub(crate) fn is_clear(document: &[u8]) -> bool {
    let mut reader = Reader::from_reader(document);
    // Of a lifecycle configuration: the open elements.
    let mut open: Vec<Vec<u8>> = Vec::new();
    let mut is_lifecycle = None;
    loop {
        let event = match reader.read_event() {
            Ok(event) => event,
            Err(_) => return is_lifecycle != Some(true),
        };
        match event {
            Event::Eof => return true,
            Event::CData(_) | Event::DocType(_) => return false, // XML-1
            Event::Start(start) | Event::Empty(start) if is_lifecycle.is_none() => {
                let root = start.name().as_ref().to_vec();
                is_lifecycle = Some(LIFECYCLE_ROOTS.contains(&root.as_slice()));
                open.push(root);
            }
            _ if is_lifecycle != Some(true) => {}
            // XML-2
            Event::Start(start) => {
                let name = start.name().as_ref().to_vec();
                if !may_contain(&open, &name) {
                    return false;
                }
                open.push(name);
            }
            Event::Empty(start) if !may_contain(&open, start.name().as_ref()) => return false,
            Event::End(_) => drop(open.pop()),
            Event::Text(text) => {
                let is_blank = text.iter().all(u8::is_ascii_whitespace);
                if !is_blank && open.last().is_none_or(|element| children(element).is_some()) {
                    return false;
                }
            }
            Event::GeneralRef(_) if open.last().is_none_or(|last| children(last).is_some()) => {
                return false;
            }
            _ => {}
        }
    }
}

fn may_contain(open: &[Vec<u8>], name: &[u8]) -> bool {
    let children = open.last().and_then(|element| children(element)).unwrap_or_default();
    children.iter().any(|child| child.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(inside: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<LifecycleConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\n <Rule>\
             <ID>a</ID><Status>Enabled</Status><Expiration><Days>1</Days></Expiration>{inside}</Rule></LifecycleConfiguration>"
        )
    }

    #[test]
    fn a_lifecycle_configuration_has_no_element_that_would_be_skipped() {
        for good in [
            "<Filter><Prefix>a&amp;b</Prefix></Filter>",
            "<Filter/>",
            "<Prefix/>",
            "<Filter><And><Prefix>a</Prefix><Tag><Key>k</Key><Value>v</Value></Tag></And></Filter>",
            "<!-- why --><Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>",
            "<NoncurrentVersionTransition><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionTransition>",
        ] {
            assert!(is_clear(rule(good).as_bytes()), "{good}");
        }
        for bad in [
            "<Filter><Prefx>logs/</Prefx></Filter>",
            "<filter><Prefix>logs/</Prefix></filter>",
            "<Filter>logs/</Filter>",
            "<Filter>&amp;</Filter>",
            "<Filter><Prefix><![CDATA[logs/]]></Prefix></Filter>",
            "<Tag><Key>k</Key><Value>v</Value></Tag>",
            "<Filter><Tag><Prefix>logs/</Prefix></Tag></Filter>",
            "<Filter><Prefix>a<Prefix>b</Prefix></Prefix></Filter>",
            "<ObjectSizeLessThan/>",
        ] {
            assert!(!is_clear(rule(bad).as_bytes()), "{bad}");
        }
    }

    #[test]
    fn cdata_is_refused_in_every_document() {
        assert!(!is_clear(
            b"<Tagging><TagSet><Tag><Key><![CDATA[a]]></Key></Tag></TagSet></Tagging>"
        ));
        assert!(!is_clear(b"<!DOCTYPE Tagging><Tagging/>"));
        assert!(is_clear(b" <Tagging><Other>text</Other></Tagging>"));
        assert!(is_clear(b"{\"a\": \"<![CDATA[\"}"));
        assert!(is_clear(b"<Tagging"));
        assert!(is_clear(b""));
        let skipped = rule("<Filter><Prefx>logs/</Prefx></Filter>");
        for junk in ["\u{feff}", "junk", "{", "&amp;", "<!-- {} -->"] {
            assert!(!is_clear(format!("{junk}{skipped}").as_bytes()), "{junk}");
        }
    }
}
