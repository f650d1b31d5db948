//! The objects in the documentation, applied unchanged to the real API server and reconciled.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use capa_e2e::{Story, TestEnvironment, eventually, objects};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use serde_json::{Value, json};

use super::scenario::{CORE, OURS, Scenario, WITHIN, story};

const UNMANAGED: &str = include_str!("../../../api/tests/fixtures/unmanaged-awscluster.yaml");
const EXAMPLES: [(&str, &str); 4] = [
    ("foreign-infrastructure.yaml", include_str!("../../../api/tests/fixtures/foreign-infrastructure.yaml")),
    ("managed-awscluster.yaml", include_str!("../../../api/tests/fixtures/managed-awscluster.yaml")),
    ("network-mappings.yaml", include_str!("../../../api/tests/fixtures/network-mappings.yaml")),
    ("unmanaged-awscluster.yaml", UNMANAGED),
];

#[test]
fn every_example_is_stored_whole() -> anyhow::Result<()> {
    Story::new("examples").run(async |environment| {
        for (file, text) in EXAMPLES {
            for mut object in objects::parse(text)? {
                object.metadata.namespace = None;
                object.metadata.finalizers = None;
                store(environment, &object).await.context(file)?;
            }
        }
        Ok(())
    })
}

#[test]
fn the_example_is_run_as_it_is_written() -> anyhow::Result<()> {
    story("example-runs", async |s| {
        let identity = identity(s).await?;
        let mut cluster = example()?;
        cluster.data["spec"]["identityRef"]["name"] = json!(identity);
        // The target group of the example is that of another account.
        let group = s.balancer().await?.target_group_arn;
        cluster.data["spec"]["controlPlaneTargets"] = json!([{"targetGroupARN": group}]);
        s.owned("prod", &on_network(s, &cluster)?).await?;
        s.infrastructure_provisioned("prod").await?;
        for condition in ["Ready", "IdentityReady", "NetworkReady", "ControlPlaneEndpointReady"] {
            s.await_condition("prod", condition, "True", "Ready").await?;
        }
        // Nobody resolves the host of the example's endpoint, and the example skips S7.
        let warnings = s.await_condition("prod", "PreflightPassed", "True", "Ready").await?;
        assert!(warnings.contains("E3") && !warnings.contains("S7"), "{warnings}");

        s.machine_deployment("workers", "prod", 2).await?;
        let machines = s.api(CORE, "Machine").await?;
        eventually(WITHIN, "two Machines to be Provisioned", async || {
            let machines = machines.list(&ListParams::default()).await?.items;
            let phases: Vec<&Value> = machines.iter().map(|machine| &machine.data["status"]["phase"]).collect();
            ensure!(phases == ["Provisioned", "Provisioned"], "the phases are {phases:?}");
            Ok(())
        })
        .await?;
        for machine in s.machines_ready(2).await? {
            let id = machine.data["spec"]["instanceID"].as_str().context("no instance")?;
            let launch = s.launch_of(id)?;
            assert_eq!(launch.tags("instance").get("cost-centre"), Some(&"42"));
        }
        Ok(())
    })
}

#[test]
fn every_file_of_the_examples_folder_is_accepted_as_it_is() -> anyhow::Result<()> {
    Story::new("examples-folder").run(async |environment| {
        let world = environment.world();
        // The webhooks of the kubeadm providers look at their kinds.
        world.start_kubeadm().await?;
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
        let mut accepted = 0;
        for file in std::fs::read_dir(folder)? {
            let path = file?.path();
            if path.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            let objects = objects::parse(&std::fs::read_to_string(&path)?)?;
            accepted += apply_all(environment, &path, &objects).await?;
        }
        ensure!(accepted > 20, "only {accepted} objects were applied");
        Ok(())
    })
}

#[test]
fn every_object_of_ours_in_the_pages_is_accepted_as_it_is() -> anyhow::Result<()> {
    // A page has the identity `default`, which is immutable, and which managers of other stories create.
    Story::new("pages").in_its_own_world(&[]).run(async |environment| {
        let mut accepted = 0;
        for path in pages()? {
            let page = std::fs::read_to_string(&path)?;
            for block in yaml_blocks(&page) {
                let documents: Vec<Value> = serde_saphyr::from_multiple(&block)
                    .with_context(|| format!("{}: this is not YAML:\n{block}", path.display()))?;
                let ours = documents.into_iter().filter(is_ours).map(serde_json::from_value);
                let mut ours: Vec<DynamicObject> = ours.collect::<Result<_, _>>()?;
                for object in &mut ours {
                    object.metadata.namespace = None;
                }
                accepted += apply_all(environment, &path, &ours).await?;
            }
        }
        ensure!(accepted > 20, "only {accepted} objects were applied");
        Ok(())
    })
}

