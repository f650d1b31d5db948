//! EC2's throttling: token buckets for each action of an account in a region, with the sizes and refill rates that AWS
//! publishes (<https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html>).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::request::Request;

/// The capacity of a bucket, and its refill per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate {
    capacity: f64,
    refill: f64,
}

const fn rate(capacity: f64, refill: f64) -> Rate {
    Rate { capacity, refill }
}

/// The actions whose calls without filters and pages have a lower limit.
const COSTLY_UNFILTERED: [&str; 7] = [
    "DescribeInstances",
    "DescribeInstanceStatus",
    "DescribeNetworkInterfaces",
    "DescribeSecurityGroups",
    "DescribeSnapshots",
    "DescribeSpotInstanceRequests",
    "DescribeVolumes",
];

/// The buckets of one account.
#[derive(Debug)]
pub(super) struct Limits {
    faster: f64,
    buckets: HashMap<BucketKey, TokenBucket>,
}

/// The key of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct BucketKey {
    region: String,
    action: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Requests,
    /// Requests without filter and page size.
    Unfiltered,
    /// Instances, regardless of the number of requests.
    Resources,
}

#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    tokens: f64,
    filled_at: Instant,
}

impl Limits {
    /// Full buckets with `faster` times the refill of AWS; without any refill at zero.
    pub(super) fn new(faster: u32) -> Self {
        Self { faster: f64::from(faster), buckets: HashMap::new() }
    }

    /// Takes the tokens of the call if its buckets hold them. Returns whether the call may proceed.
    pub(super) fn admit(&mut self, request: &Request, now: Instant) -> bool {
        if request.scope.service != "ec2" {
            return true;
        }
        let kind = if is_unfiltered(request) { Kind::Unfiltered } else { Kind::Requests };
        let (instances, resource_rate) = resources(request);
        self.acquire(request, kind, request_rate(&request.action, kind), 1.0, now)
            && resource_rate.is_none_or(|rate| self.acquire(request, Kind::Resources, rate, instances, now))
    }

    fn acquire(&mut self, request: &Request, kind: Kind, rate: Rate, cost: f64, now: Instant) -> bool {
        let key = BucketKey { region: request.scope.region.clone(), action: request.action.clone(), kind };
        let full = TokenBucket { tokens: rate.capacity, filled_at: now };
        let bucket = self.buckets.entry(key).or_insert(full);
        let refilled = now.duration_since(bucket.filled_at).as_secs_f64() * rate.refill * self.faster;
        bucket.tokens = (bucket.tokens + refilled).min(rate.capacity);
        bucket.filled_at = now;
        let enough = bucket.tokens >= cost;
        if enough {
            bucket.tokens -= cost;
        }
        enough
    }
}

fn is_unfiltered(request: &Request) -> bool {
    COSTLY_UNFILTERED.contains(&request.action.as_str())
        && !request
            .parameters
            .keys()
            .any(|key| key.starts_with("Filter.") || key == "MaxResults" || key == "NextToken" || key.contains("Id."))
}

fn request_rate(action: &str, kind: Kind) -> Rate {
    match action {
        _ if kind == Kind::Unfiltered => rate(50.0, 10.0),
        "RunInstances" | "StartInstances" => rate(5.0, 2.0),
        "TerminateInstances"
        | "AssociateIamInstanceProfile"
        | "CreateNetworkInterface"
        | "CreateVolume"
        | "DeleteNetworkInterface"
        | "ModifyInstanceMetadataOptions"
        | "ModifyNetworkInterfaceAttribute" => rate(100.0, 5.0),
        "CreateTags" | "DeleteTags" => rate(100.0, 10.0),
        "CreateNatGateway" | "DeleteNatGateway" => rate(10.0, 1.0),
        "CreateVpcEndpoint" | "ModifyVpcEndpoint" | "DeleteVpcEndpoints" => rate(4.0, 0.3),
        _ if ["Describe", "Get", "List", "Search"].iter().any(|read| action.starts_with(read)) => rate(100.0, 20.0),
        _ => rate(50.0, 5.0),
    }
}

/// The shortest time in which AWS accepts this many launches, one instance each, in one account and region.
pub fn shortest_time_of_launches(launches: u32) -> Duration {
    let rate = request_rate("RunInstances", Kind::Requests);
    Duration::from_secs_f64((f64::from(launches) - rate.capacity).max(0.0) / rate.refill)
}

