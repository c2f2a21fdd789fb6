//! The list of figures: a line `NAME FIGURE GOAL` for each ratchet, and `commits-since COMMIT`.

use std::collections::BTreeMap;

/// Where it lies.
pub(crate) const LIST: &str = "xtask/ratchets.txt";

const SINCE: &str = "commits-since";

/// What the list says.
#[derive(Default)]
pub(crate) struct FigureList {
    /// By the ratchets' names.
    pub(crate) rows: BTreeMap<String, FigureLine>,
    /// The last commit that is not judged.
    pub(crate) since: Option<String>,
}

/// One ratchet's line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FigureLine {
    /// As many there are.
    pub(crate) figure: usize,
    /// As many there may be in the end.
    pub(crate) goal: usize,
}

impl FigureLine {
    /// What the figure has to be where `counted` are found: a goal that is reached leaves room up to it.
    pub(crate) fn due(self, counted: usize) -> usize {
        counted.max(self.goal)
    }
}

impl FigureList {
    /// Reads the list; lines of another form are left out, so that their ratchets count as missing.
    pub(crate) fn parse(text: &str) -> Self {
        let mut figures = Self::default();
        for line in text.lines() {
            if let Some((name, row)) = row(line) {
                figures.rows.insert(name.to_owned(), row);
            } else if let Some(commit) = line.strip_prefix(SINCE) {
                figures.since = Some(commit.trim().to_owned());
            }
        }
        figures
    }
}

fn row(line: &str) -> Option<(&str, FigureLine)> {
    let mut words = line.split_whitespace();
    let (name, figure, goal) = (words.next()?, words.next()?, words.next()?);
    let row = FigureLine { figure: figure.parse().ok()?, goal: goal.parse().ok()? };
    words.next().is_none().then_some((name, row))
}

/// The text of the list with every figure lowered that is higher than need be. None is raised.
pub(crate) fn lowered(text: &str, counted: &BTreeMap<&str, usize>) -> String {
    let lower = |line: &str| {
        let (name, row) = row(line)?;
        let due = row.due(*counted.get(name)?);
        (due < row.figure).then(|| format!("{name} {due} {}\n", row.goal))
    };
    text.lines().map(|line| lower(line).unwrap_or_else(|| format!("{line}\n"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Why.\na-b 12 3\nc 5 0\ncommits-since abc\nd 7 7\n";

    #[test]
    fn figures_are_read() {
        let figures = FigureList::parse(TEXT);
        assert_eq!(figures.since.as_deref(), Some("abc"));
        assert_eq!(figures.rows["a-b"], FigureLine { figure: 12, goal: 3 });
        assert_eq!(figures.rows.len(), 3);
    }

    #[test]
    fn figures_are_lowered_to_the_goal_and_never_raised() {
        let counted = BTreeMap::from([("a-b", 1), ("c", 9), ("d", 2)]);
        assert_eq!(lowered(TEXT, &counted), TEXT.replace("a-b 12 3", "a-b 3 3"));
        let counted = BTreeMap::from([("c", 4)]);
        assert_eq!(lowered(TEXT, &counted), TEXT.replace("c 5 0", "c 4 0"));
    }
}
