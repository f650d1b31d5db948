//! Calls and their answers.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use capa_api::machine::{HttpTokens, Switch};
use capa_cloud::ec2::RouteTarget;
use capa_cloud::{
    ClusterClouds, ErrorClass, InstanceMetadataOptions, InstanceState, LaunchOptions, LaunchRequest, MachineClouds,
    Query, ResolvedIdentity, UserData, Volume,
};
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use serde_json::json;

use super::fake::{
    CLUSTER, Fake, REGION, answer, caller_identity, ec2_error, identity, instances, machine, role, session,
};

fn subnets(ids: &[&str], next: Option<&str>) -> super::fake::Answer {
    let items = ids.iter().map(|id| {
        format!(
            "<item><subnetId>{id}</subnetId><vpcId>vpc-1</vpcId><availabilityZone>us-test-1a</availabilityZone></item>"
        )
    });
    let items: String = items.collect();
    answer("DescribeSubnets", &format!("<subnetSet>{items}</subnetSet>"), next)
}

fn volume(device: &str) -> Volume {
    Volume {
        device_name: Some(device.into()),
        size: 20,
        volume_type: Some("gp3".into()),
        iops: Some(4000),
        throughput: Some(200),
        encrypted: Some(true),
        encryption_key: Some("key-1".into()),
    }
}

pub(super) fn request() -> LaunchRequest {
    LaunchRequest {
        client_token: "uid-1".into(),
        image_id: "ami-1".into(),
        instance_type: "t3.large".into(),
        subnet_id: "subnet-1".into(),
        security_group_ids: vec!["sg-1".into(), "sg-2".into()],
        iam_instance_profile: Some("nodes".into()),
        key_name: Some("operator".into()),
        public_ip: Some(false),
        root_volume: Some(volume("/dev/sda1")),
        data_volumes: vec![volume("/dev/sdb")],
        metadata_options: InstanceMetadataOptions {
            http_endpoint: Switch::Enabled,
            http_tokens: HttpTokens::Required,
            http_put_response_hop_limit: 2,
            http_protocol_ipv6: Switch::Disabled,
            instance_metadata_tags: Switch::Enabled,
        },
        tags: BTreeMap::from([("Name".to_owned(), "node".to_owned())]),
        user_data: UserData::new(b"join-token".to_vec()),
        options: LaunchOptions::default(),
    }
}

#[tokio::test]
async fn every_page_is_asked_for_and_filters_are_sent_with_each() {
    let fake = Fake::start(|call| match call.field("NextToken") {
        "" => subnets(&["subnet-1", "subnet-2"], Some("second")),
        _ => subnets(&["subnet-3"], None),
    })
    .await;
    let cluster = fake.pool().await.cluster(&identity("A"), REGION);
    let found = cluster.subnets(&Query::filter("vpc-id", ["vpc-1"])).await.unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!(found[2].zone, "us-test-1a");
    let calls = fake.calls();
    assert_eq!(calls.len(), 2);
    for (call, token) in calls.iter().zip(["", "second"]) {
        assert_eq!(call.field("MaxResults"), "1000");
        assert_eq!(call.field("Filter.1.Name"), "vpc-id");
        assert_eq!(call.filter_values(), ["vpc-1"]);
        assert_eq!(call.field("NextToken"), token);
        assert_eq!(call.access_key(), "AKIAA");
        assert!(call.header("user-agent").contains("cluster-api-provider-aws-rs"));
    }
}

#[tokio::test]
async fn a_repeated_page_token_is_an_error() {
    let fake = Fake::start(|_| subnets(&["subnet-1"], Some("again"))).await;
    let cluster = fake.pool().await.cluster(&identity("A"), REGION);
    let error = cluster.subnets(&Query::default()).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::NoAnswer);
    assert_eq!(fake.calls().len(), 2);
}

#[tokio::test]
async fn deprecated_images_are_found_by_id_alone() {
    let fake =
        Fake::start(|_| answer("DescribeImages", "<imagesSet><item><imageId>ami-1</imageId></item></imagesSet>", None))
            .await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    assert_eq!(machines.images(&Query::filter("image-id", ["ami-1"])).await.unwrap()[0].id, "ami-1");
    machines.images(&Query::filter("name", ["node-*"])).await.unwrap();
    let calls = fake.calls();
    assert_eq!(calls[0].field("IncludeDeprecated"), "true");
    assert_eq!(calls[1].field("IncludeDeprecated"), "false");
}

