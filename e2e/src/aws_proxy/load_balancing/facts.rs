//! The properties of target groups and classic load balancers that moto stores.

use std::time::Duration;

use super::super::answer::{Answer, Refusal, unreadable};
use super::super::request::CredentialScope;
use super::super::state::Shared;
use super::super::xml::Element;
use super::{CLASSIC, VERSION_2, question};

/// A target group.
#[derive(Clone, Debug)]
pub(super) struct TargetGroup {
    /// `instance`, `ip`, `lambda` or `alb`.
    pub(super) target_type: String,
    /// The default port of targets.
    pub(super) port: u16,
    pub(super) vpc_id: String,
    /// Whether a load balancer forwards traffic to the group.
    pub(super) in_use: bool,
}

/// The part of moto for one account and region.
#[derive(Clone, Copy, Debug)]
pub(super) struct MotoRegion<'a> {
    pub(super) account: &'a str,
    pub(super) scope: &'a CredentialScope,
}

impl MotoRegion<'_> {
    /// Calls moto and returns its answer. A refusal of moto becomes a refusal of the caller's request.
    pub(super) async fn ask(
        &self,
        shared: &Shared,
        action: &str,
        version: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Element, Refusal> {
        let parameters = question(action, version, parameters);
        let answer = shared.moto.call(self.account, self.scope, &parameters).await?;
        if !answer.succeeded() {
            return Err(refused(&answer));
        }
        answer.tree().map_err(unreadable)
    }

    /// The target group with this ARN. Target groups of other regions or accounts do not exist for the caller.
    pub(super) async fn target_group(&self, shared: &Shared, arn: &str) -> Result<TargetGroup, Refusal> {
        let parameters = [("TargetGroupArns.member.1", arn)];
        let tree = self.ask(shared, "DescribeTargetGroups", VERSION_2, &parameters).await?;
        let groups = tree.find("TargetGroups").and_then(|groups| groups.child("member"));
        let group =
            groups.ok_or_else(|| Refusal::new(400, "TargetGroupNotFound", "the target group does not exist"))?;
        let users = group.child("LoadBalancerArns");
        Ok(TargetGroup {
            target_type: group.text_at(&["TargetType"]).to_owned(),
            port: group.text_at(&["Port"]).parse().unwrap_or_default(),
            vpc_id: group.text_at(&["VpcId"]).to_owned(),
            in_use: users.is_some_and(|users| !users.children.is_empty()),
        })
    }

    /// The deregistration delay of a group.
    pub(super) async fn deregistration_delay(&self, shared: &Shared, arn: &str) -> Result<Duration, Refusal> {
        let parameters = [("TargetGroupArn", arn)];
        let tree = self.ask(shared, "DescribeTargetGroupAttributes", VERSION_2, &parameters).await?;
        let attributes = tree.find("Attributes").map(|attributes| attributes.children.as_slice());
        let delay = attributes
            .unwrap_or_default()
            .iter()
            .find(|attribute| attribute.text_at(&["Key"]) == "deregistration_delay.timeout_seconds");
        let seconds = delay.and_then(|delay| delay.text_at(&["Value"]).parse().ok());
        Ok(Duration::from_secs(seconds.unwrap_or(300)))
    }

    /// The classic load balancer with this name.
    pub(super) async fn classic(&self, shared: &Shared, name: &str) -> Result<Element, Refusal> {
        let parameters = [("LoadBalancerNames.member.1", name)];
        let tree = self.ask(shared, "DescribeLoadBalancers", CLASSIC, &parameters).await?;
        let found = tree.find("LoadBalancerDescriptions");
        let found = found.and_then(|found| found.child("member")).cloned();
        found.ok_or_else(|| Refusal::new(400, "LoadBalancerNotFound", "the load balancer does not exist"))
    }

    /// The connection draining time of a classic load balancer; zero where connection draining is off.
    pub(super) async fn connection_draining(&self, shared: &Shared, name: &str) -> Result<Duration, Refusal> {
        let parameters = [("LoadBalancerName", name)];
        let tree = self.ask(shared, "DescribeLoadBalancerAttributes", CLASSIC, &parameters).await?;
        let draining = tree.find("ConnectionDraining");
        let enabled = draining.filter(|draining| draining.text_at(&["Enabled"]) == "true");
        let seconds = enabled.map(|draining| draining.text_at(&["Timeout"]).parse().unwrap_or(300));
        Ok(Duration::from_secs(seconds.unwrap_or(0)))
    }
}

fn refused(answer: &Answer) -> Refusal {
    let message = answer.tree().ok();
    let message = message.as_ref().and_then(|tree| tree.find("Message"));
    let code = answer.error_code().unwrap_or_else(|| "InternalError".to_owned());
    Refusal::new(answer.status, &code, message.map_or("", |message| &message.text))
}
