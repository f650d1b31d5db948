//! The conditions of a launch for which a machine waits, and machines that are never launched.

use capa_e2e::fixtures;

use super::machines::{INLINE, machine};
use super::scenario::story;

#[test]
fn a_machine_waits_for_infrastructure_then_for_bootstrap_data() -> anyhow::Result<()> {
    story("waits", async |s| {
        let environment = &s.environment;
        environment.apply(&fixtures::cluster("dev", Some("AWSCluster"))).await?;
        environment.apply(&machine("patient", "dev", INLINE)).await?;
        let reason = "WaitingForClusterInfrastructure";
        let message = s.machine_condition_false("patient", "InstanceReady", reason).await?;
        assert!(message.contains("AWSCluster dev"), "{message}");
        assert!(environment.aws().manager_journal().is_empty());

        environment.apply(&s.unmanaged("dev", "")).await?;
        let reason = "WaitingForBootstrapData";
        let message = s
            .machine_condition_false("patient", "BootstrapDataReady", reason)
            .await?;
        assert!(message.contains("Secret patient"), "{message}");
        assert!(s.launches().is_empty());

        environment
            .apply(&fixtures::bootstrap_secret("patient", "#cloud-config"))
            .await?;
        s.machine_ready("patient").await?;
        s.assert_mutating(&[("RunInstances", 1)]);
        Ok(())
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn wrong_references_of_a_spec_are_named_and_mended_in_aws() -> anyhow::Result<()> {
        story("references", async |s| {
            s.cluster("dev").await?;
            for (name, spec, words) in [
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
                s.machine(name, "dev", &format!("{INLINE}, {spec}")).await?;
                let found = s.machine_condition_false(name, "NetworkReady", "NotFound").await?;
                assert!(found.contains(words), "{found}");
            }
            assert!(s.launches().is_empty(), "{}", s.launches());

            let zone = s.network.zones.first().map(|zone| zone.private_subnet_id.clone());
            s.user.tag(&zone.unwrap_or_default(), "tier", "dmz").await?;
            let group = &s.network.control_plane_security_group_id;
            s.user.tag(group, "purpose", "storage").await?;
            for name in ["subnet", "groups"] {
                s.machine_ready(name).await?;
            }
            s.assert_mutating(&[("RunInstances", 2)]);
            Ok(())
        })
    }

    #[test]
    fn undeliverable_bootstrap_data_is_not_launched_until_mended() -> anyhow::Result<()> {
        story("undeliverable", async |s| {
            let environment = &s.environment;
            s.cluster("dev").await?;
            for name in ["ignition", "bottlerocket"] {
                let secret = fixtures::bootstrap_secret(name, "{}").replace("cloud-config", name);
                environment.apply(&secret).await?;
            }
            let large = format!("#cloud-config\n# {}", "x".repeat(16 * 1024));
            environment.apply(&fixtures::bootstrap_secret("large", &large)).await?;
            for (name, spec, reason, words) in [
                ("ignition", INLINE, "StorageNotSupported", "spec.s3Bucket"),
                (
                    "bottlerocket",
                    "ignition: {}",
                    "UnsupportedFormat",
                    "Secret bottlerocket",
                ),
                ("large", INLINE, "TooLarge", "uncompressedUserData: false"),
            ] {
                environment.apply(&machine(name, "dev", spec)).await?;
                let found = s.machine_condition_false(name, "BootstrapDataReady", reason).await?;
                assert!(found.contains(words), "{found}");
            }
            assert!(s.launches().is_empty(), "{}", s.launches());

            for name in ["ignition", "large"] {
                environment
                    .apply(&fixtures::bootstrap_secret(name, "#cloud-config"))
                    .await?;
                s.machine_ready(name).await?;
            }
            s.assert_mutating(&[("RunInstances", 2)]);
            Ok(())
        })
    }

    #[test]
    fn a_missing_instance_profile_is_named_with_its_remedy() -> anyhow::Result<()> {
        story("profile", async |s| {
            s.cluster("dev").await?;
            let spec = format!("{INLINE}, iamInstanceProfile: nope");
            s.machine("profile", "dev", &spec).await?;
            let message = s
                .machine_condition_false("profile", "InstanceReady", "InvalidSpec")
                .await?;
            for part in [
                "spec.iamInstanceProfile: nope does not exist in account ",
                ": create it, or make a new AWSMachine in place of this one; RunInstances: InvalidParameterValue: ",
                "Value (nope)",
            ] {
                assert!(message.contains(part), "{part} is not in: {message}");
            }
            s.event("AWSMachine", "profile", "InvalidSpec").await
        })
    }
}
