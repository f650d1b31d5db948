//! AWS's answers for a preview, from which another preview can be made without AWS.

use async_trait::async_trait;
use capa_cloud::CloudError;
use capa_cloud::managed::{ManagedObserver, Observed, Scope};
use serde::{Deserialize, Serialize};

use super::check::Checked;
use super::observation::Observation;

/// The requests of a preview to AWS, with the answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanFacts {
    /// The account of the credentials.
    #[serde(rename = "accountID")]
    pub account_id: String,
    /// The region that was asked.
    pub region: String,
    /// The availability zones of the region.
    pub zones: Vec<String>,
    /// The scope of the observation.
    pub scope: Scope,
    /// The resources.
    pub observed: Observed,
}

impl PlanFacts {
    pub(super) fn of(checked: Checked, zones: Vec<String>, observation: Observation) -> Self {
        Self {
            account_id: checked.account_id,
            region: checked.region,
            zones,
            scope: observation.scope,
            observed: observation.seen,
        }
    }

    /// The first call that failed. With an error, the facts are incomplete.
    pub fn error(&self) -> Option<&CloudError> {
        self.observed.errors().next()
    }

    /// The first answer that this observation needs and the facts lack; `None` if the facts are sufficient.
    fn lack(&self, scope: &Scope) -> Option<String> {
        let asked = &self.scope;
        if asked.cluster != scope.cluster {
            return Some(format!("the facts are of the Cluster {}, not {}", asked.cluster, scope.cluster));
        }
        if (asked.is_vpc_of_user || scope.is_vpc_of_user) && asked.vpc != scope.vpc {
            return Some("the facts are of another VPC".to_owned());
        }
        if scope.has_addresses && !asked.has_addresses {
            return Some("the facts tell nothing of Elastic IPs".to_owned());
        }
        let pool = scope.public_ipv4_pool.as_ref();
        if let Some(pool) = pool.filter(|_| asked.public_ipv4_pool != scope.public_ipv4_pool) {
            return Some(format!("the facts tell nothing of the public IPv4 pool {pool}"));
        }
        let of_both = [
            (&asked.load_balancers, &scope.load_balancers),
            (&asked.classic_load_balancers, &scope.classic_load_balancers),
        ];
        let mut unknown =
            of_both.into_iter().flat_map(|(known, wanted)| wanted.iter().filter(|name| !known.contains(name)));
        unknown.next().map(|name| format!("the facts tell nothing of a load balancer {name} of this type"))
    }
}

/// AWS at the time of the facts.
#[async_trait]
impl ManagedObserver for PlanFacts {
    async fn account_id(&self) -> Result<String, CloudError> {
        Ok(self.account_id.clone())
    }

    async fn zones(&self) -> Result<Vec<String>, CloudError> {
        Ok(self.zones.clone())
    }

    async fn observe(&self, scope: &Scope) -> Result<Observed, CloudError> {
        match self.lack(scope) {
            Some(lack) => Err(CloudError::not_found("facts", lack)),
            None => Ok(self.observed.clone()),
        }
    }
}
