//! The events of a machine's life in `kubectl describe`: one for each write to AWS and for each failure.

use std::collections::BTreeSet;

use anyhow::ensure;
use capa_e2e::{eventually, fixtures};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;

use super::machines::{INLINE, machine, text};
use super::scenario::{CORE, OURS, Scenario, WITHIN, story};

/// The kind, the name, the type and the reason of an event.
type Published = (String, String, String, String);

#[test]
fn events_report_writes_to_aws_and_new_failures() -> anyhow::Result<()> {
    story("events", async |s| {
        s.corrected_cluster("dev").await?;

        let large = format!("#cloud-config\n# {}", "x".repeat(16 * 1024));
        s.apply(&fixtures::bootstrap_secret("first", &large)).await?;
        s.apply(&machine("first", "dev", INLINE)).await?;
        s.machine_condition_false("first", "BootstrapDataReady", "TooLarge").await?;
        s.bootstrap_secret("first").await?;
        let first = s.machine_ready("first").await?;
        s.user.terminate(text(&first, "/spec/instanceID")).await?;
        s.machine_condition_false("first", "InstanceReady", "Terminated").await?;
        s.machine("second", "dev", INLINE).await?;
        s.machine_ready("second").await?;
        for name in ["first", "second"] {
            s.begin_deletion(CORE, "Machine", name).await?;
        }
        s.gone(OURS, "AWSMachine", &["first", "second"]).await?;
        s.apply(&managed("other")).await?;
        s.await_condition("other", "Ready", "False", "NotManagedYet").await?;

        let expected: BTreeSet<Published> = [
            ("AWSCluster", "dev", "Warning", "NotFound"),
            ("AWSCluster", "dev", "Warning", "RulesFailing"),
            ("AWSCluster", "other", "Warning", "NotManagedYet"),
            ("AWSMachine", "first", "Warning", "TooLarge"),
            ("AWSMachine", "first", "Normal", "SuccessfulCreate"),
            ("AWSMachine", "first", "Warning", "Terminated"),
            ("AWSMachine", "second", "Normal", "SuccessfulCreate"),
            ("AWSMachine", "second", "Normal", "SuccessfulTerminate"),
        ]
        .map(|(kind, name, type_, reason)| (kind.into(), name.into(), type_.into(), reason.into()))
        .into();
        eventually(WITHIN, "every event", async || {
            let published = published(s).await?;
            ensure!(published.is_superset(&expected), "only {published:?}");
            Ok(())
        })
        .await?;
        s.manager().stop().await?;
        // A busy computer may add failures of its own, but no write.
        let published = published(s).await?;
        let others = published.difference(&expected);
        let writes: Vec<_> = others.filter(|(_, _, type_, _)| type_ == "Normal").collect();
        assert!(writes.is_empty(), "{writes:?}");
        Ok(())
    })
}

fn managed(name: &str) -> String {
    format!(
        "{{apiVersion: {OURS}, kind: AWSCluster, metadata: {{name: {name}}}, spec: {{region: eu-west-1, network: \
         {{vpc: {{ipv6: {{}}}}}}}}}}"
    )
}

/// All events about this provider's objects; each must come from the manager.
async fn published(scenario: &Scenario) -> anyhow::Result<BTreeSet<Published>> {
    let events: Api<Event> = Api::namespaced(scenario.environment.client(), scenario.namespace());
    let mut published = BTreeSet::new();
    for event in events.list(&ListParams::default()).await?.items {
        let about = event.regarding.unwrap_or_default();
        if about.api_version.as_deref() != Some(OURS) {
            continue;
        }
        ensure!(event.reporting_controller.as_deref() == Some("capa-rs"), "{:?}", event.reporting_controller);
        published.insert((
            about.kind.unwrap_or_default(),
            about.name.unwrap_or_default(),
            event.type_.unwrap_or_default(),
            event.reason.unwrap_or_default(),
        ));
    }
    Ok(published)
}
