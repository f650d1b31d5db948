//! IP protocols of security groups and network access control lists.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An IP protocol. The text is that of security groups: the name of a protocol that has one, or else the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum IpProtocol {
    /// All protocols: `-1`.
    #[default]
    All,
    /// Another protocol, by the number that IANA has assigned.
    Number(u8),
    /// ICMP for IPv4.
    Icmp,
    /// ICMP for IPv6.
    Icmpv6,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl IpProtocol {
    /// IP in IP encapsulation.
    pub const IP_IN_IP: Self = Self::Number(4);
    /// Encapsulating Security Payload of IPsec.
    pub const ESP: Self = Self::Number(50);

    /// Whether rules for the protocol have ports, or a type and a code of ICMP in their place.
    pub fn has_ports(self) -> bool {
        matches!(self, Self::Icmp | Self::Icmpv6 | Self::Tcp | Self::Udp)
    }

    /// The protocol in an answer of AWS. A text that AWS does not document counts as the number 255, which IANA has
    /// reserved.
    pub fn of_answer(text: &str) -> Self {
        text.parse().unwrap_or(Self::Number(u8::MAX))
    }
}

impl fmt::Display for IpProtocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => formatter.write_str("-1"),
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Icmp => formatter.write_str("icmp"),
            Self::Icmpv6 => formatter.write_str("icmpv6"),
            Self::Tcp => formatter.write_str("tcp"),
            Self::Udp => formatter.write_str("udp"),
        }
    }
}

impl FromStr for IpProtocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "-1" | "all" => Self::All,
            "1" | "icmp" => Self::Icmp,
            "58" | "icmpv6" => Self::Icmpv6,
            "6" | "tcp" => Self::Tcp,
            "17" | "udp" => Self::Udp,
            number => Self::Number(number.parse().map_err(|_| {
                format!("{text:?} is no protocol: use tcp, udp, icmp, icmpv6, a number from 0 to 255, or -1 for all")
            })?),
        })
    }
}

impl TryFrom<String> for IpProtocol {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<IpProtocol> for String {
    fn from(protocol: IpProtocol) -> Self {
        protocol.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protocol_has_one_form_however_it_is_written() {
        for (text, protocol, shown) in [
            ("TCP", IpProtocol::Tcp, "tcp"),
            ("6", IpProtocol::Tcp, "tcp"),
            ("17", IpProtocol::Udp, "udp"),
            ("1", IpProtocol::Icmp, "icmp"),
            ("58", IpProtocol::Icmpv6, "icmpv6"),
            ("all", IpProtocol::All, "-1"),
            ("4", IpProtocol::IP_IN_IP, "4"),
        ] {
            assert_eq!(text.parse(), Ok(protocol), "{text}");
            assert_eq!(protocol.to_string(), shown);
            assert_eq!(serde_json::from_value(serde_json::to_value(protocol).unwrap()).ok(), Some(protocol));
        }
        for text in ["", "gre", "256", "-2"] {
            assert!(text.parse::<IpProtocol>().is_err(), "{text}");
            assert_eq!(IpProtocol::of_answer(text), IpProtocol::Number(255));
        }
    }
}
