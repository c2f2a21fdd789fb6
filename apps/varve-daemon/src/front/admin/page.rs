//! Listings over all cells, a page at a time, in the order of their names.
//!
//! Each cell is asked for its share of the page and some more. What one of them did not get to yet ends the page for
//! all.

use varve_access_admin::percent_encoded;
use varve_access_admin::v1::{PAGE_DEFAULT, PAGE_MAX};

/// Names that each cell is asked for at least, if so many are wanted: so that cells that hold few or close names end no
/// page early.
const SHARE_MIN: usize = 100;

/// What a request wants of a listing.
pub(super) struct PageRequest {
    limit: usize,
    after: Option<String>,
    /// Only snapshots of this volume.
    pub(super) volume: Option<String>,
}

impl PageRequest {
    /// As the query says; `None` for one that no listing takes.
    pub(super) fn of(query: &str) -> Option<Self> {
        let mut page = Self { limit: PAGE_DEFAULT, after: None, volume: None };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=')?;
            let value = decoded(&value.replace('+', " "))?;
            match key {
                "limit" => page.limit = value.parse().ok()?,
                "after" => page.after = Some(value),
                "volume" => page.volume = Some(value),
                _ => return None,
            }
        }
        (1..=PAGE_MAX).contains(&page.limit).then_some(page)
    }

    /// What one of `cells` is asked for.
    pub(super) fn share(&self, listing: &str, cells: u16) -> String {
        let share = self.limit.div_ceil(usize::from(cells)).max(SHARE_MIN).min(self.limit);
        let after = self.after.as_deref().map(percent_encoded);
        let after = after.map_or_else(String::new, |after| format!("&after={after}"));
        format!("{listing}?limit={share}{after}")
    }

    /// The page, and where the next one begins, of what cells have and where theirs begin.
    pub(super) fn join<T>(
        &self,
        shares: Vec<(Vec<T>, Option<String>)>,
        name: fn(&T) -> &str,
        ordered: fn(&str) -> String,
    ) -> (Vec<T>, Option<String>) {
        let end = shares.iter().filter_map(|(_, next)| next.as_deref()).map(ordered).min();
        let mut all: Vec<T> = shares.into_iter().flat_map(|(share, _)| share).collect();
        all.sort_by_cached_key(|thing| ordered(name(thing)));
        let found = all.len();
        if let Some(end) = &end {
            all.retain(|thing| ordered(name(thing)) <= *end);
        }
        all.truncate(self.limit);
        let is_last = end.is_none() && all.len() == found;
        let next = all.last().filter(|_| !is_last).map(|thing| name(thing).to_owned());
        (all, next)
    }
}

/// By what a snapshot's name comes in listings, where the default namespace is not written. Volumes go by their names
/// as they are.
pub(super) fn with_namespace(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("default/{name}") }
}

/// What percent-encoding stands for; `None` if that is not text.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(part.get(2..)?.bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(limit: usize, shares: &[(&[&'static str], Option<&str>)]) -> (String, Option<String>) {
        let page = PageRequest { limit, after: None, volume: None };
        let shares = shares.iter().map(|(names, next)| (names.to_vec(), next.map(str::to_owned)));
        let (names, next) = page.join(shares.collect(), |name| name, with_namespace);
        (names.join(" "), next)
    }

    #[test]
    fn what_a_cell_did_not_get_to_ends_the_page() {
        let all = |names: &str| (names.to_owned(), None);
        let to = |names: &str, next: &str| (names.to_owned(), Some(next.to_owned()));
        assert_eq!(join(4, &[(&["a", "d"], None), (&["b", "c"], None)]), all("a b c d"));
        assert_eq!(join(3, &[(&["a", "d"], None), (&["b", "c"], None)]), to("a b c", "c"));
        assert_eq!(join(9, &[(&["a", "d"], None), (&["b", "c"], Some("c"))]), to("a b c", "c"));
        assert_eq!(join(9, &[(&[], None), (&["b"], Some("b"))]), to("b", "b"));
        assert_eq!(join(9, &[(&[], None), (&[], None)]), all(""));
        assert_eq!(
            join(9, &[(&["z@a"], None), (&["a/v@a", "x/v@a"], None)]),
            all("a/v@a z@a x/v@a")
        );
    }

    #[test]
    fn queries_are_read_as_cells_read_them() {
        let page = PageRequest::of("limit=500&after=a%2Fb+%C3%BC%25").unwrap();
        assert_eq!((page.limit, page.after.as_deref()), (500, Some("a/b ü%")));
        assert_eq!(page.share("/v1/volumes", 2), "/v1/volumes?limit=250&after=a%2Fb%20%C3%BC%25");
        assert_eq!(page.share("/v1/volumes", 256), "/v1/volumes?limit=100&after=a%2Fb%20%C3%BC%25");
        assert_eq!(
            PageRequest::of("limit=3").unwrap().share("/v1/volumes", 256),
            "/v1/volumes?limit=3"
        );
        for bad in
            ["limit=0", "limit=10001", "limit=x", "colour=blue", "after=%", "after=%f", "after=%ff"]
        {
            assert!(PageRequest::of(bad).is_none(), "{bad}");
        }
    }
}
