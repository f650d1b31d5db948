//! The content of an AWS account with names in place of ids, so that two accounts can be compared.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::user::Shown;

/// The fields that AWS chooses by chance, or that repeat others.
const WITHOUT_MEANING: [&str; 24] = [
    "associationId",
    "routeTableAssociationId",
    "attachmentId",
    "ownerId",
    "createTime",
    "CreatedTime",
    "privateIp",
    "privateIpAddress",
    "networkInterfaceId",
    "networkInterfaceOwnerId",
    "securityGroupArn",
    "subnetArn",
    "userId",
    "DNSName",
    "CanonicalHostedZoneId",
    "CanonicalHostedZoneName",
    "CanonicalHostedZoneNameID",
    "OwnerAlias",
    "TargetGroupName",
    "availableIpAddressCount",
    "Instances",
    "domain",
    "instanceId",
    "ResourceArn",
];

/// The resources that are compared: the list, the field with the id, and the kind in our words.
const RESOURCES: [(&str, &str, &str); 11] = [
    ("vpcSet", "vpcId", "VPC"),
    ("subnetSet", "subnetId", "subnet"),
    ("routeTableSet", "routeTableId", "route table"),
    ("internetGatewaySet", "internetGatewayId", "internet gateway"),
    ("securityGroupInfo", "groupId", "security group"),
    ("natGatewaySet", "natGatewayId", "NAT gateway"),
    ("addressesSet", "allocationId", "Elastic IP"),
    ("LoadBalancers", "LoadBalancerArn", "network load balancer"),
    ("TargetGroups", "TargetGroupArn", "target group"),
    ("Listeners", "ListenerArn", "listener"),
    ("LoadBalancerDescriptions", "LoadBalancerName", "classic load balancer"),
];

/// One thing that is true of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact {
    /// The kind and the name of the resource.
    pub resource: String,
    /// The field; an item of a list has the field of the list.
    pub field: String,
    /// The value, with names in place of ids.
    pub value: String,
}

/// The facts of an account. Each of `replaced` is a text with that which takes its place, for what differs between two
/// accounts anyway.
pub fn facts(shown: &[Shown], replaced: &[(&str, &str)]) -> BTreeSet<Fact> {
    let mut texts = Names::of_all(shown).0;
    texts.extend(replaced.iter().map(|(text, by)| ((*text).to_owned(), (*by).to_owned())));
    // Longer texts first: one may begin with another.
    let mut texts: Vec<(String, String)> = texts.into_iter().collect();
    texts.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
    let name = |text: &str| {
        texts
            .iter()
            .fold(text.to_owned(), |text, (id, name)| text.replace(id, name))
    };
    let mut facts = BTreeSet::new();
    let mut add = |resource: &str, value: &Value| {
        let mut fields = Vec::new();
        flatten("", value, &mut fields);
        facts.extend(fields.into_iter().map(|(field, value)| Fact {
            resource: resource.to_owned(),
            field,
            value: name(&value),
        }));
    };
    for shown in shown {
        match &shown.id {
            Some(id) => add(&name(id), &shown.value),
            None => {
                for (list, id, kind) in RESOURCES {
                    for item in items(&shown.value, list) {
                        add(&text(item, id).map_or_else(|| kind.to_owned(), |id| name(&id)), item);
                    }
                }
            }
        }
    }
    facts
}

