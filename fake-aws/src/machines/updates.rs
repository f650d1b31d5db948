//! Changes of launched instances, of their volumes and of their network interfaces.

use capa_api::common::Tags;
use jiff::Timestamp;

use capa_cloud::{CloudError, DnsRecords, InstanceMetadataOptions};

use super::audit::Change;
use super::client::Client;
use super::region::Region;

/// The most tags of a resource.
const MAX_TAGS: usize = 50;
/// The most security groups of a network interface, unless the account has a higher quota.
const MAX_GROUPS: usize = 5;

impl Client<'_> {
    /// CreateTags: sets tags of resources, all or nothing.
    pub fn create_tags(&mut self, now: Timestamp, resources: &[String], tags: &Tags) -> Result<(), CloudError> {
        const ACTION: &str = "CreateTags";
        let (region, key) = self.enter(now, ACTION, 0)?;
        let key = key.to_owned();
        for id in resources {
            let known = region.tags_of(now, id).ok_or_else(|| missing(ACTION, id))?;
            let added = tags.keys().filter(|tag| !known.contains_key(*tag)).count();
            if known.len() + added > MAX_TAGS {
                let message = format!("The maximum number of tags for {id} has been reached.");
                return Err(CloudError::answered(ACTION, "TagLimitExceeded", &message));
            }
        }
        for id in resources {
            if let Some(known) = region.tags_of(now, id) {
                known.extend(tags.clone());
            }
            if region.instances.contains_key(id) {
                region.record(now, &key, id, Change::Tagged);
            }
        }
        Ok(())
    }

    /// DeleteTags with values: a tag that has another value stays.
    pub fn delete_tags(&mut self, now: Timestamp, resources: &[String], tags: &Tags) -> Result<(), CloudError> {
        const ACTION: &str = "DeleteTags";
        let (region, key) = self.enter(now, ACTION, 0)?;
        let key = key.to_owned();
        for id in resources {
            let known = region.tags_of(now, id).ok_or_else(|| missing(ACTION, id))?;
            known.retain(|tag, value| tags.get(tag) != Some(value));
            if region.instances.contains_key(id) {
                region.record(now, &key, id, Change::Untagged);
            }
        }
        Ok(())
    }

    /// ModifyNetworkInterfaceAttribute: replaces the security groups of an instance's own network interface.
    pub fn set_interface_groups(
        &mut self,
        now: Timestamp,
        interface_id: &str,
        group_ids: &[String],
    ) -> Result<(), CloudError> {
        const ACTION: &str = "ModifyNetworkInterfaceAttribute";
        let (region, key) = self.enter(now, ACTION, 0)?;
        let key = key.to_owned();
        let refuse = |code: &str, message: &str| Err(CloudError::answered(ACTION, code, message));
        if group_ids.is_empty() {
            return refuse("InvalidParameterValue", "You must specify at least one group");
        }
        if group_ids.len() > MAX_GROUPS {
            let message = format!("The maximum number of security groups for {interface_id} has been reached.");
            return refuse("SecurityGroupsPerInterfaceLimitExceeded", &message);
        }
        for id in group_ids {
            region.network.ec2().known_security_group(ACTION, id)?;
        }
        let mut known = region.instances.values_mut().filter(|instance| instance.is_known(now));
        let Some(instance) = known.find(|instance| instance.interface_id() == interface_id) else {
            return Err(missing(ACTION, interface_id));
        };
        instance.security_group_ids = group_ids.to_vec();
        instance.security_group_ids.sort_unstable();
        let id = instance.id.clone();
        region.show_interface(&id);
        region.record(now, &key, &id, Change::Regrouped);
        Ok(())
    }
}

impl Client<'_> {
    /// ModifyInstanceMetadataOptions of all options.
    pub fn set_metadata_options(
        &mut self,
        now: Timestamp,
        instance_id: &str,
        options: &InstanceMetadataOptions,
    ) -> Result<(), CloudError> {
        const ACTION: &str = "ModifyInstanceMetadataOptions";
        let (region, _) = self.enter(now, ACTION, 0)?;
        let mut known = region.instances.values_mut().filter(|instance| instance.is_known(now));
        let instance = known.find(|instance| instance.id == instance_id);
        let instance = instance.ok_or_else(|| missing(ACTION, instance_id))?;
        instance.metadata_options.clone_from(options);
        Ok(())
    }

    /// ModifyPrivateDnsNameOptions of the records.
    pub fn set_dns_records(
        &mut self,
        now: Timestamp,
        instance_id: &str,
        records: DnsRecords,
    ) -> Result<(), CloudError> {
        const ACTION: &str = "ModifyPrivateDnsNameOptions";
        let (region, _) = self.enter(now, ACTION, 0)?;
        let mut known = region.instances.values_mut().filter(|instance| instance.is_known(now));
        let instance = known.find(|instance| instance.id == instance_id);
        let kept = &mut instance.ok_or_else(|| missing(ACTION, instance_id))?.dns_records;
        *kept = DnsRecords { a: records.a.or(kept.a), aaaa: records.aaaa.or(kept.aaaa) };
        Ok(())
    }
}

impl Region {
    /// Replaces the security groups of an instance, as another user would.
    pub fn regroup(&mut self, instance_id: &str, group_ids: &[&str]) -> &mut Self {
        if let Some(instance) = self.instances.get_mut(instance_id) {
            instance.security_group_ids = group_ids.iter().map(|id| (*id).to_owned()).collect();
            instance.security_group_ids.sort_unstable();
        }
        self
    }

    /// Changes the type of an instance, as another user would who has stopped it.
    pub fn retype(&mut self, instance_id: &str, instance_type: &str) -> &mut Self {
        if let Some(instance) = self.instances.get_mut(instance_id) {
            instance_type.clone_into(&mut instance.instance_type);
        }
        self
    }

    /// Changes how many hops the answers of the metadata service of an instance may take, as another user would.
    pub fn set_hop_limit(&mut self, instance_id: &str, hops: i64) -> &mut Self {
        if let Some(instance) = self.instances.get_mut(instance_id) {
            instance.metadata_options.http_put_response_hop_limit = hops;
        }
        self
    }

    /// The tags of an instance, or of a volume or network interface that a launch created.
    fn tags_of(&mut self, now: Timestamp, id: &str) -> Option<&mut Tags> {
        let mut known = self.instances.values_mut().filter(|instance| instance.is_known(now));
        known.find_map(
            |instance| {
                if instance.id == id { Some(&mut instance.tags) } else { instance.resource_tags.get_mut(id) }
            },
        )
    }
}

fn missing(action: &'static str, id: &str) -> CloudError {
    let code = match id.split_once('-') {
        Some(("i", _)) => "InvalidInstanceID.NotFound",
        Some(("vol", _)) => "InvalidVolume.NotFound",
        _ => "InvalidNetworkInterfaceID.NotFound",
    };
    CloudError::answered(action, code, &format!("The ID '{id}' does not exist"))
}
