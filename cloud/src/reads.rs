//! The functions of [`MachineCloud`] for single reads. A new read is a variant of [`Read`] and of [`Found`], a function
//! here, and the call in the crate `aws`.

use crate::{
    ApiLoadBalancer, CapacitySource, CloudError, ElasticIp, Found, Host, Image, InstanceType, MachineCloud,
    NetworkInterface, Query, Read, SecurityGroup, Subnet,
};

/// The answer of AWS to one kind of read.
macro_rules! found {
    ($cloud:expr, $kind:ident($asked:expr)) => {{
        let read = Read::$kind($asked);
        match $cloud.read(&read).await? {
            Found::$kind(found) => Ok(found),
            _ => Err(CloudError::no_answer(
                read.action(),
                "the answer is that to another call",
            )),
        }
    }};
}

impl dyn MachineCloud + '_ {
    /// Subnets; equal queries within `Timing::lookup_cache` share one answer.
    pub async fn subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        found!(self, Subnets(query.clone()))
    }

    /// Security groups; shared like subnets.
    pub async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        found!(self, SecurityGroups(query.clone()))
    }

    /// Network interfaces, straight from AWS: each belongs to one machine, and its attachment changes.
    pub async fn network_interfaces(&self, query: &Query) -> Result<Vec<NetworkInterface>, CloudError> {
        found!(self, NetworkInterfaces(query.clone()))
    }

    /// Images; shared like subnets.
    pub async fn images(&self, query: &Query) -> Result<Vec<Image>, CloudError> {
        found!(self, Images(query.clone()))
    }

    /// The load balancer of this name that is no classic one; none where there is none. Shared like subnets.
    pub async fn load_balancer(&self, name: &str) -> Result<Option<ApiLoadBalancer>, CloudError> {
        found!(self, LoadBalancer(name.to_owned()))
    }

    /// The value of a parameter that AWS publishes in Parameter Store; shared like subnets.
    ///
    /// # Errors
    /// Of class `NotFound`: the region has no such parameter.
    pub async fn public_parameter(&self, name: &str) -> Result<String, CloudError> {
        found!(self, PublicParameter(name.to_owned()))
    }

    /// An instance type by its name; asked once a day.
    ///
    /// # Errors
    /// Of class `NotFound`: the region has no such type.
    pub async fn instance_type(&self, name: &str) -> Result<InstanceType, CloudError> {
        found!(self, InstanceType(name.to_owned()))
    }

    /// The zone of capacity that a machine names; asked once a day.
    ///
    /// # Errors
    /// Of class `NotFound`: AWS does not show the capacity.
    pub async fn capacity_zone(&self, source: &CapacitySource) -> Result<String, CloudError> {
        found!(self, CapacityZone(source.clone()))
    }

    /// The domain name in the DHCP options of a VPC; `None` if these have none. Asked once an hour.
    pub async fn domain_name(&self, vpc_id: &str) -> Result<Option<String>, CloudError> {
        found!(self, DomainName(vpc_id.to_owned()))
    }

    /// Dedicated Hosts, straight from AWS: the lookup before a host is allocated for a machine, and before hosts of a
    /// machine are released.
    pub async fn hosts(&self, query: &Query) -> Result<Vec<Host>, CloudError> {
        found!(self, Hosts(query.clone()))
    }

    /// Elastic IPs, straight from AWS: the lookup before an address is allocated for a machine, and before addresses of
    /// a machine are released.
    pub async fn elastic_ips(&self, query: &Query) -> Result<Vec<ElasticIp>, CloudError> {
        found!(self, ElasticIps(query.clone()))
    }

    /// The number of free addresses in a public IPv4 pool, straight from AWS.
    ///
    /// # Errors
    /// Of class `NotFound`: the region has no such pool.
    pub async fn free_addresses(&self, pool: &str) -> Result<u32, CloudError> {
        found!(self, FreeAddresses(pool.to_owned()))
    }
}
