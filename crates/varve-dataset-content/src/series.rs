//! Where the members of series are that were read lately.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::content::{SeriesId, StoredContent};

/// Series whose members are remembered.
const SERIES_MAX: usize = 4;

/// A member of a series: where it ends in the content, and its bytes.
pub(crate) struct SeriesMember {
    pub(crate) end: u64,
    pub(crate) content: StoredContent,
}

/// The members of some series, those that were read last at the end.
#[derive(Default)]
pub(crate) struct RecentSeries(VecDeque<(SeriesId, Rc<Vec<SeriesMember>>)>);

impl RecentSeries {
    pub(crate) fn find(&self, series: SeriesId) -> Option<Rc<Vec<SeriesMember>>> {
        let (_, members) = self.0.iter().find(|(known, _)| *known == series)?;
        Some(Rc::clone(members))
    }

    pub(crate) fn add(&mut self, series: SeriesId, members: Rc<Vec<SeriesMember>>) {
        if self.0.len() == SERIES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((series, members));
    }
}
