//! What the spec of a managed cluster asks for, with all defaults. Pure.

pub(super) mod brought;
mod subnets;

use std::collections::BTreeSet;

use capa_api::cluster::security_group::SecurityGroupRole;
use capa_api::cluster::status::ClusterResource;
use capa_api::cluster::subnet::ASSOCIATION_TAG;
use capa_api::cluster::vpc::VpcSpec;
use capa_api::cluster::{AWSCluster, AWSClusterSpec};
use capa_api::common::{ElasticIpPool, HostnameType, Tags};
use capa_api::conditions::Reason;
use capa_api::meta;
use capa_cloud::ec2;
use ipnet::Ipv4Net;

use super::balancers::{self, Place, Places, WantedLoadBalancer};
use super::classic_balancer::{self, WantedClassicLoadBalancer};
use super::ingress::{self, WantedRule};
use super::names::{MAX_TAGS, Names};
use super::problem::Problem;
use super::reference::{Id, Kind, Ref};
use crate::awscluster::resolve::too_long;
use crate::{public_ipv4_pool, tags};

/// A VPC that the cluster is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedVpc {
    pub(crate) target: Ref,
    pub(crate) cidr_block: String,
    pub(crate) tags: Tags,
    /// The id, if the user brings the VPC.
    pub(crate) brought: Option<String>,
    /// The id, if CAPA has created the VPC and it is not recorded yet.
    pub(crate) of_capa: Option<String>,
    /// Whether nothing proves to whom the VPC that AWS shows belongs: the VPC of CAPA lacks the tag of the cluster, the
    /// VPC of the user has it, or a VPC with this tag was not requested by this cluster. If so, nothing in it belongs
    /// to the cluster.
    pub(crate) is_unproven: bool,
    /// Whether the rules that AWS creates in the default security group are removed.
    pub(crate) empties_default_security_group: bool,
}

impl WantedVpc {
    /// The id from the spec, even if the VPC is not recorded.
    pub(crate) fn id(&self) -> Option<&str> {
        self.brought.as_deref().or(self.of_capa.as_deref())
    }
}

/// A subnet that the cluster is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedSubnet {
    pub(crate) target: Ref,
    pub(crate) cidr_block: Ipv4Net,
    pub(crate) zone: String,
    pub(crate) is_public: bool,
    /// Whether its addresses are for pods, so that neither nodes nor NAT gateways are in it.
    pub(crate) is_for_pods_only: bool,
    pub(crate) tags: Tags,
}

/// A NAT gateway that the cluster is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedNatGateway {
    pub(crate) target: Ref,
    /// Its Elastic IP.
    pub(crate) address: Ref,
    /// The public subnet that it is in.
    pub(crate) subnet: Ref,
    /// The private subnets that it serves.
    pub(crate) private_subnets: Vec<Ref>,
}

/// A security group that the cluster is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedSecurityGroup {
    pub(crate) target: Ref,
    pub(crate) role: SecurityGroupRole,
    pub(crate) rules: Vec<WantedRule>,
    /// The id, if the user brings the group. Its rules are the user's.
    pub(crate) brought: Option<String>,
}

/// What the spec asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inputs {
    pub(crate) names: Names,
    pub(crate) vpc: WantedVpc,
    /// The secondary IPv4 ranges of the VPC.
    pub(crate) secondary_cidr_blocks: Vec<Ipv4Net>,
    pub(crate) subnets: Vec<WantedSubnet>,
    pub(crate) hostname_type: Option<HostnameType>,
    pub(crate) internet_gateway: Ref,
    pub(crate) internet_gateway_tags: Tags,
    /// One for each zone with private subnets.
    pub(crate) nat_gateways: Vec<WantedNatGateway>,
    pub(crate) security_groups: Vec<WantedSecurityGroup>,
    /// The pool of the user that new Elastic IPs are taken from.
    pub(crate) elastic_ip_pool: Option<ElasticIpPool>,
    /// The network load balancers.
    pub(crate) load_balancers: Vec<WantedLoadBalancer>,
    pub(crate) classic_load_balancer: Option<WantedClassicLoadBalancer>,
    /// Host and port of the endpoint in the spec.
    pub(crate) endpoint: Option<(String, i32)>,
    /// The load balancers whose address can be or become the endpoint, regardless of the type in the present spec.
    pub(crate) endpoint_load_balancers: [Ref; 2],
    /// The zones of the default subnets; empty where the spec lists the subnets.
    pub(crate) zones: Vec<String>,
    /// The problems of the spec.
    pub(crate) problems: Vec<Problem>,
    /// Whether anything is created for the cluster, or may be.
    pub(crate) has_begun: bool,
}

