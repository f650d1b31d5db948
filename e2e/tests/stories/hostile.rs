//! Objects that the schemas accept and that no user would write: none of them stops the manager or keeps it busy, and
//! each gets a condition about its errors.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use capa_api::meta::ABANDON_INSTANCE_ANNOTATION as ABANDON;
use capa_e2e::hostile::{Hostile, remove};
use capa_e2e::{Manager, Story, eventually, fixtures, moto, objects};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{DeleteParams, DynamicObject, ListParams, ObjectMeta, PostParams, TypeMeta};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::machines::at;
use super::scenario::{CORE, OURS, Scenario, run_story};

/// The number of objects of each kind, of a hundred.
const OBJECTS: [(&str, usize); 7] = [
    ("AWSMachine", 40),
    ("AWSCluster", 40),
    ("AWSMachineTemplate", 5),
    ("AWSClusterTemplate", 5),
    ("AWSClusterRoleIdentity", 4),
    ("AWSClusterStaticIdentity", 4),
    ("AWSClusterControllerIdentity", 2),
];

/// The kinds whose status this provider writes, and the condition that each of their objects gets. Objects of other
/// kinds are read when an object names them, and are not written to.
const WITH_STATUS: [(&str, &str); 6] = [
    ("AWSMachine", "Ready"),
    ("AWSCluster", "Ready"),
    ("AWSMachineTemplate", "CapacityReady"),
    ("AWSClusterRoleIdentity", "Ready"),
    ("AWSClusterStaticIdentity", "Ready"),
    ("AWSClusterControllerIdentity", "Ready"),
];

/// The seed. A change of the seed tests other objects.
const SEED: u64 = 20_240_601;

/// The limit for a thousand objects on a busy computer with two cores.
const WITHIN: Duration = Duration::from_mins(10);

/// The most passes over one object for each minute of the manager: some dozen for its life, and its retries at growing
/// intervals. An object that keeps the manager busy has more in a few seconds.
const MAX_PASSES: usize = 40;

/// The most calls to AWS for each object and minute.
const MAX_CALLS: usize = 5;

/// The number of concurrent requests.
const AT_ONCE: usize = 8;

/// The number of replacements for an object that the API server refuses.
const ATTEMPTS: usize = 50;

mod long_stories {
    #[test]
    fn a_thousand_hostile_objects_neither_stop_nor_busy_the_manager() -> anyhow::Result<()> {
        super::hostile_objects(10)
    }
}

fn hostile_objects(hundreds: usize) -> anyhow::Result<()> {
    // A separate world: without the policies every field reaches the manager, like one of an object from before the
    // policies.
    run_story(Story::new("hostile").in_its_own_world(&[]), async |s| {
        s.forgo_policies().await?;
        let began = Instant::now();
        let manager = s.new_manager().start().await?;
        s.cluster("dev").await?;
        let data = fixtures::bootstrap_secret("data", "#cloud-config");
        s.apply(&data).await?;

        let host = Host::new(s).await?;
        for (kind, count) in OBJECTS.map(|(kind, count)| (kind, count * hundreds)) {
            host.create(kind, count).await?;
        }
        for (kind, condition) in WITH_STATUS {
            every_one_says_how_it_is(s, kind, condition).await?;
        }
        let silent = |kind| WITH_STATUS.iter().all(|(with_status, _)| *with_status != kind);
        for (kind, _) in OBJECTS.iter().filter(|(kind, _)| silent(*kind)) {
            for object in s.all(kind).await? {
                assert_eq!(object.data.get("status"), None, "{kind} {}", object.name_any());
                assert_eq!(object.metadata.generation, Some(1), "{kind} {}", object.name_any());
            }
        }
        is_unharmed(&manager).await?;
        was_not_busied(s, &manager, hundreds * 100, began)?;
        manager.stop().await?;

        // With shortened periods: the result of a launch without an answer takes ten minutes to find out.
        let manager = s.start_manager().await?;
        for (api_version, kind) in [(CORE, "Machine"), (OURS, "AWSMachine"), (OURS, "AWSCluster"), (CORE, "Cluster")] {
            delete_all(s, api_version, kind).await?;
        }
        is_unharmed(&manager).await?;
        assert!(s.user.live_instances().await?.is_empty());
        for (kind, _) in OBJECTS {
            delete_all(s, OURS, kind).await?;
        }
        Ok(())
    })
}

