//! The compact form in which the informer stores an instance. An [`Instance`] takes about two kilobytes: a dozen small
//! allocations, and maps. A [`CompactInstance`] is one string.

use std::collections::BTreeMap;

use capa_api::machine::{HttpTokens, Switch};
use jiff::Timestamp;

use super::owner_tags::{self, OwnerTags};
use crate::{
    Instance, InstanceMetadataOptions, InstanceState, MachineAddress, MachineAddressType, PrimaryInterface, StateReason,
};

/// The separators of parts, and of fields within a part. EC2 answers in XML, which cannot contain these characters.
const PART: char = '\u{1}';
const FIELD: char = '\0';
/// The first character of an optional value that is present, even if it is empty.
const PRESENT: char = '=';

/// The letter for each type of address.
const ADDRESS_TYPES: [(MachineAddressType, &str); 5] = [
    (MachineAddressType::Hostname, "h"),
    (MachineAddressType::ExternalIP, "E"),
    (MachineAddressType::InternalIP, "I"),
    (MachineAddressType::ExternalDNS, "e"),
    (MachineAddressType::InternalDNS, "i"),
];
/// The letter for each value of an option of the metadata service.
const SWITCHES: [(Switch, &str); 2] = [(Switch::Enabled, "e"), (Switch::Disabled, "d")];
const TOKENS: [(HttpTokens, &str); 2] = [(HttpTokens::Required, "r"), (HttpTokens::Optional, "o")];
/// The first character of an id without its prefix.
const SHORTENED: char = '-';

/// An instance without its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompactInstance {
    pub(super) state: InstanceState,
    launch_time: Option<Timestamp>,
    text: Box<str>,
}

impl CompactInstance {
    pub(super) fn new(instance: &Instance) -> Self {
        let reason = instance.state_reason.as_ref();
        let mut text = Text::default();
        text.field(&instance.availability_zone);
        text.id(instance.subnet_id.as_deref(), "subnet-");
        text.id(instance.vpc_id.as_deref(), "vpc-");
        text.optional(instance.client_token.as_deref());
        text.optional(reason.map(|reason| reason.code.as_str()));
        text.field(reason.map_or("", |reason| reason.message.as_str()));
        text.field(&instance.instance_type);
        let interface = instance.primary_interface.as_ref();
        text.id(interface.map(|interface| interface.id.as_str()), "eni-");
        text.part();
        for address in &instance.addresses {
            text.field(letter_of(address.address_type, &ADDRESS_TYPES));
            text.field(&address.address);
        }
        text.part();
        for (key, value) in &instance.tags {
            text.field(&owner_tags::shorten(key));
            text.field(value);
        }
        text.part();
        for id in &instance.volume_ids {
            text.id(Some(id), "vol-");
        }
        text.part();
        for id in interface.iter().flat_map(|interface| &interface.security_group_ids) {
            text.id(Some(id), "sg-");
        }
        text.part();
        if let Some(options) = &instance.metadata_options {
            text.field(&options.http_put_response_hop_limit.to_string());
            text.field(letter_of(options.http_tokens, &TOKENS));
            for switch in [options.http_endpoint, options.http_protocol_ipv6, options.instance_metadata_tags] {
                text.field(letter_of(switch, &SWITCHES));
            }
        }
        Self { state: instance.state, launch_time: instance.launch_time, text: text.0.into() }
    }

    /// Returns the instance with another state.
    pub(super) fn in_state(self, state: InstanceState) -> Self {
        Self { state, ..self }
    }

    pub(super) fn availability_zone(&self) -> &str {
        self.text.split(FIELD).next().unwrap_or_default()
    }

    /// The Machine, the clusters and the management cluster that the tags name.
    pub(super) fn owner_tags(&self) -> OwnerTags<'_> {
        let tags = self.text.split(PART).nth(2).unwrap_or_default();
        OwnerTags::of(pairs(tags.split_terminator(FIELD)))
    }

    /// The instance with this id.
    pub(super) fn instance(&self, id: &str) -> Instance {
        let mut parts = self.text.split(PART).map(|part| part.split_terminator(FIELD));
        let mut first = parts.next().into_iter().flatten();
        let mut field = || first.next().unwrap_or_default();
        let availability_zone = field().to_owned();
        let (subnet_id, vpc_id) = (id_of(field(), "subnet-"), id_of(field(), "vpc-"));
        let client_token = optional(field());
        let (code, message) = (optional(field()), field());
        let (instance_type, interface_id) = (field().to_owned(), id_of(field(), "eni-"));
        let addresses = pairs(parts.next().into_iter().flatten());
        let tags = pairs(parts.next().into_iter().flatten());
        let mut ids = |prefix| {
            let ids = parts.next().into_iter().flatten();
            ids.filter_map(|text| id_of(text, prefix)).collect()
        };
        let (volume_ids, security_group_ids): (Vec<_>, Vec<_>) = (ids("vol-"), ids("sg-"));
        let metadata_options = metadata_options(parts.next().into_iter().flatten());
        Instance {
            id: id.to_owned(),
            state: self.state,
            state_reason: code.map(|code| StateReason { code, message: message.to_owned() }),
            instance_type,
            availability_zone,
            subnet_id,
            vpc_id,
            primary_interface: interface_id.map(|id| PrimaryInterface { id, security_group_ids }),
            volume_ids,
            metadata_options,
            client_token,
            launch_time: self.launch_time,
            addresses: addresses.filter_map(address).collect(),
            tags: tags.map(|(key, value)| (owner_tags::restore(key), value.to_owned())).collect::<BTreeMap<_, _>>(),
        }
    }
}

