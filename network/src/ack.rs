//! Objects of AWS Controllers for Kubernetes (ACK), whose CRDs are documented at
//! <https://aws-controllers-k8s.github.io/community/reference/>.

use capa_api::common::MachineRole;
use capa_api::network::MachineNetwork;
use serde_json::{Value, json};

use crate::Field;
use crate::parse::{WrongType, in_contract, parse};

/// The API group of the controller for EC2.
const EC2: &str = "ec2.services.k8s.aws";
/// The API group of the controller for Elastic Load Balancing.
const LOAD_BALANCING: &str = "elbv2.services.k8s.aws";
/// The condition that says whether the resource in AWS matches the spec.
pub(crate) const SYNCED: &str = "ACK.ResourceSynced";

/// The reason why an object describes no network.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoNetwork {
    /// The resource in AWS does not match the spec yet.
    NotSynced,
    /// The object is synchronised and lacks this field.
    Missing(&'static str),
    /// A field, or the value derived from it, has the wrong type.
    WrongType(WrongType),
}

/// A kind of ACK that describes a part of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// A VPC.
    Vpc,
    /// A subnet.
    Subnet,
    /// A security group.
    SecurityGroup,
    /// A target group, in which control plane machines are registered.
    TargetGroup,
    /// A load balancer. It supplies only its VPC, because machines are registered in target groups.
    LoadBalancer,
}

impl AckKind {
    /// The kind with this group and name.
    pub(crate) fn find(group: &str, kind: &str) -> Option<Self> {
        match (group, kind) {
            (EC2, "VPC") => Some(Self::Vpc),
            (EC2, "Subnet") => Some(Self::Subnet),
            (EC2, "SecurityGroup") => Some(Self::SecurityGroup),
            (LOAD_BALANCING, "TargetGroup") => Some(Self::TargetGroup),
            (LOAD_BALANCING, "LoadBalancer") => Some(Self::LoadBalancer),
            _ => None,
        }
    }

    /// The fields that an object supplies to machines of a role.
    pub(crate) fn fields(self, role: Option<MachineRole>) -> Vec<Field> {
        let own = match self {
            Self::Vpc | Self::LoadBalancer => Field::Vpc,
            Self::Subnet => Field::Subnets,
            Self::SecurityGroup => match role {
                None => Field::SecurityGroupsAll,
                Some(MachineRole::ControlPlane) => Field::SecurityGroupsControlPlane,
                Some(MachineRole::Worker) => Field::SecurityGroupsWorker,
            },
            Self::TargetGroup => Field::ControlPlaneTargets,
        };
        vec![Field::Region, own]
    }

    /// Path of the field with the AWS id or the ARN.
    fn id_path(self) -> &'static str {
        match self {
            Self::Vpc | Self::LoadBalancer => "status.vpcID",
            Self::Subnet => "status.subnetID",
            Self::SecurityGroup => "status.id",
            Self::TargetGroup => "status.ackResourceMetadata.arn",
        }
    }

    /// The network of an object.
    pub(crate) fn network(self, object: &Value, role: Option<MachineRole>) -> Result<MachineNetwork, NoNetwork> {
        if !is_synced(object) {
            return Err(NoNetwork::NotSynced);
        }
        let at = |pointer: &str| object.pointer(pointer).filter(|value| !value.is_null());
        let path = self.id_path();
        let Some(id) = at(&format!("/{}", path.replace('.', "/"))) else {
            return Err(NoNetwork::Missing(path));
        };
        if !id.is_string() {
            return Err(NoNetwork::WrongType(WrongType { path: path.to_owned(), expected: "a string".to_owned() }));
        }
        let mut network = match self {
            Self::Vpc => json!({"vpc": {
                "id": id,
                "cidrBlocks": ranges(object, "cidrBlockAssociationSet", "cidrBlock"),
                "ipv6CidrBlocks": ranges(object, "ipv6CIDRBlockAssociationSet", "ipv6CIDRBlock"),
            }}),
            Self::LoadBalancer => json!({"vpc": {"id": id}}),
            Self::Subnet => json!({"subnets": [{"id": id, "availabilityZone": at("/spec/availabilityZone")}]}),
            Self::SecurityGroup => match role {
                None => json!({"securityGroups": {"all": [id]}}),
                Some(MachineRole::ControlPlane) => json!({"securityGroups": {"controlPlane": [id]}}),
                Some(MachineRole::Worker) => json!({"securityGroups": {"worker": [id]}}),
            },
            Self::TargetGroup => json!({"controlPlaneTargets": [{"targetGroupARN": id}]}),
        };
        if let (Some(region), Some(fields)) = (at("/status/ackResourceMetadata/region"), network.as_object_mut()) {
            fields.insert("region".to_owned(), region.clone());
        }
        parse(&network).map_err(|wrong| NoNetwork::WrongType(in_contract(wrong)))
    }
}

