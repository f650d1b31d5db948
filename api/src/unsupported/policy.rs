//! The admission policy that refuses to introduce a field without effect.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec, Validation,
    Variable,
};
use kube::api::ObjectMeta;

use super::{Field, When, fields};
use crate::meta;

/// Name of the policy and of its binding.
const NAME: &str = "capa-rs-unsupported-fields";

/// CEL: whether an object is created for the first time, and not by `clusterctl move` or from a backup, because a
/// stored object may be stored in another management cluster. clusterctl is recognized by the managed fields, Velero by
/// its label, and any other tool by the finalizers of this provider. An update is judged by its changes.
const NOT_MOVED_OR_RESTORED: &str = "request.operation == 'UPDATE' || !(object.metadata.?finalizers.orValue([]).exists(name, \
     name.endsWith('.infrastructure.cluster.x-k8s.io')) || 'velero.io/restore-name' in \
     object.metadata.?labels.orValue({}) || object.metadata.?managedFields.orValue([]).exists(entry, \
     entry.?manager.orValue('') == 'clusterctl'))";

/// CEL: whether no other policy refuses each change of the object. `capa-rs-machine-immutable` refuses to change the
/// fields of a machine that are in the table, and `capa-rs-template-immutable` refuses each change of a template but in
/// the dry runs in which Cluster API compares the templates of a topology. Their words help more than those of this
/// policy.
const NOT_IMMUTABLE: &str = "request.operation == 'CREATE' || object.kind == 'AWSCluster' || \
     (object.kind.endsWith('Template') && request.?dryRun.orValue(false) && \
     'topology.cluster.x-k8s.io/dry-run' in object.metadata.?annotations.orValue({}))";

/// The policy. The refusal names each introduced field with its alternative; fields that the object had before stay.
pub fn policy() -> ValidatingAdmissionPolicy {
    let spec = ValidatingAdmissionPolicySpec {
        failure_policy: Some("Fail".to_owned()),
        match_constraints: Some(MatchResources {
            resource_rules: Some(vec![rule()]),
            ..MatchResources::default()
        }),
        match_conditions: Some(vec![
            condition("not-being-deleted", "!has(object.metadata.deletionTimestamp)"),
            condition("not-moved-or-restored", NOT_MOVED_OR_RESTORED),
            condition("not-immutable", NOT_IMMUTABLE),
        ]),
        variables: Some(variables()),
        validations: Some(vec![Validation {
            expression: "variables.introduced.size() == 0".to_owned(),
            message: Some("fields that have no effect yet cannot be set or changed".to_owned()),
            message_expression: Some(
                "'fields that have no effect yet cannot be set or changed: ' + variables.introduced.map(field, \
                 variables.path + field).join('; ')"
                    .to_owned(),
            ),
            reason: Some("Invalid".to_owned()),
        }]),
        ..ValidatingAdmissionPolicySpec::default()
    };
    ValidatingAdmissionPolicy {
        metadata: ObjectMeta {
            // `capa-rs crds` writes the hash of the file.
            annotations: Some([(meta::DEFINITION_ANNOTATION.to_owned(), String::new())].into()),
            ..metadata()
        },
        spec: Some(spec),
        ..ValidatingAdmissionPolicy::default()
    }
}

/// The binding that enforces the policy for all objects.
pub fn binding() -> ValidatingAdmissionPolicyBinding {
    ValidatingAdmissionPolicyBinding {
        metadata: metadata(),
        spec: Some(ValidatingAdmissionPolicyBindingSpec {
            policy_name: Some(NAME.to_owned()),
            validation_actions: Some(vec!["Deny".to_owned()]),
            ..ValidatingAdmissionPolicyBindingSpec::default()
        }),
    }
}

fn metadata() -> ObjectMeta {
    ObjectMeta {
        name: Some(NAME.to_owned()),
        ..ObjectMeta::default()
    }
}

/// Creations and updates of the kinds of the table and of their templates.
fn rule() -> NamedRuleWithOperations {
    let resources = kinds().into_iter().map(str::to_lowercase);
    let owned = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    NamedRuleWithOperations {
        api_groups: owned(&[meta::GROUP]),
        api_versions: owned(&[meta::VERSION]),
        operations: owned(&["CREATE", "UPDATE"]),
        resources: Some(
            resources
                .flat_map(|kind| [format!("{kind}s"), format!("{kind}templates")])
                .collect(),
        ),
        ..NamedRuleWithOperations::default()
    }
}

fn kinds() -> BTreeSet<&'static str> {
    fields().iter().map(|field| field.kind).collect()
}

