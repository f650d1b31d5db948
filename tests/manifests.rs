//! The manifests in this repository against the code they belong to.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this is test code, where a panic is a failed test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use capa_api::crd;
use capa_api::meta;
use serde_json::Value;

fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    let file = repository(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn documents(path: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&read(path)).unwrap()
}

fn rules(role: &Value) -> Vec<&Value> {
    role["rules"].as_array().map(|rules| rules.iter().collect()).unwrap_or_default()
}

fn mentions(list: &Value, word: &str) -> bool {
    list.as_array().is_some_and(|words| words.iter().any(|entry| entry == word))
}

#[test]
fn config_crd_holds_what_the_types_generate() {
    let kustomization = read("config/crd/kustomization.yaml");
    for definition in crd::crds().unwrap() {
        let names = &definition.spec.names;
        let file = format!("{}_{}.yaml", definition.spec.group, names.plural);
        let generated = serde_saphyr::to_string(&crd::manifest(&definition).unwrap()).unwrap();
        assert!(
            read(&format!("config/crd/{file}")) == generated,
            "config/crd/{file} differs from the types of {}: run `make generate`",
            names.kind
        );
        assert!(kustomization.contains(&file), "config/crd/kustomization.yaml does not list {file}");
    }
    let files = fs::read_dir(repository("config/crd")).unwrap();
    let definitions = files.filter(|file| file.as_ref().unwrap().file_name() != "kustomization.yaml").count();
    assert_eq!(definitions, crd::crds().unwrap().len(), "a file of a kind that is no more");
}

/// The policies and their bindings, each pair in a file of its own.
fn policies() -> Vec<(String, Value, Value)> {
    let mut all = Vec::new();
    for file in fs::read_dir(repository("config/policy")).unwrap() {
        let file = file.unwrap().file_name().to_string_lossy().into_owned();
        if file != "kustomization.yaml" {
            let documents: [Value; 2] = documents(&format!("config/policy/{file}")).try_into().unwrap();
            let [policy, binding] = documents;
            all.push((file, policy, binding));
        }
    }
    all
}

