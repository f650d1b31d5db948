//! Outputs with the names of the network contract, and outputs that users copy into the objects of the cluster.

use ::hcl::Expression;
use ::hcl::structure::Block;

use super::Document;
use super::hcl::{id, object, output, value};
use crate::requirements::wanted::{GroupUse, SubnetUse, Wanted};

pub(super) fn blocks(document: &Document<'_>) -> Vec<Block> {
    let all = &document.requirements.requirements;
    let subnets = all.iter().filter_map(|requirement| match &requirement.wanted {
        Wanted::Subnet(SubnetUse { is_public, has_machines: true }) => Some(object([
            ("id", id(&requirement.object)),
            ("availabilityZone", value(&requirement.object, "availability_zone")),
            ("public", (*is_public).into()),
        ])),
        _ => None,
    });
    let groups = |purpose: GroupUse| -> Expression {
        let groups = all.iter().filter(|requirement| requirement.wanted == Wanted::SecurityGroup(purpose));
        groups.map(|requirement| id(&requirement.object)).collect()
    };
    let groups = object([
        ("all", groups(GroupUse::Machines)),
        ("controlPlane", groups(GroupUse::ControlPlane)),
        ("worker", groups(GroupUse::Workers)),
    ]);
    let mut blocks = vec![
        output("region", document.requirements.region.as_str()),
        output("vpc", object(document.vpc().map(|vpc| ("id", id(vpc))))),
        output("subnets", subnets.collect::<Expression>()),
        output("securityGroups", groups),
    ];
    // Machines do not read these outputs. Users copy them into controlPlaneTargets and controlPlaneEndpoint.
    for requirement in document.of(false) {
        let of = &requirement.object;
        match requirement.wanted {
            Wanted::TargetGroup { .. } => blocks.push(output("control_plane_target_group_arn", value(of, "arn"))),
            Wanted::LoadBalancer => blocks.push(output("control_plane_endpoint_host", value(of, "dns_name"))),
            _ => {}
        }
    }
    blocks
}
