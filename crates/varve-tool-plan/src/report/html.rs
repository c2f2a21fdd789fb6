//! One HTML page that needs nothing else: no scripts, no fonts, no requests. All text is escaped.

use super::document::{Document, ReportPart, ReportTable};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:75em;margin:2em auto;padding:0 1em;color:#1c2733;background:#fff}\
h1{font-size:1.5em}h2{font-size:1.1em;margin-top:2em}table{border-collapse:collapse;display:block;overflow-x:auto}\
td,th{padding:.25em .75em;text-align:left;border-bottom:1px solid #d5dce4;font-variant-numeric:tabular-nums;vertical-align:top}\
th{background:#f1f4f8}td:first-child{font-weight:600}td.n,th.n{text-align:right;white-space:nowrap}figure{margin:1em 0;overflow-x:auto}svg{max-width:100%;min-width:42em;height:auto}\
td.good::before{content:\"\\25b2 \"}td.bad::before{content:\"\\25bc \"}td.good{color:#00734f}td.bad{color:#b02a00}td.unsure{color:#6b5900}\
@media(max-width:40em){body{margin:1em auto;font-size:14px}td,th{padding:.25em .4em}td:first-child{min-width:6em}}\
@media(prefers-color-scheme:dark){body{color:#dde5ee;background:#12181f}th{background:#1d2732}td,th{border-color:#33414f}}";

impl Document {
    /// As an HTML page.
    #[must_use]
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        );
        for part in &self.parts {
            match part {
                ReportPart::Heading(heading) => {
                    out.push_str(&format!("<h2>{}</h2>\n", escaped(heading)))
                }
                ReportPart::Facts(facts) => {
                    let rows = facts.iter().map(|(label, value)| row("td", [*label, value], &[]));
                    out.push_str(&format!("<table>\n{}</table>\n", rows.collect::<String>()));
                }
                ReportPart::Table(ReportTable { header, rows }) => {
                    let numbers = numbers(header.len(), rows);
                    let header = row("th", header.iter().copied(), &numbers);
                    let cells =
                        |cells: &Vec<String>| row("td", cells.iter().map(String::as_str), &numbers);
                    let rows: String = rows.iter().map(cells).collect();
                    out.push_str(&format!("<table>\n{header}{rows}</table>\n"));
                }
                ReportPart::Picture { heading, svg } => {
                    let heading = escaped(heading);
                    out.push_str(&format!("<h2>{heading}</h2>\n<figure>{svg}</figure>\n"));
                }
                ReportPart::Notes(notes) => {
                    let notes = notes.iter().map(|note| format!("<li>{}</li>\n", escaped(note)));
                    out.push_str(&format!("<ul>\n{}</ul>\n", notes.collect::<String>()));
                }
            }
        }
        out.push_str("</body>\n</html>\n");
        out
    }
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

fn row<'a>(kind: &str, cells: impl IntoIterator<Item = &'a str>, numbers: &[bool]) -> String {
    let cells = cells.into_iter().enumerate().map(|(at, cell)| {
        let class = match cell {
            // Verdicts of a comparison.
            "better" if kind == "td" => " class=\"good\"",
            "WORSE" => " class=\"bad\"",
            "unsure" => " class=\"unsure\"",
            _ if numbers.get(at) == Some(&true) => " class=\"n\"",
            _ => "",
        };
        format!("<{kind}{class}>{}</{kind}>", escaped(cell))
    });
    format!("<tr>{}</tr>\n", cells.collect::<String>())
}

/// Text as text of HTML, also within quotes.
#[must_use]
pub fn escaped(text: &str) -> String {
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