#[tokio::test]
async fn a_public_parameter_is_asked_for_once_by_many_machines() {
    const NAME: &str = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/arm64/standard/recommended/image_id";
    let fake = Fake::start(|call| match call.field("Name") {
        NAME => (200, json!({"Parameter": {"Value": "ami-1"}}).to_string()),
        _ => (400, json!({"__type": "ParameterNotFound", "message": ""}).to_string()),
    })
    .await;
    let pool = fake.pool_in_real_time().await.0;
    let asked = (0..20).map(|_| async {
        let machines = pool.machines(&identity("A"), REGION, CLUSTER);
        machines.public_parameter(NAME).await
    });
    let answers = futures::future::join_all(asked).await;
    assert!(answers.iter().all(|answer| answer.as_deref() == Ok("ami-1")), "{answers:?}");
    assert_eq!(fake.calls_of("GetParameter").len(), 1);
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    let missing = machines.public_parameter("/aws/service/eks/none").await.unwrap_err();
    assert_eq!(missing.class, ErrorClass::NotFound);
}

#[tokio::test]
async fn route_tables_are_asked_for_in_the_pages_that_ec2_allows() {
    let fake = Fake::start(|_| {
        let routes = "<routeSet><item><destinationCidrBlock>0.0.0.0/0</destinationCidrBlock>\
                      <gatewayId>igw-1</gatewayId></item></routeSet>";
        let associations = "<associationSet><item><main>true</main></item>\
                            <item><main>false</main><subnetId>subnet-1</subnetId></item></associationSet>";
        let table =
            format!("<item><routeTableId>rtb-1</routeTableId><vpcId>vpc-1</vpcId>{routes}{associations}</item>");
        answer("DescribeRouteTables", &format!("<routeTableSet>{table}</routeTableSet>"), None)
    })
    .await;
    let cluster = fake.pool().await.cluster(&identity("A"), REGION);
    let tables = cluster.route_tables(&Query::default()).await.unwrap();
    assert!(tables[0].is_main);
    assert_eq!(tables[0].routes[0].target, RouteTarget::InternetGateway("igw-1".into()));
    assert_eq!(tables[0].associations[0].subnet_id, "subnet-1");
    assert_eq!(fake.calls()[0].field("MaxResults"), "100");
}

#[tokio::test]
async fn a_launch_carries_everything_the_request_says() {
    let fake = Fake::that_launches().await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let launched = machines.launch(&machine("m"), &request()).await.unwrap();
    assert_eq!((launched.id.as_str(), launched.state), ("i-1", InstanceState::Pending));
    assert_eq!(launched.launch_time.unwrap().to_string(), "2026-01-02T03:04:05Z");
    let call = fake.calls_of("RunInstances").remove(0);
    let expected = [
        ("MinCount", "1"),
        ("MaxCount", "1"),
        ("ClientToken", "uid-1"),
        ("ImageId", "ami-1"),
        ("InstanceType", "t3.large"),
        ("KeyName", "operator"),
        ("IamInstanceProfile.Name", "nodes"),
        ("NetworkInterface.1.DeviceIndex", "0"),
        ("NetworkInterface.1.DeleteOnTermination", "true"),
        ("NetworkInterface.1.SubnetId", "subnet-1"),
        ("NetworkInterface.1.SecurityGroupId.1", "sg-1"),
        ("NetworkInterface.1.SecurityGroupId.2", "sg-2"),
        ("NetworkInterface.1.AssociatePublicIpAddress", "false"),
        ("BlockDeviceMapping.1.DeviceName", "/dev/sda1"),
        ("BlockDeviceMapping.1.Ebs.VolumeSize", "20"),
        ("BlockDeviceMapping.1.Ebs.VolumeType", "gp3"),
        ("BlockDeviceMapping.1.Ebs.Iops", "4000"),
        ("BlockDeviceMapping.1.Ebs.Throughput", "200"),
        ("BlockDeviceMapping.1.Ebs.Encrypted", "true"),
        ("BlockDeviceMapping.1.Ebs.KmsKeyId", "key-1"),
        ("BlockDeviceMapping.2.DeviceName", "/dev/sdb"),
        ("BlockDeviceMapping.2.Ebs.DeleteOnTermination", "true"),
        ("MetadataOptions.HttpTokens", "required"),
        ("MetadataOptions.HttpEndpoint", "enabled"),
        ("MetadataOptions.HttpPutResponseHopLimit", "2"),
        ("MetadataOptions.HttpProtocolIpv6", "disabled"),
        ("MetadataOptions.InstanceMetadataTags", "enabled"),
        ("TagSpecification.1.ResourceType", "instance"),
        ("TagSpecification.1.Tag.1.Key", "Name"),
        ("TagSpecification.1.Tag.1.Value", "node"),
        ("TagSpecification.2.ResourceType", "volume"),
        ("TagSpecification.3.ResourceType", "network-interface"),
        ("UserData", "am9pbi10b2tlbg=="),
    ];
    for (name, value) in expected {
        assert_eq!(call.field(name), value, "{name}");
    }
}

