//! The default subnets of a managed VPC, as CAPA lays them out: the same ranges for the same spec. Pure.

use capa_api::cluster::vpc::{AvailabilityZoneSelection, SubnetSchema};
use ipnet::Ipv4Net;
use sha2::{Digest, Sha256};

/// The prefixes that AWS accepts for a VPC and for a subnet.
const PREFIXES: std::ops::RangeInclusive<u8> = 16..=28;

/// The range of one default subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DefaultSubnet {
    pub(super) zone: String,
    pub(super) is_public: bool,
    pub(super) cidr_block: Ipv4Net,
}

/// Public and private subnets in each of the zones. The VPC is split into as many equal ranges as there are zones, and
/// one more, rounded up to a power of two. The first range is split again for the class that gets fewer addresses.
///
/// # Errors
/// The VPC is too small; the text names the subnets that do not fit.
pub(super) fn default_subnets(
    vpc: Ipv4Net,
    zones: &[String],
    schema: SubnetSchema,
) -> Result<Vec<DefaultSubnet>, String> {
    let too_small = || {
        format!(
            "the range {vpc} of the VPC is too small for public and private subnets in {} zones: set a larger \
             network.vpc.cidrBlock or a smaller availabilityZoneUsageLimit before the VPC is created, or list the \
             subnets in network.subnets",
            zones.len()
        )
    };
    let mut ranges = split(vpc, zones.len() + 1).ok_or_else(too_small)?.into_iter();
    let first = ranges.next().ok_or_else(too_small)?;
    let small = split(first, zones.len()).ok_or_else(too_small)?;
    let is_small_public = schema == SubnetSchema::PreferPrivate;
    let subnet = |is_public: bool, (zone, cidr_block): (&String, Ipv4Net)| DefaultSubnet {
        zone: zone.clone(),
        is_public,
        cidr_block,
    };
    let small = zones.iter().zip(small).map(|place| subnet(is_small_public, place));
    let large = zones.iter().zip(ranges).map(|place| subnet(!is_small_public, place));
    let mut subnets: Vec<DefaultSubnet> = small.chain(large).collect();
    subnets.sort_by_key(|subnet| subnet.is_public);
    Ok(subnets)
}

/// At least `parts` equal parts of a range; `None` if AWS accepts no subnets that small.
fn split(range: Ipv4Net, parts: usize) -> Option<Vec<Ipv4Net>> {
    let bits = u8::try_from(parts.next_power_of_two().trailing_zeros()).ok()?;
    let prefix = range.prefix_len().checked_add(bits)?;
    let parts = range.subnets(prefix).ok().filter(|_| prefix <= *PREFIXES.end())?;
    Some(parts.collect())
}

/// The zones of the default subnets, of all zones of the region in order of their names. `Random` is a fixed order for
/// each cluster, so that it need not be stored.
pub(super) fn zones(all: &[String], selection: AvailabilityZoneSelection, limit: usize, seed: &str) -> Vec<String> {
    let mut zones = all.to_vec();
    if zones.len() > limit && selection == AvailabilityZoneSelection::Random {
        zones.sort_by_key(|zone| Sha256::digest(format!("{seed}\n{zone}")).to_vec());
    }
    zones.truncate(limit);
    zones
}

/// An IPv4 range that AWS accepts for a VPC or a subnet, whose address is the first of the range.
pub(super) fn range(text: &str) -> Option<Ipv4Net> {
    let range: Ipv4Net = text.parse().ok()?;
    let is_usable = PREFIXES.contains(&range.prefix_len()) && range.addr() == range.network();
    is_usable.then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(zones: &[&str]) -> Vec<String> {
        zones.iter().map(ToString::to_string).collect()
    }

    fn ranges(vpc: &str, zones: &[&str], schema: SubnetSchema) -> (Vec<String>, Vec<String>) {
        let subnets = default_subnets(vpc.parse().unwrap(), &names(zones), schema).unwrap();
        let (public, private): (Vec<_>, Vec<_>) = subnets.into_iter().partition(|subnet| subnet.is_public);
        let shown = |subnets: Vec<DefaultSubnet>| subnets.iter().map(|subnet| subnet.cidr_block.to_string()).collect();
        (shown(public), shown(private))
    }

    #[test]
    fn the_ranges_are_those_that_capa_lays_out() {
        let (public, private) = ranges("10.0.0.0/16", &["a", "b", "c"], SubnetSchema::PreferPrivate);
        assert_eq!(public, ["10.0.0.0/20", "10.0.16.0/20", "10.0.32.0/20"]);
        assert_eq!(private, ["10.0.64.0/18", "10.0.128.0/18", "10.0.192.0/18"]);
        let (public, private) = ranges("10.0.0.0/16", &["a"], SubnetSchema::PreferPrivate);
        assert_eq!((public, private), (vec!["10.0.0.0/17".into()], vec!["10.0.128.0/17".into()]));
        let (public, private) = ranges("10.0.0.0/16", &["a", "b"], SubnetSchema::PreferPublic);
        assert_eq!(public, ["10.0.64.0/18", "10.0.128.0/18"]);
        assert_eq!(private, ["10.0.0.0/19", "10.0.32.0/19"]);
    }

    #[test]
    fn a_vpc_too_small_for_its_zones_is_refused() {
        let vpc = "10.0.0.0/26".parse().unwrap();
        let refused = default_subnets(vpc, &names(&["a", "b", "c"]), SubnetSchema::PreferPrivate);
        assert!(refused.unwrap_err().contains("10.0.0.0/26"));
        assert!(
            default_subnets("10.0.0.0/24".parse().unwrap(), &names(&["a", "b", "c"]), SubnetSchema::default()).is_ok()
        );
    }

    #[test]
    fn zones_are_ordered_or_drawn_once_for_a_cluster() {
        let all = names(&["a", "b", "c", "d", "e", "f"]);
        assert_eq!(zones(&all, AvailabilityZoneSelection::Ordered, 3, "x"), ["a", "b", "c"]);
        assert_eq!(zones(&all, AvailabilityZoneSelection::Ordered, 9, "x").len(), 6);
        let draw = |seed: &str| zones(&all, AvailabilityZoneSelection::Random, 3, seed);
        assert_eq!(draw("x"), draw("x"));
        let seeds: Vec<String> = (0..20).map(|seed| seed.to_string()).collect();
        assert!(seeds.iter().any(|seed| draw(seed) != draw("x")), "clusters are spread over the zones");
    }
}
