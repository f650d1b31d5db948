//! Reads the objects of a cluster from the API server of the management cluster.

use std::path::PathBuf;

use anyhow::{Context, Result};
use capa_api::cluster::AWSCluster;
use capa_api::contract::{Cluster, ContractReference};
use capa_api::meta;
use capa_api::network::MachineNetwork;
use capa_controllers::awscluster::demand_of_network;
use capa_controllers::kubernetes::SourceChecks;
use capa_preflight::facts::{KubernetesFacts, MachineRole, SourceAccess};
use capa_runtime::discovery::resource_of;
use clap::Args;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client, discovery};
use serde_json::Value;

use crate::joined_network::joined;
use crate::kube_config;
use crate::notices::left_out;
use crate::objects::{Described, Objects, SourcedCluster, ensure_managed, machines_of, uses};

/// Flags of commands that read a Cluster and the sources of its network from a management cluster.
#[derive(Debug, Args)]
pub(crate) struct SourceFlags {
    #[command(flatten)]
    management: ManagementFlags,

    /// ServiceAccount of the manager as NAMESPACE/NAME, whose permissions are checked.
    #[arg(long, value_name = "NAME", default_value = "capa-rs-system/capa-controller-manager")]
    service_account: String,
}

/// Flags of commands that read from a management cluster. They have the names of clusterctl's flags.
#[derive(Debug, Args)]
pub(crate) struct ManagementFlags {
    /// Namespace of the Cluster. Default: that of the kubeconfig's context.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Kubeconfig of the management cluster. Default: `KUBECONFIG`, then ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig. Default: its current context.
    #[arg(long, value_name = "CONTEXT")]
    kubeconfig_context: Option<String>,
}

/// The objects that describe the network of a Cluster, and the API server's answers about its network sources.
pub(crate) async fn read(name: &str, flags: &SourceFlags) -> Result<(Described, KubernetesFacts)> {
    let (client, namespace) = client(&flags.management).await?;
    let cluster = cluster(&client, &namespace, name).await?;
    let machines = machines_of(&documents(&client, &namespace, &cluster).await?)?;
    let aws_cluster = aws_cluster(&client, &namespace, &cluster).await?;
    let (unmanaged, published) = match aws_cluster {
        Some(cluster) if cluster.spec.unmanaged && !meta::is_externally_managed(&cluster.metadata) => {
            (Some(cluster), None)
        }
        other => (None, other.and_then(|cluster| cluster.status?.network)),
    };

    let service_account = flags.service_account.split_once('/').context("--service-account: want NAMESPACE/NAME")?;
    let checks = SourceChecks::new(client, service_account).await.context("the AWSNetworkMappings cannot be read")?;
    let mut networks: Vec<(MachineRole, MachineNetwork)> = Vec::new();
    let mut sources: Vec<SourceAccess> = Vec::new();
    for machines in &machines {
        let described = checks.described(&cluster, &machines.template, &machines.spec, machines.role).await;
        networks.push((machines.role, described.network));
        let unknown = described.sources.into_iter().filter(|source| !sources.contains(source));
        sources.extend(unknown.collect::<Vec<_>>());
    }
    let described = if let Some(aws_cluster) = unmanaged {
        Described::ByAWSCluster(Box::new(Objects { aws_cluster, cluster, machines }))
    } else {
        // Without machines, the demand comes from the network that the infrastructure object publishes.
        let network = match published {
            Some(published) if machines.is_empty() => published,
            _ => joined(networks),
        };
        let demand = demand_of_network(&cluster, network, machines);
        Described::BySources(Box::new(SourcedCluster { cluster, demand }))
    };
    Ok((described, KubernetesFacts { manager: checks.manager().to_owned(), sources }))
}

/// The AWSCluster of a Cluster, which must be managed, and the Cluster.
pub(crate) async fn read_managed(name: &str, flags: &ManagementFlags) -> Result<(AWSCluster, Cluster)> {
    let (client, namespace) = client(flags).await?;
    let cluster = cluster(&client, &namespace, name).await?;
    let aws_cluster = aws_cluster(&client, &namespace, &cluster).await?;
    let aws_cluster = aws_cluster.with_context(|| format!("Cluster {name} has no AWSCluster"))?;
    ensure_managed(&aws_cluster)?;
    Ok((aws_cluster, cluster))
}

