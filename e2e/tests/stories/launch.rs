//! The parameters of a launch, and the machine's status afterwards.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use anyhow::{Context, ensure};
use aws_sdk_ec2::types::InstanceAttributeName;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use capa_e2e::aws_proxy::{Call, Fault, digest};
use capa_e2e::user::query;
use capa_e2e::{Story, eventually, fixtures, moto};
use flate2::read::GzDecoder;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::machines::{INLINE, at, machine, text};
use super::ownership::MANAGEMENT_CLUSTER;
use super::scenario::{CORE, OURS, REGION, Scenario, WITHIN, run_story, story};

const USER_DATA: &str = "#cloud-config\n# a join token\n";
/// Longer than any story.
const HOUR: Duration = Duration::from_hours(1);

#[test]
fn a_plain_machine_gets_safe_defaults_and_records_its_launch() -> anyhow::Result<()> {
    story("plain-launch", async |s| {
        let network = &s.network;
        s.cluster("dev").await?;
        s.apply(&fixtures::bootstrap_secret("plain", USER_DATA)).await?;
        s.apply(&machine("plain", "dev", INLINE)).await?;
        let plain = s.machine_ready("plain").await?;
        let id = text(&plain, "/spec/instanceID").to_owned();
        let call = s.launch_of(&id)?;
        // All subnets are empty, so the subnet with the lowest id is chosen.
        let lowest = network.zones.iter().min_by_key(|zone| &zone.private_subnet_id);
        let zone = lowest.context("no zones")?;
        let expected = [
            ("MetadataOptions.HttpEndpoint", "enabled"),
            ("MetadataOptions.HttpProtocolIpv6", "disabled"),
            ("MetadataOptions.HttpPutResponseHopLimit", "2"),
            ("MetadataOptions.HttpTokens", "required"),
            ("MetadataOptions.InstanceMetadataTags", "disabled"),
            ("NetworkInterface.1.SecurityGroupId.1", &network.node_security_group_id),
            ("NetworkInterface.1.SubnetId", &zone.private_subnet_id),
        ];
        assert_eq!(besides_basics(&call, &plain), expected.into(), "{call}");
        let user_data = fixtures::user_data(USER_DATA);
        assert_eq!(call.parameter("UserData"), Some(digest(user_data.as_bytes()).as_str()));

        let launch = at(&plain, "/status/launch");
        let record = json!({
            "phase": "Answered",
            "attempt": 1,
            "clientToken": call.parameter("ClientToken"),
            "subnetID": zone.private_subnet_id,
            "imageID": moto::IMAGE_ID,
            "instanceType": "t3.large",
            "securityGroupIDs": [network.node_security_group_id],
            "parametersHash": launch["parametersHash"],
            "requestedAt": launch["requestedAt"],
            "holder": launch["holder"],
            "instanceID": id,
        });
        assert_eq!(launch, &record);
        let in_use = json!({
            "accountID": s.aws().id(),
            "region": REGION,
            "availabilityZone": zone.name,
            "subnetID": zone.private_subnet_id,
            "securityGroupIDs": [network.node_security_group_id],
            "identityRef": {"kind": "AWSClusterControllerIdentity", "name": "default"},
            "clusterTag": "dev",
            "sources": at(&plain, "/status/network/sources"),
        });
        assert_eq!(at(&plain, "/status/network"), &in_use);
        for field in ["region", "subnets", "securityGroups.all", "vpc"] {
            assert_eq!(at(&plain, "/status/network/sources")[field], "AWSCluster/dev", "source of {field}");
        }
        assert_eq!(text(&plain, "/spec/providerID"), format!("aws:///{}/{id}", zone.name));
        assert_eq!(text(&plain, "/status/failureDomain"), zone.name);
        assert_eq!(text(&plain, "/status/instanceState"), "running");
        assert_eq!(at(&plain, "/status/initialization/provisioned"), &json!(true));
        let instance = s.user.instance(&id).await?;
        let interface = instance.network_interfaces().first().context("an interface")?;
        let addresses = json!([
            {"type": "InternalDNS", "address": interface.private_dns_name()},
            {"type": "InternalIP", "address": instance.private_ip_address()},
        ]);
        assert_eq!(at(&plain, "/status/addresses"), &addresses);
        core_follows(s, "plain", &plain).await?;
        assert_eq!(row(s, "plain").await?, ["plain", "dev", "True", "Ready", &id, "t3.large", &zone.name]);
        Ok(())
    })
}