/// Known facts that are not in the spec.
pub(crate) struct Known<'a> {
    /// All zones of the region; empty if they were not read.
    pub(crate) zones: &'a [String],
    /// The zones in the status.
    pub(crate) recorded_zones: &'a [String],
    /// The VPCs that AWS shows; empty without an observation of them.
    pub(crate) vpcs: &'a [ec2::Vpc],
    /// The subnets that AWS shows; `None` without an observation of them.
    pub(crate) subnets: Option<&'a [ec2::Subnet]>,
    /// The route tables that AWS shows; `None` without an observation of them.
    pub(crate) route_tables: Option<&'a [ec2::RouteTable]>,
    /// The security groups that AWS shows; `None` without an observation of them.
    pub(crate) security_groups: Option<&'a [ec2::SecurityGroup]>,
    /// The resources in the status that are decided.
    pub(crate) recorded: &'a [ClusterResource],
    /// Whether anything is created for the cluster, or may be.
    pub(crate) has_begun: bool,
    /// Whether a VPC is created for the cluster, or may be.
    pub(crate) may_have_vpc: bool,
    /// Port of the API server.
    pub(crate) api_server_port: i64,
}

impl Inputs {
    /// What the spec asks for.
    pub(crate) fn of(cluster: &AWSCluster, name: &str, known: &Known<'_>) -> Self {
        let spec = &cluster.spec;
        let names = Names::of(name, cluster);
        let vpc_spec = vpc_spec(spec);
        let of_capa = brought::vpc_of_capa(spec, name, known.recorded);
        let brought = brought::vpc(spec, name, known.recorded);
        let mut vpcs = known.vpcs.iter();
        let is_unproven = match (&of_capa, &brought) {
            (Some(of_capa), _) => vpcs.any(|vpc| vpc.id == *of_capa && !names.owns(&vpc.tags)),
            (None, Some(brought)) => {
                !brought::is_recorded(known.recorded) && vpcs.any(|vpc| vpc.id == *brought && names.owns(&vpc.tags))
            }
            (None, None) => !known.may_have_vpc && vpcs.any(|vpc| names.owns(&vpc.tags)),
        };
        let vpc = WantedVpc {
            target: Ref::new(Kind::Vpc, names.vpc()),
            cidr_block: vpc_spec.effective_cidr_block().unwrap_or_default().to_owned(),
            tags: names.common_tags(&names.vpc(), &brought::own_tags_of_vpc(spec, name)),
            empties_default_security_group: vpc_spec.empty_routes_default_vpc_security_group && brought.is_none(),
            brought,
            is_unproven,
            of_capa,
        };
        let mut inputs = Self {
            internet_gateway: Ref::new(Kind::InternetGateway, names.internet_gateway()),
            endpoint_load_balancers: balancers::of_endpoint(spec, &names),
            internet_gateway_tags: names.common_tags(&names.internet_gateway(), &Tags::new()),
            hostname_type: vpc_spec.private_dns_hostname_type_on_launch,
            names,
            vpc,
            secondary_cidr_blocks: vec![],
            subnets: vec![],
            nat_gateways: vec![],
            elastic_ip_pool: vpc_spec.elastic_ip_pool.clone().filter(|pool| public_ipv4_pool::named(pool).is_some()),
            security_groups: vec![],
            load_balancers: vec![],
            classic_load_balancer: None,
            endpoint: spec.endpoint().map(|(host, port)| (host.to_owned(), port)),
            zones: vec![],
            problems: vec![],
            has_begun: known.has_begun,
        };
        inputs.problems.extend(wrong_partition(spec, &inputs.vpc.target));
        let other_vpc = brought::other_vpc(spec, known.recorded);
        let other_vpc = other_vpc.map(|message| problem(&inputs.vpc.target, message));
        inputs.problems.extend(other_vpc);
        if let Err(problem) = inputs.add_subnets(cluster, &vpc_spec, known) {
            inputs.problems.push(problem);
        }
        inputs.add_nat_gateways();
        inputs.add_security_groups(&cluster.spec, known);
        inputs.add_load_balancers(&cluster.spec, known.api_server_port);
        inputs.check_tags(cluster);
        // The network contract limits the size of the published values.
        let oversized = spec.network_for_machines(name).take_oversized().into_iter();
        let oversized = oversized.map(|oversized| problem(&inputs.vpc.target, too_long(oversized)));
        inputs.problems.extend(oversized.collect::<Vec<_>>());
        inputs
    }