fn is_synced(object: &Value) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| {
        let is = |field: &str, value: &str| condition.get(field).is_some_and(|found| found == value);
        is("type", SYNCED) && is("status", "True")
    })
}

/// The address ranges of a VPC.
fn ranges(object: &Value, set: &str, field: &str) -> Vec<Value> {
    let associations = object.pointer(&format!("/status/{set}")).and_then(Value::as_array);
    let associations = associations.into_iter().flatten();
    associations.filter_map(|association| association.get(field)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(status: &Value) -> Value {
        let mut object = json!({"spec": {"availabilityZone": "eu-west-1a"}, "status": {
            "ackResourceMetadata": {"arn": "arn:aws:x", "ownerAccountID": "111122223333", "region": "eu-west-1"},
            "conditions": [{"type": "ACK.ResourceSynced", "status": "True"}],
        }});
        let fields = object["status"].as_object_mut().unwrap();
        fields.extend(status.as_object().unwrap().clone());
        object
    }

    fn network(group: &str, kind: &str, role: Option<MachineRole>, status: &Value) -> Value {
        let kind = AckKind::find(group, kind).unwrap();
        let network = kind.network(&object(status), role).unwrap();
        let network = serde_json::to_value(network).unwrap();
        assert_eq!(network["region"], "eu-west-1");
        for field in kind.fields(role) {
            let pointer = format!("/{}", field.path().replace('.', "/"));
            assert!(network.pointer(&pointer).is_some(), "{network} without {pointer}");
        }
        network
    }

    #[test]
    fn each_kind_supplies_its_part() {
        let vpc = json!({
            "vpcID": "vpc-0000000a", "cidrBlockAssociationSet": [{"cidrBlock": "10.0.0.0/16"}],
            "ipv6CIDRBlockAssociationSet": [{"ipv6CIDRBlock": "2600:1f14::/56"}],
        });
        let expected =
            json!({"id": "vpc-0000000a", "cidrBlocks": ["10.0.0.0/16"], "ipv6CidrBlocks": ["2600:1f14::/56"]});
        assert_eq!(network(EC2, "VPC", None, &vpc)["vpc"], expected);
        let subnet = network(EC2, "Subnet", None, &json!({"subnetID": "subnet-0000000a"}));
        assert_eq!(subnet["subnets"], json!([{"id": "subnet-0000000a", "availabilityZone": "eu-west-1a"}]));
        let group = json!({"id": "sg-0000000a"});
        for (role, field) in
            [(None, "all"), (Some(MachineRole::ControlPlane), "controlPlane"), (Some(MachineRole::Worker), "worker")]
        {
            let groups = network(EC2, "SecurityGroup", role, &group)["securityGroups"].clone();
            assert_eq!(groups, json!({ field: ["sg-0000000a"] }));
        }
        let targets = network(LOAD_BALANCING, "TargetGroup", None, &json!({}))["controlPlaneTargets"].clone();
        assert_eq!(targets, json!([{"targetGroupARN": "arn:aws:x"}]));
        let balancer = network(LOAD_BALANCING, "LoadBalancer", None, &json!({"vpcID": "vpc-0000000a"}));
        assert_eq!(balancer["vpc"]["id"], "vpc-0000000a");
    }

    #[test]
    fn an_object_without_an_id_of_aws_is_no_network() {
        let group = AckKind::SecurityGroup;
        let wrong = WrongType { path: "status.id".to_owned(), expected: "a string".to_owned() };
        let unsynced = json!([{"type": "ACK.ResourceSynced", "status": "False"}]);
        for (status, expected) in [
            (json!({"id": "sg-0000000a", "conditions": unsynced}), NoNetwork::NotSynced),
            (json!({"id": "sg-0000000a", "conditions": []}), NoNetwork::NotSynced),
            (json!({}), NoNetwork::Missing("status.id")),
            (json!({"id": null}), NoNetwork::Missing("status.id")),
            (json!({"id": 5}), NoNetwork::WrongType(wrong)),
        ] {
            assert_eq!(group.network(&object(&status), None), Err(expected), "{status}");
        }
    }
}
