//! Changes of the spec that reach running instances.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use aws_sdk_ec2::types::{Filter, Instance};
use capa_e2e::aws_proxy::Call;
use capa_e2e::eventually;
use serde_json::json;

use super::machines::{INLINE, at, text};
use super::scenario::{OURS, Scenario, WITHIN, story};

/// The volume and the network interface of an instance.
fn parts(instance: &Instance) -> anyhow::Result<[String; 2]> {
    let volume = instance.block_device_mappings().first().and_then(|device| device.ebs());
    let volume = volume.and_then(|volume| volume.volume_id()).context("no volume")?;
    let interface = instance.network_interfaces().first();
    let interface = interface.and_then(|interface| interface.network_interface_id());
    Ok([volume.to_owned(), interface.context("no interface")?.to_owned()])
}

/// The keys of the tags that a call of CreateTags or DeleteTags names.
fn tag_keys(call: &Call) -> Vec<&str> {
    let keys = (1..).map_while(|number| call.parameter(&format!("Tag.{number}.Key")));
    keys.collect()
}

impl Scenario {
    /// The tags of a resource, without those that say whose it is.
    async fn other_tags(&self, id: &str) -> anyhow::Result<BTreeMap<String, String>> {
        let of_resource = Filter::builder().name("resource-id").values(id).build();
        let described = self.user.ec2().describe_tags().filters(of_resource).send().await?;
        let tags = described.tags().iter().map(|tag| {
            let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
            (text(tag.key()), text(tag.value()))
        });
        let is_other = |key: &str| !key.contains("/cluster") && !key.contains("aws/") && key != "MachineName";
        Ok(tags.filter(|(key, _)| is_other(key)).collect())
    }

    /// Waits until all of these resources have these tags, besides those that say whose they are.
    async fn tagged(&self, ids: &[String], expected: &[(&str, &str)]) -> anyhow::Result<()> {
        let pairs = expected.iter();
        let expected: BTreeMap<String, String> = pairs.map(|(key, value)| ((*key).into(), (*value).into())).collect();
        eventually(WITHIN, &format!("the tags {expected:?}"), async || {
            for id in ids {
                let found = self.other_tags(id).await?;
                ensure!(found == expected, "{id} has {found:?}");
            }
            Ok(())
        })
        .await
    }

    /// Whether an instance has a record for its IPv4 addresses, and one for its IPv6 addresses.
    async fn dns_records(&self, instance_id: &str) -> anyhow::Result<(Option<bool>, Option<bool>)> {
        let instance = self.user.instance(instance_id).await?;
        let options = instance.private_dns_name_options().context("no options")?;
        Ok((options.enable_resource_name_dns_a_record(), options.enable_resource_name_dns_aaaa_record()))
    }

    async fn groups_of(&self, instance_id: &str) -> anyhow::Result<BTreeSet<String>> {
        let instance = self.user.instance(instance_id).await?;
        let interface = instance.network_interfaces().first().context("no interface")?;
        let groups = interface.groups().iter();
        Ok(groups.filter_map(|group| group.group_id.clone()).collect())
    }
}

#[test]
fn changed_tags_reach_a_running_instance() -> anyhow::Result<()> {
    story("changed-tags", async |s| {
        s.cluster("dev").await?;
        s.machine("m", "dev", &format!("{INLINE}, additionalTags: {{team: a, stage: test}}")).await?;
        let ready = s.machine_ready("m").await?;
        let id = text(&ready, "/spec/instanceID").to_owned();
        let [volume, interface] = parts(&s.user.instance(&id).await?)?;
        let (instance, volume, interface) = ([id.clone()], [volume], [interface]);
        for resource in [&instance, &volume] {
            s.tagged(resource, &[("Name", "m"), ("team", "a"), ("stage", "test")]).await?;
        }
        s.user.tag(&id, "backup", "nightly").await?;

        let tags = json!({"spec": {"additionalTags": {"team": "b", "stage": null}}});
        s.patch(OURS, "AWSMachine", "m", tags).await?;
        s.tagged(&volume, &[("Name", "m"), ("team", "b")]).await?;
        s.tagged(&instance, &[("Name", "m"), ("team", "b"), ("backup", "nightly")]).await?;
        s.event("AWSMachine", "m", "TagsUpdated").await?;

        s.change("dev", json!({"spec": {"additionalTags": {"cost-centre": "42"}}})).await?;
        s.tagged(&volume, &[("Name", "m"), ("team", "b"), ("cost-centre", "42")]).await?;
        // The AWS of the tests leaves interfaces untagged at launch.
        s.tagged(&interface, &[("team", "b"), ("cost-centre", "42")]).await?;
        s.looked_again("m").await?;
        // Each call names only what has changed.
        for call in s.aws().manager_journal().mutating().calls() {
            let changed: &[&str] = match call.action.as_str() {
                "RunInstances" => continue,
                "CreateTags" => &["team", "cost-centre"],
                "DeleteTags" => &["stage"],
                _ => &[],
            };
            let keys = tag_keys(call);
            ensure!(!keys.is_empty() && keys.iter().all(|key| changed.contains(key)), "{call}");
        }
        assert_eq!(s.launches().len(), 1, "{}", s.launches());
        Ok(())
    })
}