#[test]
fn the_launch_record_precedes_the_call() -> anyhow::Result<()> {
    run_story(Story::new("recorded"), async |s| {
        let aws = s.aws();
        let held = aws.fault(Fault::on("RunInstances").delay(HOUR));
        s.start_manager().await?;
        s.cluster("dev").await?;
        s.machine("slow", "dev", INLINE).await?;
        let unanswered = aws.some_unanswered_launches(1, WITHIN).await?;
        // Read once without waiting: the status must be written before the call, which has no answer for an hour.
        let slow = s.get(OURS, "AWSMachine", "slow").await?;
        let launch = at(&slow, "/status/launch");
        let launches = s.launches();
        let [call] = launches.calls() else { panic!("one call: {launches}") };
        let groups: Vec<_> =
            (1..).map_while(|number| call.parameter(&format!("NetworkInterface.1.SecurityGroupId.{number}"))).collect();
        let record = json!({
            "phase": "Requested",
            "attempt": 1,
            "clientToken": call.parameter("ClientToken"),
            "subnetID": call.parameter("NetworkInterface.1.SubnetId"),
            "imageID": call.parameter("ImageId"),
            "instanceType": call.parameter("InstanceType"),
            "securityGroupIDs": groups,
            "parametersHash": launch["parametersHash"],
            "requestedAt": launch["requestedAt"],
            "holder": launch["holder"],
        });
        assert_eq!(launch, &record, "all of the call, and no instance yet");
        held.lift();
        let ready = s.machine_ready("slow").await?;
        assert_eq!(unanswered[0].instance_ids, [text(&ready, "/spec/instanceID")]);
        assert_eq!(s.user.live_instances().await?.len(), 1);
        Ok(())
    })
}

#[test]
fn a_refused_launch_is_tried_again_under_the_next_token() -> anyhow::Result<()> {
    story("refused", async |s| {
        s.cluster("dev").await?;
        s.machine("locked", "dev", &format!("{INLINE}, sshKeyName: forgotten")).await?;
        let message = s.machine_condition_false("locked", "InstanceReady", "NotFound").await?;
        assert!(message.contains("forgotten"), "{}", message);
        key_pair(s, "forgotten").await?;
        let locked = s.machine_ready("locked").await?;

        let uid = locked.metadata.uid.clone().context("no uid")?;
        let launches = s.launches();
        let (_, refused) = launches.calls().split_last().context("no call")?;
        assert!(!refused.is_empty(), "{launches}");
        for (attempt, call) in (1..).zip(launches.calls()) {
            assert_eq!(call.parameter("ClientToken"), Some(format!("{uid}-{attempt}").as_str()), "{launches}");
        }
        assert!(refused.iter().all(|call| call.error.is_some()), "{launches}");
        assert_eq!(at(&locked, "/status/launch/attempt"), launches.len());
        assert_eq!(s.user.live_instances().await?.len(), 1);
        Ok(())
    })
}

#[test]
fn launch_parameters_stay_frozen_when_their_source_changes() -> anyhow::Result<()> {
    story("frozen", async |s| {
        s.cluster("dev").await?;
        s.machine("early", "dev", INLINE).await?;
        let before = s.machine_ready("early").await?;
        let used = text(&before, "/status/network/subnetID");
        let mut subnets = s.network.private_subnet_ids().into_iter();
        let another = subnets.find(|id| *id != used).context("only one subnet")?;

        let group = &s.network.control_plane_security_group_id;
        let changed = json!({"subnets": [{"id": another}], "securityGroupOverrides": {"node": group}});
        s.patch(OURS, "AWSCluster", "dev", json!({"spec": {"network": changed}})).await?;
        eventually(WITHIN, "the AWSCluster to publish the change", async || {
            let cluster = s.get(OURS, "AWSCluster", "dev").await?;
            let published = at(&cluster, "/status/network/subnets").as_array().map_or(0, Vec::len);
            ensure!(published == 1, "{}", at(&cluster, "/status/network"));
            Ok(())
        })
        .await?;
        s.machine("late", "dev", INLINE).await?;
        let late = s.machine_ready("late").await?;
        assert_eq!(text(&late, "/status/network/subnetID"), another);
        let after = s.get(OURS, "AWSMachine", "early").await?;
        for frozen in ["/status/network", "/status/launch", "/spec"] {
            assert_eq!(at(&after, frozen), at(&before, frozen), "{frozen}");
        }
        s.assert_mutating(&[("RunInstances", 2)]);
        s.begin_deletion(CORE, "Machine", "early").await?;
        s.gone(OURS, "AWSMachine", &["early"]).await?;
        assert!(s.has_terminated(text(&before, "/spec/instanceID")));
        Ok(())
    })
}

