//! Metrics in the text format of Prometheus.

use std::collections::{BTreeMap, BTreeSet};

/// The samples of one scrape.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Vec<Sample>);

#[derive(Clone, Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Metrics {
    /// Parses the text format. Lines that are not samples are skipped.
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(Sample::parse).collect())
    }

    /// The label names of the samples with this name.
    pub fn labels(&self, name: &str) -> BTreeSet<String> {
        let samples = self.0.iter().filter(|sample| sample.name == name);
        samples.flat_map(|sample| sample.labels.keys().cloned()).collect()
    }

    /// The sum over all samples with this name and these labels (and possibly others); `None` without such samples.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let matching: Vec<f64> = self
            .0
            .iter()
            .filter(|sample| sample.name == name)
            .filter(|sample| labels.iter().all(|(key, value)| sample.labels.get(*key).is_some_and(|has| has == value)))
            .map(|sample| sample.value)
            .collect();
        (!matching.is_empty()).then(|| matching.iter().sum())
    }
}

impl Sample {
    /// Parses `name value` or `name{label="value",…} value`, possibly with a timestamp at the end.
    fn parse(line: &str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let (name, labels, rest) = if let Some((name, rest)) = line.split_once('{') {
            let (labels, rest) = parse_labels(rest)?;
            (name, labels, rest)
        } else {
            let (name, rest) = line.split_once(' ')?;
            (name, BTreeMap::new(), rest)
        };
        let value = rest.split_whitespace().next()?.parse().ok()?;
        Some(Self { name: name.to_owned(), labels, value })
    }
}

/// The labels between the braces, and the rest of the line.
fn parse_labels(mut rest: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        let (key, quoted) = rest.split_once("=\"")?;
        let (value, behind) = unquote(quoted)?;
        labels.insert(key.to_owned(), value);
        rest = behind;
    }
}

/// The text up to the closing quote, with escapes resolved, and the rest of the line.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some((value, quoted.get(index + 1..)?)),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            plain => value.push(plain),
        }
    }
    None
}
