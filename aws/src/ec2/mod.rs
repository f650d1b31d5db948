//! Calls of EC2: one file for each resource, with its call and the conversion of the answer to the types of `cloud`.

mod capacity_reservation;
mod dhcp_options;
mod dry_run;
mod elastic_ip;
mod host;
mod image;
mod instance;
mod instance_type;
mod internet_gateway;
mod key_pair;
mod launch;
mod launch_options;
mod managed;
mod nat_gateway;
mod network_acl;
mod network_interface;
mod placement_group;
mod region;
mod route_table;
mod security_group;
mod subnet;
mod tag;
mod updates;
mod vpc;
mod vpc_endpoint;
mod zone;

use std::collections::BTreeMap;

use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::{config, types};
use capa_cloud::Query;
use jiff::Timestamp;

use crate::sdk::call_runner::CallRunner;

pub(crate) use dry_run::DryRunCalls;
pub(crate) use managed::{is_owned, only_vpc};

/// Items in a page. AWS limits calls without pagination more strictly.
const PAGE_SIZE: i32 = 1000;
/// DescribeRouteTables and DescribeInstanceTypes return at most this many items per page.
const SMALL_PAGE_SIZE: i32 = 100;

/// EC2 with one identity in one region.
#[derive(Clone)]
pub(crate) struct Ec2Calls {
    client: aws_sdk_ec2::Client,
    runner: CallRunner,
}

impl Ec2Calls {
    pub(crate) fn new(client: aws_sdk_ec2::Client, runner: CallRunner) -> Self {
        Self { client, runner }
    }

    /// The runner of the calls.
    pub(crate) fn runner(&self) -> &CallRunner {
        &self.runner
    }
}

/// The filters of a query; `None` if it has no filters.
fn filters(query: &Query) -> Option<Vec<types::Filter>> {
    let filters = query
        .filters
        .iter()
        .map(|(name, values)| types::Filter::builder().name(name).set_values(Some(values.clone())).build());
    Some(filters.collect::<Vec<_>>()).filter(|filters| !filters.is_empty())
}

/// The settings of a call that the SDK does not retry.
fn once() -> config::Builder {
    config::Config::builder().retry_config(RetryConfig::disabled())
}

fn text(text: Option<&str>) -> String {
    text.unwrap_or_default().to_owned()
}

fn tags(tags: &[types::Tag]) -> BTreeMap<String, String> {
    let tags = tags.iter().filter_map(|tag| Some((tag.key()?.to_owned(), text(tag.value()))));
    tags.collect()
}

/// EC2 writes some absent values as empty texts.
fn some_text(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The same time as a timestamp; `None` if it is outside the range of timestamps.
fn timestamp(time: &aws_smithy_types::DateTime) -> Option<Timestamp> {
    let nanoseconds = i32::try_from(time.subsec_nanos()).ok()?;
    Timestamp::new(time.secs(), nanoseconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_query_sends_no_filter() {
        assert_eq!(filters(&Query::default()), None);
        let query = Query::filter("vpc-id", ["vpc-1"]).and("tag-key", ["a", "b"]);
        assert_eq!(filters(&query).map(|filters| filters.len()), Some(2));
    }
}
