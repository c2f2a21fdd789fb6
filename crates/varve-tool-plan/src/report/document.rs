//! What a report consists of. Every part is data; how it looks is up to `text`, `markdown`, `html` and `csv`.

use crate::errata;

/// A report.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// Its parts, in order.
    pub parts: Vec<ReportPart>,
}

/// A part of a report.
#[derive(Clone, PartialEq, Debug)]
pub enum ReportPart {
    /// A heading.
    Heading(String),
    /// Labels and values.
    Facts(Vec<(&'static str, String)>),
    /// Rows under a header.
    Table(ReportTable),
    /// Sentences.
    Notes(Vec<String>),
    /// A picture under a heading, as SVG that whoever made it has escaped. HTML alone shows it.
    Picture {
        /// The heading.
        heading: String,
        /// The picture.
        svg: String,
    },
}

/// Rows under a header. The first column holds names, all others amounts or words.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ReportTable {
    /// Titles of the columns.
    pub header: Vec<&'static str>,
    /// As many cells each as there are titles.
    pub rows: Vec<Vec<String>>,
}

impl Document {
    /// An empty report.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), parts: Vec::new() }
    }

    /// Adds labels and values.
    #[must_use]
    pub fn facts(mut self, facts: Vec<(&'static str, String)>) -> Self {
        self.parts.push(ReportPart::Facts(facts));
        self
    }

    /// Adds labels and values under a heading.
    #[must_use]
    pub fn headed_facts(mut self, heading: &str, facts: Vec<(&'static str, String)>) -> Self {
        self.parts.push(ReportPart::Heading(heading.to_owned()));
        self.facts(facts)
    }

    /// Adds a picture under a heading, if there is one.
    #[must_use]
    pub fn picture(mut self, heading: &str, svg: Option<String>) -> Self {
        let heading = heading.to_owned();
        self.parts.extend(svg.map(|svg| ReportPart::Picture { heading, svg }));
        self
    }

    /// Adds a table under a heading, unless it is empty.
    #[must_use]
    pub fn table(mut self, heading: &str, table: ReportTable) -> Self {
        if !table.rows.is_empty() {
            self.parts.push(ReportPart::Heading(heading.to_owned()));
            self.parts.push(ReportPart::Table(table));
        }
        self
    }

    /// Adds sentences under a heading, unless there are none.
    #[must_use]
    pub fn notes(mut self, heading: &str, notes: Vec<String>) -> Self {
        if !notes.is_empty() {
            self.parts.push(ReportPart::Heading(heading.to_owned()));
            self.parts.push(ReportPart::Notes(notes));
        }
        self
    }

    /// Adds what is said of the sources' faults with these numbers.
    #[must_use]
    pub fn errata<'a>(self, ids: impl IntoIterator<Item = &'a str>) -> Self {
        let mut ids: Vec<&str> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        let known = ids.into_iter().filter_map(errata::of);
        let notes = known.map(|erratum| {
            format!(
                "{} {}: {}; here: {}",
                erratum.id, erratum.source, erratum.fault, erratum.answer
            )
        });
        self.notes("Faults of the sources", notes.collect())
    }
}
