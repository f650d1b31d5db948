//! Internet gateways of managed clusters.

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{self, AttachmentStatus, ResourceType};
use capa_cloud::ec2::InternetGateway;
use capa_cloud::ec2::internet_gateway::Call;
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, Query};
use futures::FutureExt;
use futures::future::{OptionFuture, join3};

use super::managed::{is_owned, made, owned, tag_specification};
use super::{Ec2Calls, PAGE_SIZE, filters, once, some_text, tags, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// The internet gateways that a cluster owns, the one with a known id, and the one of the VPC, in the order of
    /// their ids. Each of the three needs its own describe, because a gateway must match all filters of a describe. If
    /// the unattached gateways are known already, only the gateway of the VPC is read.
    pub(super) async fn internet_gateways(
        &self,
        tag: &str,
        id: Option<&str>,
        vpc: Option<&str>,
        unattached: Option<Vec<InternetGateway>>,
    ) -> Result<Vec<InternetGateway>, CloudError> {
        let is_asked = unattached.is_none();
        let owned = OptionFuture::from(is_asked.then(|| self.owned_internet_gateways(tag).boxed()));
        let known = id.filter(|_| is_asked).map(|id| self.internet_gateway_with_id(id).boxed());
        let attached = vpc.map(|vpc| self.attached_internet_gateways(vpc).boxed());
        let (owned, known, attached) = join3(owned, OptionFuture::from(known), OptionFuture::from(attached)).await;
        let mut shown = unattached.unwrap_or_default();
        for answer in [owned, known, attached].into_iter().flatten() {
            shown.extend(answer?);
        }
        let by_id: BTreeMap<String, InternetGateway> =
            shown.into_iter().map(|gateway| (gateway.id.clone(), gateway)).collect();
        Ok(by_id.into_values().collect())
    }

    async fn owned_internet_gateways(&self, tag: &str) -> Result<Vec<InternetGateway>, CloudError> {
        let mut shown = self.internet_gateways_of(&owned(tag)).await?;
        shown.retain(|gateway| is_owned(&gateway.tags, tag));
        Ok(shown)
    }

    async fn internet_gateway_with_id(&self, id: &str) -> Result<Vec<InternetGateway>, CloudError> {
        let query = Query::filter("internet-gateway-id", [id]);
        let mut shown = self.internet_gateways_of(&query).await?;
        shown.retain(|gateway| gateway.id == id);
        Ok(shown)
    }

    async fn attached_internet_gateways(&self, vpc: &str) -> Result<Vec<InternetGateway>, CloudError> {
        let query = Query::filter("attachment.vpc-id", [vpc]);
        let mut shown = self.internet_gateways_of(&query).await?;
        shown.retain(|gateway| gateway.vpc_id.as_deref() == Some(vpc));
        Ok(shown)
    }

    async fn internet_gateways_of(&self, query: &Query) -> Result<Vec<InternetGateway>, CloudError> {
        self.runner
            .describe("DescribeInternetGateways", query, |permit, token| async move {
                let request = self.client.describe_internet_gateways().set_filters(filters(query));
                let request = request.max_results(PAGE_SIZE).set_next_token(token);
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page {
                    items: answer.internet_gateways().iter().map(internet_gateway).collect(),
                    next: answer.next_token,
                })
            })
            .await
    }

    pub(super) async fn internet_gateway_call(
        &self,
        permit: Permit,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        let action = permit.action;
        match call {
            Call::CreateInternetGateway { tags } => {
                let tags = tag_specification(ResourceType::InternetGateway, tags);
                let request = self.client.create_internet_gateway().tag_specifications(tags);
                let call = request.customize().config_override(once()).send();
                let answer = self.runner.call(permit, call).await?;
                let shown = answer.internet_gateway();
                return made(action, shown.and_then(types::InternetGateway::internet_gateway_id));
            }
            Call::AttachInternetGateway { gateway, vpc } => {
                let request = self.client.attach_internet_gateway().internet_gateway_id(gateway);
                self.runner.call(permit, request.vpc_id(vpc).send()).await?;
            }
            Call::DetachInternetGateway { gateway, vpc } => {
                let request = self.client.detach_internet_gateway().internet_gateway_id(gateway);
                self.runner.call(permit, request.vpc_id(vpc).send()).await?;
            }
            Call::DeleteInternetGateway { gateway } => {
                let request = self.client.delete_internet_gateway().internet_gateway_id(gateway);
                self.runner.call(permit, request.send()).await?;
            }
        }
        Ok(ChangeAnswer::Done)
    }
}

fn internet_gateway(gateway: &types::InternetGateway) -> InternetGateway {
    // The state of an attachment is `available`. A gateway that is not attached has no attachment.
    let mut attachments = gateway.attachments().iter();
    let attachment = attachments.find(|attachment| attachment.state() != Some(&AttachmentStatus::Detached));
    InternetGateway {
        id: text(gateway.internet_gateway_id()),
        vpc_id: attachment.and_then(|attachment| some_text(attachment.vpc_id())),
        tags: tags(gateway.tags()),
    }
}
