//! Listeners of load balancers of the second generation.

use aws_sdk_elasticloadbalancingv2::types;
use capa_cloud::CloudError;
use capa_cloud::elb::Listener;
use capa_cloud::limits::CallRequest;

use super::{ElbCalls, PAGE_SIZE, protocol, text};
use crate::sdk::pages::Page;

impl ElbCalls {
    /// The listeners of the load balancer with this ARN, without their tags, which the describe does not return.
    pub(crate) async fn listeners(&self, load_balancer: &str) -> Result<Vec<Listener>, CloudError> {
        let turn = CallRequest::listeners(self.runner.flow(), load_balancer);
        let permit = self.runner.permit(&turn).await?;
        let fetch = |permit, token| async move {
            let request = self.client.describe_listeners().load_balancer_arn(load_balancer);
            let request = request.page_size(PAGE_SIZE).set_marker(token);
            let answer = self.runner.call(permit, request.send()).await?;
            Ok(Page { items: answer.listeners().iter().map(listener).collect(), next: answer.next_marker })
        };
        self.runner.pages(permit, &turn, fetch).await
    }
}

fn listener(listener: &types::Listener) -> Listener {
    Listener {
        arn: text(listener.listener_arn()),
        load_balancer_arn: text(listener.load_balancer_arn()),
        protocol: protocol(listener.protocol()),
        port: listener.port().unwrap_or_default(),
        target_group_arns: forwarded_to(listener),
        tags: [].into(),
    }
}

/// The target groups of a listener's default actions, without duplicates.
fn forwarded_to(listener: &types::Listener) -> Vec<String> {
    let mut arns = Vec::new();
    for action in listener.default_actions() {
        let several = action.forward_config().map(types::ForwardActionConfig::target_groups);
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
