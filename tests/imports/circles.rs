//! Circles of files that import each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// Each pair of files of which the first imports the second, with the line of the first such import.
pub(crate) type Imports = BTreeMap<String, BTreeMap<String, usize>>;

/// Files that can all be reached from each other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Circle {
    /// All of these files, in alphabetical order.
    pub(crate) files: Vec<String>,
    /// A shortest way round: file, line of the import, imported file.
    way: Vec<(String, usize, String)>,
}

impl Circle {
    /// The same circle with the names of the files below a folder.
    pub(crate) fn within(self, folder: &str) -> Self {
        let below = |file: String| format!("{folder}/{file}");
        Self {
            files: self.files.into_iter().map(below).collect(),
            way: self.way.into_iter().map(|(from, line, to)| (below(from), line, below(to))).collect(),
        }
    }
}

impl fmt::Display for Circle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (from, line, to) in &self.way {
            writeln!(out, "  {from}:{line} imports {to}")?;
        }
        if self.files.len() > self.way.len() {
            writeln!(out, "  in a larger circle of {}", self.files.join(", "))?;
        }
        Ok(())
    }
}

/// All circles, none a part of another.
pub(crate) fn circles(imports: &Imports) -> Vec<Circle> {
    let reachable: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (file.as_str(), reachable(imports, file))).collect();
    let reaches = |from: &str, to: &str| reachable.get(from).is_some_and(|files| files.contains(to));
    let mut done = BTreeSet::new();
    let mut found = Vec::new();
    for file in imports.keys().filter(|file| reaches(file, file)) {
        if done.contains(file) {
            continue;
        }
        let files: Vec<String> = imports.keys().filter(|to| reaches(file, to) && reaches(to, file)).cloned().collect();
        done.extend(files.clone());
        let ways = files.iter().map(|file| shortest_way_round(imports, file));
        let way = ways.min_by_key(Vec::len).unwrap_or_default();
        found.push(Circle { files, way });
    }
    found
}

fn reachable<'i>(imports: &'i Imports, from: &str) -> BTreeSet<&'i str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for to in imports.get(file).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(to.as_str()) {
                open.push(to);
            }
        }
    }
    seen
}

/// The imports that lead from a file back to itself, as few as possible.
fn shortest_way_round(imports: &Imports, start: &str) -> Vec<(String, usize, String)> {
    let mut ways = VecDeque::from([vec![]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        let at = way.last().map_or(start, |(_, _, to): &(String, usize, String)| to.as_str());
        for (to, line) in imports.get(at).into_iter().flatten() {
            let mut longer = way.clone();
            longer.push((at.to_owned(), *line, to.clone()));
            if to == start {
                return longer;
            }
            if seen.insert(to) {
                ways.push_back(longer);
            }
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::{Imports, circles};

    fn imports(pairs: &[(&str, usize, &str)]) -> Imports {
        let mut imports = Imports::new();
        for (from, line, to) in pairs {
            imports.entry((*from).to_owned()).or_default().insert((*to).to_owned(), *line);
        }
        imports
    }

    #[test]
    fn imports_that_run_one_way_are_no_circle() {
        let found = circles(&imports(&[("a", 1, "b"), ("a", 2, "c"), ("b", 1, "c")]));
        assert_eq!(found, []);
    }

    #[test]
    fn circles_are_found_by_way_of_others_with_their_lines() {
        let pairs = [("a", 7, "b"), ("b", 8, "c"), ("c", 9, "a"), ("x", 1, "a"), ("y", 4, "z"), ("z", 5, "y")];
        let found = circles(&imports(&pairs));
        let files: Vec<Vec<String>> = found.iter().map(|circle| circle.files.clone()).collect();
        assert_eq!(files, [vec!["a", "b", "c"], vec!["y", "z"]]);
        assert_eq!(found[0].to_string(), "  a:7 imports b\n  b:8 imports c\n  c:9 imports a\n");
    }

    #[test]
    fn overlapping_circles_are_one_with_its_shortest_way() {
        let pairs = [("a", 1, "b"), ("b", 2, "c"), ("c", 3, "a"), ("b", 4, "a")];
        let found = circles(&imports(&pairs));
        assert_eq!(found.len(), 1);
        let text = "  s/a:1 imports s/b\n  s/b:4 imports s/a\n  in a larger circle of s/a, s/b, s/c\n";
        assert_eq!(found.into_iter().next().unwrap().within("s").to_string(), text);
    }
}
