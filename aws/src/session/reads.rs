//! The reads of a session: the call of each read, and how long its answer is shared.

use std::time::Duration;

use async_trait::async_trait;
use capa_cloud::session::confirmed_account;
use capa_cloud::{Account, CloudError, Found, Read, Reads, Timing};
use futures::FutureExt;

use super::ControllerSession;
use crate::lookups::Ages;

/// The age up to which the description of an instance type is reused. The properties of a type never change.
const INSTANCE_TYPE_AGE: Duration = Duration::from_hours(24);
/// The age up to which the domain name of a VPC is reused. The name changes if other DHCP options are associated with
/// the VPC.
const DOMAIN_NAME_AGE: Duration = Duration::from_hours(1);
/// The age up to which the zone of a reservation or host is reused. It never changes.
const CAPACITY_ZONE_AGE: Duration = Duration::from_hours(24);
/// The age up to which the failure of a read with an optional permission is reused.
const OPTIONAL_FAILURE_AGE: Duration = Duration::from_mins(5);

/// How long the answer to a read is shared; `None` if each caller makes its own call.
fn shared_for(read: &Read, timing: &Timing) -> Option<Ages> {
    match read {
        Read::Subnets(_)
        | Read::SecurityGroups(_)
        | Read::Images(_)
        | Read::LoadBalancer(_)
        | Read::Listeners(_)
        | Read::PublicParameter(_) => Some(Ages::fresh(timing.lookup_cache)),
        Read::InstanceType(_) => Some(Ages::fresh(INSTANCE_TYPE_AGE)),
        Read::CapacityZone(_) => Some(Ages { fresh: CAPACITY_ZONE_AGE, failed: OPTIONAL_FAILURE_AGE }),
        Read::DomainName(_) => Some(Ages { fresh: DOMAIN_NAME_AGE, failed: OPTIONAL_FAILURE_AGE }),
        Read::Vpcs(_)
        | Read::RouteTables(_)
        | Read::NetworkInterfaces(_)
        | Read::ClassicLoadBalancers(_)
        | Read::TargetGroups(_)
        | Read::TargetGroupsIn(_)
        | Read::TargetGroupTags(_)
        | Read::Hosts(_)
        | Read::ElasticIps(_)
        | Read::FreeAddresses(_) => None,
    }
}

#[async_trait]
impl Reads for ControllerSession {
    async fn read(&self, read: &Read) -> Result<Found, CloudError> {
        match shared_for(read, &self.session.shared.timing) {
            None => self.calls.read(read).await,
            Some(ages) => {
                let ask = || {
                    let (calls, read) = (self.calls.clone(), read.clone());
                    async move { calls.read(&read).await }.boxed()
                };
                self.session.reads.get(read.clone(), ages, ask).await
            }
        }
    }
}

/// A session for the controllers of clusters. Clusters share no answers, so that a user's correction takes effect
/// immediately.
pub(super) struct ClusterSession(pub(super) ControllerSession);

#[async_trait]
impl Reads for ClusterSession {
    async fn read(&self, read: &Read) -> Result<Found, CloudError> {
        self.0.calls.read(read).await
    }
}

#[async_trait]
impl Account for ClusterSession {
    async fn account_id(&self) -> Result<String, CloudError> {
        let (account, _) = confirmed_account(&self.0).await?;
        Ok(account)
    }
}
