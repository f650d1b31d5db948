//! The changes of objects' conditions since the last report, merged for a short output.

use std::collections::BTreeMap;

use capa_e2e::objects::Condition;

/// One report: objects of a kind whose conditions now have the same content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct News {
    names: Vec<String>,
    types: Vec<&'static str>,
    condition: Condition,
}

/// The last report about each object of a kind.
#[derive(Default)]
pub(crate) struct Reported(BTreeMap<String, BTreeMap<&'static str, Condition>>);

impl Reported {
    /// Records the current conditions of all objects of the kind, and returns the changes.
    pub(crate) fn update(&mut self, now: &[(String, Vec<(&'static str, Condition)>)]) -> Vec<News> {
        let mut news: Vec<News> = Vec::new();
        for (name, conditions) in now {
            let reported = self.0.entry(name.clone()).or_default();
            for (type_, condition) in conditions {
                if reported.insert(type_, condition.clone()).as_ref() != Some(condition) {
                    add(&mut news, name, type_, condition);
                }
            }
        }
        merge_types(news)
    }

    /// Forgets the objects that no longer exist, and returns their names.
    pub(crate) fn gone(&mut self, now: &[(String, Vec<(&'static str, Condition)>)]) -> Vec<String> {
        let is_there = |name: &String| now.iter().any(|(there, _)| there == name);
        let gone: Vec<String> = self.0.keys().filter(|name| !is_there(name)).cloned().collect();
        self.0.retain(|name, _| is_there(name));
        gone
    }
}

/// Adds a change to the report of other objects with the same content, or as a report of its own.
fn add(news: &mut Vec<News>, name: &str, type_: &'static str, condition: &Condition) {
    let same = news.iter_mut().find(|known| known.types == [type_] && known.condition == *condition);
    match same {
        Some(known) => known.names.push(name.to_owned()),
        None => news.push(News { names: vec![name.to_owned()], types: vec![type_], condition: condition.clone() }),
    }
}

/// Merges the reports of the same objects with the same content under several condition types.
fn merge_types(news: Vec<News>) -> Vec<News> {
    let mut merged: Vec<News> = Vec::new();
    for item in news {
        let same = merged.iter_mut().find(|known| known.names == item.names && known.condition == item.condition);
        match same {
            Some(known) => known.types.extend(item.types),
            None => merged.push(item),
        }
    }
    merged
}

impl News {
    /// The objects, the conditions and the reason. The reason `Ready` is left out: it says no more than the status.
    pub(crate) fn parts(&self, kind: &str) -> Vec<String> {
        let Condition { status, reason, .. } = &self.condition;
        let says = format!("{}={status}", self.types.join(","));
        let mut parts = vec![objects(kind, &self.names), says];
        if !reason.is_empty() && reason != "Ready" {
            parts.push(reason.clone());
        }
        parts
    }

    /// The message of the conditions.
    pub(crate) fn message(&self) -> &str {
        &self.condition.message
    }
}

/// The kind and the names, with the common prefix of the names written once: `Machine/workers-{a,b}`.
pub(crate) fn objects(kind: &str, names: &[String]) -> String {
    let split: Vec<(&str, &str)> =
        names.iter().map(|name| name.rfind('-').map_or(("", name.as_str()), |dash| name.split_at(dash + 1))).collect();
    match split.as_slice() {
        [(prefix, _), _, ..] if split.iter().all(|(other, _)| other == prefix) => {
            let endings: Vec<&str> = split.iter().map(|(_, ending)| *ending).collect();
            format!("{kind}/{prefix}{{{}}}", endings.join(","))
        }
        _ => format!("{kind}/{}", names.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(status: &str, reason: &str) -> Condition {
        Condition { status: status.to_owned(), reason: reason.to_owned(), message: String::new() }
    }

    fn says(name: &str, conditions: &[(&'static str, Condition)]) -> (String, Vec<(&'static str, Condition)>) {
        (name.to_owned(), conditions.to_vec())
    }

    fn lines(news: &[News]) -> Vec<String> {
        news.iter().map(|news| news.parts("Machine").join("  ")).collect()
    }

    #[test]
    fn a_reported_condition_is_not_reported_again() {
        let mut reported = Reported::default();
        let waits = says("m-a", &[("Up", condition("False", "Waiting"))]);
        assert_eq!(lines(&reported.update(std::slice::from_ref(&waits))), ["Machine/m-a  Up=False  Waiting"]);
        assert_eq!(reported.update(&[waits]), []);
        let ready = says("m-a", &[("Up", condition("True", "Ready"))]);
        assert_eq!(lines(&reported.update(&[ready])), ["Machine/m-a  Up=True"]);
    }

    #[test]
    fn objects_with_equal_conditions_share_a_report() {
        let mut reported = Reported::default();
        let well = [("Known", condition("True", "Ready")), ("Up", condition("True", "Ready"))];
        let waits = [("Known", condition("True", "Ready")), ("Up", condition("False", "Waiting"))];
        assert_eq!(
            lines(&reported.update(&[says("m-a", &well), says("m-b", &well)])),
            ["Machine/m-{a,b}  Known,Up=True"]
        );
        assert_eq!(
            lines(&Reported::default().update(&[says("m-a", &well), says("m-b", &waits)])),
            ["Machine/m-{a,b}  Known=True", "Machine/m-a  Up=True", "Machine/m-b  Up=False  Waiting"]
        );
    }

    #[test]
    fn a_deleted_object_is_reported_once() {
        let mut reported = Reported::default();
        reported.update(&[says("m-a", &[]), says("m-b", &[])]);
        assert_eq!(reported.gone(&[says("m-b", &[])]), ["m-a"]);
        assert!(reported.gone(&[says("m-b", &[])]).is_empty());
    }
}