/// The pages of the book, and the README.
fn pages() -> anyhow::Result<Vec<PathBuf>> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut pages = vec![repository.join("README.md")];
    for folder in ["docs", "docs/bring-your-own", "docs/contributing"] {
        for file in std::fs::read_dir(repository.join(folder))? {
            pages.push(file?.path());
        }
    }
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    Ok(pages)
}

/// The contents of the YAML blocks of a page.
fn yaml_blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for event in Parser::new(page) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) if *language == *"yaml" => {
                open = Some(String::new());
            }
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            Event::Text(text) => {
                if let Some(block) = &mut open {
                    block.push_str(&text);
                }
            }
            _ => {}
        }
    }
    blocks
}

/// Whether a document is an object of this provider, of any version. Other providers have kinds in the same group.
fn is_ours(document: &Value) -> bool {
    let starts_with = |field: &str, start: &str| document[field].as_str().is_some_and(|text| text.starts_with(start));
    starts_with("apiVersion", "infrastructure.cluster.x-k8s.io/") && starts_with("kind", "AWS")
}

/// Applies the objects of a file in a dry run, and returns their number.
async fn apply_all(environment: &TestEnvironment, file: &Path, objects: &[DynamicObject]) -> anyhow::Result<usize> {
    for object in objects {
        let place = || format!("{}: {}", file.display(), object.name_any());
        environment.apply_strictly(object).await.with_context(place)?;
    }
    Ok(objects.len())
}

/// The unmanaged example as a user applies it.
fn example() -> anyhow::Result<DynamicObject> {
    let examples = objects::parse(UNMANAGED)?.into_iter();
    let mut prod = examples.filter(|example| example.name_any() == "prod");
    let mut example = prod.next().context("the example prod")?;
    example.metadata.namespace = None;
    example.data.as_object_mut().context("an object")?.remove("status");
    Ok(example)
}

/// The example with the ids of the scenario's network in place of its own.
fn on_network(scenario: &Scenario, cluster: &DynamicObject) -> anyhow::Result<String> {
    let network = &scenario.network;
    let subnets = network.private_subnet_ids();
    let text = serde_json::to_string(cluster)?;
    Ok([
        ("vpc-0a1b2c3d", network.vpc_id.as_str()),
        ("subnet-0000000a", subnets[0]),
        ("subnet-0000000b", subnets[1]),
        ("sg-0000000a", &network.node_security_group_id),
        ("sg-0000000b", &network.control_plane_security_group_id),
    ]
    .into_iter()
    .fold(text, |text, (ours, theirs)| text.replace(ours, theirs)))
}

/// Applies the identity of the example, named after the namespace, because identities have no namespace.
async fn identity(scenario: &Scenario) -> anyhow::Result<String> {
    let name = format!("{}-team-a", scenario.namespace());
    let role = scenario.aws().role_arn("team-a");
    scenario.aws().allow_assume_role(&role, None);
    let spec = format!(
        "{{roleARN: \"{role}\", allowedNamespaces: {{list: [{}]}}, \
          sourceIdentityRef: {{kind: AWSClusterControllerIdentity, name: default}}}}",
        scenario.namespace()
    );
    scenario.identity("AWSClusterRoleIdentity", &name, &spec).await?;
    Ok(name)
}

/// Creates an object with its status and compares the stored object. For kinds of other projects, only fields of their
/// schema count.
async fn store(environment: &TestEnvironment, object: &DynamicObject) -> anyhow::Result<()> {
    let types = object.types.clone().context("a kind")?;
    let api = environment.api(&types.api_version, &types.kind).await?;
    let name = object.name_any();
    let only_judged = PostParams { dry_run: types.api_version != OURS, ..PostParams::default() };
    let mut stored = api.create(&only_judged, object).await?;
    if let Some(status) = object.data.get("status") {
        let patch = Patch::Merge(json!({"status": status}));
        stored = api.patch_status(&name, &PatchParams::default(), &patch).await?;
    }
    let lost = first_loss("", &object.data, &stored.data);
    assert_eq!(lost, None, "{} {name} is stored without", types.kind);
    Ok(())
}

/// The path of the first value of a document that the stored form lacks.
fn first_loss(path: &str, document: &Value, stored: &Value) -> Option<String> {
    match (document, stored) {
        (Value::Object(document), Value::Object(stored)) => document.iter().find_map(|(key, value)| {
            first_loss(&format!("{path}.{key}"), value, stored.get(key).unwrap_or(&Value::Null))
        }),
        (Value::Array(document), Value::Array(stored)) if document.len() == stored.len() => {
            let mut pairs = document.iter().zip(stored);
            pairs.find_map(|(value, stored)| first_loss(&format!("{path}[]"), value, stored))
        }
        _ => (document != stored).then(|| path.to_owned()),
    }
}