impl Scenario {
    /// Removes the admission policies from a world of its own, and waits until they have no effect.
    async fn forgo_policies(&self) -> anyhow::Result<()> {
        let bindings = self.api("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding").await?;
        for binding in bindings.list(&ListParams::default()).await?.items {
            bindings.delete(&binding.name_any(), &DeleteParams::default()).await?;
        }
        let api = self.api(OURS, "AWSMachine").await?;
        let refused = json!({"instanceType": "t3.large", "elasticIpPool": {}});
        let probe = object("AWSMachine", "probe", &refused);
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        eventually(WITHIN, "the policies to have no effect", async || {
            api.create(&dry_run, &probe).await?;
            Ok(())
        })
        .await
    }

    async fn all(&self, kind: &str) -> anyhow::Result<Vec<DynamicObject>> {
        let api = self.api(OURS, kind).await?;
        Ok(api.list(&ListParams::default()).await?.items)
    }
}

fn object(kind: &str, name: &str, spec: &Value) -> DynamicObject {
    DynamicObject {
        types: Some(TypeMeta { api_version: OURS.to_owned(), kind: kind.to_owned() }),
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: json!({"spec": spec}),
    }
}

/// The generator of hostile objects and the objects that they refer to.
struct Host<'a> {
    scenario: &'a Scenario,
    /// The owner of every AWSCluster and AWSMachineTemplate.
    owner: Value,
    words: Vec<String>,
}

impl<'a> Host<'a> {
    async fn new(scenario: &'a Scenario) -> anyhow::Result<Self> {
        let cluster = scenario.get(CORE, "Cluster", "dev").await?;
        let owner = json!([{"apiVersion": CORE, "kind": "Cluster", "name": "dev", "uid": cluster.uid()}]);
        let network = &scenario.network;
        let mut words = vec![
            network.vpc_id.clone(),
            network.node_security_group_id.clone(),
            network.control_plane_security_group_id.clone(),
            moto::IMAGE_ID.to_owned(),
            "t3.large".to_owned(),
            "eu-west-1".to_owned(),
            "eu-west-1a".to_owned(),
            "/dev/sda1".to_owned(),
            "gp3".to_owned(),
            "default".to_owned(),
            "dev".to_owned(),
        ];
        words.extend(network.private_subnet_ids().into_iter().map(str::to_owned));
        words.extend((0..5).flat_map(|number| ["role", "static", "controller"].map(|kind| format!("{kind}-{number}"))));
        Ok(Self { scenario, owner, words })
    }