#[tokio::test]
async fn unset_fields_of_a_request_are_not_sent() {
    let fake = Fake::that_launches().await;
    let bare = LaunchRequest {
        iam_instance_profile: None,
        key_name: None,
        public_ip: None,
        root_volume: None,
        data_volumes: vec![],
        tags: BTreeMap::new(),
        user_data: UserData::new(vec![]),
        ..request()
    };
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    machines.launch(&machine("m"), &bare).await.unwrap();
    let call = fake.calls_of("RunInstances").remove(0);
    let absent = ["IamInstanceProfile", "KeyName", "BlockDeviceMapping", "TagSpecification", "UserData"];
    let sent = |prefix: &&str| call.form.keys().any(|name| name.starts_with(*prefix));
    assert!(!absent.iter().any(sent));
    assert!(!call.form.contains_key("NetworkInterface.1.AssociatePublicIpAddress"));
}

#[tokio::test]
async fn a_refused_launch_is_called_once_and_has_its_code() {
    let fake = Fake::start(|_| ec2_error(500, "InsufficientInstanceCapacity", "no capacity")).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let error = machines.launch(&machine("m"), &request()).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::InsufficientCapacity);
    assert_eq!(fake.calls_of("RunInstances").len(), 1);
}

#[tokio::test]
async fn a_launch_that_fails_on_the_server_is_not_repeated_by_the_sdk() {
    let fake = Fake::start(|_| ec2_error(503, "Unavailable", "later")).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let error = machines.launch(&machine("m"), &request()).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::NoAnswer);
    assert_eq!(fake.calls_of("RunInstances").len(), 1);
}

#[tokio::test]
async fn numbers_that_ec2_cannot_carry_are_refused_without_a_call() {
    let fake = Fake::start(|_| ec2_error(500, "InternalError", "")).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let mut huge = request();
    huge.data_volumes[0].size = i64::MAX;
    let error = machines.launch(&machine("m"), &huge).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Invalid);
    assert!(error.message.contains("/dev/sdb"), "{error}");
    assert_eq!(fake.calls_of("RunInstances").len(), 0);
}

#[tokio::test]
async fn equal_refusals_have_equal_messages() {
    let fake = Fake::start(|_| {
        let message = format!("Not authorized. Encoded authorization failure message: {:?}", std::time::Instant::now());
        ec2_error(403, "UnauthorizedOperation", &message.replace(['<', '>', '&'], ""))
    })
    .await;
    let cluster = fake.pool().await.cluster(&identity("A"), REGION);
    let first = cluster.vpcs(&Query::default()).await.unwrap_err();
    assert_eq!(first.class, ErrorClass::Unauthorized);
    assert_eq!(
        first.to_string(),
        "DescribeVpcs: UnauthorizedOperation: AWS does not allow this call to the identity; its own words are in the \
         log of the manager"
    );
    assert_eq!(cluster.vpcs(&Query::default()).await.unwrap_err(), first);
}

#[tokio::test]
async fn machines_share_lookups_and_the_account() {
    let fake = Fake::start(|call| match call.action.as_str() {
        "GetCallerIdentity" => caller_identity(),
        "DescribeSubnets" => subnets(&["subnet-1"], None),
        "DescribeSecurityGroups" => answer(
            &call.action,
            "<securityGroupInfo><item><groupId>sg-1</groupId><vpcId>vpc-1</vpcId></item></securityGroupInfo>",
            None,
        ),
        "DescribeImages" => answer(&call.action, "<imagesSet><item><imageId>ami-1</imageId></item></imagesSet>", None),
        _ => instances(&[], None),
    })
    .await;
    let pool = fake.pool().await;
    let asked = (0..20).map(|_| async {
        let machines = pool.machines(&identity("A"), REGION, CLUSTER);
        let [subnet, group, image] = [("subnet-id", "subnet-1"), ("group-id", "sg-1"), ("image-id", "ami-1")]
            .map(|(name, id)| Query::filter(name, [id]));
        let found = [
            machines.subnets(&subnet).await.unwrap().len(),
            machines.security_groups(&group).await.unwrap().len(),
            machines.images(&image).await.unwrap().len(),
        ];
        (machines.account_id().await.unwrap(), found)
    });
    let answers = futures::future::join_all(asked).await;
    assert!(answers.iter().all(|answer| answer == &("123456789012".to_owned(), [1; 3])), "{answers:?}");
    assert_eq!(pool.cluster(&identity("A"), REGION).account_id().await.unwrap(), "123456789012");
    for action in ["GetCallerIdentity", "DescribeSubnets", "DescribeSecurityGroups", "DescribeImages"] {
        assert_eq!(fake.calls_of(action).len(), 1, "{action}");
    }
}

