//! Extents of a volume or snapshot, page by page from the admin API.

use varve_access_admin::v1::{Extent, ExtentPage};

use crate::client::{Client, percent_encoded};
use crate::failure::Result;

/// Extents asked for at once.
const PAGE: usize = 1000;

/// What holds data, or may differ from a snapshot, in order. Ends after an error.
pub(crate) struct Extents<'a> {
    client: &'a Client,
    path: String,
    page: std::vec::IntoIter<Extent>,
    next: Option<u64>,
}

impl<'a> Extents<'a> {
    /// Extents of `name` from `offset` on; with `since`, what may differ from that snapshot of the same volume.
    pub(crate) fn new(client: &'a Client, name: &str, since: Option<&str>, offset: u64) -> Self {
        let since = since.map(|since| format!("&since={}", percent_encoded(since)));
        let (name, since) = (percent_encoded(name), since.unwrap_or_default());
        let path = format!("/v1/extents/{name}?limit={PAGE}{since}");
        Self { client, path, page: Vec::new().into_iter(), next: Some(offset) }
    }
}

impl Iterator for Extents<'_> {
    type Item = Result<Extent>;

    fn next(&mut self) -> Option<Result<Extent>> {
        loop {
            if let Some(extent) = self.page.next() {
                return Some(Ok(extent));
            }
            let offset = self.next.take()?;
            match self.client.get::<ExtentPage>(&format!("{}&offset={offset}", self.path)) {
                Ok(page) => {
                    self.page = page.value.extents.into_iter();
                    self.next = page.value.next;
                }
                Err(failure) => return Some(Err(failure)),
            }
        }
    }
}
