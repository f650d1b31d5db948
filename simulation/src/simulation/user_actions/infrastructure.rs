//! Changes of the infrastructure that machines use, and of instances: in AWS, and in the objects that describe it.

use capa_api::cluster::AWSCluster;
use capa_api::machine::AWSMachine;
use capa_api::meta;

use super::{UserAction, next_generation};
use crate::aws::{GROUP, IMAGE, OTHER_GROUP, VPC};
use crate::coverage::Situation;
use crate::management_cluster::ManagementCluster;
use crate::names::{CLUSTER, machine_key, machine_name};
use crate::objects;
use crate::simulation::Simulation;

/// Changes something that goes into a launch.
pub(super) fn change_source(simulation: &mut Simulation, of: ManagementCluster, action: UserAction) {
    if !simulation.outside.server(of).open_attempts().is_empty() {
        simulation.coverage.situation(Situation::SourceChangedDuringAttempt);
    }
    let server = simulation.outside.server_mut(of);
    match action {
        UserAction::RenewSecret(number, version) => objects::write_secret(server, &machine_name(number), version),
        UserAction::AddGroup => server.edit(CLUSTER, |cluster: &mut AWSCluster| {
            let groups = &mut cluster.spec.network.get_or_insert_default().security_group_overrides;
            groups.insert("lb".to_owned(), OTHER_GROUP.to_owned());
            next_generation(cluster);
        }),
        UserAction::TagCluster(version) => server.edit(CLUSTER, |cluster: &mut AWSCluster| {
            let tags = &mut cluster.spec.additional_tags;
            tags.insert("version".to_owned(), version.to_string());
            next_generation(cluster);
        }),
        UserAction::TagMachine(number, version) => server.edit(&machine_name(number), |machine: &mut AWSMachine| {
            let tags = &mut machine.spec.additional_tags;
            tags.insert("version".to_owned(), version.to_string());
            next_generation(machine);
        }),
        UserAction::UseZones(first, count) => server.edit(CLUSTER, |cluster: &mut AWSCluster| {
            cluster.spec.network.get_or_insert_default().subnets = objects::subnets(first, count);
            next_generation(cluster);
        }),
        UserAction::Image(true) => {
            simulation.outside.aws.region().image(IMAGE, "/dev/xvda");
        }
        UserAction::Image(false) => {
            simulation.outside.aws.region().remove(IMAGE);
        }
        UserAction::Groups(true) => {
            let region = simulation.outside.aws.region();
            region.security_group(GROUP, VPC, "nodes");
            region.security_group(OTHER_GROUP, VPC, "more");
        }
        UserAction::Groups(false) => remove_unused_groups(simulation),
        _ => {}
    }
}

/// EC2 deletes no group that an instance has.
fn remove_unused_groups(simulation: &mut Simulation) {
    let now = simulation.now();
    for group in [GROUP, OTHER_GROUP] {
        let used = simulation.outside.aws.accounts.launched().any(|instance| {
            instance.is_live(now) && instance.request.security_group_ids.iter().any(|used| used == group)
        });
        if !used {
            simulation.outside.aws.region().remove(group);
        }
    }
}

/// Launches an instance that is much like one of a machine's: it is of a machine of that name of another cluster.
pub(crate) fn launch_look_alike(simulation: &mut Simulation, machine: usize) {
    let now = simulation.now();
    let tags = [
        (meta::cluster_tag("staging"), meta::OWNED_TAG_VALUE.to_owned()),
        (meta::ROLE_TAG.to_owned(), meta::NODE_ROLE_TAG_VALUE.to_owned()),
        (meta::MACHINE_NAME_TAG.to_owned(), machine_key(&machine_name(machine))),
    ];
    match simulation.outside.aws.launch_foreign(now, &tags) {
        Ok(instance) => simulation.outside.aws.serving.push(instance.id),
        Err(_) => simulation.invariants.violate(now, "the user cannot launch an instance"),
    }
}

/// The live instances of a machine.
pub(super) fn instances_of(simulation: &Simulation, of: ManagementCluster, number: usize) -> Vec<String> {
    let machine = machine_key(&machine_name(number));
    let live = simulation.outside.aws.live_of(simulation.now(), of, &machine);
    live.map(|instance| instance.id.clone()).collect()
}

pub(super) fn kill_instance(simulation: &mut Simulation, of: ManagementCluster, number: usize) {
    let (now, ids) = (simulation.now(), instances_of(simulation, of, number));
    if !ids.is_empty() {
        // Refused while the instance is hidden; then the user has failed.
        drop(simulation.outside.aws.user().terminate_instances(now, &ids));
    }
}
