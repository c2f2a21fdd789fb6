//! The figures as a table, with their places, and as JSON.

use serde_json::{Value, json as value};

use crate::tidy::ratchets::ratchet::RatchetOutcome;

/// One line a ratchet: what was counted, the figure of the list, and the goal.
pub(crate) fn table(outcomes: &[RatchetOutcome]) -> String {
    let mut lines = vec![format!("{:<26}{:>6}{:>8}{:>6}", "ratchet", "now", "listed", "goal")];
    for outcome in outcomes {
        let number =
            |number: Option<usize>| number.map_or("–".to_owned(), |number| number.to_string());
        let (listed, goal) = (outcome.row.map(|row| row.figure), outcome.row.map(|row| row.goal));
        let (now, listed, goal) = (number(outcome.counted), number(listed), number(goal));
        lines.push(format!("{:<26}{now:>6}{listed:>8}{goal:>6}", outcome.name));
    }
    for outcome in outcomes.iter().filter(|outcome| outcome.counted.is_none()) {
        let what = "not counted, as this clone lacks the commit of `commits-since`";
        lines.push(format!("{}: {what}", outcome.name));
    }
    lines.join("\n")
}

/// Every ratchet with its figures and places.
pub(crate) fn places(outcomes: &[RatchetOutcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let now = outcome.counted.map_or("not counted".to_owned(), |counted| counted.to_string());
        let goal = outcome.row.map_or(String::new(), |row| format!(", goal {}", row.goal));
        text.push_str(&format!("== {}: {now}{goal}: {}\n", outcome.name, outcome.fix));
        for place in &outcome.places {
            text.push_str(&format!("{place}\n"));
        }
    }
    text
}

/// The same for programs.
pub(crate) fn json(outcomes: &[RatchetOutcome]) -> Value {
    let ratchets = outcomes.iter().map(|outcome| {
        value!({
            "name": outcome.name,
            "fix": outcome.fix,
            "counted": outcome.counted,
            "figure": outcome.row.map(|row| row.figure),
            "goal": outcome.row.map(|row| row.goal),
            "places": outcome.places,
        })
    });
    Value::Array(ratchets.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchets::place::CountedPlace;
    use crate::tidy::ratchets::ratchet::tests::outcome;

    #[test]
    fn figures_stand_beside_their_goals() {
        let outcomes = [outcome(Some(12), Some((12, 3)), vec![]), outcome(None, None, vec![])];
        let expected = "ratchet                      now  listed  goal\n\
                        a                             12      12     3\n\
                        a                              –       –     –\n\
                        a: not counted, as this clone lacks the commit of `commits-since`";
        assert_eq!(table(&outcomes), expected);
    }

    #[test]
    fn places_are_listed_for_people_and_programs() {
        let outcomes = [outcome(Some(1), Some((1, 0)), vec![CountedPlace::line("b.rs", 7, "`X`")])];
        assert_eq!(places(&outcomes), "== a: 1, goal 0: mend it\nb.rs:7: `X`\n");
        let expected = value!([{
            "name": "a", "fix": "mend it", "counted": 1, "figure": 1, "goal": 0,
            "places": [{ "path": "b.rs", "line": 7, "what": "`X`", "size": 1 }],
        }]);
        assert_eq!(json(&outcomes), expected);
    }
}
