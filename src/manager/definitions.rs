//! The CRDs and policies of this release, by which the manager recognises those of another one.

use anyhow::{Context, Result};
use capa_api::{crd, meta};
use capa_runtime::definitions::{Definition, DefinitionKind};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kube::api::ObjectMeta;

/// The files of `config/policy`, each with one policy and its binding.
const POLICIES: [&str; meta::ADMISSION_POLICIES.len()] = [
    include_str!("../../config/policy/cluster_deletion.yaml"),
    include_str!("../../config/policy/cluster_transitions.yaml"),
    include_str!("../../config/policy/create_only.yaml"),
    include_str!("../../config/policy/identity_immutable.yaml"),
    include_str!("../../config/policy/machine_immutable.yaml"),
    include_str!("../../config/policy/template_immutable.yaml"),
    include_str!("../../config/policy/unsupported_fields.yaml"),
];

/// All definitions of this release.
pub(super) fn of_this_release() -> Result<Vec<Definition>> {
    let crds = crd::crds()?.into_iter();
    let mut definitions = crds
        .map(|crd| definition(DefinitionKind::Crd, crd.metadata))
        .collect::<Result<Vec<_>>>()?;
    for file in POLICIES {
        let (policy, _) = file.split_once("\n---\n").context("a policy without a binding")?;
        let policy: ValidatingAdmissionPolicy = serde_saphyr::from_str(policy)?;
        definitions.push(definition(DefinitionKind::Policy, policy.metadata)?);
    }
    Ok(definitions)
}

fn definition(kind: DefinitionKind, metadata: ObjectMeta) -> Result<Definition> {
    let annotations = metadata.annotations.unwrap_or_default();
    let hash = annotations.get(meta::DEFINITION_ANNOTATION);
    let name = metadata.name.context("a definition without a name")?;
    let hash = hash.with_context(|| format!("{name} has no annotation {}", meta::DEFINITION_ANNOTATION))?;
    Ok(Definition {
        kind,
        name,
        hash: hash.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_policy_of_the_release_is_recognised() {
        let folder = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/config/policy")).unwrap();
        let names = folder.map(|file| file.unwrap().file_name().to_string_lossy().into_owned());
        let mut in_folder: Vec<String> = names
            .filter(|name| name != "kustomization.yaml")
            .map(|name| format!("capa-rs-{}", name.replace('_', "-").replace(".yaml", "")))
            .collect();
        in_folder.sort_unstable();
        let definitions = of_this_release().unwrap();
        let of_kind = |kind| definitions.iter().filter(move |definition| definition.kind == kind);
        let policies: Vec<&String> = of_kind(DefinitionKind::Policy).map(|policy| &policy.name).collect();
        assert_eq!(policies, in_folder.iter().collect::<Vec<_>>());
        assert_eq!(of_kind(DefinitionKind::Crd).count(), crd::crds().unwrap().len());
    }
}
