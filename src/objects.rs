//! Reads the objects of a cluster from a file, for commands that need no management cluster.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use capa_api::cluster::AWSCluster;
use capa_api::contract::{Cluster, ClusterSpec, ContractReference};
use capa_api::machine::template::AWSMachineTemplate;
use capa_api::meta;
use capa_api::network::MachineNetwork;
use capa_controllers::awscluster::{demand, demand_of_network};
use capa_controllers::source_documents::network_in_documents;
use capa_preflight::facts::{Demand, MachineDemand, MachineRole};
use kube::ResourceExt as _;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::joined_network::joined;

/// The error of a template whose variables are not replaced.
const UNREPLACED: &str =
    "the text has variables such as ${CLUSTER_NAME}: replace them with `clusterctl generate yaml --from FILE`";

/// The API groups of the objects that are read, and that have no scripts except in ClusterClasses.
const READ_GROUPS: [&str; 2] = [meta::CORE_GROUP, meta::GROUP];

/// The objects of one cluster with an unmanaged AWSCluster.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) aws_cluster: AWSCluster,
    pub(crate) cluster: Cluster,
    pub(crate) machines: Vec<MachineDemand>,
}

impl Objects {
    /// What the objects require of the infrastructure. `network` has the ids that their filters and discovery find.
    pub(crate) fn demand(&self, network: &MachineNetwork) -> Demand {
        demand(&self.aws_cluster, &self.cluster, network, self.machines.clone())
    }
}

/// The objects that describe the network of a cluster.
#[derive(Debug)]
pub(crate) enum Described {
    /// An unmanaged AWSCluster: its network is looked up in AWS.
    ByAWSCluster(Box<Objects>),
    /// Network sources of any kind, which describe the demand.
    BySources(Box<SourcedCluster>),
}

/// A cluster whose network comes from sources.
#[derive(Debug)]
pub(crate) struct SourcedCluster {
    pub(crate) cluster: Cluster,
    pub(crate) demand: Demand,
}

impl Described {
    /// What the objects require of the infrastructure, with filters and discovery unresolved.
    pub(crate) fn as_written(&self) -> Demand {
        match self {
            Self::ByAWSCluster(objects) => objects.demand(&MachineNetwork {
                bootstrap_storage: objects.aws_cluster.spec.bootstrap_storage(),
                ..MachineNetwork::default()
            }),
            Self::BySources(sourced) => sourced.demand.clone(),
        }
    }
}

/// Reads the objects of the only cluster in a YAML file, or from standard input for `-`.
pub(crate) fn read(file: &Path) -> Result<Described> {
    in_file(file, of_documents)
}

/// Reads the only AWSCluster, which must be managed, and its Cluster from a YAML file, or from standard input for `-`.
pub(crate) fn read_managed(file: &Path) -> Result<(AWSCluster, Cluster)> {
    in_file(file, managed)
}

fn in_file<T>(file: &Path, read: fn(&[Value]) -> Result<T>) -> Result<T> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text)?;
        text
    } else {
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?
    };
    let read = documents(&text).and_then(|documents| read(&documents));
    read.with_context(|| format!("cannot use {}", file.display()))
}

/// The objects of the only cluster in a text of YAML documents.
#[cfg(test)]
pub(crate) fn parse(text: &str) -> Result<Described> {
    of_documents(&documents(text)?)
}

/// The documents of a text. The scripts in bootstrap data, patches of a ClusterClass and manifests in ConfigMaps may
/// have variables of a shell, which no template variable stands for.
fn documents(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = match serde_saphyr::from_multiple(text) {
        Ok(documents) => documents,
        Err(error) if text.contains("${") => return Err(error).context(UNREPLACED),
        Err(error) => return Err(error).context("the text is no YAML"),
    };
    let is_unreplaced = |document: &Value| {
        let api_version = document["apiVersion"].as_str().unwrap_or_default();
        let group = api_version.split('/').next().unwrap_or_default();
        let is_read = READ_GROUPS.contains(&group) && document["kind"] != "ClusterClass";
        is_read && document.to_string().contains("${")
    };
    ensure!(!documents.iter().any(is_unreplaced), UNREPLACED);
    Ok(documents)
}

