//! Internet gateways and their attachments.

use capa_api::common::Tags;
use capa_cloud::CloudError;
use capa_cloud::ec2::InternetGateway;
use capa_cloud::ec2::internet_gateway::Call;
use capa_cloud::managed::ChangeAnswer;

use super::{Ec2, Resource};

impl Ec2 {
    pub(super) fn call_internet_gateway(
        &mut self,
        action: &'static str,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::CreateInternetGateway { tags } => self.create_gateway(action, tags),
            Call::AttachInternetGateway { gateway, vpc } => self.attach_gateway(action, gateway, vpc),
            Call::DetachInternetGateway { gateway, vpc } => self.detach_gateway(action, gateway, vpc),
            Call::DeleteInternetGateway { gateway } => self.delete_gateway(action, gateway),
        }
    }

    fn create_gateway(&mut self, action: &'static str, tags: &Tags) -> Result<ChangeAnswer, CloudError> {
        if self.internet_gateways.len() >= self.behaviour.internet_gateway_quota {
            let message = "The maximum number of internet gateways has been reached.";
            return Err(CloudError::answered(action, "InternetGatewayLimitExceeded", message));
        }
        let id = self.next_id("igw");
        let resource = self.new_resource(new_gateway(&id, None, tags.clone()));
        self.internet_gateways.insert(id.clone(), resource);
        Ok(ChangeAnswer::Made(id))
    }

    fn attach_gateway(&mut self, action: &'static str, id: &str, vpc: &str) -> Result<ChangeAnswer, CloudError> {
        if let Some(attached) = &self.known_gateway(action, id)?.vpc_id {
            let message = format!("resource {id} is already attached to network {attached}");
            return Err(CloudError::answered(action, "Resource.AlreadyAssociated", &message));
        }
        self.known_vpc(action, vpc)?;
        if self.gateway_of(vpc).is_some() {
            // EC2 has another code for this side, see
            // https://github.com/binlab/terraform-aws-vault-ha-raft/issues/54.
            let message = format!("Network {vpc} already has an internet gateway attached");
            return Err(CloudError::answered(action, "InvalidParameterValue", &message));
        }
        self.set_attachment(id, Some(vpc));
        Ok(ChangeAnswer::Done)
    }

    fn detach_gateway(&mut self, action: &'static str, id: &str, vpc: &str) -> Result<ChangeAnswer, CloudError> {
        let is_attached = self.known_gateway(action, id)?.vpc_id.as_deref() == Some(vpc);
        self.known_vpc(action, vpc)?;
        if !is_attached {
            let message = format!("resource {id} is not attached to network {vpc}");
            return Err(CloudError::answered(action, "Gateway.NotAttached", &message));
        }
        let has_nat_gateway = self.has_nat_gateway(|known| known.vpc_id == vpc && !known.allocation_ids.is_empty());
        if has_nat_gateway || self.has_interface(|interface| interface.vpc_id == vpc && interface.public_ip.is_some()) {
            let message = format!("Network {vpc} has some mapped public address(es) and cannot lose its gateway.");
            return Err(CloudError::answered(action, "DependencyViolation", &message));
        }
        self.set_attachment(id, None);
        Ok(ChangeAnswer::Done)
    }

    fn delete_gateway(&mut self, action: &'static str, id: &str) -> Result<ChangeAnswer, CloudError> {
        if self.known_gateway(action, id)?.vpc_id.is_some() {
            let message = format!("The internetGateway '{id}' has dependencies and cannot be deleted.");
            return Err(CloudError::answered(action, "DependencyViolation", &message));
        }
        self.internet_gateways.remove(id);
        Ok(ChangeAnswer::Done)
    }

    /// The internet gateway that a call names.
    fn known_gateway(&self, action: &'static str, id: &str) -> Result<&InternetGateway, CloudError> {
        let known = self.internet_gateways.get(id);
        let known = known.filter(|resource| self.is_shown(resource));
        known.map(|resource| &resource.body).ok_or_else(|| {
            let message = format!("The internetGateway ID '{id}' does not exist");
            CloudError::answered(action, "InvalidInternetGatewayID.NotFound", &message)
        })
    }

    /// The internet gateway that is attached to a VPC.
    pub(crate) fn gateway_of(&self, vpc: &str) -> Option<&InternetGateway> {
        let mut gateways = self.internet_gateways.values().map(|resource| &resource.body);
        gateways.find(|gateway| gateway.vpc_id.as_deref() == Some(vpc))
    }

    pub(super) fn shown_internet_gateways(&self, selects: impl Fn(&InternetGateway) -> bool) -> Vec<InternetGateway> {
        let resources = self.internet_gateways.values();
        let shown = resources.filter(|resource| self.is_shown(resource));
        let views = shown.map(|resource| InternetGateway {
            tags: self.shown_tags(resource, &resource.body.tags),
            ..resource.body.clone()
        });
        views.filter(selects).collect()
    }
}

/// What tests see and change by hand.
impl Ec2 {
    pub(crate) fn all_internet_gateways(&self) -> Vec<InternetGateway> {
        let resources = self.internet_gateways.values();
        resources.map(|resource| resource.body.clone()).collect()
    }

    pub(crate) fn add_internet_gateway(&mut self, vpc: Option<&str>, tags: Tags) -> String {
        let id = self.next_id("igw");
        let body = new_gateway(&id, vpc, tags);
        self.internet_gateways.insert(id.clone(), Resource::by_hand(body));
        id
    }

    /// The internet gateway, for a change by hand.
    pub(crate) fn internet_gateway_mut(&mut self, id: &str) -> Option<&mut InternetGateway> {
        self.internet_gateways.get_mut(id).map(|resource| &mut resource.body)
    }

    pub(crate) fn set_attachment(&mut self, id: &str, vpc: Option<&str>) -> bool {
        let Some(gateway) = self.internet_gateway_mut(id) else {
            return false;
        };
        gateway.vpc_id = vpc.map(str::to_owned);
        true
    }

    pub(crate) fn remove_internet_gateway(&mut self, id: &str) -> bool {
        self.internet_gateways.remove(id).is_some()
    }
}

fn new_gateway(id: &str, vpc: Option<&str>, tags: Tags) -> InternetGateway {
    InternetGateway { id: id.to_owned(), vpc_id: vpc.map(str::to_owned), tags }
}
