//! Everything that belongs to the networks of an account, as EC2 tells it, to compare before with after.

use anyhow::bail;
use serde_json::{Map, Value};

use super::{User, query};
use crate::aws_proxy::xml::Element;

/// The actions that list a network's parts, instances apart: a terminated one stays visible.
const ACTIONS: [&str; 12] = [
    "DescribeVpcs",
    "DescribeSubnets",
    "DescribeRouteTables",
    "DescribeInternetGateways",
    "DescribeNatGateways",
    "DescribeNetworkAcls",
    "DescribeSecurityGroups",
    "DescribeNetworkInterfaces",
    "DescribeAddresses",
    "DescribeVolumes",
    "DescribeKeyPairs",
    "DescribeVpcEndpoints",
];

impl User {
    /// All parts of all networks of the account in this region with all their fields, tags and rules: an object with one
    /// sorted list an action. Two dumps are equal exactly if nothing was added, removed or changed between them.
    pub async fn dump(&self) -> anyhow::Result<Value> {
        let mut dump = Map::new();
        for action in ACTIONS {
            let answer = self.ask(action).await?;
            let listed = answer
                .children
                .iter()
                .filter(|child| !child.name.eq_ignore_ascii_case("requestId"));
            dump.insert(action.to_owned(), Value::Array(listed.map(value).collect()));
        }
        Ok(Value::Object(dump))
    }

    async fn ask(&self, action: &str) -> anyhow::Result<Element> {
        let form = [("Action", action), ("Version", "2016-11-15")];
        let key = &self.account.user_key().access_key_id;
        let (status, answer) = query(self.account.url(), key, &self.region, "ec2", &form).await?;
        if status != 200 {
            bail!(
                "{action} failed with {status}: {}",
                answer.find("Message").map_or("", |message| &message.text)
            );
        }
        if answer.child("nextToken").is_some_and(|token| !token.text.is_empty()) {
            bail!("{action} has more than one page: a dump of the first alone would hide changes");
        }
        Ok(answer)
    }
}

/// A list for an element with items, an object for one with fields, else its text.
fn value(element: &Element) -> Value {
    if element.children.is_empty() {
        return Value::String(element.text.clone());
    }
    if element.children.iter().all(|child| child.name == "item") {
        let mut items: Vec<Value> = element.children.iter().map(value).collect();
        items.sort_by_cached_key(Value::to_string);
        return Value::Array(items);
    }
    Value::Object(
        element
            .children
            .iter()
            .map(|child| (child.name.clone(), value(child)))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_are_sorted_so_that_order_is_no_difference() {
        let parse = |source: &str| value(&Element::parse(source).unwrap());
        let dump = parse("<s><item><id>b</id><tags/></item><item><id>a</id><tags/></item></s>");
        assert_eq!(dump, json!([{"id": "a", "tags": ""}, {"id": "b", "tags": ""}]));
    }
}
