//! What AWS shows of one resource at a time, for comparisons of two accounts.

use serde_json::Value;

use super::User;
use super::dump::{CLASSIC, EC2, ELBV2};

/// An action that shows more of a resource: its service, the action, the parameter that names the resource, and further
/// parameters.
type Detail = ((&'static str, &'static str), &'static str, &'static str, &'static [(&'static str, &'static str)]);

/// The resources with details: the entry of a dump that lists them, the field with their id, and their details.
const DETAILS: [(&str, &str, &[Detail]); 5] = [
    (
        "DescribeVpcs",
        "vpcId",
        &[
            (EC2, "DescribeVpcAttribute", "VpcId", &[("Attribute", "enableDnsSupport")]),
            (EC2, "DescribeVpcAttribute", "VpcId", &[("Attribute", "enableDnsHostnames")]),
        ],
    ),
    (
        "DescribeLoadBalancers 2015-12-01",
        "LoadBalancerArn",
        &[
            (ELBV2, "DescribeLoadBalancerAttributes", "LoadBalancerArn", &[]),
            (ELBV2, "DescribeListeners", "LoadBalancerArn", &[]),
            (ELBV2, "DescribeTags", "ResourceArns.member.1", &[]),
        ],
    ),
    (
        "DescribeTargetGroups 2015-12-01",
        "TargetGroupArn",
        &[
            (ELBV2, "DescribeTargetGroupAttributes", "TargetGroupArn", &[]),
            (ELBV2, "DescribeTags", "ResourceArns.member.1", &[]),
        ],
    ),
    ("DescribeListeners", "ListenerArn", &[(ELBV2, "DescribeTags", "ResourceArns.member.1", &[])]),
    (
        "DescribeLoadBalancers 2012-06-01",
        "LoadBalancerName",
        &[
            (CLASSIC, "DescribeLoadBalancerAttributes", "LoadBalancerName", &[]),
            (CLASSIC, "DescribeTags", "LoadBalancerNames.member.1", &[]),
        ],
    ),
];

/// A part of a dump: the action that has shown it, the id of the resource if the action shows one resource, and what it
/// has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The entry of the dump.
    pub action: String,
    /// The id, ARN or name of the resource.
    pub id: Option<String>,
    /// The fields.
    pub value: Value,
}

impl User {
    /// A dump, and what AWS shows of single resources: attributes, listeners, and the tags of load balancers.
    pub async fn details(&self) -> anyhow::Result<Vec<Shown>> {
        let dump = self.dump().await?;
        let mut shown: Vec<Shown> = Vec::new();
        for (action, value) in dump.as_object().into_iter().flatten() {
            shown.push(Shown { action: action.clone(), id: None, value: value.clone() });
        }
        for (listed, field, details) in DETAILS {
            let lists = shown.iter().filter(|shown| shown.action == listed);
            let ids: Vec<String> = lists.flat_map(|shown| texts(&shown.value, field)).collect();
            for id in ids {
                for ((service, version), action, parameter, further) in details {
                    let parameters = [&[(*parameter, id.as_str())], *further].concat();
                    shown.push(Shown {
                        action: (*action).to_owned(),
                        id: Some(id.clone()),
                        value: self.shown(service, version, action, &parameters).await?,
                    });
                }
            }
        }
        Ok(shown)
    }
}

/// The texts of all fields of this name, in the fields of a value and below.
fn texts(value: &Value, field: &str) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(|item| texts(item, field)).collect(),
        Value::Object(fields) => {
            let own = fields.get(field).and_then(Value::as_str).map(str::to_owned);
            let below = fields.values().flat_map(|value| texts(value, field));
            own.into_iter().chain(below).collect()
        }
        _ => Vec::new(),
    }
}