/// The number of instances that a call names or launches, and the rate of their bucket.
fn resources(request: &Request) -> (f64, Option<Rate>) {
    let listed = request.parameters.keys().filter(|key| key.starts_with("InstanceId."));
    let listed = f64::from(u32::try_from(listed.count()).unwrap_or(u32::MAX));
    match request.action.as_str() {
        "RunInstances" => {
            let wanted = request.parameter("MaxCount").and_then(|count| count.parse().ok());
            (wanted.unwrap_or(1.0), Some(rate(1000.0, 2.0)))
        }
        "StartInstances" => (listed, Some(rate(1000.0, 2.0))),
        "StopInstances" | "TerminateInstances" => (listed, Some(rate(1000.0, 20.0))),
        _ => (0.0, None),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::protocol::Protocol;
    use super::super::request::CredentialScope;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn request(action: &str, parameters: &[(&str, &str)]) -> Request {
        let scope = CredentialScope { region: "eu-west-1".into(), service: "ec2".into(), ..CredentialScope::default() };
        Request {
            scope,
            action: action.to_owned(),
            parameters: parameters
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect::<BTreeMap<_, _>>(),
            protocol: Protocol::Query,
        }
    }

    /// The number of concurrent calls that full buckets admit, and the number of further calls after a second.
    fn admitted(action: &str, parameters: &[(&str, &str)], faster: u32) -> (usize, usize) {
        let start = Instant::now();
        let mut limits = Limits::new(faster);
        let request = request(action, parameters);
        let mut count = |now| (0..2000).filter(|_| limits.admit(&request, now)).count();
        (count(start), count(start + SECOND))
    }

    #[test]
    fn each_action_has_the_published_bucket() {
        let filter = [("Filter.1.Name", "vpc-id")];
        assert_eq!(admitted("RunInstances", &[], 1), (5, 2));
        assert_eq!(admitted("TerminateInstances", &[("InstanceId.1", "i-1")], 1), (100, 5));
        assert_eq!(admitted("CreateTags", &[], 1), (100, 10));
        assert_eq!(admitted("DescribeInstances", &filter, 1), (100, 20));
        assert_eq!(admitted("DescribeInstances", &[], 1), (50, 10));
        assert_eq!(admitted("DescribeInstances", &[("InstanceId.1", "i-1")], 1), (100, 20));
        assert_eq!(admitted("DescribeSubnets", &[], 1), (100, 20));
        assert_eq!(admitted("CreateVpc", &[], 1), (50, 5));
        assert_eq!(admitted("RunInstances", &[], 2), (5, 4), "twice as fast");
        assert_eq!(admitted("RunInstances", &[], 0), (5, 0), "never");
    }

    #[test]
    fn the_shortest_time_of_launches_is_what_the_buckets_allow() {
        for (launches, seconds) in [(1, 0.0), (5, 0.0), (6, 0.5), (100, 47.5)] {
            assert_eq!(shortest_time_of_launches(launches), Duration::from_secs_f64(seconds), "{launches}");
        }
        let start = Instant::now();
        let mut limits = Limits::new(1);
        let launch = request("RunInstances", &[]);
        while limits.admit(&launch, start) {}
        assert!(limits.admit(&launch, start + shortest_time_of_launches(6)));
        assert!(!limits.admit(&launch, start + shortest_time_of_launches(6)));
    }

    #[test]
    fn instances_are_limited_across_requests() {
        let start = Instant::now();
        let mut limits = Limits::new(1);
        assert!(limits.admit(&request("RunInstances", &[("MaxCount", "999")]), start));
        assert!(!limits.admit(&request("RunInstances", &[("MaxCount", "2")]), start));
        assert!(limits.admit(&request("RunInstances", &[("MaxCount", "1")]), start));
        assert!(!limits.admit(&request("RunInstances", &[("MaxCount", "3")]), start + SECOND));
        assert!(limits.admit(&request("RunInstances", &[("MaxCount", "2")]), start + SECOND));
    }

    #[test]
    fn regions_and_actions_of_ec2_have_buckets_of_their_own() {
        let now = Instant::now();
        let mut limits = Limits::new(1);
        let launch = request("RunInstances", &[]);
        while limits.admit(&launch, now) {}
        let mut elsewhere = launch.clone();
        elsewhere.scope.region = "us-east-1".into();
        assert!(limits.admit(&elsewhere, now));
        assert!(limits.admit(&request("StartInstances", &[]), now));
        let mut other_service = launch;
        other_service.scope.service = "sts".into();
        assert!(limits.admit(&other_service, now));
    }
}
