//! One HTML page that needs nothing else: no fonts, no requests, and no script but that of its button. All text is
//! escaped. Documents are written with it, and lists of results by whoever has them.

use super::document::{Document, ReportPart, ReportTable};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:75em;margin:2em auto;padding:0 1em;color:#1c2733;background:#fff}\
h1{font-size:1.5em}h2{font-size:1.1em;margin-top:2em}table{border-collapse:collapse;display:block;overflow-x:auto}\
td,th{padding:.25em .75em;text-align:left;border-bottom:1px solid #d5dce4;font-variant-numeric:tabular-nums;vertical-align:top}\
th{background:#f1f4f8}td:first-child{font-weight:600}td.n,th.n{text-align:right;white-space:nowrap}figure{margin:1em 0;overflow-x:auto}svg{max-width:100%;min-width:42em;height:auto}\
td.good::before{content:\"\\25b2 \"}td.bad::before{content:\"\\25bc \"}td.good{color:#00734f}td.bad{color:#b02a00}td.unsure{color:#6b5900}\
@media(max-width:40em){body{margin:1em auto;font-size:14px}td,th{padding:.25em .4em}td:first-child{min-width:6em}}\
@media(prefers-color-scheme:dark){body{color:#dde5ee;background:#12181f}th{background:#1d2732}td,th{border-color:#33414f}}";

/// What copies the Markdown; a page of a file may have no clipboard.
const COPY: &str = "const t=document.getElementById('markdown');t.select();navigator.clipboard?navigator.clipboard.writeText(t.value):document.execCommand('copy')";

/// A page that is written from its top to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HtmlPage {
    text: String,
}

impl HtmlPage {
    /// A page with nothing but its title.
    #[must_use]
    pub fn new(title: &str) -> Self {
        let title = escaped(title);
        let text = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        );
        Self { text }
    }

    /// Adds a heading.
    pub fn heading(&mut self, heading: &str) {
        self.text.push_str(&format!("<h2>{}</h2>\n", escaped(heading)));
    }

    /// Adds rows, with a header above them unless that has no cells.
    pub fn table(&mut self, header: &[HtmlCell], rows: &[Vec<HtmlCell>]) {
        self.text.push_str("<table>\n");
        if !header.is_empty() {
            self.row("th", header);
        }
        for row in rows {
            self.row("td", row);
        }
        self.text.push_str("</table>\n");
    }

    fn row(&mut self, kind: &str, cells: &[HtmlCell]) {
        let cells: String = cells.iter().map(|cell| cell.html(kind)).collect();
        self.text.push_str(&format!("<tr>{cells}</tr>\n"));
    }

    /// Adds a picture, as SVG that whoever made it has escaped.
    pub fn figure(&mut self, svg: &str) {
        self.text.push_str(&format!("<figure>{svg}</figure>\n"));
    }

    /// Adds a list of sentences.
    pub fn list(&mut self, sentences: &[String]) {
        self.text.push_str("<ul>\n");
        for sentence in sentences {
            self.text.push_str(&format!("<li>{}</li>\n", escaped(sentence)));
        }
        self.text.push_str("</ul>\n");
    }

    /// Adds Markdown to be copied, with a button that does.
    pub fn markdown(&mut self, markdown: &str) {
        self.heading("As Markdown");
        self.text.push_str(&format!(
            "<button onclick=\"{COPY}\">Copy</button>\n\
             <textarea id=\"markdown\" readonly rows=\"16\" style=\"width:100%\" aria-label=\"All tables as Markdown\">{}</textarea>\n",
            escaped(markdown)
        ));
    }

    /// The whole page.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.text.push_str("</body>\n</html>\n");
        self.text
    }
}

/// A cell of a table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HtmlCell {
    /// What it says.
    pub text: String,
    /// Whether it stands at the right, as numbers do.
    pub is_number: bool,
    /// Where it leads to, as an address that is escaped already.
    pub link: Option<String>,
}

impl HtmlCell {
    /// A cell of words.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    fn html(&self, kind: &str) -> String {
        let class = match self.text.as_str() {
            // Verdicts of a comparison.
            "better" if kind == "td" => " class=\"good\"",
            "WORSE" => " class=\"bad\"",
            "unsure" => " class=\"unsure\"",
            _ if self.is_number => " class=\"n\"",
            _ => "",
        };
        let text = escaped(&self.text);
        match &self.link {
            Some(link) => format!("<{kind}{class}><a href=\"{link}\">{text}</a></{kind}>"),
            None => format!("<{kind}{class}>{text}</{kind}>"),
        }
    }
}

impl Document {
    /// As an HTML page.
    #[must_use]
    pub fn html(&self) -> String {
        self.page().finish()
    }

    /// As an HTML page that ends with all of its tables as Markdown, to be copied.
    #[must_use]
    pub fn html_with_markdown(&self) -> String {
        let mut page = self.page();
        page.markdown(&self.markdown());
        page.finish()
    }

    fn page(&self) -> HtmlPage {
        let mut page = HtmlPage::new(&self.title);
        for part in &self.parts {
            match part {
                ReportPart::Heading(heading) => page.heading(heading),
                ReportPart::Facts(facts) => {
                    let row = |(label, value): &(&'static str, String)| {
                        vec![HtmlCell::new(label), HtmlCell::new(value)]
                    };
                    page.table(&[], &facts.iter().map(row).collect::<Vec<_>>());
                }
                ReportPart::Table(ReportTable { header, rows }) => {
                    let numbers = numbers(header.len(), rows);
                    let header = cells(header.iter().copied(), &numbers);
                    let row = |row: &Vec<String>| cells(row.iter().map(String::as_str), &numbers);
                    page.table(&header, &rows.iter().map(row).collect::<Vec<_>>());
                }
                ReportPart::Picture { heading, svg } => {
                    page.heading(heading);
                    page.figure(svg);
                }
                ReportPart::Notes(notes) => page.list(notes),
            }
        }
        page
    }
}

/// Cells of a row, of columns that are known to hold numbers or not.
fn cells<'a>(texts: impl Iterator<Item = &'a str>, numbers: &[bool]) -> Vec<HtmlCell> {
    let cells = texts.enumerate().map(|(at, text)| HtmlCell {
        is_number: numbers.get(at) == Some(&true),
        ..HtmlCell::new(text)
    });
    cells.collect()
}

/// Of each column whether it holds numbers alone, which stand below each other by their last digits.
fn numbers(columns: usize, rows: &[Vec<String>]) -> Vec<bool> {
    let is_number = |cell: &String| {
        let has_digit = cell.chars().any(|c| c.is_ascii_digit());
        (has_digit || cell.is_empty() || cell == "–")
            && cell.chars().all(|c| c.is_ascii_digit() || " ,.–-+±%×".contains(c))
    };
    let column = |at: usize| {
        let cells = || rows.iter().filter_map(|cells| cells.get(at));
        cells().all(is_number) && cells().any(|cell| !cell.is_empty())
    };
    (0..columns).map(column).collect()
}

/// Text as text of HTML, also within quotes.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
