//! The annotation by which a user gives up an instance, so that a deletion that is blocked can end. Pure.

use capa_api::machine::AWSMachine;
use capa_api::meta;

use crate::awsmachine::spec;

/// The longest part of a mismatched value that a condition repeats.
const SHOWN: usize = 64;

/// The effect of the annotation on a machine that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum Abandonment {
    /// There is no such annotation.
    NotAsked,
    /// It names the recorded instance, or the token of the attempt that may have launched one.
    Asked(String),
    /// It names something else and has no effect; the message for its author.
    Mismatch(String),
}

/// Reads the annotation. Only a recorded instance or attempt can be given up, so that nobody gives up an instance that
/// they do not know.
pub(in crate::awsmachine) fn abandonment(machine: &AWSMachine) -> Abandonment {
    let Some(value) = meta::annotation(&machine.metadata, meta::ABANDON_INSTANCE_ANNOTATION) else {
        return Abandonment::NotAsked;
    };
    let launch = machine.status.as_ref().and_then(|status| status.launch.as_ref());
    let token = || Some(launch?.request()?.client_token.clone());
    let recorded = spec::instance_id(machine).or_else(token);
    match recorded {
        Some(recorded) if recorded == value => Abandonment::Asked(recorded),
        recorded => {
            let shown: String = value.chars().take(SHOWN).collect();
            let expected = match recorded {
                Some(recorded) => format!("not {recorded}, which is recorded"),
                None => "but nothing is recorded that could be given up".to_owned(),
            };
            Abandonment::Mismatch(format!(
                "annotation {} names \"{shown}\", {expected}: it has no effect",
                meta::ABANDON_INSTANCE_ANNOTATION
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    const REQUEST: &str = "holder: one, clientToken: uid-1, subnetID: s, imageID: i, instanceType: t, \
         securityGroupIDs: [g], parametersHash: h, requestedAt: '2026-01-01T00:00:00Z'";

    fn asked(value: &str, spec: &str, launch: &str) -> Abandonment {
        abandonment(&read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, metadata: {{name: m, \
              annotations: {{{}: {value}}}}}, spec: {{instanceType: t3.large{spec}}}, status: {{launch: {launch}}}}}",
            meta::ABANDON_INSTANCE_ANNOTATION
        )))
    }

    #[test]
    fn only_the_recorded_instance_or_token_can_be_given_up() {
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
