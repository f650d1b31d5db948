//! The names of an instance in the domain of its VPC.
//!
//! The DHCP options of a VPC may give its instances a domain of the user's. The kubelet then asks for a serving
//! certificate with a name in this domain, which is approved only if the addresses of the machine have the name.

use capa_api::common::{MachineAddress, MachineAddressType};
use capa_api::forms::is_dns_subdomain;
use capa_cloud::{ErrorClass, Instance};
use capa_runtime::reconcile::Next;

use super::locate::InstanceLocation;
use super::scope::MachineScope;

/// Adds the names of a running instance in the domain of its VPC to the addresses of the machine. Names that were found
/// before stay while the domain cannot be looked up.
pub(super) async fn add_domain_names(scope: &mut MachineScope, instance: &Instance, location: &InstanceLocation) {
    let Some(vpc_id) = &instance.vpc_id else { return };
    let domain = match location.cloud.domain_name(vpc_id).await {
        Ok(domain) => domain.and_then(|domain| own_domain(&domain, &location.region)),
        Err(error) => {
            // The permission is optional: without it there are no such names.
            if error.class != ErrorClass::Unauthorized && scope.next == Next::AwaitChange {
                scope.next = Next::Retry;
            }
            let stored = scope.stored_status().map(|status| status.addresses.as_slice());
            known_domain(stored.unwrap_or_default(), &instance.addresses)
        }
    };
    if let Some(domain) = domain {
        scope.status.addresses = in_domain(&instance.addresses, &domain);
    }
}

/// The first domain name in an option, unless EC2 gives it to the instances of this region by itself. Some systems take
/// several names, with spaces between them
/// (<https://docs.aws.amazon.com/vpc/latest/userguide/DHCPOptionSetConcepts.html>).
fn own_domain(option: &str, region: &str) -> Option<String> {
    let domain = option.split_whitespace().next()?;
    let is_default = match region {
        "us-east-1" => domain == "ec2.internal",
        _ => domain == format!("{region}.compute.internal"),
    };
    (!is_default && is_dns_subdomain(domain)).then(|| domain.to_owned())
}

/// The addresses with a second name behind each internal name.
fn in_domain(addresses: &[MachineAddress], domain: &str) -> Vec<MachineAddress> {
    let mut all = Vec::new();
    for address in addresses {
        all.push(address.clone());
        if let Some(host) = host(address) {
            all.push(MachineAddress {
                address_type: MachineAddressType::InternalDNS,
                address: format!("{host}.{domain}"),
            });
        }
    }
    all
}

/// The domain of a name that is stored beside those that EC2 shows.
fn known_domain(stored: &[MachineAddress], shown: &[MachineAddress]) -> Option<String> {
    let hosts: Vec<&str> = shown.iter().filter_map(host).collect();
    let added = stored.iter().filter(|address| !shown.contains(address));
    let mut added = added.filter(|address| host(address).is_some_and(|host| hosts.contains(&host)));
    let (_, domain) = added.next()?.address.split_once('.')?;
    Some(domain.to_owned())
}

/// The first label of an internal name.
fn host(address: &MachineAddress) -> Option<&str> {
    let is_name = address.address_type == MachineAddressType::InternalDNS;
    is_name.then(|| address.address.split('.').next()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(names: &[&str]) -> Vec<MachineAddress> {
        let address = |address_type, address: &str| MachineAddress {
            address_type,
            address: address.to_owned(),
        };
        let names = names.iter().map(|name| address(MachineAddressType::InternalDNS, name));
        let private = address(MachineAddressType::InternalIP, "10.0.0.5");
        names.chain([private]).collect()
    }

    #[test]
    fn a_domain_of_the_users_gives_each_name_a_second_one() {
        let shown = addresses(&["ip-10-0-0-5.eu-west-1.compute.internal"]);
        let both = addresses(&["ip-10-0-0-5.eu-west-1.compute.internal", "ip-10-0-0-5.corp.example.com"]);
        assert_eq!(in_domain(&shown, "corp.example.com"), both);
        assert_eq!(known_domain(&both, &shown).as_deref(), Some("corp.example.com"));
        assert_eq!(known_domain(&shown, &shown), None);
        let of_another = addresses(&["ip-10-0-0-6.corp.example.com"]);
        assert_eq!(known_domain(&of_another, &shown), None);
    }

    #[test]
    fn domains_of_ec2_itself_add_no_name() {
        let table = [
            ("corp.example.com", "eu-west-1", Some("corp.example.com")),
            ("a.example.com b.example.com", "eu-west-1", Some("a.example.com")),
            ("eu-west-1.compute.internal", "eu-west-1", None),
            (
                "eu-west-1.compute.internal",
                "eu-west-2",
                Some("eu-west-1.compute.internal"),
            ),
            ("ec2.internal", "us-east-1", None),
            ("ec2.internal", "eu-west-1", Some("ec2.internal")),
            ("", "eu-west-1", None),
            ("no_domain", "eu-west-1", None),
        ];
        for (option, region, expected) in table {
            assert_eq!(own_domain(option, region).as_deref(), expected, "{option} in {region}");
        }
    }
}
