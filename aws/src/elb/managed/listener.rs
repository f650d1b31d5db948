//! Listeners of the network load balancers of managed clusters.

use aws_sdk_elasticloadbalancingv2::types::{Action, ActionTypeEnum, ProtocolEnum};
use capa_cloud::elb::Listener;
use capa_cloud::elb::listener::Call;
use capa_cloud::managed::{ChangeAnswer, Details};
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, ErrorClass};
use futures::FutureExt;

use super::super::ElbCalls;
use super::{answers_of, sdk_tags};

impl ElbCalls {
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

/// The action that forwards all connections to a target group.
fn forward_to(group: &str) -> Action {
    let action = Action::builder().r#type(ActionTypeEnum::Forward);
    action.target_group_arn(group).build()
}
