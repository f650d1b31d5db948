//! RunInstances. Its tokens follow <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html>: a
//! request that names a subnet is idempotent in the subnet's zone, so that the same token in another zone launches a
//! second instance; a repetition with other parameters is refused. A refused launch does not use up its token. The
//! documentation does not say whether a different order of a list is a different parameter; here it is.

use std::collections::BTreeMap;

use jiff::Timestamp;

use capa_api::machine::{HttpTokens, InstanceState, LaunchOptions, Switch};

use capa_cloud::ec2::Subnet;
use capa_cloud::{CloudError, DnsRecords, Instance, InstanceMetadataOptions, LaunchRequest, UserData};

use super::audit::Change;
use super::instances::{LaunchedInstance, Phase, volume_id};
use super::region::Region;
use super::time::after;
use crate::RepeatedAfterTermination;

const OPERATION: &str = "RunInstances";

/// Longest client token, in ASCII characters.
const TOKEN_LENGTH: usize = 64;

/// A launch with the metadata options of EC2's documentation, and without security groups, volumes, tags, user data and
/// options.
pub fn plain_launch(client_token: &str, image_id: &str, instance_type: &str, subnet_id: &str) -> LaunchRequest {
    LaunchRequest {
        client_token: client_token.to_owned(),
        image_id: image_id.to_owned(),
        instance_type: instance_type.to_owned(),
        subnet_id: subnet_id.to_owned(),
        security_group_ids: Vec::new(),
        iam_instance_profile: None,
        key_name: None,
        public_ip: None,
        root_volume: None,
        data_volumes: Vec::new(),
        metadata_options: InstanceMetadataOptions {
            http_endpoint: Switch::Enabled,
            http_tokens: HttpTokens::Required,
            http_put_response_hop_limit: 1,
            http_protocol_ipv6: Switch::Disabled,
            instance_metadata_tags: Switch::Disabled,
        },
        tags: BTreeMap::new(),
        user_data: UserData::new(Vec::new()),
        options: LaunchOptions::default(),
    }
}

impl Region {
    pub(super) fn run_instances(
        &mut self,
        now: Timestamp,
        access_key: &str,
        request: &LaunchRequest,
    ) -> Result<Instance, CloudError> {
        check_form(request)?;
        let subnet = self.network.ec2().known_subnet(OPERATION, &request.subnet_id)?.clone();
        if let Some(first) = self.remembered(now, &subnet.zone, &request.client_token) {
            let answer = self.repeated(now, &first, request)?;
            self.record(now, access_key, &answer.id, Change::LaunchRepeated);
            return Ok(answer);
        }
        self.check_references(now, request, &subnet)?;
        self.check_room(request, &subnet)?;
        Ok(self.launch(now, access_key, request, subnet))
    }

    /// The id of the instance that was launched with a token in a zone, while EC2 remembers the token.
    fn remembered(&self, now: Timestamp, zone: &str, token: &str) -> Option<String> {
        let id = self.tokens.get(&(zone.to_owned(), token.to_owned()))?;
        let instance = self.instances.get(id)?;
        let forgotten = after(instance.launched_at, self.behaviour().token_memory);
        (now < forgotten).then(|| id.clone())
    }

    fn repeated(&self, now: Timestamp, first: &str, request: &LaunchRequest) -> Result<Instance, CloudError> {
        let instance = self.instances.get(first).filter(|instance| instance.request == *request);
        let Some(instance) = instance else {
            let message =
                "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).";
            return Err(CloudError::answered(OPERATION, "IdempotentParameterMismatch", message));
        };
        let terminated = instance.state(now) == InstanceState::Terminated;
        let refuses = self.behaviour().repeated_after_termination == RepeatedAfterTermination::Refused;
        if terminated && (refuses || instance.is_forgotten(now)) {
            let message = "The instance that was launched with this client token has been terminated.";
            return Err(CloudError::answered(OPERATION, "IdempotentInstanceTerminated", message));
        }
        Ok(instance.shown(now))
    }

    fn check_references(&self, now: Timestamp, request: &LaunchRequest, subnet: &Subnet) -> Result<(), CloudError> {
        let ec2 = self.network.ec2();
        if !ec2.has_image(&request.image_id) {
            return Err(missing("InvalidAMIID.NotFound", "image id", &request.image_id));
        }
        for id in &request.security_group_ids {
            let group = ec2.known_security_group(OPERATION, id)?;
            if group.vpc_id != subnet.vpc_id {
                let message = format!("Security group {id} and subnet {} belong to different networks.", subnet.id);
                return Err(CloudError::answered(OPERATION, "InvalidParameter", &message));
            }
        }
        for id in &request.options.network_interfaces {
            if !ec2.has_interface(|known| known.id == *id) {
                return Err(missing("InvalidNetworkInterfaceID.NotFound", "networkInterface ID", id));
            }
            if let Some(instance) = self.attached_to(now, id) {
                let message = format!("Interface: [{id}] in use by instance {instance}.");
                return Err(CloudError::answered(OPERATION, "InvalidNetworkInterface.InUse", &message));
            }
        }
        if let Some(host) = request.options.host.as_ref().filter(|host| !self.has_host(now, &host.id)) {
            return Err(missing("InvalidHostID.NotFound", "host ID", &host.id));
        }
        match &request.key_name {
            Some(name) if !ec2.has_key_pair(name) => Err(missing("InvalidKeyPair.NotFound", "key pair", name)),
            _ => Ok(()),
        }
    }

