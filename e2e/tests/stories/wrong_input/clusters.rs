//! Wrong AWSClusters, and wrong identities of AWSClusters.

use capa_e2e::objects;
use capa_e2e::user::Network;
use serde_json::{Value, json};

use super::{Mend, WrongInput, with_cluster};
use crate::stories::scenario::{NO_GROUP, NO_SUBNET, NO_VPC, Scenario};

/// A wrong field of an AWSCluster.
struct WrongField {
    input: &'static str,
    /// The changed part of the spec.
    path: &'static str,
    value: Value,
    /// The type and the reason of the condition that is false, if the API server accepts the AWSCluster. A cluster of
    /// which a part can be used is Ready all the same.
    condition: Option<(&'static str, &'static str)>,
    says: String,
}

pub(super) async fn inputs(s: &Scenario, elsewhere: &Network) -> anyhow::Result<Vec<WrongInput>> {
    let mut inputs = Vec::new();
    for (number, wrong) in wrong_fields(s, elsewhere).into_iter().enumerate() {
        let name = format!("cluster-{number}");
        let mut cluster = objects::parse(&s.unmanaged(&name, ""))?.remove(0);
        set(&mut cluster.data["spec"], wrong.path, wrong.value);
        inputs.push(WrongInput {
            input: wrong.input,
            objects: with_cluster(&name, &serde_json::to_string(&cluster)?),
            looks_at: ("AWSCluster", name.clone()),
            condition: wrong.condition,
            says: vec![wrong.says],
            mend: Mend::Apply(with_cluster(&name, &s.unmanaged(&name, ""))),
            heals: ("AWSCluster", name),
        });
    }
    inputs.push(endpoint_without_port(s));
    inputs.extend(identities(s).await?);
    Ok(inputs)
}

/// Sets or, with null, removes a field by its path.
fn set(spec: &mut Value, path: &str, value: Value) {
    let (parents, field) = path.rsplit_once('.').unwrap_or(("", path));
    let place = parents.split('.').filter(|part| !part.is_empty()).fold(spec, |place, part| &mut place[part]);
    if value.is_null() {
        place.as_object_mut().map(|fields| fields.remove(field));
    } else {
        place[field] = value;
    }
}

fn wrong_fields(s: &Scenario, elsewhere: &Network) -> Vec<WrongField> {
    let own = &s.network.zones[0].private_subnet_id;
    let foreign = &elsewhere.zones[0].private_subnet_id;
    let group = &elsewhere.node_security_group_id;
    let arn = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/nowhere/0123456789abcdef";
    let wrong = |input, path, value, condition, says| WrongField { input, path, value, condition, says };
    let not_ready = |reason| Some(("Ready", reason));
    let usable = |reason| Some(("NetworkReady", reason));
    vec![
        wrong("no region", "region", Value::Null, not_ready("InvalidSpec"), "spec.region".into()),
        wrong("a zone as region", "region", json!("eu-west-1a"), None, "spec.region".into()),
        wrong("a region in capitals", "region", json!("EU-WEST-1"), None, "spec.region".into()),
        wrong("no network", "network", Value::Null, not_ready("NothingDeclared"), "declares no subnet".into()),
        wrong(
            "a subnet that does not exist",
            "network.subnets",
            json!([{"id": NO_SUBNET}]),
            not_ready("NotFound"),
            NO_SUBNET.into(),
        ),
        wrong(
            "the name of a subnet as its id",
            "network.subnets",
            json!([{"id": "my-subnet"}]),
            not_ready("InvalidSpec"),
            "my-subnet".into(),
        ),
        wrong(
            "a subnet of another VPC",
            "network.subnets",
            json!([{"id": own}, {"id": foreign}]),
            usable("Conflict"),
            foreign.clone(),
        ),
        wrong(
            "a subnet with another zone",
            "network.subnets",
            json!([{"id": own, "availabilityZone": "eu-west-1f"}]),
            usable("Conflict"),
            "eu-west-1f".into(),
        ),
        wrong("subnets as a text", "network.subnets", json!("subnet-1"), None, "subnets".into()),
        wrong("a VPC that does not exist", "network.vpc.id", json!(NO_VPC), not_ready("NotFound"), NO_VPC.into()),
        wrong(
            "a security group that does not exist",
            "network.securityGroupOverrides.node",
            json!(NO_GROUP),
            not_ready("NotFound"),
            NO_GROUP.into(),
        ),
        wrong(
            "a security group of another VPC",
            "network.securityGroupOverrides.node",
            json!(group),
            not_ready("Conflict"),
            group.clone(),
        ),
        wrong(
            "a role that does not exist",
            "network.securityGroupOverrides",
            json!({"nodes": s.network.node_security_group_id}),
            not_ready("InvalidSpec"),
            "nodes is no role".into(),
        ),
        wrong(
            "a load balancer that does not exist",
            "controlPlaneLoadBalancer",
            json!({"name": "nowhere", "loadBalancerType": "nlb"}),
            not_ready("NotFound"),
            "load balancer nowhere does not exist".into(),
        ),
        wrong(
            "a target group that does not exist",
            "controlPlaneTargets",
            json!([{"targetGroupARN": arn}]),
            None,
            "nowhere".into(),
        ),
        wrong("a tag that AWS reserves", "additionalTags", json!({"aws:team": "a"}), None, "aws:".into()),
        wrong(
            "a kind of identity that does not exist",
            "identityRef",
            json!({"kind": "AWSClusterUserIdentity", "name": "default"}),
            None,
            "identityRef.kind".into(),
        ),
        wrong("a path as region", "region", json!("../x"), not_ready("InvalidSpec"), "spec.region".into()),
        wrong("two words as region", "region", json!("US EAST"), not_ready("InvalidSpec"), "spec.region".into()),
        wrong(
            "a host as region",
            "region",
            json!("eu-west-1.example.org/"),
            not_ready("InvalidSpec"),
            "spec.region".into(),
        ),
    ]
}

