//! How an answer is printed.

use clap::{Args, ValueEnum};
use serde::Serialize;
use varve_client::{Failure, Result};
use varve_tool_plan::report::Document;

/// How an answer is printed.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct OutputForm {
    /// Print JSON: amounts in the units that their names end in; fields are added over time, never renamed
    #[arg(long)]
    json: bool,

    /// How to print it
    #[arg(long, value_enum, default_value_t = ReportForm::Text, conflicts_with = "json", value_name = "FORMAT")]
    format: ReportForm,
}

/// A form of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ReportForm {
    /// Columns, for terminals
    Text,
    /// For programs
    Json,
    /// To copy into documents
    Markdown,
    /// A page that needs nothing else
    Html,
    /// For spreadsheets: a line for each value
    Csv,
}

impl OutputForm {
    /// The answer: `value` for programs, `document` for people.
    pub(crate) fn print(self, value: &impl Serialize, document: &Document) -> Result<String> {
        match self.format {
            _ if self.json => json(value),
            ReportForm::Json => json(value),
            ReportForm::Text => Ok(document.text()),
            ReportForm::Markdown => Ok(document.markdown()),
            ReportForm::Html => Ok(document.html()),
            ReportForm::Csv => Ok(document.csv()),
        }
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| Failure::new(format!("print the answer as JSON: {error}")))?;
    Ok(text + "\n")
}

/// An input that nothing can be computed from: the command line or a catalogue is wrong.
pub(crate) fn refused(error: varve_tool_plan::Error) -> Failure {
    Failure::misuse(error.to_string())
}