/// The parameters that differ between launches, except user data and tags. Checks the parameters that all launches
/// share.
fn besides_basics<'a>(call: &'a Call, machine: &DynamicObject) -> BTreeMap<&'a str, &'a str> {
    let token = format!("{}-1", machine.metadata.uid.as_deref().unwrap_or_default());
    let basics = [
        ("ClientToken", token.as_str()),
        ("ImageId", moto::IMAGE_ID),
        ("InstanceType", "t3.large"),
        ("MaxCount", "1"),
        ("MinCount", "1"),
        ("NetworkInterface.1.DeleteOnTermination", "true"),
        ("NetworkInterface.1.DeviceIndex", "0"),
    ];
    for (name, value) in basics {
        assert_eq!(call.parameter(name), Some(value), "{name}");
    }
    let parameters = call.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    parameters
        .filter(|(name, _)| !basics.iter().any(|(basic, _)| basic == name))
        .filter(|(name, _)| *name != "UserData" && !name.starts_with("TagSpecification."))
        .collect()
}

/// The user data of an instance.
async fn user_data(scenario: &Scenario, instance_id: &str) -> anyhow::Result<Vec<u8>> {
    let ask = scenario.user.ec2().describe_instance_attribute();
    let attribute = InstanceAttributeName::UserData;
    let answer = ask.instance_id(instance_id).attribute(attribute).send().await?;
    let data = answer.user_data.and_then(|data| data.value);
    Ok(BASE64_STANDARD.decode(data.context("no user data")?)?)
}

/// Waits until core has copied the fields that the provider contract defines.
async fn core_follows(scenario: &Scenario, name: &str, ours: &DynamicObject) -> anyhow::Result<()> {
    eventually(WITHIN, "core to call the Machine Provisioned", async || {
        let machine = scenario.get(CORE, "Machine", name).await?;
        ensure!(text(&machine, "/status/phase") == "Provisioned", "{}", at(&machine, "/status"));
        ensure!(at(&machine, "/spec/providerID") == at(ours, "/spec/providerID"), "{}", at(&machine, "/spec"));
        ensure!(at(&machine, "/status/addresses") == at(ours, "/status/addresses"), "{}", at(&machine, "/status"));
        ensure!(
            at(&machine, "/status/failureDomain") == at(ours, "/status/failureDomain"),
            "{}",
            at(&machine, "/status")
        );
        Ok(())
    })
    .await
}

/// The cells of `kubectl get awsmachines` before the age.
async fn row(scenario: &Scenario, name: &str) -> anyhow::Result<Vec<String>> {
    let path = format!("/apis/{OURS}/namespaces/{}/awsmachines/{name}", scenario.namespace());
    let request =
        http::Request::get(path).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io").body(Vec::new())?;
    let table: Value = scenario.environment.client().request(request).await?;
    let cells = table.pointer("/rows/0/cells").and_then(Value::as_array).context("no row")?;
    Ok(cells.iter().take(7).map(|cell| cell.as_str().unwrap_or_default().to_owned()).collect())
}

async fn key_pair(scenario: &Scenario, name: &str) -> anyhow::Result<()> {
    scenario.user.ec2().create_key_pair().key_name(name).send().await?;
    Ok(())
}

async fn instance_profile(scenario: &Scenario, name: &str) -> anyhow::Result<()> {
    let aws = scenario.aws();
    let form = [("Action", "CreateInstanceProfile"), ("Version", "2010-05-08"), ("InstanceProfileName", name)];
    let key = &aws.user_key().access_key_id;
    let (status, answer) = query(aws.url(), key, "us-east-1", "iam", &form).await?;
    ensure!(status == 200, "creating the instance profile: {answer:?}");
    Ok(())
}

mod long_stories {
    use super::*;

