//! Metrics of all cells as Prometheus reads them, each with the label of its cell.

use std::collections::BTreeMap;
use std::fmt::Write;

use varve_types::CellId;

/// A metric's lines.
struct MetricLines {
    /// By whom it is said what it is: once is enough.
    by: CellId,
    said: String,
    values: String,
}

/// The metrics of these cells, and which of the pool's are missing (ADMIN-2).
pub(super) fn join(answers: &[(CellId, String)], missing: &[u16]) -> String {
    let mut all: BTreeMap<&str, MetricLines> = BTreeMap::new();
    for (cell, text) in answers {
        let mut name = "";
        for line in text.lines().filter(|line| !line.is_empty()) {
            let comment = line.strip_prefix("# ");
            name = comment.map_or(name, |comment| comment.split(' ').nth(1).unwrap_or_default());
            let unsaid = || MetricLines { by: *cell, said: String::new(), values: String::new() };
            let metric = all.entry(name).or_insert_with(unsaid);
            if comment.is_none() {
                let _ = writeln!(metric.values, "{}", labelled(line, *cell));
            } else if metric.by == *cell {
                let _ = writeln!(metric.said, "{line}");
            }
        }
    }
    let mut text: String = all.into_values().map(|metric| metric.said + &metric.values).collect();
    text += "# HELP varve_pool_cells_missing Whether a cell did not answer, so that its metrics are missing here.\n";
    text += "# TYPE varve_pool_cells_missing gauge\n";
    let answered = answers.iter().map(|(cell, _)| (cell.0, 0));
    for (cell, is_missing) in answered.chain(missing.iter().map(|cell| (*cell, 1))) {
        let _ = writeln!(text, "varve_pool_cells_missing{{cell=\"{cell}\"}} {is_missing}");
    }
    text
}

/// A value with the label of its cell, before those that it has.
fn labelled(line: &str, cell: CellId) -> String {
    match line.find(['{', ' ']).map(|end| line.split_at(end)) {
        Some((name, labels)) if labels.starts_with('{') => {
            format!("{name}{{cell=\"{cell}\",{}", &labels[1..])
        }
        Some((name, value)) => format!("{name}{{cell=\"{cell}\"}}{value}"),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_is_described_once_and_has_the_values_of_all_cells() {
        let of = |times: u64| {
            format!(
                "# HELP varve_a_b Some.\n# TYPE varve_a_b histogram\nvarve_a_b_bucket{{le=\"1\"}} {times}\nvarve_a_b_sum {times}\n"
            )
        };
        let more = "# HELP varve_c_d More.\n# TYPE varve_c_d gauge\nvarve_c_d 7\n".to_owned();
        let answers = [(CellId(0), of(1)), (CellId(2), more + &of(2))];
        let expected = "# HELP varve_a_b Some.\n# TYPE varve_a_b histogram\n\
            varve_a_b_bucket{cell=\"0\",le=\"1\"} 1\nvarve_a_b_sum{cell=\"0\"} 1\n\
            varve_a_b_bucket{cell=\"2\",le=\"1\"} 2\nvarve_a_b_sum{cell=\"2\"} 2\n\
            # HELP varve_c_d More.\n# TYPE varve_c_d gauge\nvarve_c_d{cell=\"2\"} 7\n\
            # HELP varve_pool_cells_missing Whether a cell did not answer, so that its metrics are missing here.\n\
            # TYPE varve_pool_cells_missing gauge\n\
            varve_pool_cells_missing{cell=\"0\"} 0\nvarve_pool_cells_missing{cell=\"2\"} 0\n\
            varve_pool_cells_missing{cell=\"1\"} 1\n";
        assert_eq!(join(&answers, &[1]), expected);
    }
}
