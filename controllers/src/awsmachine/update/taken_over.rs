//! Reads what CAPA recorded of an instance, for a machine that was taken over from it. Pure.

use capa_api::common::Tags;
use capa_api::machine::{AWSMachine, AppliedSecurityGroups};
use capa_api::meta;
use serde_json::{Map, Value};

/// The tags that CAPA has set from `additionalTags`.
pub(super) fn tags(machine: &AWSMachine) -> Option<Tags> {
    let recorded = annotation(machine, meta::CAPA_TAGS_ANNOTATION)?;
    let text = |(key, value): (String, Value)| Some((key, value.as_str()?.to_owned()));
    Some(recorded.into_iter().filter_map(text).collect())
}

/// The groups that CAPA has added from `additionalSecurityGroups`. It did not record the references.
pub(super) fn security_groups(machine: &AWSMachine) -> Option<AppliedSecurityGroups> {
    let recorded = annotation(machine, meta::CAPA_SECURITY_GROUPS_ANNOTATION)?;
    Some(AppliedSecurityGroups {
        references: vec![],
        ids: recorded.into_iter().map(|(id, _)| id).collect(),
        pending: None,
    })
}

/// The object in an annotation.
fn annotation(machine: &AWSMachine, key: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(meta::annotation(&machine.metadata, key)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    fn machine(annotations: &str) -> AWSMachine {
        read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, \
              metadata: {{name: m, annotations: {{{annotations}}}}}, spec: {{instanceType: t3.large}}}}"
        ))
    }

    #[test]
    fn the_records_of_capa_are_read() {
        let taken_over = machine(
            "sigs.k8s.io/cluster-api-provider-aws-last-applied-tags: '{\"team\": \"a\", \"odd\": 7}', \
             sigs.k8s.io/cluster-api-provider-aws-last-applied-security-groups: '{\"sg-1\": {}, \"sg-2\": {}}'",
        );
        assert_eq!(tags(&taken_over), Some([("team".to_owned(), "a".to_owned())].into()));
        assert_eq!(security_groups(&taken_over).unwrap().ids, ["sg-1", "sg-2"]);
    }

    #[test]
    fn an_absent_or_broken_record_is_unknown() {
        for annotations in ["", "sigs.k8s.io/cluster-api-provider-aws-last-applied-tags: 'broken'"] {
            assert_eq!(tags(&machine(annotations)), None);
            assert_eq!(security_groups(&machine(annotations)), None);
        }
    }
}
