//! Machines whose network comes from an object that the API server cannot give.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use capa_e2e::eventually;
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::foreign_kind::{Kind, network};
use super::machines::{INLINE, machine, text};
use super::scenario::{Scenario, WITHIN, story};

/// Machines that wait for the object: more than the manager reconciles at once.
const WAITING: usize = 15;

/// The time of a condition's last transition.
fn changed_at<'a>(machine: &'a DynamicObject, condition: &str) -> Option<&'a str> {
    let conditions = machine.data.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|found| found["type"] == condition)?;
    found["lastTransitionTime"].as_str()
}

/// The kind with a version that is stored, and another one that machines and Cluster API read.
fn in_two_versions(kind: &Kind) -> String {
    let stored = "
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
    let definition = kind.definition().replace("storage: true", "storage: false");
    format!("{}{stored}", definition.trim_end())
}

/// Says how the API server converts the objects of a kind.
async fn convert(s: &Scenario, definition: &str, conversion: Value) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(s.environment.client());
    let patch = Patch::Merge(json!({"spec": {"conversion": conversion}}));
    definitions.patch(definition, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// A webhook that takes calls and never answers.
struct Hanging {
    port: u16,
    calls: Arc<Mutex<Vec<TcpStream>>>,
    taking: JoinHandle<()>,
}

impl Hanging {
    async fn listen() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let calls: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let taken = Arc::clone(&calls);
        let taking = tokio::spawn(async move {
            while let Ok((call, _)) = listener.accept().await {
                taken.lock().await.push(call);
            }
        });
        Ok(Self { port, calls, taking })
    }

    fn conversion(&self) -> Value {
        let url = format!("https://127.0.0.1:{}/convert", self.port);
        json!({
            "strategy": "Webhook",
            "webhook": {"clientConfig": {"url": url}, "conversionReviewVersions": ["v1"]},
        })
    }

    /// Ends all calls and takes no more.
    async fn break_off(self) {
        self.taking.abort();
        self.calls.lock().await.clear();
    }
}

mod timed_stories {
    use super::*;

    #[test]
    fn a_conversion_webhook_that_hangs_holds_up_no_other_cluster() -> anyhow::Result<()> {
        story("hanging", async |s| {
            let kind = Kind::new("hanging.example.org", "Swamp");
            let name = format!("{}.{}", kind.plural(), kind.group);
            s.apply(&in_two_versions(&kind)).await?;
            for (label, verbs) in [
                ("cluster.x-k8s.io/aggregate-to-manager", "[get, list, watch, patch, update]"),
                ("infrastructure.cluster.x-k8s.io/aggregate-to-capa-rs", "[get]"),
            ] {
                s.apply(&kind.readable_by(label, verbs)).await?;
            }
            kind.cluster(s, "stuck", json!({"network": network(s)})).await?;
            s.cluster("dev").await?;

            for number in 0..WAITING {
                s.apply(&machine(&format!("stuck-{number}"), "stuck", INLINE)).await?;
            }
            s.apply(&machine("free", "dev", INLINE)).await?;
            for waiting in s.machines().await? {
                s.machine_condition_false(&waiting.name_any(), "BootstrapDataReady", "WaitingForBootstrapData").await?;
            }

            let webhook = Hanging::listen().await?;
            convert(s, &name, webhook.conversion()).await?;
            let swamps = s.api(&kind.api_version(), &kind.name).await?;
            eventually(WITHIN, "reads of the object to hang", async || {
                let read = tokio::time::timeout(Duration::from_secs(2), swamps.get("stuck")).await;
                ensure!(read.is_err(), "it is read");
                Ok(())
            })
            .await?;
            // Without more than a Secret to come, all reads begin within moments: the API server gives them up after 10
            // s.
            let stuck: Vec<String> = (0..WAITING).map(|number| format!("stuck-{number}")).collect();
            try_join_all(stuck.iter().map(|name| s.bootstrap_secret(name))).await?;
            s.bootstrap_secret("free").await?;
            s.machine_ready("free").await?;
            // Where their reads occupied all workers, the other machine would be launched after their first failure at
            // best.
            let machines = s.machines().await?;
            let free = machines.iter().find(|machine| machine.name_any() == "free");
            let launched_at = text(free.context("the machine free")?, "/status/launch/requestedAt");
            ensure!(!launched_at.is_empty(), "the launch has no time");
            for machine in &machines {
                let failed_at = changed_at(machine, "NetworkReady");
                let is_stuck = machine.name_any() != "free";
                ensure!(
                    failed_at.is_none_or(|at| !is_stuck || at >= launched_at),
                    "{} failed at {failed_at:?}, before the launch at {launched_at}",
                    machine.name_any()
                );
            }
            s.assert_mutating(&[("RunInstances", 1)]);

            webhook.break_off().await;
            let told = s.machine_condition_false("stuck-0", "NetworkReady", "Failed").await?;
            ensure!(told.contains("Swamp"), "{told}");
            convert(s, &name, json!({"strategy": "None", "webhook": null})).await?;
            s.machines_ready(WAITING + 1).await?;
            kind.forget(s).await
        })
    }
}