/// The names of resources by their ids.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    /// The names in the order of [`RESOURCES`]: a NAT gateway has the name of its subnet, its address that of the
    /// gateway, and a listener that of its load balancer.
    fn of_all(shown: &[Shown]) -> Self {
        let mut names = Self::default();
        for (list, id, kind) in RESOURCES {
            let items = shown.iter().flat_map(|shown| items(&shown.value, list));
            for (item, id) in items.filter_map(|item| Some((item, text(item, id)?))) {
                names.learn(item, id, kind);
            }
        }
        names
    }

    fn learn(&mut self, item: &Value, id: String, kind: &str) {
        let name = match kind {
            "NAT gateway" => self.of(item, "subnetId"),
            "target group" => self
                .of_first(item, "LoadBalancerArns")
                .zip(text(item, "Port"))
                .map(joined),
            "listener" => self.of(item, "LoadBalancerArn").zip(text(item, "Port")).map(joined),
            _ => named(item),
        };
        let name = format!("{kind} {}", name.unwrap_or_else(|| "without a name".to_owned()));
        if kind == "NAT gateway" {
            self.learn_addresses(item, &name);
        }
        if let Some(name_of_group) = text(item, "TargetGroupName") {
            self.0.insert(name_of_group, name.clone());
        }
        self.0.entry(id).or_insert(name);
    }

    fn of_first(&self, item: &Value, list: &str) -> Option<String> {
        let first = items(item, list).find_map(Value::as_str);
        first.and_then(|id| self.0.get(id).cloned())
    }

    fn learn_addresses(&mut self, gateway: &Value, name: &str) {
        for address in items(gateway, "natGatewayAddressSet") {
            for field in ["allocationId", "publicIp"] {
                if let Some(id) = text(address, field) {
                    self.0.insert(id, format!("Elastic IP of {name}"));
                }
            }
        }
    }

    fn of(&self, item: &Value, field: &str) -> Option<String> {
        text(item, field).and_then(|id| self.0.get(&id).cloned())
    }
}

fn joined((of, port): (String, String)) -> String {
    format!("{port} of {of}")
}

/// The items of a list in the fields of a value.
fn items<'a>(value: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    value.get(list).and_then(Value::as_array).into_iter().flatten()
}

fn text(item: &Value, field: &str) -> Option<String> {
    item.get(field).and_then(Value::as_str).map(str::to_owned)
}

/// The name that a resource shows.
fn named(item: &Value) -> Option<String> {
    let tags = items(item, "tagSet").find(|tag| text(tag, "key").as_deref() == Some("Name"));
    let mut fields = ["groupName", "LoadBalancerName"].into_iter();
    let named = fields.find_map(|field| text(item, field));
    named.or_else(|| tags.and_then(|tag| text(tag, "value")))
}

/// The fields of a value with their paths. An item of a list of objects is one field, with its text.
fn flatten(path: &str, value: &Value, fields: &mut Vec<(String, String)>) {
    match value {
        Value::Object(object) if is_pair(object) => {
            let [key, value] = pair(object);
            let kind = if path == "tagSet" { "tag" } else { "attribute" };
            fields.push((format!("{kind} {key}"), value));
        }
        Value::Object(object) => {
            for (field, value) in object.iter().filter(|(field, _)| has_meaning(field)) {
                let path = [path, field]
                    .into_iter()
                    .filter(|part| !part.is_empty())
                    .collect::<Vec<_>>();
                flatten(&path.join("."), value, fields);
            }
        }
        Value::Array(list) => list.iter().for_each(|item| flatten_item(path, item, fields)),
        // An empty list, too, is an empty text.
        Value::String(text) if !text.is_empty() => fields.push((path.to_owned(), text.clone())),
        _ => {}
    }
}

fn flatten_item(path: &str, item: &Value, fields: &mut Vec<(String, String)>) {
    match item {
        Value::Object(object) if path.starts_with("ipPermissions") => {
            let kind = if path == "ipPermissions" { "rule" } else { "egress rule" };
            fields.extend(rules(object).into_iter().map(|rule| (kind.to_owned(), rule)));
        }
        Value::Object(object) if !is_pair(object) => fields.push((path.to_owned(), meaningful(item).to_string())),
        _ => flatten(path, item, fields),
    }
}

fn has_meaning(field: &str) -> bool {
    !WITHOUT_MEANING.contains(&field)
}

/// Whether an object is a tag or an attribute: a key and its value.
fn is_pair(fields: &Map<String, Value>) -> bool {
    fields
        .keys()
        .all(|key| ["key", "value"].contains(&key.to_lowercase().as_str()))
}

