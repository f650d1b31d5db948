//! Calls of Elastic Load Balancing, both generations, and the conversion of the answers to the types of `cloud`.

mod classic_load_balancer;
mod classic_target;
mod listener;
mod load_balancer;
mod managed;
mod tag;
mod target;
mod target_group;

use std::time::Duration;

use aws_sdk_elasticloadbalancingv2::types::ProtocolEnum;
use capa_cloud::CloudError;
use capa_cloud::elb::Protocol;
use capa_cloud::targets::{Group, GroupAnswer, GroupCall, GroupRequest};

use crate::sdk::call_runner::CallRunner;

/// Items in a page: the maximum of the describes of this service.
const PAGE_SIZE: i32 = 400;
/// The type of a load balancer or target group whose answer lacks the type.
const UNKNOWN: &str = "unknown";
/// The deregistration delay of a target group whose attributes do not contain one.
const USUAL_DELAY: Duration = Duration::from_secs(300);

/// Elastic Load Balancing with one identity in one region.
#[derive(Clone)]
pub(crate) struct ElbCalls {
    classic: aws_sdk_elasticloadbalancing::Client,
    client: aws_sdk_elasticloadbalancingv2::Client,
    runner: CallRunner,
}

impl ElbCalls {
    pub(crate) fn new(
        classic: aws_sdk_elasticloadbalancing::Client,
        client: aws_sdk_elasticloadbalancingv2::Client,
        runner: CallRunner,
    ) -> Self {
        Self { classic, client, runner }
    }

    /// Makes a call about targets after waiting for its turn. The SDK does not retry writes, because an address may
    /// belong to another instance by the time of a later attempt. The session repeats writes.
    pub(crate) async fn group_call(&self, call: &GroupCall) -> Result<GroupAnswer, CloudError> {
        let permit = self.runner.limiter().wait(&call.rate_request(self.runner.flow())).await;
        if matches!(call.request, GroupRequest::Register(_) | GroupRequest::Deregister(_)) {
            self.runner.wait_until_leading().await;
        }
        match &call.group {
            Group::TargetGroup(arn) => self.target_group_call(permit, arn, &call.request).await,
            Group::Classic(name) => self.classic_call(permit, name, &call.request).await,
        }
    }
}

/// A listener or health check without a protocol does not exist; its protocol would be empty.
fn protocol(protocol: Option<&ProtocolEnum>) -> Protocol {
    protocol.map_or("", ProtocolEnum::as_str).into()
}

fn text(text: Option<&str>) -> String {
    text.unwrap_or_default().to_owned()
}
