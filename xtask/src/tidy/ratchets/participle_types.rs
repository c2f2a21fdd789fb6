//! Types are named by nouns: a noun can stand in a sentence, a participle such as `Known` has to be explained.

use crate::tidy::ratchets::declarations::Declarations;
use crate::tidy::ratchets::place::CountedPlace;
use crate::tidy::ratchets::sources::Sources;

/// Participles that do not end in -ed or -ing. Words that are nouns as well (cut, put, read, run, set, split, bound)
/// are not here.
const IRREGULAR: [&str; 66] = [
    "Beaten",
    "Become",
    "Begun",
    "Bitten",
    "Born",
    "Borne",
    "Bought",
    "Broken",
    "Brought",
    "Built",
    "Caught",
    "Chosen",
    "Dealt",
    "Done",
    "Drawn",
    "Driven",
    "Fallen",
    "Felt",
    "Forgotten",
    "Fought",
    "Found",
    "Frozen",
    "Given",
    "Gone",
    "Got",
    "Grown",
    "Had",
    "Heard",
    "Held",
    "Hidden",
    "Kept",
    "Known",
    "Laid",
    "Led",
    "Left",
    "Lent",
    "Lost",
    "Made",
    "Meant",
    "Met",
    "Paid",
    "Proven",
    "Risen",
    "Said",
    "Seen",
    "Sent",
    "Shaken",
    "Shown",
    "Shrunk",
    "Sold",
    "Sought",
    "Spent",
    "Spoken",
    "Stood",
    "Stuck",
    "Sunk",
    "Swept",
    "Taken",
    "Taught",
    "Thought",
    "Thrown",
    "Told",
    "Torn",
    "Withdrawn",
    "Woken",
    "Written",
];

/// Words in -ed and -ing that are no participles.
const NO_PARTICIPLES: [&str; 12] = [
    "Bed", "Feed", "King", "Need", "Ping", "Ring", "Seed", "Speed", "Spring", "String", "Thing",
    "Wing",
];

/// Types named by one word that is a participle.
pub(crate) fn count(sources: &Sources<'_>) -> Vec<CountedPlace> {
    let types = Declarations::of(sources).types;
    let participles = types.iter().filter(|declared| is_participle(&declared.name));
    participles.map(|declared| declared.place("is a participle")).collect()
}

fn is_participle(name: &str) -> bool {
    let is_one_word = name.chars().filter(char::is_ascii_uppercase).count() == 1;
    let stem = name.strip_prefix("Un").map(capitalised);
    let is_irregular =
        IRREGULAR.contains(&name) || stem.is_some_and(|stem| IRREGULAR.contains(&stem.as_str()));
    let is_regular = name.ends_with("ed") || name.ends_with("ing");
    is_one_word && (is_irregular || is_regular && !NO_PARTICIPLES.contains(&name))
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchets::sources::places_in;

    #[test]
    fn participles_of_one_word_are_counted() {
        let text = "struct Known;\nenum Waiting {}\nfn f() {\n    struct Asked;\n}\ntrait Unmet {}\n\
                    struct KnownBlocks;\nstruct Ring;\nstruct Seed;\nstruct Run;\nstruct Union;\nfn told() {}\n\
                    #[cfg(test)]\nmod tests {\n    struct Seen;\n}\n";
        let found = places_in(count, &[("crates/a/src/b.rs", text)]);
        assert_eq!(
            found,
            [
                "crates/a/src/b.rs:1: `Known` is a participle",
                "crates/a/src/b.rs:2: `Waiting` is a participle",
                "crates/a/src/b.rs:4: `Asked` is a participle",
                "crates/a/src/b.rs:6: `Unmet` is a participle",
            ]
        );
    }
}