fn pair(fields: &Map<String, Value>) -> [String; 2] {
    ["key", "value"].map(|wanted| {
        let found = fields.iter().find(|(key, _)| key.to_lowercase() == wanted);
        found
            .and_then(|(_, value)| value.as_str())
            .unwrap_or_default()
            .to_owned()
    })
}

/// The rules of one permission: each has a protocol, ports, one source and a description.
fn rules(permission: &Map<String, Value>) -> Vec<String> {
    let field = |name: &str| permission.get(name).and_then(Value::as_str).unwrap_or("any");
    let what = format!("{} {}-{}", field("ipProtocol"), field("fromPort"), field("toPort"));
    let sources = [
        ("groups", "groupId"),
        ("ipRanges", "cidrIp"),
        ("ipv6Ranges", "cidrIpv6"),
    ];
    let mut rules = Vec::new();
    for (list, source) in sources {
        for item in permission.get(list).and_then(Value::as_array).into_iter().flatten() {
            let description = text(item, "description").unwrap_or_default();
            rules.push(format!(
                "{what} from {} ({description})",
                text(item, source).unwrap_or_default()
            ));
        }
    }
    rules
}

/// A value without the fields that mean nothing, at any depth.
fn meaningful(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(field, _)| has_meaning(field))
            .map(|(field, value)| (field.clone(), meaningful(value)))
            .collect(),
        Value::Array(items) => items.iter().map(meaningful).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An account with a subnet, a NAT gateway in it and a security group that admits it, with ids of its own.
    fn account(suffix: &str) -> Vec<Shown> {
        let named = |name: &str| json!([{"key": "Name", "value": name}]);
        let id = |kind: &str| format!("{kind}-{suffix}");
        let address = format!("192.0.2.{}", suffix.len());
        let group = json!({
            "groupId": id("sg"),
            "groupName": "api",
            "ipPermissions": [{
                "ipProtocol": "tcp", "fromPort": "6443", "toPort": "6443",
                "groups": [{"groupId": id("sg"), "description": "itself"}],
                "ipRanges": [{"cidrIp": format!("{address}/32")}],
            }],
        });
        let gateway = json!({
            "natGatewayId": id("nat"), "subnetId": id("subnet"), "createTime": suffix,
            "natGatewayAddressSet": [{"allocationId": id("eipalloc"), "publicIp": address}],
        });
        let subnet = json!({"subnetId": id("subnet"), "tagSet": named("front")});
        let lists = [
            ("natGatewaySet", gateway),
            ("securityGroupInfo", group),
            ("subnetSet", subnet),
        ];
        let shown = lists.map(|(list, item)| Shown {
            action: list.to_owned(),
            id: None,
            value: json!({list: [item]}),
        });
        let tags = Shown {
            action: "DescribeDetail".to_owned(),
            id: Some(id("subnet")),
            value: json!({"enabled": suffix.is_empty().to_string()}),
        };
        shown.into_iter().chain([tags]).collect()
    }

    #[test]
    fn ids_make_no_difference() {
        let one = facts(&account("1"), &[]);
        assert_eq!(one, facts(&account("22"), &[]));
        let all: Vec<String> = one
            .iter()
            .map(|fact| format!("{}: {}: {}", fact.resource, fact.field, fact.value))
            .collect();
        for expected in [
            "security group api: rule: tcp 6443-6443 from Elastic IP of NAT gateway subnet front/32 ()",
            "security group api: rule: tcp 6443-6443 from security group api (itself)",
            "NAT gateway subnet front: subnetId: subnet front",
            "subnet front: tag Name: front",
            "subnet front: enabled: false",
        ] {
            assert!(all.iter().any(|fact| fact == expected), "{expected} is not in {all:#?}");
        }
    }

    #[test]
    fn what_differs_anyway_can_be_replaced() {
        let replaced = facts(&account("1"), &[("front", "<subnet>")]);
        assert!(
            replaced.iter().any(|fact| fact.resource == "subnet <subnet>"),
            "{replaced:?}"
        );
    }
}
