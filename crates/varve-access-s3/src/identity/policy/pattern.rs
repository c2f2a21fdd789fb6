//! Patterns of policies: `*` stands for anything, `?` for one byte, and in documents of version 2012-10-17 `${NAME}`
//! for what a request has under the name of a condition's key, `${NAME, 'TEXT'}` for that or a text where it has
//! nothing, and `${*}`, `${?}`, `${$}` for the sign.

/// A part of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PatternPiece {
    Anything,
    One,
    Byte(u8),
}

/// What a variable is called, and the text where it has no value.
type Variable<'a> = (&'a str, Option<&'a str>);

/// What stands in a pattern.
enum PatternPart<'a> {
    Text(&'a str),
    Variable(Variable<'a>),
}

/// The parts of a pattern with variables. What is not closed is text.
fn parts(pattern: &str) -> Vec<PatternPart<'_>> {
    let (mut parts, mut rest) = (Vec::new(), pattern);
    while let Some((before, behind)) = rest.split_once("${") {
        let Some((inside, after)) = behind.split_once('}') else { break };
        parts.push(PatternPart::Text(before));
        parts.push(PatternPart::Variable(variable(inside)));
        rest = after;
    }
    parts.push(PatternPart::Text(rest));
    parts
}

fn variable(inside: &str) -> Variable<'_> {
    let Some((name, text)) = inside.split_once(',') else { return (inside.trim(), None) };
    let text = text.trim();
    let bare = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    (name.trim(), Some(bare.unwrap_or(text)))
}

/// Names of the variables of a pattern, signs apart.
pub(super) fn variables(pattern: &str) -> impl Iterator<Item = &str> {
    parts(pattern).into_iter().filter_map(|part| match part {
        PatternPart::Variable((name, _)) if !matches!(name, "*" | "?" | "$") => Some(name),
        _ => None,
    })
}

/// The pattern with its variables replaced; none where one has no value. Signs in values stand for themselves.
pub(super) fn expand(
    pattern: &str,
    value: &dyn Fn(&str) -> Option<String>,
) -> Option<Vec<PatternPiece>> {
    let mut pieces = Vec::with_capacity(pattern.len());
    for part in parts(pattern) {
        match part {
            PatternPart::Text(text) => pieces.extend(compile(text)),
            PatternPart::Variable((sign @ ("*" | "?" | "$"), _)) => pieces.extend(literal(sign)),
            PatternPart::Variable((name, default)) => {
                let found = value(name).or_else(|| default.map(str::to_owned))?;
                pieces.extend(literal(&found));
            }
        }
    }
    Some(pieces)
}

/// A pattern without variables.
pub(super) fn compile(pattern: &str) -> impl Iterator<Item = PatternPiece> {
    pattern.bytes().map(|byte| match byte {
        b'*' => PatternPiece::Anything,
        b'?' => PatternPiece::One,
        byte => PatternPiece::Byte(byte),
    })
}

fn literal(text: &str) -> impl Iterator<Item = PatternPiece> {
    text.bytes().map(PatternPiece::Byte)
}

/// Its text, where signs stand for themselves: for operators that know no patterns.
pub(super) fn text(pieces: &[PatternPiece]) -> String {
    let byte = |piece: &PatternPiece| match piece {
        PatternPiece::Anything => b'*',
        PatternPiece::One => b'?',
        PatternPiece::Byte(byte) => *byte,
    };
    String::from_utf8_lossy(&pieces.iter().map(byte).collect::<Vec<_>>()).into_owned()
}

/// Whether a text fits. Its time is bounded by the product of both lengths.
pub(super) fn fits(pattern: &[PatternPiece], text: &str) -> bool {
    let text = text.as_bytes();
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(from) {
        match pattern.get(at) {
            Some(PatternPiece::Anything) => {
                star = Some((at, from));
                at += 1;
            }
            Some(piece) if *piece == PatternPiece::One || *piece == PatternPiece::Byte(*byte) => {
                at += 1;
                from += 1;
            }
            _ => match star {
                Some((star_at, star_from)) => {
                    star = Some((star_at, star_from + 1));
                    at = star_at + 1;
                    from = star_from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).is_none_or(|rest| rest.iter().all(|piece| *piece == PatternPiece::Anything))
}

/// Whether a text fits a pattern in which `*` stands for anything and `?` for one character.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    fits(&compile(pattern).collect::<Vec<_>>(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_and_signs_in_values_are_none() {
        let value = |name: &str| match name {
            "aws:username" => Some("a*n".to_owned()),
            _ => None,
        };
        let matches = |pattern: &str, text: &str| {
            expand(pattern, &value).is_some_and(|pattern| fits(&pattern, text))
        };
        for (pattern, text, wanted) in [
            ("b/${aws:username}/*", "b/a*n/x", true),
            ("b/${aws:username}/*", "b/aXn/x", false),
            ("${aws:username}${aws:username}", "a*na*n", true),
            ("b/${none}/*", "b//x", false),
            ("b/${none, 'all'}/*", "b/all/x", true),
            ("b/${none,all}", "b/all", true),
            ("${*}${?}${$}", "*?$", true),
            ("${*}", "x", false),
            ("b/${aws:username", "b/${aws:username", true),
            ("b/$x}", "b/$x}", true),
        ] {
            assert_eq!(matches(pattern, text), wanted, "{pattern} {text}");
        }
        assert_eq!(variables("${*}/${a}/${b, 'c'}").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(text(&expand("${*}x*", &value).unwrap()), "*x*");
    }
}
