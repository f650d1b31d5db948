//! This provider's kinds in the real API server: accepted objects, refused objects with the words of the refusal, and
//! the output of kubectl.

use std::path::Path;

use anyhow::Context as _;
use capa_e2e::{Story, TestEnvironment, eventually};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Map, Value, json};

use super::admission::{dry_run, judge, merged};
use super::scenario::{OURS, WITHIN};

/// A change of the smallest spec, and a word of the refusal; `None` where the server accepts the spec.
type Case = (Value, Option<&'static str>);

#[test]
fn inconsistent_machines_are_refused() -> anyhow::Result<()> {
    Story::new("machine-schema").run(async |environment| {
        let target = json!({"targetGroupARN": "arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/a/b"});
        let volume = json!({"size": 8, "deviceName": "/dev/sdb"});
        let cases: Vec<Case> = vec![
            (json!({}), None),
            (json!({"instanceType": null}), Some("spec.instanceType: Required")),
            (json!({"instanceType": "t"}), Some("spec.instanceType")),
            (json!({"region": "eu-west-1"}), None),
            (json!({"region": ""}), Some("spec.region")),
            (json!({"region": "a".repeat(33)}), Some("spec.region")),
            (json!({"identityRef": {"kind": "AWSClusterRoleIdentity", "name": "a"}}), None),
            (json!({"identityRef": {"kind": "Secret", "name": "a"}}), Some("spec.identityRef.kind")),
            (json!({"identityRef": {"kind": "AWSClusterRoleIdentity"}}), Some("spec.identityRef.name")),
            (json!({"controlPlaneTargets": [target, {"classicLoadBalancerName": "api"}]}), None),
            (json!({"controlPlaneTargets": [{"loadBalancerName": "api", "port": 443}]}), None),
            (json!({"controlPlaneTargets": [{}]}), Some("exactly one of")),
            (
                json!({"controlPlaneTargets": [{"loadBalancerName": "a", "classicLoadBalancerName": "b"}]}),
                Some("exactly one of"),
            ),
            (
                json!({"controlPlaneTargets": [{"targetGroupARN": "arn:a", "classicLoadBalancerName": "api"}]}),
                Some("exactly one of"),
            ),
            (
                json!({"controlPlaneTargets": [{"classicLoadBalancerName": "api", "port": 80}]}),
                Some("port needs targetGroupARN or loadBalancerName"),
            ),
            (
                json!({"controlPlaneTargets": [{"targetGroupARN": "arn:a", "port": 65536}]}),
                Some("spec.controlPlaneTargets[0].port"),
            ),
            (json!({"controlPlaneTargets": vec![target.clone(); 8]}), None),
            (json!({"controlPlaneTargets": vec![target; 9]}), Some("Too many: 9")),
            (json!({"additionalTags": tags(50, 256)}), None),
            (json!({"additionalTags": tags(51, 1)}), Some("spec.additionalTags")),
            (json!({"additionalTags": tags(1, 257)}), Some("spec.additionalTags")),
            (json!({"rootVolume": {"size": 8}}), None),
            (json!({"rootVolume": {"size": 7}}), Some("spec.rootVolume.size")),
            (json!({"rootVolume": {}}), Some("spec.rootVolume.size")),
            (json!({"nonRootVolumes": vec![volume.clone(); 40]}), None),
            (json!({"nonRootVolumes": vec![volume; 41]}), Some("spec.nonRootVolumes")),
            (
                json!({"instanceMetadataOptions": {"httpTokens": "maybe"}}),
                Some("spec.instanceMetadataOptions.httpTokens"),
            ),
            (json!({"instanceMetadataOptions": {"httpPutResponseHopLimit": 65}}), Some("httpPutResponseHopLimit")),
            (
                json!({"marketType": "Spot", "capacityReservationId": "cr-1"}),
                Some("a Spot instance cannot use a capacity reservation"),
            ),
            (
                json!({"spotMarketOptions": {}, "capacityReservationId": "cr-1"}),
                Some("a Spot instance cannot use a capacity reservation"),
            ),
            (json!({"subnet": {"id": "subnet-1"}}), None),
            (json!({"subnet": {"filters": [{"name": "vpc-id"}]}}), Some("spec.subnet.filters[0].values")),
            (
                json!({"additionalSecurityGroups": vec![json!({"id": "sg-1"}); 17]}),
                Some("spec.additionalSecurityGroups"),
            ),
        ];
        judged(environment, "AWSMachine", &json!({"instanceType": "t3.large"}), cases).await?;
        Ok(())
    })
}

#[test]
fn inconsistent_clusters_and_identities_are_refused() -> anyhow::Result<()> {
    Story::new("cluster-schema").run(async |environment| {
        let subnets = |count: usize| {
            let ids = (0..count).map(|number| json!({"id": format!("subnet-{number:08x}")}));
            json!({"network": {"subnets": ids.collect::<Vec<_>>()}})
        };
        let twice = [json!({"id": "subnet-a"}), json!({"id": "subnet-a"})];
        let closed = json!({"disableIngressRules": true, "allowedCIDRBlocks": ["10.0.0.0/8"]});
        let cases: Vec<Case> = vec![
            (json!({}), None),
            (json!({"unmanaged": "yes"}), Some("spec.unmanaged")),
            (json!({"preflight": {"mode": "Disabled", "cni": "Cilium", "skipRules": ["S7", "G12"]}}), None),
            (json!({"preflight": {"mode": "Sometimes"}}), Some("spec.preflight.mode")),
            (json!({"preflight": {"cni": "Weave"}}), Some("spec.preflight.cni")),
            (json!({"preflight": {"skipRules": ["s7"]}}), Some("spec.preflight.skipRules[0]")),
            (json!({"preflight": {"skipRules": vec!["S7"; 65]}}), Some("spec.preflight.skipRules")),
            (subnets(200), None),
            (subnets(201), Some("spec.network.subnets: Too many")),
            (json!({"network": {"subnets": twice}}), Some("Duplicate value")),
            (json!({"network": {"subnets": [{}]}}), Some("spec.network.subnets[0].id")),
            (json!({"network": {"securityGroupOverrides": {"node": "sg-1"}}}), None),
            (json!({"network": {"vpc": {"subnetSchema": "Prefer"}}}), Some("spec.network.vpc.subnetSchema")),
            (json!({"network": {"vpc": {"carrierGatewayId": "igw-1"}}}), Some("begins with cagw-")),
            (json!({"controlPlaneEndpoint": {"host": "", "port": 0}}), None),
            (json!({"controlPlaneEndpoint": {}}), Some("spec.controlPlaneEndpoint")),
            (json!({"controlPlaneEndpoint": {"port": 65536}}), Some("spec.controlPlaneEndpoint.port")),
            (json!({"controlPlaneTargets": [{}]}), Some("exactly one of")),
            (json!({"bastion": closed}), Some("allowedCIDRBlocks has no effect")),
            (json!({"additionalTags": tags(51, 1)}), Some("spec.additionalTags")),
        ];
        judged(environment, "AWSCluster", &json!({"region": "eu-west-1"}), cases).await?;
        let source = json!({"kind": "AWSClusterControllerIdentity", "name": "default"});
        let role = json!({"roleARN": "arn:aws:iam::111122223333:role/a", "sourceIdentityRef": source});
        let cases: Vec<Case> = vec![
            (json!({"allowedNamespaces": null}), None),
            (json!({"allowedNamespaces": {"list": null, "selector": {}}}), None),
            (json!({"roleARN": null}), Some("spec.roleARN: Required")),
            (json!({"durationSeconds": 900}), None),
            (json!({"durationSeconds": 899}), Some("spec.durationSeconds")),
            (json!({"durationSeconds": 43201}), Some("spec.durationSeconds")),
            (json!({"sourceIdentityRef": {"kind": "Role", "name": "a"}}), Some("spec.sourceIdentityRef.kind")),
        ];
        judged(environment, "AWSClusterRoleIdentity", &role, cases).await?;
        let cases: Vec<Case> = vec![(json!({"secretRef": "key"}), None), (json!({}), Some("spec.secretRef: Required"))];
        judged(environment, "AWSClusterStaticIdentity", &json!({}), cases).await?;
        Ok(())
    })
}

#[test]
fn a_launch_record_is_empty_or_whole() -> anyhow::Result<()> {
    Story::new("launch-record").run(async |environment| {
        let api = environment.api(OURS, "AWSMachine").await?;
        let machine = object("AWSMachine", "worker", &json!({"instanceType": "t3.large"}))?;
        api.create(&PostParams::default(), &machine).await?;
        let whole = json!({
            "phase": "Requested",
            "attempt": 1,
            "clientToken": "6f0c0c3e-9d0e-4d3f-9a51-0f6d2a4b7c11-1",
            "subnetID": "subnet-0000000b",
            "imageID": "ami-0123456789abcdef0",
            "instanceType": "t3.large",
            "securityGroupIDs": ["sg-0000000a"],
            "parametersHash": "3b1f0c9a",
            "requestedAt": "2026-11-20T10:02:41Z",
            "holder": "a1b2c3d4",
        });
        let answered = json!({"phase": "Answered", "instanceID": "i-0aa00000000000001"});
        let planned = json!({"phase": "Planned", "attempt": 0});
        let incomplete = "requestedAt and holder are required";
        let unrepeatable = "imageID and parametersHash are required in the phase Requested";
        let needed: Vec<String> = whole.as_object().into_iter().flat_map(Map::keys).cloned().collect();
        let mut cases: Vec<Case> = vec![
            (planned.clone(), None),
            (whole.clone(), None),
            (merged(&whole, &answered), None),
            (merged(&whole, &json!({"phase": "Refused", "failedInstances": 2})), None),
            (merged(&planned, &json!({"holder": "a1b2c3d4"})), Some("attempt 0 stands alone")),
            (merged(&planned, &json!({"instanceID": "i-0aa00000000000001"})), Some("attempt 0 stands alone")),
            (json!({"phase": "Requested", "attempt": 1}), Some(incomplete)),
            (json!({"phase": "Planned", "attempt": -1}), Some("status.launch.attempt")),
            (json!({"phase": "Planned"}), Some("status.launch.attempt: Required")),
            (json!({"attempt": 0}), Some("status.launch.phase: Required")),
            (merged(&whole, &json!({"phase": "Pondered"})), Some("status.launch.phase")),
            (merged(&whole, &json!({"phase": "Planned"})), Some("attempt is 0 exactly in the phase Planned")),
            (json!({"phase": "Requested", "attempt": 0}), Some("attempt is 0 exactly in the phase Planned")),
        ];
        for phase in ["Requested", "Refused"] {
            let contradiction = merged(&whole, &merged(&answered, &json!({"phase": phase})));
            cases.push((contradiction, Some("instanceID is set exactly in the phase Answered")));
        }
        let unanswered = merged(&whole, &json!({"phase": "Answered"}));
        cases.push((unanswered, Some("instanceID is set exactly in the phase Answered")));
        for field in needed.iter().filter(|field| !["phase", "attempt"].contains(&field.as_str())) {
            let is_of_call = ["imageID", "parametersHash"].contains(&field.as_str());
            let refusal = if is_of_call { unrepeatable } else { incomplete };
            cases.push((merged(&whole, &json!({field: null})), Some(refusal)));
            let recovered = merged(&whole, &merged(&answered, &json!({field: null})));
            cases.push((recovered, (!is_of_call).then_some(incomplete)));
            let alone = merged(&planned, &json!({field: whole[field]}));
            cases.push((alone, Some("attempt 0 stands alone")));
        }
        for (launch, refusal) in cases {
            let status = Patch::Merge(json!({"status": {"launch": launch}}));
            let answer = api.patch_status("worker", &PatchParams::default().dry_run(), &status).await;
            judge(refusal.unwrap_or_default(), answer).with_context(|| launch.to_string())?;
        }
        Ok(())
    })
}

#[test]
fn spec_and_status_are_written_through_separate_endpoints() -> anyhow::Result<()> {
    Story::new("subresource").run(async |environment| {
        for (kind, spec) in
            [("AWSCluster", json!({"region": "eu-west-1"})), ("AWSMachine", json!({"instanceType": "t3.large"}))]
        {
            let api = environment.api(OURS, kind).await?;
            let mut written = object(kind, "dev", &spec)?;
            written.data["status"] = json!({"ready": true});
            let created = api.create(&PostParams::default(), &written).await?;
            assert_eq!(created.data.get("status"), None, "{kind}");
            let both = Patch::Merge(json!({"spec": {"additionalTags": {"a": "b"}}, "status": {"ready": true}}));
            let stored = api.patch_status("dev", &PatchParams::default(), &both).await?;
            assert_eq!(stored.data["status"], json!({"ready": true}), "{kind}");
            assert_eq!(stored.data["spec"], created.data["spec"], "{kind}");
            assert_eq!(stored.metadata.generation, Some(1), "{kind}");
            let stored = api.patch("dev", &PatchParams::default(), &Patch::Merge(json!({"status": null}))).await?;
            assert_eq!(stored.data["status"], json!({"ready": true}), "{kind}");
        }
        Ok(())
    })
}

#[test]
fn kubectl_explains_fields_and_lists_objects_in_columns() -> anyhow::Result<()> {
    Story::new("kubectl").run(async |environment| {
        for (field, says) in [
            ("awscluster.spec.unmanaged", "Whether you bring the infrastructure"),
            ("awsc.spec.network.subnets.availabilityZone", "Zone of the subnet"),
            ("awsmachine.spec.cloudInit.insecureSkipSecretsManager", "user data"),
            ("awsmachine.status.launch.clientToken", "token"),
            ("awsclusterroleidentity.spec.externalID", "trust policy"),
        ] {
            // The server publishes a schema some seconds after it has begun to serve the kind.
            let text = eventually(WITHIN, &format!("kubectl to explain {field}"), async || {
                kubectl(environment, &["explain", field])
            })
            .await?;
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.to_lowercase().contains(&says.to_lowercase()), "{field}: {text}");
        }
        let all = kubectl(environment, &["explain", "awscluster.spec", "--recursive"])?;
        assert!(all.contains("unmanaged") && all.contains("securityGroupOverrides"), "{all}");

        let machine = object("AWSMachine", "worker", &json!({"instanceType": "t3.large"}))?;
        let cluster = object("AWSCluster", "dev", &json!({"region": "eu-west-1"}))?;
        for (kind, object) in [("AWSMachine", machine), ("AWSCluster", cluster)] {
            let api = environment.api(OURS, kind).await?;
            api.create(&PostParams::default(), &object).await?;
        }
        for (kind, columns) in [
            ("awsmachines", "NAME CLUSTER READY REASON INSTANCE TYPE ZONE AGE"),
            ("awsclusters", "NAME CLUSTER READY REASON VPC ENDPOINT AGE"),
        ] {
            let table = kubectl(environment, &["get", kind])?;
            let header = table.lines().next().unwrap_or_default();
            assert_eq!(header.split_whitespace().collect::<Vec<_>>().join(" "), columns);
        }
        let wide = kubectl(environment, &["get", "awsmachines", "--output=wide"])?;
        assert!(wide.lines().next().is_some_and(|header| header.contains("MACHINE   MESSAGE")), "{wide}");
        assert!(kubectl(environment, &["get", "cluster-api"])?.contains("awsmachine.infrastructure"));
        Ok(())
    })
}

