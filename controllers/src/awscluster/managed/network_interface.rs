//! What uses a resource that AWS does not delete: network interfaces, and rules of security groups. Pure.

use capa_cloud::ec2::security_group::{Rule, Source};
use capa_cloud::ec2::{self, NetworkInterface, internet_gateway, security_group, subnet, vpc};
use capa_cloud::managed::{Call, Seen};

/// The most network interfaces that a message names.
const MAX_NAMED: usize = 5;

/// Names what uses the resource of a call that deletes or detaches it; `None` if the observation does not show any.
pub(super) fn users(call: &Call<String>, seen: &ec2::Observed) -> Option<String> {
    let Call::Ec2(call) = call else { return None };
    let of_groups = match call {
        ec2::Call::SecurityGroup(security_group::Call::DeleteSecurityGroup { group }) => groups_naming(group, seen),
        _ => None,
    };
    let users: Vec<String> = [interfaces(call, seen), of_groups].into_iter().flatten().collect();
    (!users.is_empty()).then(|| users.join("; "))
}

/// The network interfaces that use the resource.
fn interfaces(call: &ec2::Call<String>, seen: &ec2::Observed) -> Option<String> {
    let is_user: Box<dyn Fn(&NetworkInterface) -> bool> = match call {
        ec2::Call::Subnet(subnet::Call::DeleteSubnet { subnet }) => {
            Box::new(move |interface| interface.subnet_id == *subnet)
        }
        ec2::Call::SecurityGroup(security_group::Call::DeleteSecurityGroup { group }) => {
            Box::new(move |interface| interface.security_group_ids.contains(group))
        }
        ec2::Call::InternetGateway(internet_gateway::Call::DetachInternetGateway { .. }) => {
            Box::new(|interface| interface.public_ip.is_some())
        }
        ec2::Call::Vpc(vpc::Call::DeleteVpc { .. }) => Box::new(|_| true),
        _ => return None,
    };
    let shown = match &seen.network_interfaces {
        Seen::NotAsked => return None,
        Seen::Failed(error) => return Some(format!("the network interfaces that use it are not known: {error}")),
        Seen::Shown(shown) => shown,
    };
    let mut users: Vec<&NetworkInterface> = shown.iter().filter(|interface| is_user(interface)).collect();
    users.sort_by(|one, other| one.id.cmp(&other.id));
    let named: Vec<String> = users.iter().take(MAX_NAMED).map(|user| described(user)).collect();
    let more = match users.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let named = named.join(", ");
    let advice = "network interfaces use it, so delete them, or what they belong to";
    (!users.is_empty()).then(|| format!("{advice}: {named}{more}"))
}

/// A network interface with what tells whose it is.
fn described(interface: &NetworkInterface) -> String {
    let instance = interface.instance_id.as_ref().map(|id| format!("of instance {id}"));
    let requester = interface.requester_id.as_ref().map(|id| format!("created by {id}"));
    let description = Some(interface.description.clone()).filter(|text| !text.is_empty());
    let account = Some(format!("in account {}", interface.owner_id));
    let known: Vec<String> = [description, instance, requester, account].into_iter().flatten().collect();
    format!("{} ({})", interface.id, known.join(", "))
}

/// The other security groups of the VPC whose rules name this one.
fn groups_naming(group: &str, seen: &ec2::Observed) -> Option<String> {
    let names_it = |rule: &Rule<String>| matches!(&rule.source, Source::Group(source) if source == group);
    let others = seen.security_groups.shown()?.iter().filter(|other| other.id != group);
    let others = others.filter(|other| other.ingress.iter().chain(&other.egress).any(names_it));
    let ids: Vec<&str> = others.map(|other| other.id.as_str()).collect();
    (!ids.is_empty()).then(|| format!("rules of other groups name it, so remove them: {}", ids.join(", ")))
}
