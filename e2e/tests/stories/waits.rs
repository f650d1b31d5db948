//! What a machine waits for before it is launched, and what is never launched.

use capa_e2e::fixtures;

use super::machines::{INLINE, counts, machine};
use super::scenario::{CORE, OURS, Scenario};

#[tokio::test]
async fn a_machine_waits_for_infrastructure_and_then_for_bootstrap_data() -> anyhow::Result<()> {
    let scenario = Scenario::new("waits").await?;
    let environment = &scenario.environment;
    let manager = scenario.manager().await?;
    environment.apply(&fixtures::cluster("dev", Some("AWSCluster"))).await?;
    environment.apply(&machine("patient", "dev", INLINE)).await?;
    let reason = "WaitingForClusterInfrastructure";
    let told = scenario
        .condition("AWSMachine", "patient", "InstanceReady", "False", reason)
        .await?;
    assert!(told.message.contains("AWSCluster dev"), "{}", told.message);
    assert!(environment.aws().manager_journal().is_empty());

    environment.apply(&scenario.unmanaged("dev", "")).await?;
    let reason = "WaitingForBootstrapData";
    let told = scenario
        .condition("AWSMachine", "patient", "BootstrapDataReady", "False", reason)
        .await?;
    assert!(told.message.contains("Secret patient"), "{}", told.message);
    assert!(scenario.launches().is_empty());

    environment
        .apply(&fixtures::bootstrap_secret("patient", "#cloud-config"))
        .await?;
    scenario.machine_ready("patient").await?;
    assert_eq!(scenario.mutating(), counts(&[("RunInstances", 1)]));
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn bootstrap_data_that_cannot_be_handed_over_is_never_launched_and_can_be_mended() -> anyhow::Result<()> {
    let scenario = Scenario::new("undeliverable").await?;
    let environment = &scenario.environment;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    let ignition = fixtures::bootstrap_secret("ignition", "{}").replace("cloud-config", "ignition");
    environment.apply(&ignition).await?;
    let large = format!("#cloud-config\n# {}", "x".repeat(16 * 1024));
    environment.apply(&fixtures::bootstrap_secret("large", &large)).await?;
    environment
        .apply(&fixtures::bootstrap_secret("unasked", "#cloud-config"))
        .await?;
    for (name, spec, reason, told) in [
        ("ignition", INLINE, "UnsupportedFormat", "Secret ignition"),
        ("large", INLINE, "TooLarge", "uncompressedUserData: false"),
        (
            "unasked",
            "",
            "StorageNotSupported",
            "cloudInit.insecureSkipSecretsManager: true",
        ),
    ] {
        environment.apply(&machine(name, "dev", spec)).await?;
        let found = scenario
            .condition("AWSMachine", name, "BootstrapDataReady", "False", reason)
            .await?;
        assert!(found.message.contains(told), "{}", found.message);
    }
    assert!(scenario.launches().is_empty(), "{}", scenario.launches());

    for name in ["ignition", "large"] {
        environment
            .apply(&fixtures::bootstrap_secret(name, "#cloud-config"))
            .await?;
        scenario.machine_ready(name).await?;
    }
    scenario
        .condition("AWSMachine", "unasked", "Ready", "False", "StorageNotSupported")
        .await?;
    assert_eq!(scenario.mutating(), counts(&[("RunInstances", 2)]));
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn a_field_without_effect_is_named_and_nothing_is_launched_without_it() -> anyhow::Result<()> {
    let scenario = Scenario::of_stored_objects("unsupported").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    let spec = format!("{INLINE}, tenancy: dedicated, placementGroupName: near");
    scenario.machine("picky", "dev", &spec).await?;
    let told = scenario
        .condition("AWSMachine", "picky", "InstanceReady", "False", "UnsupportedField")
        .await?;
    for field in ["tenancy", "placementGroupName"] {
        assert!(told.message.contains(field), "{}", told.message);
    }
    assert!(scenario.launches().is_empty(), "{}", scenario.launches());

    // A machine does not change, so the next one is without.
    scenario.begin_deletion(CORE, "Machine", "picky").await?;
    scenario.gone(OURS, "AWSMachine", &["picky"]).await?;
    scenario.machine("content", "dev", INLINE).await?;
    scenario.machine_ready("content").await?;
    assert_eq!(scenario.mutating(), counts(&[("RunInstances", 1)]));
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

#[tokio::test]
async fn wrong_references_of_a_spec_are_named_and_mended_in_aws() -> anyhow::Result<()> {
    let scenario = Scenario::new("references").await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    for (name, spec, told) in [
        (
            "subnet",
            "subnet: {filters: [{name: 'tag:tier', values: [dmz]}]}",
            "spec.subnet.filters",
        ),
        (
            "groups",
            "additionalSecurityGroups: [{filters: [{name: 'tag:purpose', values: [storage]}]}]",
            "spec.additionalSecurityGroups",
        ),
    ] {
        scenario.machine(name, "dev", &format!("{INLINE}, {spec}")).await?;
        let found = scenario
            .condition("AWSMachine", name, "NetworkReady", "False", "NotFound")
            .await?;
        assert!(found.message.contains(told), "{}", found.message);
    }
    assert!(scenario.launches().is_empty(), "{}", scenario.launches());

    let zone = scenario
        .network
        .zones
        .first()
        .map(|zone| zone.private_subnet_id.clone());
    scenario.user.tag(&zone.unwrap_or_default(), "tier", "dmz").await?;
    let group = &scenario.network.control_plane_security_group_id;
    scenario.user.tag(group, "purpose", "storage").await?;
    for name in ["subnet", "groups"] {
        scenario.machine_ready(name).await?;
    }
    assert_eq!(scenario.mutating(), counts(&[("RunInstances", 2)]));
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}
