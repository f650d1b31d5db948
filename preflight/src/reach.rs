//! Whether the rules of security groups and network ACLs allow packets. Pure.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::facts::{AclEntry, IpProtocol, NetworkAcl, Rule, SecurityGroup, Source, Traffic};

/// The other side of a connection: the members of the groups, whose addresses lie in the ranges.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer<'a> {
    pub(crate) group_ids: BTreeSet<&'a str>,
    pub(crate) ranges: Vec<&'a str>,
    /// A template of machines that names more groups by filters.
    pub(crate) found_by: Option<&'a str>,
}

/// Whether one of the rules allows the traffic with the peer.
pub(crate) fn allow<'a>(rules: impl IntoIterator<Item = &'a Rule<String>>, traffic: Traffic, peer: &Peer<'_>) -> bool {
    let fitting: Vec<_> = rules.into_iter().filter(|rule| covers(rule, traffic)).collect();
    let names_group = fitting.iter().any(|rule| match &rule.source {
        // The ranges of a prefix list are not looked up, so a rule with a prefix list counts as fitting.
        Source::PrefixList(_) => true,
        Source::Group(id) => peer.group_ids.contains(id.as_str()),
        Source::Cidr(_) | Source::Ipv6Cidr(_) => false,
    });
    let has_range = |range: &&str| {
        fitting.iter().any(|rule| match &rule.source {
            Source::Cidr(block) | Source::Ipv6Cidr(block) => contains(block, range),
            Source::PrefixList(_) | Source::Group(_) => false,
        })
    };
    names_group || (!peer.ranges.is_empty() && peer.ranges.iter().all(has_range))
}

/// The template whose filters may find a group of the peer that one of the rules names.
pub(crate) fn filters_of_peer<'a, 'p>(
    rules: impl IntoIterator<Item = &'a Rule<String>>,
    traffic: Traffic,
    peer: &Peer<'p>,
) -> Option<&'p str> {
    let mut fitting = rules.into_iter().filter(|rule| covers(rule, traffic));
    let names_group = fitting.any(|rule| matches!(rule.source, Source::Group(_)));
    peer.found_by.filter(|_| names_group)
}

/// The rules for incoming packets of several groups, which apply together.
pub(crate) fn ingress<'a>(groups: &'a [&'a SecurityGroup]) -> impl Iterator<Item = &'a Rule<String>> {
    groups.iter().flat_map(|group| &group.ingress)
}

/// The rules for outgoing packets of several groups, which apply together.
pub(crate) fn egress<'a>(groups: &'a [&'a SecurityGroup]) -> impl Iterator<Item = &'a Rule<String>> {
    groups.iter().flat_map(|group| &group.egress)
}

/// Whether a rule is about the traffic, whoever the other side is.
pub(crate) fn covers(rule: &Rule<String>, traffic: Traffic) -> bool {
    let of_rule = &rule.traffic;
    if of_rule.is_all() {
        return true;
    }
    of_rule.protocol == traffic.protocol
        && match (of_rule.ports, traffic.ports) {
            (None | Some((-1, _)), _) | (_, None) => true,
            // A rule for ICMP has a type and a code.
            (Some((kind, _)), Some((wanted, _))) if traffic.protocol == IpProtocol::Icmp => kind == wanted,
            (Some((first, last)), Some((from, to))) => first <= from && to <= last,
        }
}

/// Whether a network ACL lets the traffic with a range pass. The first matching entry decides.
pub(crate) fn acl_allows(acl: &NetworkAcl, is_egress: bool, traffic: Traffic, range: &str) -> bool {
    let mut entries: Vec<&AclEntry> = acl.entries.iter().filter(|entry| entry.is_egress == is_egress).collect();
    entries.sort_by_key(|entry| entry.number);
    let meets = |entry: &&&AclEntry| {
        let protocol = entry.protocol == IpProtocol::All || entry.protocol == traffic.protocol;
        let ports = match (entry.ports, traffic.ports) {
            (None, _) | (_, None) => true,
            (Some((first, last)), Some((lowest, highest))) => i32::from(first) <= highest && lowest <= i32::from(last),
        };
        protocol && ports && overlaps(&entry.cidr_block, range)
    };
    // An earlier entry may deny a part of the packets.
    for entry in entries.iter().filter(meets) {
        if !entry.allows {
            return false;
        }
        let all_ports = match (entry.ports, traffic.ports) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some((first, last)), Some((lowest, highest))) => i32::from(first) <= lowest && highest <= i32::from(last),
        };
        if all_ports && contains(&entry.cidr_block, range) {
            return true;
        }
    }
    false
}

