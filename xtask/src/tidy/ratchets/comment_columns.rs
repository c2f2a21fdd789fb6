//! Comments of at most 120 columns: beside another file, what is wider is cut off or wraps in the middle.

use crate::tidy::ratchets::place::CountedPlace;
use crate::tidy::ratchets::sources::Sources;

const COLUMNS_MAX: usize = 120;

/// Lines of Rust, tests too, that a comment makes too wide.
pub(crate) fn count(sources: &Sources<'_>) -> Vec<CountedPlace> {
    let mut found = Vec::new();
    for (file, comments) in &sources.comments {
        let lines: Vec<&str> = file.text.lines().collect();
        for comment in comments {
            let columns = lines.get(comment.line - 1).map_or(0, |line| line.chars().count());
            if columns > COLUMNS_MAX {
                found.push(CountedPlace::line(
                    &file.path,
                    comment.line,
                    format!("{columns} columns"),
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchets::sources::places_in;

    #[test]
    fn comments_are_measured_in_characters_with_what_stands_before_them() {
        let wide = "é".repeat(COLUMNS_MAX);
        let text = format!(
            "//! {}\n// {wide}\nlet a = 1; // {}\nlet b = \"// {wide}\";\n    /// {}\n",
            &wide[..2 * (COLUMNS_MAX - 4)],
            &wide[..2 * (COLUMNS_MAX - 13)],
            &wide[..2 * (COLUMNS_MAX - 7)],
        );
        let found = places_in(count, &[("crates/a/tests/b.rs", &text)]);
        assert_eq!(
            found,
            [
                "crates/a/tests/b.rs:2: 123 columns",
                "crates/a/tests/b.rs:3: 121 columns",
                "crates/a/tests/b.rs:5: 121 columns",
            ]
        );
    }
}