fn condition(name: &str, expression: &str) -> MatchCondition {
    MatchCondition {
        name: name.to_owned(),
        expression: expression.to_owned(),
    }
}

fn variables() -> Vec<Variable> {
    let variable = |name: &str, expression: String| Variable {
        name: name.to_owned(),
        expression,
    };
    let spec_of = |object: &str| {
        format!(
            "variables.isTemplate ? dyn({object}).?spec.?template.?spec.orValue({{}}) : \
             dyn({object}).?spec.orValue({{}})"
        )
    };
    let by_kind = kinds().into_iter().map(|kind| {
        let rows = fields().iter().filter(|field| field.kind == kind);
        let rows: Vec<String> = rows.filter_map(row).collect();
        format!(
            "(object.kind in ['{kind}', '{kind}Template'] ? [{}].filter(field, field != '') : [])",
            rows.join(", ")
        )
    });
    vec![
        variable("isTemplate", "object.kind.endsWith('Template')".to_owned()),
        variable(
            "path",
            "variables.isTemplate ? 'spec.template.spec.' : 'spec.'".to_owned(),
        ),
        variable("after", spec_of("object")),
        variable(
            "before",
            format!("oldObject == null ? dyn({{}}) : ({})", spec_of("oldObject")),
        ),
        // The values that count as absent for every field.
        variable("silent", "[dyn(null), dyn(''), dyn([])]".to_owned()),
        variable("introduced", by_kind.collect::<Vec<_>>().join(" + ")),
    ]
}

/// A CEL expression for one field: the field with its alternative if the object introduces it, otherwise an empty text.
/// `None` for a field that the policy admits.
fn row(field: &Field) -> Option<String> {
    let silent = |spec: &str| says_nothing(&format!("variables.{spec}"), field.path, field.neutral, 0);
    let introduced = match field.when {
        When::Set => format!("!({}) && {}", silent("after"), silent("before")),
        When::Managed => return None,
    };
    let names = field.path.replace("[]", "");
    let instead = field.instead.replace('`', "");
    Some(format!("{introduced} ? '{names} ({instead})' : ''"))
}

/// A CEL expression for whether the value at a path below `parent` is absent, empty or neutral.
fn says_nothing(parent: &str, path: &str, neutral: &[&str], depth: usize) -> String {
    if let Some((list, rest)) = path.split_once("[].") {
        let item = format!("item{depth}");
        let list = list.replace('.', ".?");
        let inner = says_nothing(&item, rest, neutral, depth + 1);
        return format!("{parent}.?{list}.orValue([]).all({item}, {inner})");
    }
    let value = format!("{parent}.?{}.orValue(null)", path.replace('.', ".?"));
    let neutral: Vec<String> = neutral.iter().map(|value| format!("dyn({value})")).collect();
    match neutral.as_slice() {
        [] => format!("{value} in variables.silent"),
        neutral => format!("{value} in variables.silent + [{}]", neutral.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unsupported::Consequence;

    const FIELD: Field = Field {
        kind: "AWSMachine",
        path: "a.b",
        neutral: &[],
        when: When::Set,
        consequence: Consequence {
            condition: None,
            what: "nothing happens",
        },
        instead: "set `c`",
    };

    #[test]
    fn a_field_is_introduced_when_its_value_is_new() {
        assert_eq!(
            row(&FIELD).unwrap(),
            "!(variables.after.?a.?b.orValue(null) in variables.silent) \
             && variables.before.?a.?b.orValue(null) in variables.silent ? 'a.b (set c)' : ''"
        );
    }

    #[test]
    fn a_field_without_value_or_with_a_neutral_one_passes() {
        assert_eq!(
            says_nothing("spec", "a", &[r#""x""#, "3"], 0),
            r#"spec.?a.orValue(null) in variables.silent + [dyn("x"), dyn(3)]"#
        );
    }

    #[test]
    fn a_field_in_a_list_is_looked_for_in_every_item() {
        assert_eq!(
            says_nothing("spec", "a.b[].c", &[], 0),
            "spec.?a.?b.orValue([]).all(item0, item0.?c.orValue(null) in variables.silent)"
        );
    }

    #[test]
    fn a_field_of_the_managed_mode_is_allowed() {
        let managed = Field {
            when: When::Managed,
            ..FIELD
        };
        assert_eq!(row(&managed), None);
    }

    #[test]
    fn the_policy_names_every_field_that_may_not_be_introduced() {
        let policy = serde_json::to_string(&policy()).unwrap();
        for field in fields() {
            let named = policy.contains(&format!("'{} (", field.path));
            assert_eq!(named, field.when != When::Managed, "{}.{}", field.kind, field.path);
        }
    }
}