#[test]
fn changed_security_groups_reach_a_running_instance() -> anyhow::Result<()> {
    story("changed-groups", async |s| {
        s.cluster("dev").await?;
        s.machine("m", "dev", INLINE).await?;
        let ready = s.machine_ready("m").await?;
        let id = text(&ready, "/spec/instanceID").to_owned();
        let of_network = s.network.node_security_group_id.clone();
        let another = s.network.control_plane_security_group_id.clone();
        assert_eq!(s.groups_of(&id).await?, BTreeSet::from([of_network.clone()]));

        s.user.tag(&another, "purpose", "storage").await?;
        let by_filter = json!([{"filters": [{"name": "tag:purpose", "values": ["storage"]}]}]);
        for (groups, expected) in [
            (by_filter, BTreeSet::from([of_network.clone(), another.clone()])),
            (json!([]), BTreeSet::from([of_network.clone()])),
        ] {
            let spec = json!({"spec": {"additionalSecurityGroups": groups}});
            s.patch(OURS, "AWSMachine", "m", spec).await?;
            eventually(WITHIN, &format!("the groups {expected:?}"), async || {
                let found = s.groups_of(&id).await?;
                ensure!(found == expected, "the instance has {found:?}");
                Ok(())
            })
            .await?;
            s.condition("AWSMachine", "m", "SecurityGroupsReady", "True", "Ready").await?;
        }
        let now = s.get(OURS, "AWSMachine", "m").await?;
        assert_eq!(at(&now, "/status/appliedSecurityGroups"), &json!({}));
        s.assert_mutating(&[("ModifyNetworkInterfaceAttribute", 2), ("RunInstances", 1)]);

        let nothing = json!([{"filters": [{"name": "tag:purpose", "values": ["none"]}]}]);
        let spec = json!({"spec": {"additionalSecurityGroups": nothing}});
        s.patch(OURS, "AWSMachine", "m", spec).await?;
        let told = s.condition("AWSMachine", "m", "SecurityGroupsReady", "False", "NotFound").await?;
        assert!(told.message.contains("spec.additionalSecurityGroups[0]"), "{}", told.message);
        assert_eq!(s.groups_of(&id).await?, BTreeSet::from([of_network]));
        Ok(())
    })
}

#[test]
fn changed_dns_records_reach_a_running_instance() -> anyhow::Result<()> {
    story("changed-records", async |s| {
        s.cluster("dev").await?;
        let records =
            |a: bool, aaaa: bool| json!({"enableResourceNameDnsARecord": a, "enableResourceNameDnsAAAARecord": aaaa});
        s.machine("m", "dev", &format!("{INLINE}, privateDnsName: {}", records(true, false))).await?;
        let ready = s.machine_ready("m").await?;
        let id = text(&ready, "/spec/instanceID").to_owned();
        assert_eq!(s.dns_records(&id).await?, (Some(true), Some(false)));
        let spec = json!({"spec": {"privateDnsName": records(false, true)}});
        s.patch(OURS, "AWSMachine", "m", spec).await?;
        eventually(WITHIN, "the records of the spec", async || {
            let found = s.dns_records(&id).await?;
            ensure!(found == (Some(false), Some(true)), "the instance has {found:?}");
            Ok(())
        })
        .await?;
        s.event("AWSMachine", "m", "DNSRecordsUpdated").await?;
        s.looked_again("m").await?;
        s.assert_mutating(&[("ModifyPrivateDnsNameOptions", 1), ("RunInstances", 1)]);
        Ok(())
    })
}

mod long_stories {
    use aws_sdk_ec2::types::HttpTokensState;

    use super::*;

    #[test]
    fn metadata_options_that_somebody_has_changed_are_restored() -> anyhow::Result<()> {
        story("metadata-options", async |s| {
            s.cluster("dev").await?;
            let options = "instanceMetadataOptions: {httpTokens: required, httpPutResponseHopLimit: 2}";
            s.machine("m", "dev", &format!("{INLINE}, {options}")).await?;
            let ready = s.machine_ready("m").await?;
            let id = text(&ready, "/spec/instanceID").to_owned();
            let changed = s.user.ec2().modify_instance_metadata_options().instance_id(&id);
            let changed = changed.http_tokens(HttpTokensState::Optional);
            let changed = changed.http_put_response_hop_limit(5).http_endpoint("enabled".into());
            let changed = changed.http_protocol_ipv6("disabled".into());
            changed.instance_metadata_tags("disabled".into()).send().await?;
            s.event("AWSMachine", "m", "MetadataOptionsUpdated").await?;
            let instance = s.user.instance(&id).await?;
            let restored = instance.metadata_options().context("no metadata options")?;
            ensure!(restored.http_tokens() == Some(&HttpTokensState::Required), "{restored:?}");
            ensure!(restored.http_put_response_hop_limit() == Some(2), "{restored:?}");
            Ok(())
        })
    }
}