    fn check_room(&self, request: &LaunchRequest, subnet: &Subnet) -> Result<(), CloudError> {
        let pair = (request.instance_type.clone(), subnet.zone.clone());
        // The capacity of a host is taken already.
        let on_host = request.options.host.as_ref().is_some_and(|host| self.is_allocated(&host.id));
        if self.exhausted.contains(&pair) && !on_host {
            let (instance_type, zone) = pair;
            let message = format!(
                "We currently do not have sufficient {instance_type} capacity in the Availability Zone {zone}."
            );
            return Err(CloudError::answered(OPERATION, "InsufficientInstanceCapacity", &message));
        }
        Ok(())
    }

    fn launch(&mut self, now: Timestamp, access_key: &str, request: &LaunchRequest, subnet: Subnet) -> Instance {
        let instance = self.new_instance(now, access_key, request, subnet);
        let id = instance.id.clone();
        if !request.client_token.is_empty() {
            let place = (instance.subnet.zone.clone(), request.client_token.clone());
            self.tokens.insert(place, id.clone());
        }
        // The answer shows `pending`, however short that state is.
        let answer = Instance { state: InstanceState::Pending, state_reason: None, ..instance.shown(now) };
        self.instances.insert(id.clone(), instance);
        self.show_interface(&id);
        self.record(now, access_key, &id, Change::Launched);
        answer
    }

    fn new_instance(
        &self,
        now: Timestamp,
        access_key: &str,
        request: &LaunchRequest,
        subnet: Subnet,
    ) -> LaunchedInstance {
        let (number, id) = self.next_instance();
        let behaviour = self.behaviour().clone();
        let end_of_pending = after(now, behaviour.pending);
        let next = match behaviour.death_in_pending {
            None => Phase::new(end_of_pending, InstanceState::Running),
            Some(reason) => Phase { from: end_of_pending, state: InstanceState::Terminated, reason: Some(reason) },
        };
        let mut security_group_ids = request.security_group_ids.clone();
        security_group_ids.sort_unstable();
        let mut instance = LaunchedInstance {
            id,
            account: self.account.clone(),
            region: self.name.clone(),
            subnet,
            request: request.clone(),
            instance_type: request.instance_type.clone(),
            tags: request.tags.clone(),
            resource_tags: BTreeMap::new(),
            security_group_ids,
            metadata_options: request.metadata_options.clone(),
            dns_records: request.options.private_dns_name.as_ref().map_or_else(DnsRecords::default, |name| {
                DnsRecords {
                    a: name.enable_resource_name_dns_a_record,
                    aaaa: name.enable_resource_name_dns_aaaa_record,
                }
            }),
            elastic_ip: None,
            launched_at: now,
            launched_by: access_key.to_owned(),
            visible_from: after(now, behaviour.hidden),
            phases: vec![Phase::new(now, InstanceState::Pending), next],
            protected: false,
            number,
            shown_after_termination: behaviour.shown_after_termination,
        };
        // A launch tags what it creates, and not the interfaces of the user.
        instance.resource_tags.insert(volume_id(&instance.id), request.tags.clone());
        if request.options.network_interfaces.is_empty() {
            instance.resource_tags.insert(instance.interface_id(), request.tags.clone());
        }
        instance
    }

    /// Adds a running instance with an id of the caller's choice, as if another user had just launched it. Does nothing
    /// if the subnet does not exist.
    pub fn add_instance(&mut self, now: Timestamp, id: &str, request: &LaunchRequest) -> &mut Self {
        let subnet = self.network.ec2().known_subnet(OPERATION, &request.subnet_id).cloned();
        if let Ok(subnet) = subnet {
            let instance = LaunchedInstance {
                id: id.to_owned(),
                phases: vec![Phase::new(now, InstanceState::Running)],
                ..self.new_instance(now, "", request, subnet)
            };
            self.instances.insert(id.to_owned(), instance);
            self.show_interface(id);
        }
        self
    }
}

/// Checks the request for errors that do not depend on the region.
fn check_form(request: &LaunchRequest) -> Result<(), CloudError> {
    let refuse = |code: &str, message: &str| Err(CloudError::answered(OPERATION, code, message));
    if request.client_token.len() > TOKEN_LENGTH || !request.client_token.is_ascii() {
        return refuse("InvalidParameterValue", "ClientToken takes up to 64 ASCII characters");
    }
    if request.user_data.expose().len() > UserData::MAX_BYTES {
        return refuse("InvalidParameterValue", "User data is limited to 16384 bytes");
    }
    if request.image_id.is_empty() {
        return refuse("MissingParameter", "The request must contain the parameter ImageId");
    }
    Ok(())
}

fn missing(code: &str, kind: &str, id: &str) -> CloudError {
    CloudError::answered(OPERATION, code, &format!("The {kind} '{id}' does not exist"))
}