async fn cluster(client: &Client, namespace: &str, name: &str) -> Result<Cluster> {
    let clusters: Api<Cluster> = Api::namespaced(client.clone(), namespace);
    let cluster = clusters.get_opt(name).await.context("the Cluster cannot be read")?;
    cluster.with_context(|| format!("there is no Cluster {name} in namespace {namespace}"))
}

/// A client of the management cluster, and the namespace of the Cluster.
async fn client(flags: &ManagementFlags) -> Result<(Client, String)> {
    let config = kube_config::load(flags.kubeconfig.as_deref(), flags.kubeconfig_context.as_deref()).await?;
    let namespace = flags.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    Ok((Client::try_from(config)?, namespace))
}

async fn aws_cluster(client: &Client, namespace: &str, cluster: &Cluster) -> Result<Option<AWSCluster>> {
    let reference = cluster.spec.infrastructure_ref.as_ref();
    let ours = reference.filter(|reference| reference.kind == "AWSCluster" && reference.api_group == meta::GROUP);
    let Some(reference) = ours else {
        return Ok(None);
    };
    let api: Api<AWSCluster> = Api::namespaced(client.clone(), namespace);
    api.get_opt(&reference.name).await.with_context(|| format!("AWSCluster {} cannot be read", reference.name))
}

/// The control plane, the MachineDeployments, and the AWSMachineTemplates that these use.
async fn documents(client: &Client, namespace: &str, cluster: &Cluster) -> Result<Vec<Value>> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let mut documents = Vec::new();
    if let Some(reference) = &cluster.spec.control_plane_ref {
        documents.extend(referenced(client, namespace, reference).await?);
    }
    let of_cluster = ListParams::default().labels(&format!("{}={name}", meta::CLUSTER_NAME_LABEL));
    documents.extend(listed(client, namespace, [meta::CORE_GROUP, "v1beta2", "MachineDeployment"], &of_cluster).await?);
    let kind = [meta::GROUP, meta::VERSION, "AWSMachineTemplate"];
    let templates = listed(client, namespace, kind, &ListParams::default()).await?;
    let used = templates.into_iter().filter(|template| {
        let name = template.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        documents.iter().any(|document| uses(document, name))
    });
    let used: Vec<Value> = used.collect();
    documents.extend(used);
    Ok(documents)
}

/// The object of a reference; `None` if it does not exist yet, which standard error says.
async fn referenced(client: &Client, namespace: &str, reference: &ContractReference) -> Result<Option<Value>> {
    let ContractReference { api_group, kind, name } = reference;
    let group = discovery::oneshot::group(client, api_group)
        .await
        .with_context(|| format!("the kinds of group {api_group} cannot be read"))?;
    let served = resource_of(&group, kind);
    let (resource, _) = served.with_context(|| {
        format!("the API server has no kind {kind} of group {api_group}: install the provider that {name} belongs to")
    })?;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let object = api.get_opt(name).await.with_context(|| format!("{kind} {name} cannot be read"))?;
    if object.is_none() {
        left_out(&format!("{kind} {name} does not exist: its machines are not looked at"));
    }
    Ok(object.map(serde_json::to_value).transpose()?)
}

async fn listed(
    client: &Client,
    namespace: &str,
    [group, version, kind]: [&str; 3],
    parameters: &ListParams,
) -> Result<Vec<Value>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let list = api.list(parameters).await.with_context(|| format!("the {kind}s cannot be listed"))?;
    let objects = list.items.into_iter().map(|mut object| {
        // The items of a list have no apiVersion and kind.
        object.types = Some(kube::core::TypeMeta { api_version: format!("{group}/{version}"), kind: kind.to_owned() });
        serde_json::to_value(object)
    });
    Ok(objects.collect::<Result<_, _>>()?)
}