#[tokio::test]
async fn calls_are_counted_under_their_controller_and_code() {
    let fake = Fake::start(|call| match call.action.as_str() {
        "DescribeVpcs" => ec2_error(400, "InvalidVpcID.NotFound", "none"),
        _ => subnets(&[], None),
    })
    .await;
    let (pool, registry) = fake.pool_and_metrics().await;
    let _ = pool.cluster(&identity("A"), REGION).vpcs(&Query::default()).await;
    pool.machines(&identity("A"), REGION, CLUSTER).subnets(&Query::default()).await.unwrap();
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let expected = [
        "aws_api_requests_total{controller=\"awscluster\",service=\"ec2\",region=\"us-test-1\",\
         operation=\"DescribeVpcs\",status_code=\"400\",error_code=\"InvalidVpcID.NotFound\"} 1",
        "aws_api_requests_total{controller=\"awsmachine\",service=\"ec2\",region=\"us-test-1\",\
         operation=\"DescribeSubnets\",status_code=\"200\",error_code=\"\"} 1",
        "aws_api_request_duration_seconds_count{controller=\"awsmachine\",service=\"ec2\",region=\"us-test-1\",\
         operation=\"DescribeSubnets\"} 1",
        "aws_api_call_retries_bucket{le=\"0.0\",controller=\"awsmachine\",service=\"ec2\",region=\"us-test-1\",\
         operation=\"DescribeSubnets\"} 1",
    ];
    for line in expected {
        assert!(text.contains(line), "{line}\nis not in\n{text}");
    }
}

#[tokio::test]
async fn launches_are_counted_by_their_result() {
    let codes = ["InsufficientInstanceCapacity", "InternalError", "VcpuLimitExceeded"];
    let left = Arc::new(Mutex::new(codes.to_vec()));
    let fake = Fake::start(move |_| match left.lock().pop() {
        Some(code) => ec2_error(500, code, "no"),
        None => panic!("one call more than there are codes"),
    })
    .await;
    let (pool, registry) = fake.pool_and_metrics().await;
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    let (machine, request) = (machine("m"), request());
    for _ in codes {
        let launch = || machines.launch(&machine, &request);
        let mut error = launch().await.unwrap_err();
        while let Some(turn) = error.retry_after {
            // The call was deferred: nothing was sent or counted.
            tokio::time::sleep(turn).await;
            error = launch().await.unwrap_err();
        }
    }
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for (result, count) in
        [("insufficient_capacity", 1), ("no_answer", 1), ("quota_exceeded", 1), ("success", 0), ("throttled", 0)]
    {
        let line = format!("capa_launch_attempts_total{{result=\"{result}\"}} {count}\n");
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
}

/// Collects log output.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn user_data_and_secrets_are_in_no_log_and_no_error() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).finish();
    // The subscriber is set for all threads: tracing caches the interest in a log statement for the whole process, from
    // the first thread that reaches the statement.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let fake = Fake::start(|call| match call.action.as_str() {
        "AssumeRole" => session(call),
        _ => ec2_error(403, "UnauthorizedOperation", "no"),
    })
    .await;
    let assumed = ResolvedIdentity {
        key: "role".into(),
        source: role("arn:aws:iam::1:role/One", identity("A").source),
        cluster: identity("A").cluster,
        is_for_one_cluster: false,
    };
    let machines = fake.pool().await.machines(&assumed, REGION, CLUSTER);
    let error = machines.launch(&machine("m"), &request()).await.unwrap_err();
    let logged = String::from_utf8(log.0.lock().clone()).unwrap();
    assert!(logged.contains("transmitting request") && logged.contains("RunInstances"), "{logged}");
    for secret in ["join-token", "am9pbi10b2tlbg", "static-secret", "external-secret", "session-secret", "token-of-One"]
    {
        assert!(!logged.contains(secret), "{secret} in {logged}");
        assert!(!format!("{error} {error:?}").contains(secret));
    }
}
