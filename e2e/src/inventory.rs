//! The content of an AWS account with names in place of ids, so that two accounts can be compared.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::user::Shown;

/// The fields without meaning for a comparison: ids that have no name here, times and addresses that AWS chooses, names
/// in the DNS, account numbers, and ARNs beside ids. Target groups have names that CAPA draws by lot.
const WITHOUT_MEANING: [&str; 21] = [
    "associationId",
    "routeTableAssociationId",
    "networkAclAssociationId",
    "attachmentId",
    "networkInterfaceId",
    "createTime",
    "CreatedTime",
    "privateIp",
    "privateIpAddress",
    "availableIpAddressCount",
    "DNSName",
    "CanonicalHostedZoneId",
    "CanonicalHostedZoneName",
    "CanonicalHostedZoneNameID",
    "ownerId",
    "networkInterfaceOwnerId",
    "userId",
    "OwnerAlias",
    "securityGroupArn",
    "subnetArn",
    "TargetGroupName",
];

/// The kind of classic load balancers.
const CLASSIC: &str = "classic load balancer";

/// The resources that are compared: the list, the field with the id, and the kind in our words.
const RESOURCES: [(&str, &str, &str); 13] = [
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
    ("LoadBalancerDescriptions", "LoadBalancerName", CLASSIC),
    ("networkAclSet", "networkAclId", "network ACL"),
    ("vpcEndpointSet", "vpcEndpointId", "VPC endpoint"),
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

/// The facts of an account. In them, the first text of each pair in `replaced` is replaced by the second: what is
/// special about the account, for example its number. Resources of one name are one resource here, with their number.
pub fn facts(shown: &[Shown], replaced: &[(&str, &str)]) -> BTreeSet<Fact> {
    let names = Names::of_all(shown);
    let replacements = names.replacements(replaced);
    let with_names = |text: &str| {
        let pairs = replacements.iter();
        pairs.fold(text.to_owned(), |text, (id, name)| text.replace(id, name))
    };
    let resource = |id: &str| with_names(names.0.get(id).map_or(id, String::as_str));
    let mut facts = BTreeSet::new();
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    for shown in shown {
        let mut resources: Vec<(String, &Value)> = Vec::new();
        match &shown.id {
            Some(id) => resources.push((resource(id), &shown.value)),
            None => {
                for (list, id, _) in RESOURCES {
                    resources.extend(listed(&shown.value, list, id).map(|(id, item)| (resource(&id), item)));
                }
            }
        }
        for (resource, value) in resources {
            if shown.id.is_none() {
                *numbers.entry(resource.clone()).or_default() += 1;
            }
            let mut fields = Vec::new();
            flatten("", &meaningful(value), &mut fields);
            facts.extend(fields.into_iter().map(|(field, value)| Fact {
                resource: resource.clone(),
                field,
                value: with_names(&value),
            }));
        }
    }
    facts.extend(numbers.into_iter().map(|(resource, number)| Fact {
        resource,
        field: "number".to_owned(),
        value: number.to_string(),
    }));
    facts
}

/// The ids and the fields of the resources in a list of a value.
fn listed<'a>(value: &'a Value, list: &str, id: &'static str) -> impl Iterator<Item = (String, &'a Value)> {
    items(value, list).filter_map(move |item| Some((text(item, id)?, item)))
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
            for (id, item) in shown.iter().flat_map(|shown| listed(&shown.value, list, id)) {
                names.learn(item, id, kind);
            }
        }
        names
    }

    /// The texts to replace by others, the longest first, because one may begin with another. The name of a classic
    /// load balancer is its id, and may be a part of other names.
    fn replacements(&self, further: &[(&str, &str)]) -> Vec<(String, String)> {
        let names = self.0.iter().filter(|(_, name)| !name.starts_with(CLASSIC));
        let names = names.map(|(id, name)| (id.clone(), name.clone()));
        let further = further.iter().map(|(text, by)| ((*text).to_owned(), (*by).to_owned()));
        let mut replacements: Vec<(String, String)> = names.chain(further).collect();
        replacements.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        replacements
    }

    fn learn(&mut self, item: &Value, id: String, kind: &str) {
        let name = match kind {
            "NAT gateway" => self.of(item, "subnetId"),
            "target group" => self.of_first(item, "LoadBalancerArns").zip(text(item, "Port")).map(joined),
            "listener" => self.of(item, "LoadBalancerArn").zip(text(item, "Port")).map(joined),
            _ => self.named(item),
        };
        let name = format!("{kind} {}", name.unwrap_or_else(|| "without a name".to_owned()));
        if kind == "NAT gateway" {
            self.learn_addresses(item, &name);
        }
        for other_id in ["TargetGroupName", "publicIp"].iter().filter_map(|field| text(item, field)) {
            self.0.entry(other_id).or_insert_with(|| name.clone());
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

    /// The name that a resource shows. Each VPC has a group of the name `default`, and what has no name.
    fn named(&self, item: &Value) -> Option<String> {
        let tags = items(item, "tagSet").find(|tag| text(tag, "key").as_deref() == Some("Name"));
        let mut fields = ["groupName", "LoadBalancerName"].into_iter();
        let named = fields.find_map(|field| text(item, field));
        let named = named.or_else(|| tags.and_then(|tag| text(tag, "value")));
        match (named, self.of(item, "vpcId")) {
            (Some(named), Some(vpc)) if named == "default" => Some(format!("default of {vpc}")),
            (None, Some(vpc)) => Some(format!("of {vpc}")),
            (named, _) => named,
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

/// The fields of a value with their paths. An item of a list of objects is one field, with its text.
fn flatten(path: &str, value: &Value, fields: &mut Vec<(String, String)>) {
    match value {
        Value::Object(object) if is_pair(object) => {
            let [key, value] = pair(object);
            let kind = if path == "tagSet" { "tag" } else { "attribute" };
            fields.push((format!("{kind} {key}"), value));
        }
        Value::Object(object) => {
            for (field, value) in object {
                let path = [path, field].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
                flatten(&path.join("."), value, fields);
            }
        }
        Value::Array(list) => list.iter().for_each(|item| flatten_item(path, item, fields)),
        // A list without items has the form of an empty text.
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
        Value::Object(object) if !is_pair(object) => fields.push((path.to_owned(), item.to_string())),
        _ => flatten(path, item, fields),
    }
}

/// Whether an object is a tag or an attribute: a key and its value.
fn is_pair(fields: &Map<String, Value>) -> bool {
    let mut keys: Vec<String> = fields.keys().map(|key| key.to_lowercase()).collect();
    keys.sort();
    keys == ["key", "value"]
}

fn pair(fields: &Map<String, Value>) -> [String; 2] {
    ["key", "value"].map(|wanted| {
        let found = fields.iter().find(|(key, _)| key.to_lowercase() == wanted);
        found.and_then(|(_, value)| value.as_str()).unwrap_or_default().to_owned()
    })
}

/// The rules of one permission: each has a protocol, ports, one source and a description.
fn rules(permission: &Map<String, Value>) -> Vec<String> {
    let field = |name: &str| permission.get(name).and_then(Value::as_str).unwrap_or("any");
    let what = format!("{} {}-{}", field("ipProtocol"), field("fromPort"), field("toPort"));
    let sources =
        [("groups", "groupId"), ("ipRanges", "cidrIp"), ("ipv6Ranges", "cidrIpv6"), ("prefixListIds", "prefixListId")];
    let mut rules = Vec::new();
    for (list, source) in sources {
        for item in permission.get(list).and_then(Value::as_array).into_iter().flatten() {
            let description = text(item, "description").unwrap_or_default();
            rules.push(format!("{what} from {} ({description})", text(item, source).unwrap_or_default()));
        }
    }
    rules
}

/// A value without the fields that mean nothing, at any depth.
fn meaningful(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(field, _)| !WITHOUT_MEANING.contains(&field.as_str()))
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
        let of_balancer = json!({
            "allocationId": id("eipalloc-of-balancer"), "publicIp": format!("198.51.100.{}", suffix.len()),
            "tagSet": named("balancer"),
        });
        let lists = [
            ("addressesSet", of_balancer),
            ("natGatewaySet", gateway),
            ("securityGroupInfo", group),
            ("subnetSet", subnet),
        ];
        let shown = lists.map(|(list, item)| Shown { action: list.to_owned(), id: None, value: json!({list: [item]}) });
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
        let all: Vec<String> =
            one.iter().map(|fact| format!("{}: {}: {}", fact.resource, fact.field, fact.value)).collect();
        for expected in [
            "security group api: rule: tcp 6443-6443 from Elastic IP of NAT gateway subnet front/32 ()",
            "security group api: rule: tcp 6443-6443 from security group api (itself)",
            "NAT gateway subnet front: subnetId: subnet front",
            "Elastic IP balancer: publicIp: Elastic IP balancer",
            "subnet front: tag Name: front",
            "subnet front: enabled: false",
        ] {
            assert!(all.iter().any(|fact| fact == expected), "{expected} is not in {all:#?}");
        }
    }

    #[test]
    fn a_second_resource_of_a_name_is_a_difference() {
        let mut twice = account("1");
        let second = Shown {
            action: "second".to_owned(),
            id: None,
            value: json!({"natGatewaySet": [{"natGatewayId": "nat-9", "subnetId": "subnet-1"}]}),
        };
        twice.push(second);
        let (once, twice) = (facts(&account("1"), &[]), facts(&twice, &[]));
        let more: Vec<&Fact> = twice.difference(&once).collect();
        assert!(matches!(more[..], [fact] if fact.field == "number" && fact.value == "2"), "{more:?}");
    }

    #[test]
    fn the_attributes_of_a_vpc_have_names() {
        let value = json!({"vpcId": "vpc-1", "enableDnsSupport": {"value": "true"}});
        let shown = Shown { action: "DescribeVpcAttribute".to_owned(), id: Some("vpc-1".to_owned()), value };
        let facts = facts(&[shown], &[]);
        assert!(facts.iter().any(|fact| fact.field == "enableDnsSupport.value"), "{facts:?}");
    }

    #[test]
    fn what_differs_anyway_can_be_replaced() {
        let replaced = facts(&account("1"), &[("front", "<subnet>")]);
        assert!(replaced.iter().any(|fact| fact.resource == "subnet <subnet>"), "{replaced:?}");
    }
}