/// The objects of the only cluster among documents.
fn of_documents(documents: &[Value]) -> Result<Described> {
    let aws_cluster = only::<AWSCluster>(documents, meta::GROUP, "AWSCluster")?;
    let Some(aws_cluster) = aws_cluster.filter(|cluster| !meta::is_externally_managed(&cluster.metadata)) else {
        return sourced(documents);
    };
    ensure!(
        aws_cluster.spec.unmanaged,
        "AWSCluster {} is not unmanaged: set spec.unmanaged: true for infrastructure that you bring; `capa-rs plan` \
         shows what the provider creates otherwise",
        aws_cluster.name_any()
    );
    Ok(Described::ByAWSCluster(Box::new(Objects {
        cluster: owner(documents, &aws_cluster)?
            .unwrap_or_else(|| Cluster::new(&aws_cluster.name_any(), ClusterSpec::default())),
        aws_cluster,
        machines: machines_of(documents)?,
    })))
}

/// The only AWSCluster among documents, which must be managed, and its Cluster.
fn managed(documents: &[Value]) -> Result<(AWSCluster, Cluster)> {
    let Some(mut aws_cluster) = only::<AWSCluster>(documents, meta::GROUP, "AWSCluster")? else {
        bail!("no AWSCluster among the {} objects", documents.len());
    };
    ensure_managed(&aws_cluster)?;
    let Some(owner) = owner(documents, &aws_cluster)? else {
        bail!(
            "no Cluster in the file names AWSCluster {} in spec.infrastructureRef: add it, because its name and the \
             port of its API server are part of what is created",
            aws_cluster.name_any()
        );
    };
    let metadata = &mut aws_cluster.metadata;
    // kubectl would use this namespace by default.
    metadata.namespace.get_or_insert_with(|| "default".to_owned());
    // An object with a finalizer but without a status would look as if its status were lost.
    (metadata.finalizers, metadata.deletion_timestamp) = (None, None);
    Ok((aws_cluster, owner))
}

/// Fails unless the provider creates the infrastructure of the AWSCluster.
pub(crate) fn ensure_managed(cluster: &AWSCluster) -> Result<()> {
    ensure!(
        !cluster.spec.unmanaged && !meta::is_externally_managed(&cluster.metadata),
        "AWSCluster {} is on infrastructure that you bring, for which the provider makes nothing: `capa-rs check` \
         finds what is wrong with it",
        cluster.name_any()
    );
    Ok(())
}

/// The Cluster of an AWSCluster among documents.
fn owner(documents: &[Value], aws_cluster: &AWSCluster) -> Result<Option<Cluster>> {
    let owners: Vec<Cluster> = all(documents, meta::CORE_GROUP, "Cluster")?;
    Ok(owners.into_iter().find(|cluster| {
        let reference = cluster.spec.infrastructure_ref.as_ref();
        reference.is_some_and(|reference| reference.kind == "AWSCluster" && reference.name == aws_cluster.name_any())
    }))
}

/// A Cluster whose machines read their network from objects among the documents, or name it in their spec.
fn sourced(documents: &[Value]) -> Result<Described> {
    let Some(cluster) = only::<Cluster>(documents, meta::CORE_GROUP, "Cluster")? else {
        bail!("neither an unmanaged AWSCluster nor a Cluster among the {} objects", documents.len());
    };
    let machines = machines_of(documents)?;
    let mut networks = Vec::new();
    for of_template in &machines {
        let MachineDemand { template, spec, role, .. } = of_template;
        let merged = network_in_documents(documents, &cluster, template, spec, *role);
        if let Some(problem) = merged.problem {
            bail!(
                "the network of {template} is not complete in the file: {}; for objects that a management cluster has, \
                 use `capa-rs check cluster {}`",
                problem.message,
                cluster.name_any()
            );
        }
        networks.push((*role, merged.network));
    }
    let demand = demand_of_network(&cluster, joined(networks), machines);
    ensure!(!serde_json::to_string(&demand.network)?.contains("${"), UNREPLACED);
    ensure!(
        !demand.region.is_empty(),
        "no object in the file says a region: add the object that describes the network, or use `capa-rs check cluster \
         {}` for a cluster that is there",
        cluster.name_any()
    );
    Ok(Described::BySources(Box::new(SourcedCluster { cluster, demand })))
}

/// The only document of a kind.
fn only<K: DeserializeOwned + kube::Resource>(documents: &[Value], group: &str, kind: &str) -> Result<Option<K>> {
    let mut found: Vec<K> = all(documents, group, kind)?;
    let last = found.pop();
    if let (Some(one), Some(other)) = (&last, found.first()) {
        bail!(
            "several objects of kind {kind}, {} and {}: put each cluster into a file of its own",
            other.name_any(),
            one.name_any()
        );
    }
    Ok(last)
}

/// The machines of the AWSMachineTemplates among documents.
pub(crate) fn machines_of(documents: &[Value]) -> Result<Vec<MachineDemand>> {
    let templates: Vec<AWSMachineTemplate> = all(documents, meta::GROUP, "AWSMachineTemplate")?;
    Ok(machines(documents, &templates))
}