fn object(kind: &str, name: &str, spec: &Value) -> anyhow::Result<DynamicObject> {
    let document = json!({"apiVersion": OURS, "kind": kind, "metadata": {"name": name}, "spec": spec});
    Ok(serde_json::from_value(document)?)
}

/// Tests specs on the server without storing them.
async fn judged(environment: &TestEnvironment, kind: &str, smallest: &Value, cases: Vec<Case>) -> anyhow::Result<()> {
    let api = environment.api(OURS, kind).await?;
    for (change, refusal) in cases {
        let object = object(kind, environment.namespace(), &merged(smallest, &change))?;
        let answer = api.create(&dry_run(), &object).await;
        judge(refusal.unwrap_or_default(), answer).with_context(|| format!("{kind}, {change}"))?;
    }
    Ok(())
}

/// A map with this many tags, whose values have this length.
fn tags(count: usize, length: usize) -> Value {
    let tags = (0..count).map(|number| (format!("tag-{number}"), "v".repeat(length).into()));
    Value::Object(tags.collect())
}

/// The output of kubectl in the test's namespace.
pub(crate) fn kubectl(environment: &TestEnvironment, arguments: &[&str]) -> anyhow::Result<String> {
    let namespaced = [&["--namespace", environment.namespace()], arguments].concat();
    kubectl_with(environment, environment.world().admin_kubeconfig(), &namespaced)
}

/// The output of kubectl with a kubeconfig. The API servers of clusters are reached, too.
pub(crate) fn kubectl_with(
    environment: &TestEnvironment,
    kubeconfig: &Path,
    arguments: &[&str],
) -> anyhow::Result<String> {
    capa_e2e::kubectl(kubeconfig, environment.world().endpoint_variables(), arguments)
}
