//! Traffic in the sentences of reports, and in commands of the AWS CLI.

use crate::facts::{IpProtocol, Traffic};

/// The traffic as text, for example `TCP 6443`.
pub(crate) fn traffic_text(traffic: Traffic) -> String {
    let protocol = match traffic.protocol {
        IpProtocol::IP_IN_IP => "IP in IP (protocol 4)".to_owned(),
        other => other.to_string().to_uppercase(),
    };
    match traffic.ports {
        None => protocol,
        Some(_) if traffic.protocol == IpProtocol::Icmp => "ICMP echo".to_owned(),
        Some((first, last)) if first == last => format!("{protocol} {first}"),
        Some((first, last)) => format!("{protocol} {first}-{last}"),
    }
}

/// The parameters of the AWS CLI for a rule of a security group.
pub(crate) fn cli_parameters(Traffic { protocol, ports }: Traffic) -> String {
    match ports {
        None => format!("--protocol {protocol}"),
        Some((first, last)) if first == last => format!("--protocol {protocol} --port {first}"),
        Some((first, last)) => format!("--protocol {protocol} --port {first}-{last}"),
    }
}

/// The parameters of the AWS CLI for a rule of a security group with a range.
pub(crate) fn cli_parameters_with_range(traffic: Traffic, range: &str) -> String {
    if range.contains(':') {
        cli_permissions(traffic, range)
    } else {
        format!("{} --cidr {range}", cli_parameters(traffic))
    }
}

/// The permissions of the AWS CLI for a rule of a security group with a range.
pub(crate) fn cli_permissions(Traffic { protocol, ports }: Traffic, range: &str) -> String {
    let (ranges, name) = if range.contains(':') { ("Ipv6Ranges", "CidrIpv6") } else { ("IpRanges", "CidrIp") };
    let ports = ports.map(|(first, last)| format!(",FromPort={first},ToPort={last}")).unwrap_or_default();
    format!("--ip-permissions 'IpProtocol={protocol}{ports},{ranges}=[{{{name}={range}}}]'")
}