fn all<K: DeserializeOwned>(documents: &[Value], group: &str, kind: &str) -> Result<Vec<K>> {
    let of_kind = documents.iter().filter(|document| {
        let version = text(document, "/apiVersion");
        text(document, "/kind") == kind && version.split('/').next() == Some(group)
    });
    let parsed = of_kind.map(|document| {
        let name = text(document, "/metadata/name").to_owned();
        let mut document = document.clone();
        // Users do not write a status, and a malformed one says nothing about the infrastructure.
        document.as_object_mut().map(|fields| fields.remove("status"));
        serde_json::from_value(document).with_context(|| format!("{kind} {name} cannot be read"))
    });
    parsed.collect()
}

/// The machines of each template: those of the control plane, MachineDeployments and MachineSets that use the template,
/// or one worker if nothing uses it.
fn machines(documents: &[Value], templates: &[AWSMachineTemplate]) -> Vec<MachineDemand> {
    templates
        .iter()
        .map(|template| {
            let name = template.name_any();
            let users = || documents.iter().filter(|document| uses(document, &name));
            let is_control_plane = users().any(|user| user.pointer("/spec/machineTemplate").is_some());
            let wanted: i64 = users().map(replicas).sum();
            let existing: i64 = users().filter_map(existing).sum();
            let in_i32 = |count: i64| i32::try_from(count).unwrap_or(i32::MAX);
            let failure_domains: BTreeSet<String> = users()
                .map(|user| text(user, "/spec/template/spec/failureDomain").to_owned())
                .filter(|domain| !domain.is_empty())
                .collect();
            MachineDemand {
                template: format!("AWSMachineTemplate/{name}"),
                role: if is_control_plane { MachineRole::ControlPlane } else { MachineRole::Worker },
                replicas: in_i32(wanted.max(1)),
                existing: in_i32(existing),
                failure_domains,
                spec: template.spec.template.spec.clone(),
                user_data_bytes: None,
            }
        })
        .collect()
}

/// The number of machines of a control plane or MachineDeployment, including the one that an update adds.
fn replicas(user: &Value) -> i64 {
    user.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1) + 1
}

/// The number of machines that a control plane or MachineDeployment of the API server has.
fn existing(user: &Value) -> Option<i64> {
    user.pointer("/status/replicas").and_then(Value::as_i64)
}

/// The text at a path of a document; empty if there is none.
fn text<'a>(document: &'a Value, path: &str) -> &'a str {
    document.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a control plane, MachineDeployment or MachineSet names the template, in the fields of either contract