#[test]
fn policies_are_in_force_and_exempt_deletions_and_arrivals() {
    let kustomization = read("config/policy/kustomization.yaml");
    let explained = read("docs/admission.md");
    let policies = policies();
    let mut names: Vec<_> =
        policies.iter().map(|(_, policy, _)| policy["metadata"]["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, meta::ADMISSION_POLICIES, "the manager looks for them");
    let role = documents("config/rbac/manager_role.yaml").remove(0);
    let may_read = rules(&role).into_iter().find(|rule| mentions(&rule["resources"], "validatingadmissionpolicies"));
    assert_eq!(may_read.unwrap()["resourceNames"], serde_json::json!(names));
    let mut arrivals = BTreeSet::new();
    for (file, policy, binding) in policies {
        assert!(kustomization.contains(&file), "{file}");
        let name = policy["metadata"]["name"].as_str().unwrap();
        assert_eq!(format!("{name}.yaml"), format!("capa-rs-{}", file.replace('_', "-")));
        assert!(explained.contains(&format!("| `{name}` |")), "docs/admission.md lacks {name}");
        assert_eq!(binding["metadata"]["name"], name);
        assert_eq!(policy["spec"]["failurePolicy"], "Fail", "{name}");
        let conditions = policy["spec"]["matchConditions"].as_array().unwrap();
        let find = |wanted: &str| conditions.iter().find(|condition| condition["name"] == wanted);
        let not_deleted = find("not-being-deleted").unwrap();
        assert_eq!(not_deleted["expression"], "!has(object.metadata.deletionTimestamp)", "{name}");
        let operations = policy["spec"]["matchConstraints"]["resourceRules"][0]["operations"].to_string();
        let arrived = find("not-moved-or-restored").map(|condition| condition["expression"].clone());
        assert_eq!(arrived.is_some(), operations.contains("CREATE"), "{name}");
        arrivals.extend(arrived.map(|expression| expression.to_string()));
        assert!(!conditions.iter().any(|condition| condition.to_string().contains("delete-for-move")), "{name}");
        for rule in policy["spec"]["matchConstraints"]["resourceRules"].as_array().unwrap() {
            let resources = rule["resources"].to_string();
            assert!(!resources.contains('/') && !resources.contains('*'), "{name}: {resources}");
        }
        for validation in policy["spec"]["validations"].as_array().unwrap() {
            assert_eq!(validation["reason"], "Invalid", "{name}: {validation}");
            assert!(validation["message"].as_str().is_some_and(|text| text.len() > 20), "{name}: {validation}");
        }
        assert_eq!(binding["spec"], serde_json::json!({"policyName": name, "validationActions": ["Deny"]}));
    }
    assert_eq!(arrivals.len(), 1, "the same for all: {arrivals:?}");
}

/// Two blocks of a machine are mutable in part, so the policy must know each of their fields.
#[test]
fn new_fields_of_mutable_blocks_are_immutable() {
    let machine = documents("config/crd/infrastructure.cluster.x-k8s.io_awsmachines.yaml").remove(0);
    let spec = &machine["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let policy = read("config/policy/machine_immutable.yaml");
    for (block, mutable) in [
        ("cloudInit", &["secretPrefix", "secretCount", "secureSecretsBackend"][..]),
        ("privateDnsName", &["enableResourceNameDnsARecord", "enableResourceNameDnsAAAARecord"]),
    ] {
        for field in spec[block]["properties"].as_object().unwrap().keys() {
            let compared = policy.contains(&format!("variables.after.?{block}.?{field}"));
            assert_eq!(compared, !mutable.contains(&field.as_str()), "{block}.{field}");
        }
    }
}

#[test]
fn the_service_monitor_finds_the_managers_metrics() {
    let [monitor, service, deployment] =
        ["config/prometheus/service_monitor.yaml", "config/prometheus/service.yaml", "config/manager/deployment.yaml"]
            .map(|path| documents(path).remove(0));
    let selected = &monitor["spec"]["selector"]["matchLabels"];
    assert_eq!(selected, &service["metadata"]["labels"]);
    assert_eq!(monitor["metadata"]["namespace"], service["metadata"]["namespace"]);
    let port = &service["spec"]["ports"][0];
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert_eq!((&endpoint["port"], &endpoint["path"]), (&port["name"], &"/metrics".into()));
    let pod = &deployment["spec"]["template"];
    assert_eq!(service["spec"]["selector"], pod["metadata"]["labels"]);
    assert_eq!(service["metadata"]["namespace"], deployment["metadata"]["namespace"]);
    let ports = pod["spec"]["containers"][0]["ports"].as_array().unwrap();
    let served = ports.iter().find(|served| served["name"] == port["targetPort"]).unwrap();
    assert_eq!(served["containerPort"], port["port"]);
}

#[test]
fn optional_components_list_their_files() {
    for folder in ["config/prometheus", "config/kube-state-metrics"] {
        let kustomization = &documents(&format!("{folder}/kustomization.yaml"))[0];
        assert_eq!(kustomization["kind"], "Component", "{folder}");
        let resources = kustomization["resources"].as_array().unwrap().iter();
        let generated = kustomization["configMapGenerator"][0]["files"].as_array();
        let listed = resources.chain(generated.into_iter().flatten());
        let mut listed: Vec<&str> = listed.map(|file| file.as_str().unwrap()).chain(["kustomization.yaml"]).collect();
        let files = fs::read_dir(repository(folder)).unwrap();
        let files = files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned());
        let mut files: Vec<String> = files.collect();
        listed.sort_unstable();
        files.sort_unstable();
        assert_eq!(listed, files, "{folder}");
    }
}

#[test]
fn the_contract_of_the_release_is_the_one_on_the_crds() {
    let metadata = &documents("metadata.yaml")[0];
    let contract = metadata["releaseSeries"][0]["contract"].as_str().unwrap();
    assert_eq!(format!("{}/{contract}", meta::CORE_GROUP), meta::CONTRACT_LABEL);
}

#[test]
fn rbac_rules_have_no_wildcards_and_protect_secrets() {
    let folder = fs::read_dir(repository("config/rbac")).unwrap();
    let files = folder.map(|file| format!("config/rbac/{}", file.unwrap().file_name().to_string_lossy()));
    for document in files.flat_map(|file| documents(&file)) {
        let name = document["metadata"]["name"].as_str().unwrap_or_default();
        for rule in rules(&document) {
            for part in ["apiGroups", "resources", "verbs"] {
                assert!(!mentions(&rule[part], "*"), "{name}: {rule}");
            }
            let reads_only =
                ["list", "watch", "create", "delete", "patch"].iter().all(|verb| !mentions(&rule["verbs"], verb));
            let secretive = mentions(&rule["resources"], "secrets") || mentions(&rule["resources"], "configmaps");
            assert!(!secretive || reads_only, "{name}: {rule}");
            let updates_secrets = mentions(&rule["resources"], "secrets") && mentions(&rule["verbs"], "update");
            assert!(!updates_secrets || document["kind"] == "Role", "{name}: only in the identity namespace");
        }
    }
}