/// Whether a range lies within a block.
pub(crate) fn contains(block: &str, range: &str) -> bool {
    match (block.parse::<IpNet>(), range.parse::<IpNet>()) {
        (Ok(block), Ok(range)) => block.contains(&range),
        _ => false,
    }
}

/// Whether two ranges have an address in common.
pub(crate) fn overlaps(one: &str, other: &str) -> bool {
    contains(one, other) || contains(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn rule(protocol: &str, ports: Option<(i32, i32)>, block: &str) -> Rule<String> {
        testing::rule(protocol, ports, Source::Cidr(block.to_owned()))
    }

    #[test]
    fn a_rule_covers_protocol_ports_and_the_whole_range() {
        let peer = Peer { ranges: vec!["10.0.1.0/24", "10.0.2.0/24"], ..Peer::default() };
        for (rules, expected) in [
            (vec![rule("-1", None, "0.0.0.0/0")], true),
            (vec![rule("tcp", Some((6443, 6443)), "10.0.0.0/16")], true),
            (vec![rule("6", Some((0, 65535)), "10.0.0.0/16")], true),
            (vec![rule("udp", Some((6443, 6443)), "10.0.0.0/16")], false),
            (vec![rule("tcp", Some((443, 443)), "10.0.0.0/16")], false),
            (vec![rule("tcp", Some((6443, 6443)), "10.0.1.0/24")], false),
            (
                vec![rule("tcp", Some((6443, 6443)), "10.0.1.0/24"), rule("tcp", Some((6443, 6443)), "10.0.2.0/24")],
                true,
            ),
            (vec![rule("tcp", Some((6443, 6443)), "10.0.1.0/25")], false),
            (vec![rule("tcp", Some((6443, 6443)), "::/0")], false),
        ] {
            assert_eq!(allow(&rules, Traffic::tcp(6443), &peer), expected, "{rules:?}");
        }
        assert!(!allow(&[rule("-1", None, "0.0.0.0/0")], Traffic::tcp(1), &Peer::default()), "nobody is nobody");
    }

    #[test]
    fn a_rule_that_names_a_group_of_the_peer_covers_its_members() {
        let peer = Peer { group_ids: ["sg-1", "sg-2"].into(), ranges: vec!["10.0.1.0/24"], found_by: None };
        let of_group = |id: &str| testing::rule("4", None, Source::Group(id.to_owned()));
        assert!(allow(&[of_group("sg-2")], Traffic::protocol(IpProtocol::IP_IN_IP), &peer));
        assert!(!allow(&[of_group("sg-3")], Traffic::protocol(IpProtocol::IP_IN_IP), &peer));
        assert!(!allow(&[of_group("sg-2")], Traffic::tcp(22), &peer));
    }

    #[test]
    fn the_first_entry_of_a_network_acl_that_meets_the_packets_decides() {
        let entry = |number, allows, ports, block: &str| AclEntry {
            number,
            is_egress: false,
            allows,
            protocol: IpProtocol::Tcp,
            cidr_block: block.to_owned(),
            ports,
        };
        let list = |entries: Vec<AclEntry>| NetworkAcl { entries, ..NetworkAcl::default() };
        let https = Traffic::tcp(443);
        for (entries, expected) in [
            (vec![], false),
            (vec![entry(100, true, None, "0.0.0.0/0")], true),
            (vec![entry(200, true, None, "0.0.0.0/0"), entry(100, false, Some((443, 443)), "0.0.0.0/0")], false),
            (vec![entry(100, true, None, "0.0.0.0/0"), entry(200, false, None, "0.0.0.0/0")], true),
            (vec![entry(90, false, None, "10.0.1.0/28"), entry(100, true, None, "0.0.0.0/0")], false),
            (vec![entry(100, true, Some((1024, 65535)), "0.0.0.0/0")], false),
            (vec![entry(100, true, Some((443, 443)), "10.0.1.0/25")], false),
        ] {
            assert_eq!(acl_allows(&list(entries.clone()), false, https, "10.0.1.0/24"), expected, "{entries:?}");
            assert!(!acl_allows(&list(entries), true, https, "10.0.1.0/24"));
        }
    }
}