    /// The load balancer whose address is to be the endpoint.
    pub(crate) fn endpoint_load_balancer(&self) -> Option<&Ref> {
        let classic = self.classic_load_balancer.as_ref().map(|balancer| &balancer.target);
        let mut network = self.load_balancers.iter();
        let network = || network.find(|balancer| balancer.is_endpoint).map(|balancer| &balancer.target);
        classic.or_else(network)
    }

    /// A NAT gateway for each zone with private subnets, in the first public subnet of the zone.
    fn add_nat_gateways(&mut self) {
        if self.vpc.brought.is_some() {
            return;
        }
        let is_used = |subnet: &&WantedSubnet| !subnet.is_for_pods_only;
        let (public, private): (Vec<_>, Vec<_>) =
            self.subnets.iter().filter(is_used).partition(|subnet| subnet.is_public);
        let zones: BTreeSet<&String> = private.iter().map(|subnet| &subnet.zone).collect();
        for zone in zones {
            let private = private.iter().filter(|subnet| subnet.zone == *zone);
            if let Some(subnet) = public.iter().find(|subnet| subnet.zone == *zone) {
                self.nat_gateways.push(WantedNatGateway {
                    target: Ref::new(Kind::NatGateway, zone),
                    address: Ref::new(Kind::ElasticIp, zone),
                    subnet: subnet.target.clone(),
                    private_subnets: private.map(|subnet| subnet.target.clone()).collect(),
                });
                continue;
            }
            // A public subnet may be missing because it is wrong.
            if !self.problems.is_empty() {
                continue;
            }
            let names: Vec<&str> = private.map(|subnet| subnet.target.name.as_str()).collect();
            let name = names.join(", ");
            let message = format!(
                "the private subnet {name} is in {zone}, where network.subnets has no public subnet for a NAT gateway: \
                 list one with isPublic: true in this zone"
            );
            self.problems.push(problem(&self.vpc.target.part(Kind::Subnet), message));
        }
    }

    fn add_security_groups(&mut self, spec: &AWSClusterSpec, known: &Known<'_>) {
        // The NAT gateways of the user are found through routes, and those of wrong subnets are unknown.
        let is_unknown = self.vpc.brought.is_some() || !self.problems.is_empty();
        let has_nat_gateways = is_unknown || !self.nat_gateways.is_empty();
        for role in ingress::HAVE_GROUPS {
            let target = Ref::new(Kind::SecurityGroup, role.as_str());
            let brought = brought::security_group(spec, role, known.recorded);
            let (rules, problems) = if brought.is_some() {
                (vec![], vec![])
            } else {
                ingress::rules(spec, role, known.api_server_port, has_nat_gateways)
            };
            let problems = problems.into_iter().map(|message| problem(&target, message));
            self.problems.extend(problems);
            self.problems.extend(brought::wrong_security_group(spec, &target, brought.as_deref(), known));
            self.security_groups.push(WantedSecurityGroup { target, role, rules, brought });
        }
        self.problems.extend(brought::unknown_roles(spec));
    }

    /// CAPA's choice: internet-facing load balancers are in public subnets, internal ones in private subnets, or in
    /// public ones where there are no others.
    fn add_load_balancers(&mut self, spec: &AWSClusterSpec, port: i64) {
        let mut internal = self.places(false);
        if internal.is_empty() {
            internal = self.places(true);
        }
        let places = Places { internet_facing: self.places(true), internal };
        let of_servers = classic_balancer::instance_port(spec, port);
        let (balancers, problems) = balancers::wanted(spec, &self.names, of_servers, &places);
        self.load_balancers = balancers;
        if self.elastic_ip_pool.is_some() {
            self.load_balancers.iter_mut().for_each(WantedLoadBalancer::want_addresses);
        }
        self.problems.extend(problems);
        if let Some((balancer, problems)) = classic_balancer::wanted(spec, &self.names, port, &places) {
            self.classic_load_balancer = Some(balancer);
            self.problems.extend(problems);
        }
        let balancers = self.load_balancers.iter();
        let balancers = balancers.map(|balancer| (&balancer.target, &balancer.places));
        let classic = self.classic_load_balancer.iter();
        let classic = classic.map(|balancer| (&balancer.target, &balancer.places));
        // The subnets of a VPC of the user are unknown before an observation.
        let homeless = balancers.chain(classic).filter(|(_, places)| places.is_empty());
        let homeless = homeless.filter(|_| !self.subnets.is_empty()).map(|(target, _)| {
            let name = &target.name;
            let message = format!("no subnet of the cluster can have the load balancer {name}: list subnets for it");
            problem(target, message)
        });
        let homeless: Vec<Problem> = homeless.collect();
        self.problems.extend(homeless);
    }