fn optional(text: &str) -> Option<String> {
    text.strip_prefix(PRESENT).map(str::to_owned)
}

/// An optional id, whose prefix may have been left out.
fn id_of(text: &str, prefix: &str) -> Option<String> {
    match text.strip_prefix(SHORTENED) {
        Some(rest) => Some(format!("{prefix}{rest}")),
        None => optional(text),
    }
}

fn metadata_options<'a>(mut fields: impl Iterator<Item = &'a str>) -> Option<InstanceMetadataOptions> {
    let hops = fields.next()?.parse().ok()?;
    let http_tokens = value_of(fields.next()?, &TOKENS)?;
    let mut switch = || value_of(fields.next()?, &SWITCHES);
    Some(InstanceMetadataOptions {
        http_put_response_hop_limit: hops,
        http_tokens,
        http_endpoint: switch()?,
        http_protocol_ipv6: switch()?,
        instance_metadata_tags: switch()?,
    })
}

fn letter_of<T: Copy + PartialEq>(value: T, letters: &[(T, &'static str)]) -> &'static str {
    letters.iter().find(|(known, _)| *known == value).map_or("", |(_, letter)| letter)
}

fn value_of<T: Copy>(letter: &str, letters: &[(T, &str)]) -> Option<T> {
    letters.iter().find(|(_, known)| *known == letter).map(|(value, _)| *value)
}

fn address((kind, address): (&str, &str)) -> Option<MachineAddress> {
    Some(MachineAddress { address_type: value_of(kind, &ADDRESS_TYPES)?, address: address.to_owned() })
}

/// Groups the fields in pairs.
fn pairs<'a>(mut fields: impl Iterator<Item = &'a str>) -> impl Iterator<Item = (&'a str, &'a str)> {
    std::iter::from_fn(move || Some((fields.next()?, fields.next()?)))
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn field(&mut self, value: &str) {
        for part in value.split([PART, FIELD]) {
            self.0.push_str(part);
        }
        self.0.push(FIELD);
    }

    fn optional(&mut self, value: Option<&str>) {
        if let Some(value) = value {
            self.0.push(PRESENT);
            self.field(value);
        } else {
            self.field("");
        }
    }

    /// Writes an optional id, without the prefix that almost every id has.
    fn id(&mut self, value: Option<&str>, prefix: &str) {
        match value.and_then(|value| value.strip_prefix(prefix)) {
            Some(rest) => {
                self.0.push(SHORTENED);
                self.field(rest);
            }
            None => self.optional(value),
        }
    }

    fn part(&mut self) {
        self.0.push(PART);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::option::of;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        // Characters that XML can contain.
        vec(any::<char>(), 0..12).prop_map(|text| text.into_iter().filter(|char| !char.is_control()).collect())
    }

    fn addresses() -> impl Strategy<Value = Vec<MachineAddress>> {
        let kinds = vec![
            MachineAddressType::Hostname,
            MachineAddressType::ExternalIP,
            MachineAddressType::InternalIP,
            MachineAddressType::ExternalDNS,
            MachineAddressType::InternalDNS,
        ];
        let address =
            (select(kinds), text()).prop_map(|(address_type, address)| MachineAddress { address_type, address });
        vec(address, 0..5)
    }

    fn interface() -> impl Strategy<Value = PrimaryInterface> {
        (text(), vec(text(), 0..4)).prop_map(|(id, security_group_ids)| PrimaryInterface { id, security_group_ids })
    }

    fn metadata_options() -> impl Strategy<Value = InstanceMetadataOptions> {
        let switch = || select(vec![Switch::Enabled, Switch::Disabled]);
        let tokens = select(vec![HttpTokens::Required, HttpTokens::Optional]);
        (1..65_i64, tokens, switch(), switch(), switch()).prop_map(
            |(http_put_response_hop_limit, http_tokens, http_endpoint, http_protocol_ipv6, instance_metadata_tags)| {
                InstanceMetadataOptions {
                    http_endpoint,
                    http_tokens,
                    http_put_response_hop_limit,
                    http_protocol_ipv6,
                    instance_metadata_tags,
                }
            },
        )
    }

    prop_compose! {
        fn instance()(
            state in select(vec![InstanceState::Pending, InstanceState::Running, InstanceState::Terminated]),
            state_reason in of((text(), text()).prop_map(|(code, message)| StateReason { code, message })),
            instance_type in text(),
            availability_zone in text(),
            subnet_id in of(prop_oneof![text(), text().prop_map(|rest| format!("subnet-{rest}"))]),
            vpc_id in of(text()),
            primary_interface in of(interface()),
            (volume_ids, metadata_options) in (vec(text(), 0..4), of(metadata_options())),
            client_token in of(text()),
            launch_time in of((0_i64..4_000_000_000).prop_map(|second| Timestamp::from_second(second).unwrap())),
            addresses in addresses(),
            tags in btree_map(text(), text(), 0..5),
        ) -> Instance {
            let id = "i-1".to_owned();
            Instance {
                id, state, state_reason, instance_type, availability_zone, subnet_id, vpc_id, primary_interface,
                volume_ids, metadata_options, client_token, launch_time, addresses, tags,
            }
        }
    }

    proptest! {
        #[test]
        fn an_instance_is_restored_from_its_compact_form(instance in instance()) {
            let kept = CompactInstance::new(&instance);
            prop_assert_eq!(kept.availability_zone(), instance.availability_zone.as_str());
            prop_assert_eq!(kept.instance("i-1"), instance);
        }

        #[test]
        fn compact_forms_of_different_instances_differ(one in instance(), other in instance()) {
            prop_assert_eq!(CompactInstance::new(&one) == CompactInstance::new(&other), one == other);
        }
    }
}
