//! Names of loads by what tells them apart: long descriptions of which most parts are the same.

/// The parts of each description that not all have, and what they have in common. Of descriptions that are all the same
/// the first is empty.
pub(super) fn told_apart(descriptions: &[&str]) -> (Vec<String>, String) {
    let parts: Vec<Vec<&str>> =
        descriptions.iter().map(|description| description.split(", ").collect()).collect();
    let is_common = |part: &str| parts.iter().all(|other| other.contains(&part));
    let joined = |parts: &[&str], is_kept: bool| {
        let kept = parts.iter().filter(|part| is_common(part) == is_kept);
        kept.copied().collect::<Vec<_>>().join(", ")
    };
    let names = parts.iter().map(|parts| joined(parts, false)).collect();
    (names, parts.first().map_or_else(String::new, |parts| joined(parts, true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_named_by_what_differs() {
        let loads = [
            "4 KiB random, 100 % reads, 1 × 8 under way",
            "4 KiB random, 100 % reads, 1 × 32 under way",
        ];
        let (names, common) = told_apart(&loads);
        assert_eq!(names, ["1 × 8 under way", "1 × 32 under way"]);
        assert_eq!(common, "4 KiB random, 100 % reads");
        let (names, common) = told_apart(&["a, b", "a, b"]);
        assert_eq!((names, common.as_str()), (vec![String::new(); 2], "a, b"));
        assert_eq!(told_apart(&[]), (Vec::new(), String::new()));
    }
}