    /// The first subnet of each zone.
    fn places(&self, is_public: bool) -> Vec<Place> {
        let mut places: Vec<Place> = vec![];
        let subnets = self.subnets.iter().filter(|subnet| !subnet.is_for_pods_only);
        for subnet in subnets.filter(|subnet| subnet.is_public == is_public) {
            let zone = Some(subnet.zone.clone());
            if !places.iter().any(|place| place.zone == zone) {
                let subnet = Id::from(&subnet.target);
                places.push(Place { zone, subnet });
            }
        }
        places
    }

    /// Refuses a spec with more tags than AWS allows, because AWS would refuse the tags only after some resources
    /// exist.
    fn check_tags(&mut self, cluster: &AWSCluster) {
        let of_vpc = brought::own_tags_of_vpc(&cluster.spec, &self.names.cluster);
        let listed = cluster.spec.subnets().iter();
        let of_subnet = |subnet| brought::own_tags_of_subnet(&cluster.spec, &self.names.cluster, subnet);
        let mut listed: Vec<Tags> = listed.map(of_subnet).collect();
        for tags in &mut listed {
            // With this tag of the provider, users mark a subnet for pods.
            tags.remove(ASSOCIATION_TAG);
        }
        let of_network = std::iter::once(("network.vpc.tags", &of_vpc))
            .chain(listed.iter().map(|tags| ("network.subnets[].tags", tags)));
        // The provider writes no tags to resources of the user.
        let of_network = of_network.filter(|_| self.vpc.brought.is_none());
        let all = std::iter::once(("additionalTags", &cluster.spec.additional_tags)).chain(of_network);
        let refused = all.flat_map(|(path, tags)| tags::refused(path, tags, &self.names.cluster));
        let refused = refused.map(|refused| problem(&self.vpc.target, refused.message)).collect::<Vec<_>>();
        self.problems.extend(refused);
        let subnets = self.subnets.iter();
        let subnets = subnets.map(|subnet| (&subnet.target, subnet.tags.len()));
        let vpc = (&self.vpc.target, self.vpc.tags.len());
        let of_network = std::iter::once(vpc).chain(subnets);
        let of_network = of_network.filter(|_| self.vpc.brought.is_none());
        let groups = self.security_groups.iter();
        let groups = groups.map(|group| (&group.target, self.names.security_group_tags(group.role).len()));
        let most = of_network.chain(groups).max_by_key(|(_, tags)| *tags);
        if let Some((target, tags)) = most.filter(|(_, tags)| *tags > MAX_TAGS) {
            let message =
                format!("{target} would have {tags} tags, and AWS allows {MAX_TAGS}: set fewer additionalTags");
            self.problems.push(problem(&self.vpc.target, message));
        }
    }
}

/// The VPC of the spec.
pub(crate) fn vpc_spec(spec: &AWSClusterSpec) -> VpcSpec {
    let vpc = spec.network.as_ref().and_then(|network| network.vpc.clone());
    vpc.unwrap_or_default()
}

/// The problem of the partition in the spec.
fn wrong_partition(spec: &AWSClusterSpec, target: &Ref) -> Option<Problem> {
    let (of_spec, of_region) = spec.wrong_partition()?;
    let region = spec.region().unwrap_or_default();
    let message = format!("spec.partition is {of_spec}, and {region} is in {of_region}: leave the field out");
    Some(problem(target, message))
}

pub(super) fn problem(target: &Ref, message: impl Into<String>) -> Problem {
    Problem { target: target.clone(), reason: Reason::InvalidSpec, message: message.into() }
}

/// The name that people gave a resource, or its id.
pub(crate) fn shown_name<'a>(tags: &'a Tags, id: &'a str) -> &'a str {
    let name = tags.get(meta::NAME_TAG).map(String::as_str);
    name.filter(|name| !name.is_empty()).unwrap_or(id)
}
