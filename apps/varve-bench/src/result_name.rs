//! What results are called where several stand together.

use std::path::Path;

use super::saved::REPORT;

/// What a result is called: its folder, or its file without `.json`; `report.json`, which all folders have, by its
/// folder.
pub fn result_name(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_in_folder = whole.file_name().is_some_and(|last| last == REPORT) && !whole.is_dir();
    let folder = whole.parent().filter(|folder| is_in_folder && folder.file_name().is_some());
    let of = folder.unwrap_or(&whole);
    let last = of.file_name().map(|last| last.to_string_lossy().into_owned());
    let last = last.unwrap_or_else(|| path.display().to_string());
    let stem = last.strip_suffix(".json").filter(|stem| !stem.is_empty() && !of.is_dir());
    match stem {
        Some(stem) => stem.to_owned(),
        None => last,
    }
}

/// Names of results of which no two are equal: those that would be are numbered.
pub(crate) fn result_names<'a>(paths: impl Iterator<Item = &'a Path>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for path in paths {
        let own = result_name(path);
        let numbered = (2_u64..).map(|number| format!("{own} ({number})"));
        let free = std::iter::once(own.clone()).chain(numbered).find(|name| !names.contains(name));
        names.extend(free);
    }
    names
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn names_tell_results_apart() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["v1.2", "v1.3", "a", "b", "c.json", "x"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        for file in ["a/report.json", "b/report.json", "x.json", "y.v2.json", "z.1"] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        let of = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(|path| dir.path().join(path)).collect();
            result_names(paths.iter().map(PathBuf::as_path))
        };
        assert_eq!(of(&["v1.2", "v1.3"]), ["v1.2", "v1.3"]);
        assert_eq!(of(&["a/report.json", "b/report.json"]), ["a", "b"]);
        let files = ["c.json", "y.v2.json", "z.1", "gone.json"];
        assert_eq!(of(&files), ["c.json", "y.v2", "z.1", "gone"]);
        assert_eq!(of(&["x", "x.json", "a", "x"]), ["x", "x (2)", "a", "x (3)"]);
        assert_eq!(of(&["a", "a/report.json"]), ["a", "a (2)"]);
    }
}
