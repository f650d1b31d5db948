//! Dedicated Hosts of machines.

use aws_sdk_ec2::types::{self, AutoPlacement, ResourceType, TagSpecification};
use capa_cloud::limits::{CallRequest, Priority};
use capa_cloud::{CloudError, Host, HostRequest, HostState, MachineKey, Query};

use super::updates::sdk_tags;
use super::{Ec2Calls, PAGE_SIZE, filters, once, some_text, tags, text};
use crate::sdk::pages::Page;

/// DescribeHosts returns at most this many hosts per page.
const HOSTS_PAGE_SIZE: i32 = PAGE_SIZE / 2;

impl Ec2Calls {
    pub(crate) async fn hosts(&self, query: &Query) -> Result<Vec<Host>, CloudError> {
        self.hosts_at_turn(query, query).await
    }

    /// The hosts with these ids that exist. They are selected from all hosts, because DescribeHosts has no filter for
    /// ids, and refuses a whole call because of one unknown id.
    pub(crate) async fn hosts_with(&self, ids: &[String]) -> Result<Vec<Host>, CloudError> {
        let mut shown = self.hosts_at_turn(&Query::filter("host-id", ids), &Query::default()).await?;
        shown.retain(|host| ids.contains(&host.id));
        Ok(shown)
    }

    /// The hosts of a query, at the turn of `turn`.
    async fn hosts_at_turn(&self, turn: &Query, query: &Query) -> Result<Vec<Host>, CloudError> {
        self.runner
            .describe("DescribeHosts", turn, |permit, token| async move {
                let request = self.client.describe_hosts().set_filter(filters(query)).max_results(HOSTS_PAGE_SIZE);
                let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
                Ok(Page { items: answer.hosts().iter().map(host).collect(), next: answer.next_token })
            })
            .await
    }

    /// Allocates one host. The SDK does not retry this call: if the answer of an attempt is lost, a refusal of the
    /// retry would look as if no attempt had allocated a host.
    pub(crate) async fn allocate_host(
        &self,
        machine: &MachineKey,
        request: &HostRequest,
    ) -> Result<String, CloudError> {
        let turn = CallRequest::of_machine("AllocateHosts", self.runner.flow(), machine, Priority::Launch);
        let permit = self.runner.write_permit(&turn).await?;
        let action = permit.action;
        let tags = TagSpecification::builder()
            .resource_type(ResourceType::DedicatedHost)
            .set_tags(Some(sdk_tags(&request.tags)))
            .build();
        let input = self
            .client
            .allocate_hosts()
            .client_token(&request.client_token)
            .availability_zone(&request.availability_zone)
            .instance_type(&request.instance_type)
            .quantity(1)
            .auto_placement(AutoPlacement::Off)
            .set_tag_specifications((!request.tags.is_empty()).then(|| vec![tags]));
        let call = input.customize().config_override(once()).send();
        let answer = self.runner.call(permit, call).await?;
        let id = answer.host_ids().first().cloned();
        id.ok_or_else(|| CloudError::no_answer(action, "the answer shows no host"))
    }

    /// Releases one host. The answer lists the hosts that are not released, with their errors.
    pub(crate) async fn release_host(&self, machine: &MachineKey, host_id: &str) -> Result<(), CloudError> {
        let turn = CallRequest::of_machine("ReleaseHosts", self.runner.flow(), machine, Priority::Terminate);
        let permit = self.runner.write_permit(&turn).await?;
        let action = permit.action;
        let request = self.client.release_hosts().host_ids(host_id);
        let answer = self.runner.call(permit, request.send()).await?;
        let Some(kept) = answer.unsuccessful().first() else {
            return Ok(());
        };
        let error = kept.error();
        let code = text(error.and_then(types::UnsuccessfulItemError::code));
        let message = text(error.and_then(types::UnsuccessfulItemError::message));
        Err(CloudError::answered(action, without_side(&code), &message))
    }
}

/// Removes the prefix that names the side at fault from a code in such a list: `Client.InvalidHost.Occupied`.
fn without_side(code: &str) -> &str {
    let client = code.strip_prefix("Client.");
    client.or_else(|| code.strip_prefix("Server.")).unwrap_or(code)
}

fn host(host: &types::Host) -> Host {
    let properties = host.host_properties();
    Host {
        id: text(host.host_id()),
        client_token: some_text(host.client_token()),
        availability_zone: text(host.availability_zone()),
        instance_type: text(properties.and_then(types::HostProperties::instance_type)),
        state: host.state().map_or_else(HostState::default, |state| state.as_str().into()),
        tags: tags(host.tags()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_kept_host_loses_its_side() {
        for (code, expected) in [
            ("Client.InvalidHost.Occupied", "InvalidHost.Occupied"),
            ("Server.InternalError", "InternalError"),
            ("InvalidHost.Occupied", "InvalidHost.Occupied"),
        ] {
            assert_eq!(without_side(code), expected);
        }
    }
}
