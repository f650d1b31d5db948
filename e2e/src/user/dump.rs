//! A dump of all network resources of an account, for comparisons of two moments.

use std::time::Duration;

use anyhow::{bail, ensure};
use serde_json::{Map, Value};

use super::{User, query};
use crate::aws_proxy::xml::Element;
use crate::wait::eventually_by_polling;

/// The signing name and the API version of EC2.
pub(super) const EC2: (&str, &str) = ("ec2", "2016-11-15");

/// The same of application and network load balancers.
pub(super) const ELBV2: (&str, &str) = ("elasticloadbalancing", "2015-12-01");

/// The same of classic load balancers.
pub(super) const CLASSIC: (&str, &str) = ("elasticloadbalancing", "2012-06-01");

/// The actions of EC2 that list the parts of networks. Instances are left out, because a terminated one stays visible.
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

/// The actions that list load balancers of both generations without their targets.
const LOAD_BALANCERS: [((&str, &str), &str); 3] =
    [(ELBV2, "DescribeLoadBalancers"), (ELBV2, "DescribeTargetGroups"), (CLASSIC, "DescribeLoadBalancers")];

/// The filter for NAT gateways in transit.
const IN_TRANSIT: [(&str, &str); 3] =
    [("Filter.1.Name", "state"), ("Filter.1.Value.1", "pending"), ("Filter.1.Value.2", "deleting")];

/// The filter for NAT gateways that are there: a deleted one stays visible for an hour.
const PRESENT: [(&str, &str); 3] =
    [("Filter.1.Name", "state"), ("Filter.1.Value.1", "available"), ("Filter.1.Value.2", "failed")];

impl User {
    /// All parts of all networks of the account in this region with all their fields, tags and rules, load balancers
    /// included: an object with the answer to each action, in which lists are sorted. NAT gateways in transit are
    /// waited for. Attributes, listeners and the tags of load balancers are not among them: see
    /// [`details`](Self::details).
    pub async fn dump(&self) -> anyhow::Result<Value> {
        eventually_by_polling(Duration::from_secs(30), "no NAT gateway to be in transit", async || {
            let listed = self.ask(EC2.0, EC2.1, "DescribeNatGateways", &IN_TRANSIT).await?;
            ensure!(listed.find("natGatewayId").is_none(), "one is");
            Ok(())
        })
        .await?;
        let mut dump = Map::new();
        for action in ACTIONS {
            let is_gateways = action == "DescribeNatGateways";
            let filter = if is_gateways { &PRESENT[..] } else { &[] };
            dump.insert(action.to_owned(), self.shown(EC2.0, EC2.1, action, filter).await?);
        }
        for ((service, version), action) in LOAD_BALANCERS {
            let shown = self.shown(service, version, action, &[]).await?;
            dump.insert(format!("{action} {version}"), shown);
        }
        Ok(Value::Object(dump))
    }

    /// The answer of an action without the fields that each answer has.
    pub(super) async fn shown(
        &self,
        service: &str,
        version: &str,
        action: &str,
        parameters: &[(&str, &str)],
    ) -> anyhow::Result<Value> {
        let mut answer = self.ask(service, version, action, parameters).await?;
        answer.children.retain(|child| !child.name.eq_ignore_ascii_case("requestId"));
        Ok(answer.child(&format!("{action}Result")).map_or_else(|| value(&answer), value))
    }

    async fn ask(
        &self,
        service: &str,
        version: &str,
        action: &str,
        filter: &[(&str, &str)],
    ) -> anyhow::Result<Element> {
        let form = [&[("Action", action), ("Version", version)], filter].concat();
        let key = &self.account.user_key().access_key_id;
        let (status, answer) = query(self.account.url(), key, &self.region, service, &form).await?;
        if status != 200 {
            bail!("{action} failed with {status}: {}", answer.find("Message").map_or("", |message| &message.text));
        }
        let tokens = ["nextToken", "NextMarker"].map(|token| answer.find(token));
        if tokens.iter().flatten().any(|token| !token.text.is_empty()) {
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
    if element.children.iter().all(|child| ["item", "member"].contains(&child.name.as_str())) {
        let mut items: Vec<Value> = element.children.iter().map(value).collect();
        items.sort_by_cached_key(Value::to_string);
        return Value::Array(items);
    }
    Value::Object(element.children.iter().map(|child| (child.name.clone(), value(child))).collect())
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