    /// Creates this many objects of a kind, and the further objects that a machine needs.
    async fn create(&self, kind: &str, count: usize) -> anyhow::Result<()> {
        let definitions = self.scenario.api("apiextensions.k8s.io/v1", "CustomResourceDefinition").await?;
        let plural = format!("{}s", kind.to_lowercase()).replace("identitys", "identities");
        let definition = definitions.get(&format!("{plural}.infrastructure.cluster.x-k8s.io")).await?;
        let schema = definition.data.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec");
        let schema = schema.with_context(|| format!("no schema of {kind}"))?;
        let api = self.scenario.api(OURS, kind).await?;
        let (api, machines) = (&api, &self.scenario.api(CORE, "Machine").await?);
        stream::iter(0..count)
            .map(|number| async move {
                let name = name_of(kind, number);
                let seed = SEED + u64::try_from(number)?;
                let mut hostile = Hostile::new(seed, self.words.clone());
                self.create_one(api, kind, &name, schema, &mut hostile).await?;
                if kind == "AWSMachine" {
                    machines.create(&PostParams::default(), &owner_machine(&name)?).await?;
                }
                anyhow::Ok(())
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await
    }

    /// Creates one object. If the API server accepts no part of it, another object is created instead.
    async fn create_one(
        &self,
        api: &Api<DynamicObject>,
        kind: &str,
        name: &str,
        schema: &Value,
        hostile: &mut Hostile,
    ) -> anyhow::Result<()> {
        let mut refusal = None;
        for _ in 0..ATTEMPTS {
            let made = self.make(kind, name, schema, hostile)?;
            match create_what_is_accepted(api, made).await? {
                None => return Ok(()),
                refused => refusal = refused,
            }
        }
        bail!("{kind} {name} is refused whatever it holds: {refusal:?}");
    }

    /// Every other object is a valid one with some hostile fields; the other objects are hostile throughout.
    fn make(&self, kind: &str, name: &str, schema: &Value, hostile: &mut Hostile) -> anyhow::Result<DynamicObject> {
        let spoiled = name.ends_with(['0', '2', '4', '6', '8']);
        let machine = json!({
            "instanceType": "t3.large",
            "ami": {"id": moto::IMAGE_ID},
            "cloudInit": {"insecureSkipSecretsManager": true},
        });
        let base = match kind {
            "AWSMachine" => machine,
            "AWSMachineTemplate" => json!({"template": {"spec": machine}}),
            "AWSCluster" => objects::parse(&self.scenario.unmanaged(name, ""))?.remove(0).data["spec"].take(),
            _ => Value::Null,
        };
        let spec = if spoiled && base.is_object() { hostile.spoiled(&base, schema) } else { hostile.value(schema) };
        let mut made = object(kind, name, &spec);
        if ["AWSCluster", "AWSMachineTemplate"].contains(&kind) {
            made.metadata.owner_references = Some(serde_json::from_value(self.owner.clone())?);
        }
        Ok(made)
    }
}

/// Creates an object. The fields that the API server refuses are removed until it accepts the rest, or until the
/// refusal names no field that can be removed.
async fn create_what_is_accepted(api: &Api<DynamicObject>, mut made: DynamicObject) -> anyhow::Result<Option<String>> {
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    loop {
        let error = match api.create(&PostParams::default(), &made).await {
            Ok(_) => return Ok(None),
            Err(kube::Error::Api(error)) => error,
            Err(error) => bail!("create {}: {error}", made.name_any()),
        };
        let mut corrected = false;
        for cause in error.details.iter().flat_map(|details| &details.causes) {
            let times = refused.entry(cause.field.clone()).or_default();
            // A field that is refused again is refused because of its parent.
            corrected |= cause.field.starts_with("spec.") && remove(&mut made.data, &cause.field, *times);
            *times += 1;
        }
        if !corrected {
            return Ok(Some(error.message.clone()));
        }
    }
}

/// The name of an identity, to which the references among the words lead.
fn name_of(kind: &str, number: usize) -> String {
    let short = kind.strip_prefix("AWSCluster").and_then(|kind| kind.strip_suffix("Identity"));
    format!("{}-{number}", short.unwrap_or(kind).to_lowercase())
}

/// The Machine of the AWSMachine with the same name.
fn owner_machine(name: &str) -> anyhow::Result<DynamicObject> {
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachine", "name": name});
    let machine = json!({
        "apiVersion": CORE,
        "kind": "Machine",
        "metadata": {"name": name},
        "spec": {
            "clusterName": "dev",
            "version": "v1.36.3",
            "bootstrap": {"dataSecretName": "data"},
            "infrastructureRef": reference,
        },
    });
    Ok(serde_json::from_value(machine)?)
}

/// Waits until each object of a kind has a condition about itself.
async fn every_one_says_how_it_is(scenario: &Scenario, kind: &str, condition: &str) -> anyhow::Result<()> {
    let mut silent: Vec<String> = scenario.all(kind).await?.iter().map(ResourceExt::name_any).collect();
    let api = scenario.api(OURS, kind).await?;
    // The objects are read one by one: some are huge, and every check would list all of them.
    eventually(WITHIN, &format!("a condition of every {kind}"), async || {
        while let Some(name) = silent.last() {
            let object = api.get(name).await?;
            let status = &object.data["status"];
            objects::condition(&object, condition).with_context(|| format!("{name} says nothing: {status}"))?;
            silent.pop();
        }
        Ok(())
    })
    .await
}

/// Fails unless the manager is ready and has not panicked.
async fn is_unharmed(manager: &Manager) -> anyhow::Result<()> {
    manager.ready().await?;
    let metrics = manager.metrics().await?;
    let panics = metrics.sum("controller_runtime_reconcile_panics_total", &[]);
    assert!(panics.is_none_or(|panics| panics < 1.0), "{panics:?}");
    let log = manager.log()?;
    let panicked = log.lines().find(|line| line.contains("panicked"));
    assert_eq!(panicked, None);
    Ok(())
}

/// Fails if an object was reconciled too often, or if there were more AWS calls than objects that need them. A manager
/// that a slow computer has run for longer may have made more of both.
fn was_not_busied(scenario: &Scenario, manager: &Manager, objects: usize, began: Instant) -> anyhow::Result<()> {
    let passes = manager.passes_by_object()?;
    let minutes = 1 + usize::try_from(began.elapsed().as_secs() / 60)?;
    ensure!(!passes.is_empty(), "no pass at all");
    // An identity is also reconciled for each object that begins to use it: most objects use the default one.
    let users = |kind: &str, name: &str| {
        if kind.ends_with("identity") && name == "default" { objects } else { 0 }
    };
    let mut passes = passes.iter();
    let too_many = passes.find(|((kind, name), passes)| **passes > MAX_PASSES * minutes + users(kind, name));
    ensure!(too_many.is_none(), "{too_many:?} passes in {minutes} minutes");
    let calls = scenario.calls();
    let most = MAX_CALLS * objects * minutes;
    ensure!(calls.values().sum::<usize>() <= most, "{calls:?} in {minutes} minutes");
    Ok(())
}

/// Deletes all objects of a kind and waits until they are gone.
async fn delete_all(scenario: &Scenario, api_version: &str, kind: &str) -> anyhow::Result<()> {
    let api = scenario.api(api_version, kind).await?;
    eventually(WITHIN, &format!("every {kind} to be gone"), async || {
        abandon_as_told(scenario).await?;
        let left = api.list(&ListParams::default()).await?.items;
        let Some(one) = left.first() else {
            return Ok(());
        };
        if left.iter().any(|object| object.metadata.deletion_timestamp.is_none()) {
            // The API server gives a request a minute, which may be too short for hundreds of objects.
            api.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        }
        bail!("{} are left, among them {}: {}", left.len(), one.name_any(), one.data);
    })
    .await
}

/// Does what the condition of each held machine says that has no launch record: gives up the instance that its spec
/// alone names, and that AWS does not show.
async fn abandon_as_told(scenario: &Scenario) -> anyhow::Result<()> {
    let mut machines = scenario.all("AWSMachine").await?;
    machines.retain(|machine| at(machine, "/status/launch").is_null());
    for machine in machines {
        let conditions = at(&machine, "/status/conditions").as_array().into_iter().flatten();
        let mut held = conditions.filter(|condition| condition["reason"] == "DeletionBlocked");
        let advice = held.find_map(|condition| condition["message"].as_str()?.split_once(ABANDON));
        let value = advice.and_then(|(_, rest)| rest.strip_prefix(": ")?.split_whitespace().next());
        if let Some(value) = value.filter(|value| machine.annotations().get(ABANDON).map(String::as_str) != Some(value))
        {
            let abandoned = json!({"metadata": {"annotations": {ABANDON: value}}});
            scenario.patch(OURS, "AWSMachine", &machine.name_any(), abandoned).await?;
        }
    }
    Ok(())
}
