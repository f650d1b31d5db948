//! Reads the API server of a cluster through its kubeconfig.

use std::time::Duration;

use capa_runtime::errors::described;
use http::Request;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{Api, Client};
use tokio::time::timeout;

use crate::conditions::{ConditionType, Finding, Reason};
use crate::connection::{client, each};
use crate::kubeconfig::Access;
use crate::nodes::Capacity;

/// How long all reads together may take.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The namespace whose UID is the id of the cluster.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// The values read from the API server of a cluster. Values that could not be read are `None`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Observation {
    pub(crate) health: Finding,
    pub(crate) version: Option<String>,
    pub(crate) cluster_id: Option<String>,
    pub(crate) capacity: Option<Capacity>,
}

impl Observation {
    /// An observation of which only the health is known.
    pub(crate) fn only(health: Finding) -> Self {
        Self { health, version: None, cluster_id: None, capacity: None }
    }
}

/// Reads the values that a ClusterProfile shows from an API server.
pub(crate) async fn observe(access: &Access) -> Observation {
    let client = match client(access).await {
        Ok(client) => client,
        Err(error) => {
            let message = format!("the kubeconfig cannot be used: {}", described(&error));
            return Observation::only(health(None, Reason::KubeconfigInvalid, message));
        }
    };
    match timeout(WHOLE_TIMEOUT, read(&client)).await {
        Ok(observation) => observation,
        Err(_) => Observation::only(unreachable(&access.server, "it takes too long to answer")),
    }
}

async fn read(client: &Client) -> Observation {
    let health = readiness(client).await;
    if health.is_true != Some(true) {
        return Observation::only(health);
    }
    let version = client.apiserver_version().await.ok();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let system = namespaces.get_metadata(SYSTEM_NAMESPACE).await.ok();
    Observation {
        health,
        version: version.map(|version| version.git_version),
        cluster_id: system.and_then(|namespace| namespace.metadata.uid),
        capacity: capacity(client).await.ok(),
    }
}

/// The finding about `ControlPlaneHealthy`. It does not repeat the server's answer, because anybody may run the server.
async fn readiness(client: &Client) -> Finding {
    let Ok(request) = Request::get("/readyz").body(Vec::new()) else {
        return health(None, Reason::Unreachable, String::new());
    };
    match client.request_text(request).await {
        Ok(_) => health(Some(true), Reason::Healthy, String::new()),
        Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => health(
            Some(false),
            Reason::CredentialsRefused,
            format!("the API server answered {} to GET /readyz: renew the kubeconfig", status.code),
        ),
        Err(kube::Error::Api(status)) => {
            health(Some(false), Reason::NotReady, format!("the API server answered {} to GET /readyz", status.code))
        }
        Err(error) => unreachable("the API server", &described(&error)),
    }
}

async fn capacity(client: &Client) -> kube::Result<Capacity> {
    let api: Api<Node> = Api::all(client.clone());
    let mut capacity = Capacity::default();
    each(&api, |node| capacity.add(&node)).await?;
    Ok(capacity)
}

fn unreachable(server: &str, why: &str) -> Finding {
    let message = format!(
        "{server} cannot be reached from the management cluster: {why}. Check its load balancer, and the network \
         between"
    );
    health(Some(false), Reason::Unreachable, message)
}

/// A finding about `ControlPlaneHealthy`.
pub(crate) fn health(is_true: Option<bool>, reason: Reason, message: String) -> Finding {
    Finding { condition: ConditionType::ControlPlaneHealthy, is_true, reason, message }
}