    #[test]
    fn a_launch_has_everything_that_the_spec_names() -> anyhow::Result<()> {
        story("launch", async |s| {
            let network = &s.network;
            s.cluster("dev").await?;
            key_pair(s, "ops").await?;
            instance_profile(s, "nodes").await?;
            for group in [&network.control_plane_security_group_id, &network.node_security_group_id] {
                s.user.tag(group, "purpose", "storage").await?;
            }
            let public = &network.zones[1].public_subnet_id;
            s.user.tag(public, "tier", "dmz").await?;
            let spec = format!(
                "{INLINE}, uncompressedUserData: false, iamInstanceProfile: nodes, sshKeyName: ops, publicIP: true,
             subnet: {{filters: [{{name: 'tag:tier', values: [dmz]}}]}},
             additionalSecurityGroups: [{{id: {}}}, {{filters: [{{name: 'tag:purpose', values: [storage]}}]}}],
             rootVolume: {{size: 40, type: gp3, iops: 4000, throughput: 250, encrypted: true}},
             nonRootVolumes: [{{deviceName: /dev/sdf, size: 100, type: gp2}}],
             instanceMetadataOptions: {{httpTokens: optional, httpPutResponseHopLimit: 3, httpProtocolIpv6: enabled}},
             additionalTags: {{team: storage, Name: shown-in-console}}",
                network.node_security_group_id
            );
            s.apply(&fixtures::bootstrap_secret("whole", USER_DATA)).await?;
            s.apply(&machine("whole", "dev", &spec)).await?;
            let whole = s.machine_ready("whole").await?;
            let call = s.launch_of(text(&whole, "/spec/instanceID"))?;

            let expected = [
                ("BlockDeviceMapping.1.DeviceName", "/dev/sda1"),
                ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "true"),
                ("BlockDeviceMapping.1.Ebs.Encrypted", "true"),
                ("BlockDeviceMapping.1.Ebs.Iops", "4000"),
                ("BlockDeviceMapping.1.Ebs.Throughput", "250"),
                ("BlockDeviceMapping.1.Ebs.VolumeSize", "40"),
                ("BlockDeviceMapping.1.Ebs.VolumeType", "gp3"),
                ("BlockDeviceMapping.2.DeviceName", "/dev/sdf"),
                ("BlockDeviceMapping.2.Ebs.DeleteOnTermination", "true"),
                ("BlockDeviceMapping.2.Ebs.VolumeSize", "100"),
                ("BlockDeviceMapping.2.Ebs.VolumeType", "gp2"),
                ("IamInstanceProfile.Name", "nodes"),
                ("KeyName", "ops"),
                ("MetadataOptions.HttpEndpoint", "enabled"),
                ("MetadataOptions.HttpProtocolIpv6", "enabled"),
                ("MetadataOptions.HttpPutResponseHopLimit", "3"),
                ("MetadataOptions.HttpTokens", "optional"),
                ("MetadataOptions.InstanceMetadataTags", "disabled"),
                ("NetworkInterface.1.AssociatePublicIpAddress", "true"),
                // A group that is named twice is attached once.
                ("NetworkInterface.1.SecurityGroupId.1", &network.node_security_group_id),
                ("NetworkInterface.1.SecurityGroupId.2", &network.control_plane_security_group_id),
                ("NetworkInterface.1.SubnetId", public),
            ];
            assert_eq!(besides_basics(&call, &whole), expected.into(), "{call}");
            let compressed = user_data(s, text(&whole, "/spec/instanceID")).await?;
            assert_eq!(call.parameter("UserData"), Some(digest(&compressed).as_str()));
            let mut plain = String::new();
            GzDecoder::new(compressed.as_slice()).read_to_string(&mut plain)?;
            assert_eq!(plain, fixtures::user_data(USER_DATA));
            let tags = [
                ("Name", "shown-in-console"),
                ("MachineName", &format!("{}/whole", s.namespace())),
                ("kubernetes.io/cluster/dev", "owned"),
                ("sigs.k8s.io/cluster-api-provider-aws/cluster/dev", "owned"),
                (MANAGEMENT_CLUSTER, &s.management_cluster().await?),
                ("sigs.k8s.io/cluster-api-provider-aws/role", "node"),
                ("team", "storage"),
            ];
            for resource in ["instance", "volume", "network-interface"] {
                assert_eq!(call.tags(resource), tags.into(), "tags of the {resource}");
            }
            assert_eq!(text(&whole, "/status/network/subnetID"), public);
            assert_eq!(text(&whole, "/status/network/sources/subnets"), "AWSMachine/whole");
            let addresses = at(&whole, "/status/addresses").as_array().cloned().unwrap_or_default();
            let external = addresses.iter().filter(|address| address["type"] == "ExternalIP");
            assert_eq!(external.count(), 1, "{addresses:?}");
            Ok(())
        })
    }

    #[test]
    fn ids_are_published_once_the_instance_runs_and_not_before() -> anyhow::Result<()> {
        story("pending", async |s| {
            s.aws().set_pending(HOUR);
            s.cluster("dev").await?;
            s.machine("slow", "dev", INLINE).await?;
            s.machine_condition_false("slow", "InstanceReady", "Pending").await?;
            let slow = s.get(OURS, "AWSMachine", "slow").await?;
            assert_eq!(text(&slow, "/status/instanceState"), "pending");
            assert_eq!(at(&slow, "/spec/providerID"), &Value::Null);
            assert_eq!(at(&slow, "/status/initialization"), &Value::Null);
            let id = text(&slow, "/status/launch/instanceID");
            assert!(id.starts_with("i-"), "{}", at(&slow, "/status/launch"));

            s.aws().set_pending(Duration::ZERO);
            let running = s.machine_ready("slow").await?;
            assert!(text(&running, "/spec/providerID").ends_with(id));
            s.assert_mutating(&[("RunInstances", 1)]);
            Ok(())
        })
    }
}
