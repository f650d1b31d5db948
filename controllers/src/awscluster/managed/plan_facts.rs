//! What AWS has answered to a preview: another preview needs AWS no more.

use async_trait::async_trait;
use capa_cloud::CloudError;
use capa_cloud::managed::{ManagedLook, Observed, Scope};
use serde::{Deserialize, Serialize};

use super::check::Checked;
use super::look::Looked;

/// Everything that a preview asks of AWS, with the answers.
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
    /// What was asked for.
    pub scope: Scope,
    /// The resources.
    pub observed: Observed,
}

impl PlanFacts {
    pub(super) fn of(checked: Checked, zones: Vec<String>, looked: Looked) -> Self {
        Self {
            account_id: checked.account_id,
            region: checked.region,
            zones,
            scope: looked.scope,
            observed: looked.seen,
        }
    }

    /// The first error in place of an answer. With one, the facts are not all that there is to know.
    pub fn error(&self) -> Option<&CloudError> {
        self.observed.errors().next()
    }

    /// What the facts do not tell that this look asks for; `None` if they tell everything.
    fn lack(&self, scope: &Scope) -> Option<String> {
        let asked = &self.scope;
        if asked.cluster != scope.cluster {
            return Some(format!(
                "the facts are of the Cluster {}, not {}",
                asked.cluster, scope.cluster
            ));
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
        let mut unknown = of_both
            .into_iter()
            .flat_map(|(known, wanted)| wanted.iter().filter(|name| !known.contains(name)));
        unknown
            .next()
            .map(|name| format!("the facts tell nothing of a load balancer {name} of this type"))
    }
}

/// AWS as it was.
#[async_trait]
impl ManagedLook for PlanFacts {
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
