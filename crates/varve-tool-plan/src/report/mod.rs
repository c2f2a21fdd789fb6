//! Plans, clusters and comparisons as documents, and documents as text, Markdown, HTML and CSV.

mod comparison;
mod csv;
mod deployment;
mod document;
mod html;
mod markdown;
mod plan;
mod standing;
mod text;

pub use comparison::of_comparison;
pub use deployment::{ceph, varve};
pub use document::{Document, ReportPart, ReportTable};
pub use html::{HtmlCell, HtmlPage};
pub use plan::{of_cost_basis, of_layout, of_plan};
pub use standing::of_standing;

#[cfg(test)]
mod tests;