/// version.
pub(crate) fn uses(document: &Value, template: &str) -> bool {
    let paths = [
        "/spec/machineTemplate/spec/infrastructureRef",
        "/spec/machineTemplate/infrastructureRef",
        "/spec/template/spec/infrastructureRef",
    ];
    let references = paths.iter().filter_map(|path| document.pointer(path));
    let mut references = references.filter_map(|reference| ContractReference::deserialize(reference).ok());
    references.any(|reference| reference.kind == "AWSMachineTemplate" && reference.name == template)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSCluster
metadata: {name: dev}
spec: {region: eu-west-1, unmanaged: true}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod}
spec:
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/16]}}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSCluster, name: dev}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: cp}
spec:
  replicas: 3
  machineTemplate: {spec: {infrastructureRef: {apiGroup: g, kind: AWSMachineTemplate, name: cp}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: md}
spec:
  replicas: 2
  template: {spec: {failureDomain: eu-west-1a, infrastructureRef: {kind: AWSMachineTemplate, name: md}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachineTemplate
metadata: {name: cp}
spec: {template: {spec: {instanceType: m5.large}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachineTemplate
metadata: {name: md}
spec: {template: {spec: {instanceType: t3.large}}}
";

    const SOURCED: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: network}
data:
  network.yaml: |
    {region: eu-west-1, subnets: [{id: subnet-0000000a}], securityGroups: {all: [sg-0000000a]}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod}
spec: {controlPlaneEndpoint: {host: api.example.org, port: 443}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachineTemplate
metadata: {name: md}
spec: {template: {spec: {instanceType: t3.large, networkSources: [{kind: ConfigMap, name: network}]}}}
";

    #[test]
    fn a_network_may_come_from_sources_in_the_file() {
        let described = parse(SOURCED).expect("objects");
        let Described::BySources(sourced) = &described else {
            panic!("sources expected: {described:?}");
        };
        assert_eq!(sourced.cluster.name_any(), "prod");
        let demand = described.as_written();
        assert_eq!(demand.region, "eu-west-1");
        let endpoint = demand.endpoint.expect("an endpoint");
        assert_eq!((endpoint.port, demand.api_port), (443, 6443), "the API servers listen on their own port");
        assert_eq!(demand.network.subnets.len(), 1);
        assert_eq!(demand.machines.len(), 1);
    }

    #[test]
    fn machines_have_the_role_and_number_of_those_who_use_their_template() {
        let Described::ByAWSCluster(objects) = parse(CLUSTER).expect("objects") else {
            panic!("an unmanaged AWSCluster expected");
        };
        assert_eq!(objects.cluster.name_any(), "prod");
        let [control_plane, workers] = objects.machines.as_slice() else {
            panic!("two templates expected: {:?}", objects.machines);
        };
        assert_eq!((control_plane.role, control_plane.replicas), (MachineRole::ControlPlane, 4));
        assert_eq!((workers.role, workers.replicas), (MachineRole::Worker, 3));
        assert_eq!(workers.failure_domains, ["eu-west-1a".to_owned()].into());
        assert_eq!(workers.spec.instance_type, "t3.large");
    }

    #[test]
    fn a_managed_cluster_is_read_as_if_it_were_new() {
        let managed_one = CLUSTER.replace(", unmanaged: true", "").replace(
            "metadata: {name: dev}",
            "metadata: {name: dev, finalizers: [a], deletionTimestamp: '2026-01-01T00:00:00Z'}",
        );
        let read = |text: &str| managed(&documents(text)?);
        let (aws_cluster, cluster) = read(&managed_one).expect("objects");
        assert_eq!((aws_cluster.name_any().as_str(), cluster.name_any().as_str()), ("dev", "prod"));
        assert_eq!(aws_cluster.metadata.namespace.as_deref(), Some("default"));
        assert!(aws_cluster.metadata.finalizers.is_none() && aws_cluster.metadata.deletion_timestamp.is_none());
        let alone = managed_one.split("---").next().unwrap_or_default();
        for (text, reason) in [
            (CLUSTER, "AWSCluster dev is on infrastructure that you bring"),
            (alone, "no Cluster in the file names AWSCluster dev"),
            ("a: b", "no AWSCluster among the 1 objects"),
        ] {
            let error = format!("{:#}", read(text).expect_err(reason));
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn bootstrap_data_may_have_variables_of_a_shell() {
        let bootstrap = "apiVersion: bootstrap.cluster.x-k8s.io/v1beta2\nkind: KubeadmConfigTemplate\n\
                         metadata: {name: md}\nspec: {template: {spec: {preKubeadmCommands: ['echo ${HOME}']}}}";
        let class = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata: {name: class}\n\
                     spec: {patches: [{definitions: [{jsonPatches: [{value: 'echo ${HOME}'}]}]}]}";
        let manifest =
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cni}\ndata: {cni: 'cp ${BIN_PATH}/cni /host'}";
        for document in [bootstrap, class, manifest] {
            assert!(parse(&format!("{CLUSTER}---\n{document}")).is_ok(), "{document}");
        }
    }

    #[test]
    fn unusable_files_are_refused_with_the_reason() {
        let managed = CLUSTER.replace(", unmanaged: true", "");
        let template = CLUSTER.replace("name: dev", "name: '${CLUSTER_NAME}'");
        let two = format!("{CLUSTER}---{}", CLUSTER.replace("name: dev", "name: other"));
        let without_map = SOURCED.split("---").skip(1).collect::<Vec<_>>().join("---");
        let without_machines = without_map.split("---").next().unwrap_or_default().to_owned();
        let table = [
            (template.as_str(), "has variables"),
            ("a: {${B}}: [", "has variables"),
            ("a: [", "no YAML"),
            ("a: b", "neither an unmanaged AWSCluster nor a Cluster among the 1 objects"),
            (without_map.as_str(), "ConfigMap/network, which spec.networkSources[0] names, does not exist"),
            (without_machines.as_str(), "no object in the file says a region"),
            (managed.as_str(), "AWSCluster dev is not unmanaged"),
            (two.as_str(), "several objects of kind AWSCluster, dev and other"),
        ];
        for (text, reason) in table {
            let error = format!("{:#}", parse(text).expect_err(reason));
            assert!(error.contains(reason), "{error}");
        }
        let wrong = CLUSTER.replace("instanceType: m5.large", "instanceType: 5");
        let error = format!("{:#}", parse(&wrong).expect_err("a wrong type"));
        assert!(error.contains("AWSMachineTemplate cp cannot be read"), "{error}");
    }
}
