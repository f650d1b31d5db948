//! Load balancers of the second generation and their listeners.

use aws_sdk_elasticloadbalancingv2 as elb;
use capa_cloud::limits::CallRequest;
use capa_cloud::{ApiLoadBalancer, CloudError, ErrorClass};

use super::ElbCalls;

impl ElbCalls {
    /// Looks up a load balancer of the second generation by its name; `None` where no such load balancer exists.
    pub(crate) async fn load_balancer(&self, name: &str) -> Result<Option<ApiLoadBalancer>, CloudError> {
        let client = &self.client;
        let turn = CallRequest::load_balancer(self.caller.flow(), name);
        let permit = self.caller.limiter().acquire(&turn)?;
        let answer = self
            .caller
            .call(permit, client.describe_load_balancers().names(name).send())
            .await;
        let answer = match answer {
            Err(error) if error.class == ErrorClass::NotFound => return Ok(None),
            answer => answer?,
        };
        let Some(found) = answer.load_balancers().first() else {
            return Ok(None);
        };
        let permit = self.caller.limiter().charge("DescribeListeners");
        let request = client
            .describe_listeners()
            .set_load_balancer_arn(found.load_balancer_arn.clone());
        let answer = self.caller.call(permit, request.send()).await?;
        let listeners = answer.listeners().iter();
        let listeners = listeners.filter_map(|listener| Some((listener.port()?, forwarded_to(listener))));
        Ok(Some(ApiLoadBalancer {
            kind: found.r#type().map_or("unknown", |kind| kind.as_str()).to_owned(),
            listeners: listeners.collect(),
        }))
    }
}

/// The target groups of a listener's default actions, without duplicates.
fn forwarded_to(listener: &elb::types::Listener) -> Vec<String> {
    let mut arns = Vec::new();
    for action in listener.default_actions() {
        let several = action
            .forward_config()
            .map(elb::types::ForwardActionConfig::target_groups);
        let several = several.unwrap_or_default().iter();
        let several = several.filter_map(|group| group.target_group_arn());
        for arn in action.target_group_arn().into_iter().chain(several) {
            if !arns.iter().any(|known| known == arn) {
                arns.push(arn.to_owned());
            }
        }
    }
    arns
}
