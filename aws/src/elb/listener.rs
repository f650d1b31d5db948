//! Listeners of load balancers of the second generation.

use aws_sdk_elasticloadbalancingv2::types;
use aws_sdk_elasticloadbalancingv2::types::{Action, ActionTypeEnum, ProtocolEnum};
use capa_cloud::elb::Listener;
use capa_cloud::elb::listener::Call;
use capa_cloud::limits::CallRequest;
use capa_cloud::managed::{ChangeAnswer, Details};
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, ErrorClass};
use futures::FutureExt;

use super::managed::{answers_of, sdk_tags};
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

    /// The listeners of load balancers, with their tags.
    pub(super) async fn listeners_of(
        &self,
        load_balancers: &[String],
        known: &Details,
    ) -> Result<Vec<Listener>, CloudError> {
        let answers = load_balancers.iter().map(|arn| self.listeners_of_one(arn).boxed());
        let answers = answers_of(answers).await;
        let answers: Vec<Vec<Listener>> = answers.into_iter().collect::<Result<_, _>>()?;
        let mut listeners = answers.concat();
        let arns: Vec<String> = listeners.iter().map(|listener| listener.arn.clone()).collect();
        let mut tags = self.all_tags(&arns, known).await?;
        for listener in &mut listeners {
            listener.tags = tags.remove(&listener.arn).unwrap_or_default();
        }
        Ok(listeners)
    }

    /// The listeners of a load balancer without their tags; empty if the load balancer is gone.
    async fn listeners_of_one(&self, load_balancer: &str) -> Result<Vec<Listener>, CloudError> {
        match self.listeners(load_balancer).await {
            Err(error) if error.class == ErrorClass::NotFound => Ok(Vec::new()),
            answer => answer,
        }
    }

    pub(super) async fn listener_change(
        &self,
        permit: Permit,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::CreateListener { load_balancer, group, port, tags } => {
                let request = self.client.create_listener().load_balancer_arn(load_balancer);
                let request = request
                    .protocol(ProtocolEnum::Tcp)
                    .port(*port)
                    .default_actions(forward_to(group))
                    .set_tags(Some(sdk_tags(tags)));
                self.runner.call(permit, request.send()).await?;
            }
            Call::ModifyListener { listener, group } => {
                let request = self.client.modify_listener().listener_arn(listener);
                let request = request.default_actions(forward_to(group));
                self.runner.call(permit, request.send()).await?;
            }
            Call::DeleteListener { listener } => {
                let request = self.client.delete_listener().listener_arn(listener);
                self.runner.call(permit, request.send()).await?;
            }
        }
        Ok(ChangeAnswer::Done)
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

/// The action that forwards all connections to a target group.
fn forward_to(group: &str) -> Action {
    let action = Action::builder().r#type(ActionTypeEnum::Forward);
    action.target_group_arn(group).build()
}
