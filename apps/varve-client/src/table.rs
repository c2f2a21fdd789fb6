//! Plain text for people: columns under a header, and blocks of labelled values.

use std::fmt::Write;

/// Side on which a column's cells line up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Amounts.
    Right,
}

/// Rows under a header, columns two spaces apart, no trailing blanks.
pub fn columns(header: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|(title, _)| title.chars().count()).collect();
    for row in rows {
        assert!(row.len() == header.len(), "a row has a cell for every column");
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let titles: Vec<String> = header.iter().map(|(title, _)| (*title).to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&titles).chain(rows) {
        let mut line = String::new();
        for ((cell, width), (_, align)) in row.iter().zip(&widths).zip(header) {
            let padded = match align {
                Align::Left => format!("{cell:<width$}  "),
                Align::Right => format!("{cell:>width$}  "),
            };
            line.push_str(&padded);
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// A label and its value on each line.
pub fn labelled(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (label, value) in pairs {
        let _ = writeln!(text, "{}", format!("{label:<width$}  {value}").trim_end());
    }
    text
}

/// A switch as people read it.
pub fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let header = [("NAME", Align::Left), ("SIZE", Align::Right)];
        let rows = [
            vec!["a".to_owned(), "20 GiB".to_owned()],
            vec!["longer".to_owned(), "1 B".to_owned()],
        ];
        assert_eq!(columns(&header, &rows), "NAME      SIZE\na       20 GiB\nlonger     1 B\n");
    }

    #[test]
    fn labels_line_up() {
        let pairs = [("id", "1".to_owned()), ("created", "2 d ago".to_owned())];
        assert_eq!(labelled(&pairs), "id       1\ncreated  2 d ago\n");
    }
}
