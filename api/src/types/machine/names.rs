//! The Machine, the instance and the subnet that an AWSMachine names.

use super::{AWSMachine, AWSMachineSpec, LaunchRecord};
use crate::forms::IdKind;
use crate::meta;

impl AWSMachine {
    /// Name of the Machine, for tags. Without an owner reference, the name of the AWSMachine, which is the same as the
    /// name of its Machine.
    pub fn machine_name(&self) -> &str {
        let metadata = &self.metadata;
        meta::owner_machine_name(metadata).or(metadata.name.as_deref()).unwrap_or_default()
    }

    /// The id of the instance: from the launch record, or else from the spec. If the record has an attempt without an
    /// instance, the spec is ignored, because only the attempt can have launched an instance.
    pub fn instance_id(&self) -> Option<String> {
        let record = self.status.as_ref().and_then(|status| status.launch.as_ref());
        if record.is_some_and(LaunchRecord::is_without_instance) {
            return None;
        }
        self.recorded_instance_id().map(str::to_owned).or_else(|| self.spec.claimed_instance_id())
    }

    /// The id of the instance in the launch record.
    pub fn recorded_instance_id(&self) -> Option<&str> {
        let recorded = self.status.as_ref()?.launch.as_ref()?.instance_id();
        recorded.filter(|id| IdKind::Instance.is_id(id))
    }
}

impl AWSMachineSpec {
    /// The id of the instance that the spec names. Users can write the fields, too. `None` if the fields are
    /// [wrong](Self::wrong_instance_ids).
    pub fn claimed_instance_id(&self) -> Option<String> {
        if self.wrong_instance_ids().is_some() {
            return None;
        }
        let [by_provider_id, by_instance_id] = self.named_instances();
        let (_, id) = by_instance_id.or(by_provider_id)?;
        Some(id.to_owned())
    }

    /// What is wrong with a spec that names two instances, or that contains an invalid instance id.
    pub fn wrong_instance_ids(&self) -> Option<String> {
        let [provider_id, instance_id] = self.named_instances();
        for (field, named) in [("providerID", provider_id), ("instanceID", instance_id)] {
            if let Some((text, id)) = named
                && !IdKind::Instance.is_id(id)
            {
                return Some(format!(
                    "{field} is {text:?}, which names no EC2 instance: remove it; the provider sets it once an \
                     instance runs"
                ));
            }
        }
        match (provider_id, instance_id) {
            (Some((_, provider_id)), Some((_, instance_id))) if provider_id != instance_id => Some(format!(
                "providerID names instance {provider_id} and instanceID {instance_id}: leave both out, they are \
                 written once an instance runs"
            )),
            _ => None,
        }
    }

    /// The field of the spec that names an instance other than `instance_id`, and the value of the field.
    pub fn other_named_instance(&self, instance_id: &str) -> Option<(&'static str, &str)> {
        let [by_provider_id, by_instance_id] = self.named_instances();
        let named = [("providerID", by_provider_id), ("instanceID", by_instance_id)];
        let mut others = named.into_iter().filter_map(|(field, named)| Some((field, named?)));
        let (field, (text, _)) = others.find(|(_, (_, id))| *id != instance_id)?;
        Some((field, text))
    }

    /// Whether the spec names the subnet.
    pub fn names_subnet(&self) -> bool {
        self.subnet.as_ref().is_some_and(|subnet| !subnet.is_empty())
    }

    /// The texts of `providerID` and `instanceID`, if they are set, with the instance ids in them.
    fn named_instances(&self) -> [Option<(&str, &str)>; 2] {
        [&self.provider_id, &self.instance_id].map(|field| {
            let text = field.as_deref().filter(|text| !text.is_empty())?;
            Some((text, text.rsplit('/').next().unwrap_or(text)))
        })
    }
}