/// The endpoint is immutable once it is set, so that its mend keeps the host.
fn endpoint_without_port(s: &Scenario) -> WrongInput {
    let name = "cluster-portless";
    let with = |endpoint| with_cluster(name, &s.unmanaged(name, &format!("  controlPlaneEndpoint: {endpoint}")));
    WrongInput {
        input: "an endpoint without a port",
        objects: with("{host: 10.0.0.9}"),
        looks_at: ("AWSCluster", name.to_owned()),
        condition: None,
        says: vec!["port".to_owned()],
        mend: Mend::Apply(with("{host: 10.0.0.9, port: 6443}")),
        heals: ("AWSCluster", name.to_owned()),
    }
}

/// Clusters with an identity of their own, each with another mistake.
async fn identities(s: &Scenario) -> anyhow::Result<Vec<WrongInput>> {
    let name = |suffix: &str| format!("{}-{suffix}", s.namespace());
    let of = |input, suffix: &str, says: &str, mend: String| {
        let cluster = format!("cluster-{suffix}");
        let reference = format!("  identityRef: {{kind: AWSClusterStaticIdentity, name: {}}}", name(suffix));
        WrongInput {
            input,
            objects: with_cluster(&cluster, &s.unmanaged(&cluster, &reference)),
            looks_at: ("AWSCluster", cluster.clone()),
            condition: None,
            says: vec![says.to_owned()],
            mend: Mend::Apply(mend),
            heals: ("AWSCluster", cluster),
        }
    };
    let key = s.aws().another_key();
    let revoked = s.aws().another_key();
    s.aws().revoke(&revoked.access_key_id);
    for suffix in ["missing", "withheld"] {
        s.identity_secret(&name(suffix), &key).await?;
    }
    s.identity_secret(&name("revoked"), &revoked).await?;
    let other_namespace = Scenario::static_identity_yaml(&name("withheld"), "{list: [another]}");
    let allowed = format!("{{list: [{}]}}", s.namespace());
    let right = |suffix: &str| Scenario::static_identity_yaml(&name(suffix), &allowed);
    for identity in [&other_namespace, &right("secretless"), &right("revoked")] {
        s.apply(identity).await?;
    }
    let secret = |suffix: &str| Scenario::identity_secret_yaml(&name(suffix), &key);
    Ok(vec![
        of("an identity that does not exist", "missing", &name("missing"), right("missing")),
        of("an identity for another namespace", "withheld", "allowedNamespaces", right("withheld")),
        of("an identity without its Secret", "secretless", "Secret", secret("secretless")),
        of("a revoked access key", "revoked", "correct the Secret", secret("revoked")),
    ])
}
