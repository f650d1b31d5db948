//! The annotation by which a user gives up an instance, so that a deletion that is blocked can end. Pure.

use capa_api::machine::AWSMachine;
use capa_api::meta;

use crate::awsmachine::scope::search_token;
use crate::awsmachine::spec;

/// The longest part of a mismatched value that a condition repeats.
const SHOWN: usize = 64;

/// The effect of the annotation on a machine that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum Abandonment {
    /// There is no such annotation.
    NotAsked,
    /// It names the recorded instance, or the token of the attempt that may have launched one, or the token of the
    /// search for one.
    Asked(String),
    /// It names something else and has no effect; the message for its author.
    Mismatch(String),
}

/// Reads the annotation. It must have the value of this very AWSMachine, so that nobody gives up an instance that they
/// do not know.
pub(in crate::awsmachine) fn abandonment(machine: &AWSMachine) -> Abandonment {
    let Some(value) = meta::annotation(&machine.metadata, meta::ABANDON_INSTANCE_ANNOTATION) else {
        return Abandonment::NotAsked;
    };
    let expected = expected_value(machine);
    if value == expected {
        return Abandonment::Asked(expected);
    }
    let why = if recorded(machine).is_some() {
        "which is recorded"
    } else {
        "the value of this AWSMachine, which has no record of an instance"
    };
    let shown: String = value.chars().take(SHOWN).collect();
    Abandonment::Mismatch(format!(
        "annotation {} names \"{shown}\", not {expected}, {why}: it has no effect",
        meta::ABANDON_INSTANCE_ANNOTATION
    ))
}

/// The annotation with the value that lets the deletion of this machine end, for messages.
pub(in crate::awsmachine) fn described(machine: &AWSMachine) -> String {
    format!(
        "annotation {}: {}",
        meta::ABANDON_INSTANCE_ANNOTATION,
        expected_value(machine)
    )
}

/// The value of the annotation that has an effect: the recorded instance or token, or else the token of the search.
fn expected_value(machine: &AWSMachine) -> String {
    recorded(machine).unwrap_or_else(|| search_token(machine))
}

/// The recorded instance, or else the token of the recorded attempt. `None` for a machine that never had a record, or
/// whose record is lost or says that EC2 was never asked.
fn recorded(machine: &AWSMachine) -> Option<String> {
    let launch = machine.status.as_ref().and_then(|status| status.launch.as_ref());
    let token = || Some(launch?.request()?.client_token.clone());
    spec::instance_id(machine).or_else(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    const REQUEST: &str = "holder: one, clientToken: uid-1, subnetID: s, imageID: i, instanceType: t, \
         securityGroupIDs: [g], parametersHash: h, requestedAt: '2026-01-01T00:00:00Z'";

    fn asked(value: &str, spec: &str, launch: &str) -> Abandonment {
        abandonment(&read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, metadata: {{name: m, uid: uid, \
              annotations: {{{}: {value}}}}}, spec: {{instanceType: t3.large{spec}}}, status: {{launch: {launch}}}}}",
            meta::ABANDON_INSTANCE_ANNOTATION
        )))
    }

    #[test]
    fn the_annotation_needs_the_value_of_this_machine() {
        let id = "i-0000000000000000a";
        let of_spec = format!(", instanceID: {id}");
        let open = format!("{{phase: Requested, attempt: 1, {REQUEST}}}");
        let launched = format!("{{phase: Answered, attempt: 1, {REQUEST}, instanceID: {id}}}");
        let table = [
            (id, "", launched.as_str(), true),
            ("uid-1", "", launched.as_str(), false),
            ("uid-1", "", open.as_str(), true),
            ("uid-2", "", open.as_str(), false),
            ("true", "", open.as_str(), false),
            (id, of_spec.as_str(), "null", true),
            (id, "", "{phase: Planned, attempt: 0}", false),
            ("uid-0", "", "{phase: Planned, attempt: 0}", true),
            ("uid-1", "", "{phase: Planned, attempt: 0}", false),
            ("uid-0", "", "null", true),
            ("other-0", "", "null", false),
            ("uid-0", "", "{attempt: 2, clientToken: uid-2}", true),
            ("uid-0", of_spec.as_str(), "null", false),
            ("uid-0", "", open.as_str(), false),
            ("uid-0", "", launched.as_str(), false),
        ];
        for (value, spec, launch, expected) in table {
            let asked = asked(value, spec, launch);
            assert_eq!(
                asked == Abandonment::Asked(value.to_owned()),
                expected,
                "{value} of {launch}"
            );
            assert_eq!(matches!(asked, Abandonment::Mismatch(_)), !expected, "{value}");
        }
    }

    #[test]
    fn a_mismatch_without_a_record_names_the_search_token() {
        let Abandonment::Mismatch(text) = asked("gone", "", "null") else {
            panic!("no mismatch");
        };
        assert!(text.contains("not uid-0, the value of this AWSMachine"), "{text}");
    }

    #[test]
    fn a_mismatch_names_both_values_and_cuts_a_long_one() {
        let long = "x".repeat(5000);
        let Abandonment::Mismatch(text) = asked(&long, "", &format!("{{phase: Requested, attempt: 1, {REQUEST}}}"))
        else {
            panic!("no mismatch");
        };
        assert!(text.contains("not uid-1, which is recorded"), "{text}");
        assert!(text.len() < 250, "{}", text.len());
    }
}
