//! Extents of a volume or snapshot, page by page from the admin API.

use varve_access_admin::percent_encoded;
use varve_access_admin::v1::{Extent, ExtentPage, Snapshot};

use crate::client::Client;
use crate::failure::Result;

/// Extents asked for at once.
const PAGE: usize = 1000;

/// What holds data, or may differ from a snapshot, in order. Ends after an error.
pub struct Extents<'a> {
    client: &'a Client,
    path: String,
    page: std::vec::IntoIter<Extent>,
    next: Option<u64>,
}

impl<'a> Extents<'a> {
    /// Extents of `name` from `offset` on; with `since`, what may differ from that snapshot of the same volume.
    pub fn new(client: &'a Client, name: &str, since: Option<&str>, offset: u64) -> Self {
        let since = since.map(|since| format!("&since={}", percent_encoded(since)));
        Self::with_query(client, name, &since.unwrap_or_default(), offset)
    }

    /// The same of a snapshot that has to be this one on every page, as the one from which changes count has to be.
    pub fn of(client: &'a Client, snapshot: &Snapshot, since: Option<&Snapshot>) -> Self {
        let query = format!("&identity={}{}", snapshot.identity, since_query(since));
        Self::with_query(client, &snapshot.name, &query, 0)
    }

    /// The same of a volume that has to be on its way as the query `moves` says.
    pub fn of_moving(
        client: &'a Client,
        volume: &str,
        since: Option<&Snapshot>,
        moves: &str,
    ) -> Self {
        Self::with_query(client, volume, &format!("&{moves}{}", since_query(since)), 0)
    }

    fn with_query(client: &'a Client, name: &str, query: &str, offset: u64) -> Self {
        let path = format!("/v1/extents/{}?limit={PAGE}{query}", percent_encoded(name));
        Self { client, path, page: Vec::new().into_iter(), next: Some(offset) }
    }
}

/// What names the snapshot from which changes count.
fn since_query(since: Option<&Snapshot>) -> String {
    since.map_or_else(String::new, |since| {
        let name = since.name.split_once('@').map_or("", |(_, name)| name);
        format!("&since={}&since_identity={}", percent_encoded(name), since.identity)
    })
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
