//! Filters of describe calls, as in <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html>: all
//! filters must match, with one value of each. Values are case-sensitive and may contain `*` and `?`. An unknown filter
//! is refused, never ignored.

use std::collections::BTreeMap;

use capa_cloud::{CloudError, Query};

const MAX_FILTERS: usize = 50;
const MAX_VALUES: usize = 200;

/// Tags of one resource.
pub(crate) type Tags = BTreeMap<String, String>;

/// The tags of resources that have none here.
pub(crate) static NO_TAGS: Tags = Tags::new();

/// The resources that match all filters. `known` are the filters of this kind of resource besides the filters by tag;
/// `values_of` returns the values of a resource for one of these filters.
pub(crate) fn select<'a, T: 'a>(
    operation: &'static str,
    query: &Query,
    known: &[&str],
    things: impl Iterator<Item = (T, &'a Tags)>,
    values_of: impl Fn(&T, &str) -> Vec<String>,
) -> Result<Vec<T>, CloudError> {
    check(operation, query, known)?;
    let matching = things.filter(|(thing, tags)| {
        query.filters.iter().all(|(name, patterns)| {
            let values = tag_values(tags, name).unwrap_or_else(|| values_of(thing, name));
            values.iter().any(|value| patterns.iter().any(|pattern| is_like(value, pattern)))
        })
    });
    Ok(matching.map(|(thing, _)| thing).collect())
}

/// The values of a resource for a filter by tag; `None` for other filters.
fn tag_values(tags: &Tags, filter: &str) -> Option<Vec<String>> {
    match filter.strip_prefix("tag:") {
        Some(key) => Some(tags.get(key).cloned().into_iter().collect()),
        None if filter == "tag-key" => Some(tags.keys().cloned().collect()),
        None => None,
    }
}

fn check(operation: &'static str, query: &Query, known: &[&str]) -> Result<(), CloudError> {
    let values: usize = query.filters.iter().map(|(_, values)| values.len()).sum();
    if query.filters.len() > MAX_FILTERS || values > MAX_VALUES {
        let message = "The maximum number of filter values specified on a single call is 200";
        return Err(CloudError::answered(operation, "FilterLimitExceeded", message));
    }
    for (name, values) in &query.filters {
        let is_known = name == "tag-key" || name.starts_with("tag:") || known.contains(&name.as_str());
        if !is_known {
            let message = format!("The filter '{name}' is invalid");
            return Err(CloudError::answered(operation, "InvalidParameterValue", &message));
        }
        if values.is_empty() {
            let message = format!("The filter '{name}' has no value");
            return Err(CloudError::answered(operation, "InvalidParameterValue", &message));
        }
    }
    Ok(())
}

/// Whether a value matches a pattern. `*` matches any text, `?` any single character, and a backslash escapes the next
/// character.
fn is_like(value: &str, pattern: &str) -> bool {
    if !pattern.contains(['*', '?', '\\']) {
        return value == pattern;
    }
    let value: Vec<char> = value.chars().collect();
    // The lengths of the prefixes of the value that the pattern so far can match.
    let mut reached = vec![false; value.len() + 1];
    if let Some(start) = reached.first_mut() {
        *start = true;
    }
    let mut pattern = pattern.chars();
    while let Some(part) = pattern.next() {
        reached = match part {
            '*' => after_any_text(&reached),
            '?' => after_one(&reached, &value, |_| true),
            '\\' => {
                let literal = pattern.next().unwrap_or('\\');
                after_one(&reached, &value, |character| character == literal)
            }
            literal => after_one(&reached, &value, |character| character == literal),
        };
    }
    reached.last().copied().unwrap_or_default()
}

fn after_any_text(reached: &[bool]) -> Vec<bool> {
    let mut any = false;
    let open = reached.iter().map(|here| {
        any |= here;
        any
    });
    open.collect()
}

fn after_one(reached: &[bool], value: &[char], accepts: impl Fn(char) -> bool) -> Vec<bool> {
    let stepped = reached.iter().zip(value).map(|(here, character)| *here && accepts(*character));
    std::iter::once(false).chain(stepped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_values_and_mind_the_case() {
        for (value, pattern) in
            [("web", "web"), ("web", "*"), ("", "*"), ("web", "w?b"), ("a-web-1", "*web*"), ("a*b", "a\\*b")]
        {
            assert!(is_like(value, pattern), "{value} is like {pattern}");
        }
        for (value, pattern) in
            [("web", "Web"), ("web", "we"), ("web", "w?"), ("web", ""), ("axb", "a\\*b"), ("ab", "a?b")]
        {
            assert!(!is_like(value, pattern), "{value} is not like {pattern}");
        }
    }
}
