//! The CRDs and policies of this release. The manager compares them with the installed ones to recognise another
//! release.

use anyhow::{Context, Result};
use capa_api::meta;
use capa_runtime::definitions::{Definition, DefinitionKind};
use kube::api::ObjectMeta;
use serde::Deserialize;

/// The files of `config/policy`, each with one policy and its binding.
const POLICIES: [&str; meta::ADMISSION_POLICIES.len()] = [
    include_str!("../../config/policy/cluster_transitions.yaml"),
    include_str!("../../config/policy/create_only.yaml"),
    include_str!("../../config/policy/identity_immutable.yaml"),
    include_str!("../../config/policy/machine_immutable.yaml"),
    include_str!("../../config/policy/template_immutable.yaml"),
];

/// The files of `config/crd`. Generating the CRDs from their types would need many times the memory that the manager
/// otherwise uses, and the allocator would not return this memory.
const CRDS: [&str; 8] = [
    include_str!("../../config/crd/infrastructure.cluster.x-k8s.io_awsclustercontrolleridentities.yaml"),
    include_str!("../../config/crd/infrastructure.cluster.x-k8s.io_awsclusterroleidentities.yaml"),
    include_str!("../../config/crd/infrastructure.cluster.x-k8s.io_awsclusters.yaml"),
    include_str!("../../config/crd/infrastructure.cluster.x-k8s.io_awsclusterstaticidentities.yaml"),
    include_str!("../../config/crd/infrastructure.cluster.x-k8s.io_awsclustertemplates.yaml"),
    include_str!("../../config/crd/infrastructure.cluster.x-k8s.io_awsmachines.yaml"),
    include_str!("../../config/crd/infrastructure.cluster.x-k8s.io_awsmachinetemplates.yaml"),
    include_str!("../../config/crd/infrastructure.cluster.x-k8s.io_awsnetworkmappings.yaml"),
];

/// The part of a definition that is read.
#[derive(Deserialize)]
struct Head {
    metadata: ObjectMeta,
}

/// All definitions of this release.
pub(super) fn of_this_release() -> Result<Vec<Definition>> {
    let crds = CRDS.iter().map(|file| definition(DefinitionKind::Crd, file));
    let policies = POLICIES.iter().map(|file| definition(DefinitionKind::Policy, file));
    crds.chain(policies).collect()
}

/// The definition in the first document of a file. In the file of a policy, the binding is the second document.
fn definition(kind: DefinitionKind, file: &str) -> Result<Definition> {
    // The spec of a CRD has thousands of lines.
    let (head, _) = file.split_once("\nspec:\n").context("a definition without a spec")?;
    let Head { metadata } = serde_saphyr::from_str(head)?;
    let annotations = metadata.annotations.unwrap_or_default();
    let hash = annotations.get(meta::DEFINITION_ANNOTATION);
    let name = metadata.name.context("a definition without a name")?;
    let hash = hash.with_context(|| format!("{name} has no annotation {}", meta::DEFINITION_ANNOTATION))?;
    Ok(Definition { kind, name, hash: hash.clone() })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use capa_api::crd;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

    use super::*;

    fn as_definition(crd: CustomResourceDefinition) -> Definition {
        let hash = crd.metadata.annotations.unwrap()[meta::DEFINITION_ANNOTATION].clone();
        Definition { kind: DefinitionKind::Crd, name: crd.metadata.name.unwrap(), hash }
    }

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
        let crds: Vec<Definition> = of_kind(DefinitionKind::Crd).cloned().collect();
        let mut made: Vec<Definition> = crd::crds().unwrap().into_iter().map(as_definition).collect();
        made.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        assert_eq!(crds, made);
    }
}
