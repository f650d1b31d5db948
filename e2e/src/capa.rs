//! CAPA, with which this provider is compared: its own manager, in the place of this provider.

use std::time::Duration;

use serde_json::Value;

use crate::supervised::Memory;
use crate::{aws_proxy::Account, cluster_api::Provider, local_world::LocalWorld, programs};

/// CAPA as its releases run it.
const CAPA: Provider = Provider {
    program: "capa-manager",
    components: "capa-components.yaml",
    namespace: "capa-system",
    service_account: "capa-controller-manager",
    aggregated_role: None,
    feature_gates: "MachinePool=false,ExternalResourceGC=true,TagUnmanagedNetworkResources=true,\
                    AutoControllerIdentityCreator=true",
};

impl LocalWorld {
    /// Installs CAPA and starts its manager with the key of this account; returns when its webhooks answer. This
    /// provider cannot be in the same world, because both own the same kinds.
    pub async fn start_capa(&self, account: &Account) -> anyhow::Result<()> {
        let key = account.key();
        let variables = [
            ("AWS_ACCESS_KEY_ID", key.access_key_id.clone()),
            ("AWS_SECRET_ACCESS_KEY", key.secret_access_key.clone()),
            ("AWS_ENDPOINT_URL", account.url().to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
            // Go's own default: a release sets no other, and memory and CPU time are compared.
            ("GOGC", "100".to_owned()),
        ];
        self.start_provider(&CAPA, manifests()?, &variables).await
    }

    /// Kills CAPA's manager and starts it again; returns when its webhooks answer.
    pub async fn restart_capa(&self) -> anyhow::Result<()> {
        self.restart(CAPA.program).await
    }

    /// The CPU time of CAPA's manager.
    pub fn capa_cpu_time(&self) -> anyhow::Result<Duration> {
        self.cpu_time(CAPA.program)
    }

    /// The memory of CAPA's manager.
    pub fn capa_memory(&self) -> anyhow::Result<Memory> {
        self.memory_of(CAPA.program)
    }
}

/// CAPA's manifests without what clusterctl fills in: the Secret and the role for the pod.
fn manifests() -> anyhow::Result<Vec<Value>> {
    for built in [CAPA.program, CAPA.components] {
        programs::built_by("capa", built)?;
    }
    let mut manifests = CAPA.manifests()?;
    manifests.retain(|object| object["kind"] != "Secret");
    for account in manifests.iter_mut().filter(|object| object["kind"] == "ServiceAccount") {
        let metadata = account.get_mut("metadata").and_then(Value::as_object_mut);
        metadata.and_then(|metadata| metadata.remove("annotations"));
    }
    Ok(manifests)
}
