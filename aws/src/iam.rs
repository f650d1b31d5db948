//! Calls of IAM for the checks of infrastructure, and the conversion of the answers to the facts of `preflight`.

use aws_sdk_iam::types;
use capa_cloud::{CloudError, Query};
use capa_preflight::facts::{Answer, InstanceProfile};

use crate::sdk::call_runner::CallRunner;
use crate::sdk::pages::Page;

/// The role with which EC2 launches spot instances. AWS gives it this name in each account.
const SPOT_ROLE: &str = "AWSServiceRoleForEC2Spot";

/// IAM with one identity.
#[derive(Clone)]
pub(crate) struct IamCalls {
    client: aws_sdk_iam::Client,
    runner: CallRunner,
}

impl IamCalls {
    pub(crate) fn new(client: aws_sdk_iam::Client, runner: CallRunner) -> Self {
        Self { client, runner }
    }

    /// An instance profile with the policies of its role, read by three calls. `None` if it does not exist.
    pub(crate) async fn instance_profile(&self, name: &str) -> Result<Option<InstanceProfile>, CloudError> {
        let request = self.client.get_instance_profile().instance_profile_name(name);
        let Some(answer) = self.runner.find("GetInstanceProfile", name, request.send()).await? else {
            return Ok(None);
        };
        let roles = answer.instance_profile().map_or(&[][..], types::InstanceProfile::roles);
        let roles: Vec<String> = roles.iter().map(|role| role.role_name().to_owned()).collect();
        let policies = match roles.first() {
            Some(role) => self.policies(role).await.into(),
            None => Answer::NotAsked,
        };
        Ok(Some(InstanceProfile { name: name.to_owned(), roles, policies }))
    }

    /// ARNs of the managed policies, and names of the inline policies, of a role.
    async fn policies(&self, role: &str) -> Result<Vec<String>, CloudError> {
        let query = Query::filter("object", [role]);
        let managed = async |permit, token| {
            let request = self.client.list_attached_role_policies().role_name(role);
            let answer = self.runner.call(permit, request.set_marker(token).send()).await?;
            let arns = answer.attached_policies().iter().filter_map(|policy| policy.policy_arn());
            Ok(Page { items: arns.map(str::to_owned).collect(), next: answer.marker })
        };
        let inline = async |permit, token| {
            let request = self.client.list_role_policies().role_name(role);
            let answer = self.runner.call(permit, request.set_marker(token).send()).await?;
            Ok(Page { items: answer.policy_names, next: answer.marker })
        };
        let mut policies: Vec<String> = self.runner.describe("ListAttachedRolePolicies", &query, managed).await?;
        policies.extend(self.runner.describe("ListRolePolicies", &query, inline).await?);
        Ok(policies)
    }

    /// Whether the account has the service-linked role for spot instances.
    pub(crate) async fn has_spot_role(&self) -> Result<bool, CloudError> {
        let request = self.client.get_role().role_name(SPOT_ROLE);
        let role = self.runner.find("GetRole", SPOT_ROLE, request.send()).await?;
        Ok(role.is_some())
    }
}
