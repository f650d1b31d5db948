//! Dry runs of launches. Nothing in this file launches an instance: [`DryRunCalls`] has no other call, and its request
//! gets `DryRun=true` before any other parameter.

use async_trait::async_trait;
use capa_api::machine::{AWSMachineSpec, LaunchOptions, MarketType, Tenancy};
use capa_cloud::limits::{CallRequest, Priority};
use capa_cloud::{CloudError, ErrorClass, LaunchRequest, Query, UserData, launch_tags};
use capa_preflight::facts::{Demand, DryRun, MachineDemand};

use super::launch::run_instances;
use super::{Ec2Calls, once};

/// Calls that AWS checks but does not carry out.
#[async_trait]
pub(crate) trait DryRunCalls: Send + Sync {
    /// Whether AWS would launch a machine.
    async fn dry_run_launch(&self, machines: &MachineDemand, demand: &Demand) -> Result<DryRun, CloudError>;
}

#[async_trait]
impl DryRunCalls for Ec2Calls {
    async fn dry_run_launch(&self, machines: &MachineDemand, demand: &Demand) -> Result<DryRun, CloudError> {
        let request = run_instances(self.client.run_instances().dry_run(true), &judged_launch(machines, demand))?;
        // Each dry run has a token of its own, which the SDK makes.
        let request = request.set_client_token(None);
        let query = Query::filter("dry-run", [machines.template.clone()]);
        let turn = CallRequest::describe("RunInstances", self.runner.flow(), &query, Priority::Describe);
        let permit = self.runner.permit(&turn).await?;
        let call = request.customize().config_override(once()).send();
        match self.runner.call(permit, call).await {
            Err(error) => judged(error),
            Ok(_) => Err(CloudError::no_answer("RunInstances", "AWS did not judge a launch with DryRun=true")),
        }
    }
}

/// The launch of a machine that AWS judges. Rules of their own check what is left out: the key pair and the volumes,
/// whose failure would hide that of the rest, and the user data.
fn judged_launch(machines: &MachineDemand, demand: &Demand) -> LaunchRequest {
    let spec = &machines.spec;
    let network = &demand.network;
    let subnet_id = machines.subnet_ids(network).into_iter().next().unwrap_or_default();
    let subnet = network.subnets.iter().find(|subnet| subnet.id == subnet_id);
    let has_ipv6 = subnet.is_some_and(|subnet| subnet.ipv6 == Some(true));
    LaunchRequest {
        client_token: String::new(),
        image_id: spec.ami.as_ref().and_then(|ami| ami.id.clone()).unwrap_or_default(),
        instance_type: spec.instance_type.clone(),
        subnet_id: subnet_id.to_owned(),
        security_group_ids: machines.security_groups(network).into_iter().map(str::to_owned).collect(),
        iam_instance_profile: machines.instance_profile(network).map(str::to_owned),
        key_name: None,
        public_ip: spec.public_ip,
        root_volume: None,
        data_volumes: Vec::new(),
        metadata_options: spec.effective_metadata_options(),
        // Permissions may depend on the tags.
        tags: launch_tags(&machines.template, spec, network, &demand.cluster_tag, machines.role),
        user_data: UserData::new(Vec::new()),
        options: judged_options(spec, has_ipv6),
    }
}

/// The options of a launch that AWS judges. Reservations and hosts are left out, because a launch is placed in their
/// zone, which the subnet of the dry run may not be in; rules of their own check them.
fn judged_options(spec: &AWSMachineSpec, subnet_has_ipv6: bool) -> LaunchOptions {
    let options = spec.launch_options(subnet_has_ipv6, None);
    LaunchOptions {
        market_type: options.market_type.filter(|market| *market != MarketType::CapacityBlock),
        capacity_reservation: None,
        host: None,
        tenancy: options.tenancy.filter(|tenancy| *tenancy != Tenancy::Host),
        ..options
    }
}

/// The result of a dry run, which AWS always returns as an error.
fn judged(error: CloudError) -> Result<DryRun, CloudError> {
    match (error.code.as_deref(), error.class) {
        (Some("DryRunOperation"), _) => Ok(DryRun::Allowed),
        (Some(_), ErrorClass::Unauthorized) => Ok(DryRun::Denied(error.message)),
        (Some(code), ErrorClass::Invalid | ErrorClass::NotFound) => {
            Ok(DryRun::Refused(format!("{code}: {}", error.message)))
        }
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_the_error_is_the_judgement() {
        let judge = |code: &str| judged(CloudError::answered("RunInstances", code, "why"));
        assert_eq!(judge("DryRunOperation"), Ok(DryRun::Allowed));
        assert!(matches!(judge("UnauthorizedOperation"), Ok(DryRun::Denied(_))));
        assert_eq!(judge("InvalidAMIID.NotFound"), Ok(DryRun::Refused("InvalidAMIID.NotFound: why".to_owned())));
        assert!(judge("RequestLimitExceeded").is_err());
        assert!(judged(CloudError::no_answer("RunInstances", "no answer")).is_err());
    }
}
