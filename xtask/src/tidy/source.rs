//! Rust source with its comments and literals blanked, and its inline tests cut off, so that checks look at code only.

/// The text with the content of comments, strings and characters replaced by blanks; lines stay where they are.
pub(crate) fn code_only(text: &str) -> String {
    let mut scan = Scan { rest: text, code: String::with_capacity(text.len()) };
    while !scan.rest.is_empty() {
        scan.step();
    }
    scan.code
}

/// A comment from `//` to the end of its line.
pub(crate) struct Comment<'a> {
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) text: &'a str,
}

/// The comments of a text that begin with `//`, not those in literals.
pub(crate) fn line_comments(text: &str) -> Vec<Comment<'_>> {
    let mut scan = Scan { rest: text, code: String::with_capacity(text.len()) };
    let mut found = Vec::new();
    let (mut line, mut counted) = (1, 0);
    while !scan.rest.is_empty() {
        if scan.rest.starts_with("//") {
            let at = text.len() - scan.rest.len();
            line += text[counted..at].matches('\n').count();
            counted = at;
            found.push(Comment { line, text: scan.rest.lines().next().unwrap_or_default() });
        }
        scan.step();
    }
    found
}

struct Scan<'a> {
    rest: &'a str,
    code: String,
}

impl Scan<'_> {
    fn step(&mut self) {
        let rest = self.rest;
        if rest.starts_with("//") {
            self.blank(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.blank(block_comment(rest));
        } else if let Some(length) = raw_string(rest).filter(|_| !self.in_word()) {
            self.blank(length);
        } else if rest.starts_with('"') {
            self.blank(quoted(rest, '"'));
        } else if rest.starts_with('\'') {
            match character(rest) {
                Some(length) => self.blank(length),
                None => self.keep(1),
            }
        } else {
            self.keep(rest.chars().next().map_or(1, char::len_utf8));
        }
    }

    /// Whether the last character kept belongs to a word, so that an `r` is not the start of a raw string.
    fn in_word(&self) -> bool {
        self.code.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    }

    fn keep(&mut self, length: usize) {
        let (kept, rest) = self.rest.split_at(length);
        self.code.push_str(kept);
        self.rest = rest;
    }

    fn blank(&mut self, length: usize) {
        let (gone, rest) = self.rest.split_at(length);
        self.code.extend(gone.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.rest = rest;
    }
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// Length of a raw string such as `r#"…"#` or `br"…"` at the start of the text.
fn raw_string(text: &str) -> Option<usize> {
    let body = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let body = body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - body.len();
    Some(body.find(&end).map_or(text.len(), |at| start + at + end.len()))
}

/// Length of a literal in `quote`s with backslash escapes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    text.len()
}

/// Length of a character literal; `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        return Some(quoted(text, '\''));
    }
    match chars.next() {
        Some((at, '\'')) => Some(at + 1),
        _ => None,
    }
}

/// The text with the inline `#[cfg(test)]` items blanked; lines stay where they are.
pub(crate) fn without_tests(text: &str) -> String {
    let marked = mark_tests(text);
    marked.map(|(line, test)| if test { "\n".to_owned() } else { format!("{line}\n") }).collect()
}

/// Lines of the inline `#[cfg(test)]` items.
pub(crate) fn test_lines(text: &str) -> usize {
    mark_tests(text).filter(|(_, test)| *test).count()
}

/// Every line, and whether it belongs to an inline test item. Relies on rustfmt: an item ends at the next line of its
/// own indentation that closes it.
fn mark_tests(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut inside: Option<usize> = None;
    text.lines().map(move |line| {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        match inside {
            None if code == "#[cfg(test)]" => {
                inside = Some(indent);
                (line, true)
            }
            None => (line, false),
            Some(start) => {
                let closes = line.ends_with('}') || line.ends_with(';') || line.ends_with(',');
                if indent == start && !code.starts_with("#[") && closes {
                    inside = None;
                }
                (line, true)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let code = code_only(
            "a(\"unsafe \\\" x\"); // unsafe\nb('\"', r#\"unsafe\"#) /* unsafe /* x */ y */ c::<'a>()",
        );
        assert!(!code.contains("unsafe"), "{code}");
        assert!(!code.contains('y'), "{code}");
        assert!(code.contains("c::<'a>()"), "{code}");
        assert_eq!(code.lines().count(), 2);
    }

    #[test]
    fn words_that_end_in_r_do_not_start_a_raw_string() {
        assert_eq!(code_only("for\"x\" y"), "for    y");
        assert_eq!(code_only("'\\'' z"), "     z");
    }

    #[test]
    fn comments_are_found_with_their_lines() {
        let text = "//! a\nlet b = \"// c\n// d\"; // e\n/* // f */\n    /// g\n";
        let found: Vec<_> = line_comments(text).iter().map(|c| (c.line, c.text)).collect();
        assert_eq!(found, [(1, "//! a"), (3, "// e"), (5, "/// g")]);
    }

    #[test]
    fn inline_tests_are_cut_off() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n    #[cfg(test)]\n    fn d(\n        x: u8,\n    ) {\n    }\nfn e() {}\n";
        let kept = without_tests(text);
        assert_eq!(kept.lines().count(), text.lines().count());
        assert!(kept.contains("fn a") && kept.contains("fn c") && kept.contains("fn e"), "{kept}");
        assert!(!kept.contains("fn b") && !kept.contains("fn d"), "{kept}");
    }
}
