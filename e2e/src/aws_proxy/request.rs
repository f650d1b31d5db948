//! Parses requests: the credential, the service, the action, the parameters.

use std::collections::BTreeMap;

use http::{HeaderMap, Method, Uri, header};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::answer::Refusal;
use super::protocol::{self, Protocol};

/// The credential scope of a request's signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CredentialScope {
    pub(super) access_key_id: String,
    pub(super) region: String,
    pub(super) service: String,
    /// Whether the signature is in the URL, which somebody else may use than who signed it.
    pub(super) by_url: bool,
}

/// A call.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) scope: CredentialScope,
    pub(super) action: String,
    /// The decoded form, including `Action`; for other protocols what is comparable to it.
    pub(super) parameters: BTreeMap<String, String>,
    pub(super) protocol: Protocol,
}

/// One `Filter.N` of a describe call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) name: String,
    pub(super) values: Vec<String>,
}

impl CredentialScope {
    /// Reads the credential of a SigV4 header: `AWS4-HMAC-SHA256
    /// Credential=<key>/<day>/<region>/<service>/aws4_request, …`. A presigned URL has the credential in its query.
    pub(super) fn read(headers: &HeaderMap, uri: &Uri) -> Option<Self> {
        let Some(header) = headers.get(header::AUTHORIZATION) else {
            let credential = in_query(uri, "X-Amz-Credential")?;
            let scope = Self::parse(&credential)?;
            return Some(Self { by_url: true, ..scope });
        };
        let parts = header.to_str().ok()?.strip_prefix("AWS4-HMAC-SHA256")?;
        let credential = parts.split(',').find_map(|part| part.trim().strip_prefix("Credential="))?;
        Self::parse(credential)
    }

    fn parse(credential: &str) -> Option<Self> {
        let mut fields = credential.split('/');
        let access_key_id = fields.next()?.to_owned();
        let _day = fields.next()?;
        let region = fields.next()?.to_owned();
        let service = fields.next()?.to_owned();
        (fields.next() == Some("aws4_request")).then_some(Self { access_key_id, region, service, by_url: false })
    }
}

/// A parameter in the query of a URL.
fn in_query(uri: &Uri, name: &str) -> Option<String> {
    let mut query = form_urlencoded::parse(uri.query()?.as_bytes());
    query.find_map(|(key, value)| (key == name).then(|| value.into_owned()))
}

/// Whether a presigned URL can be used now.
fn is_valid_now(uri: &Uri) -> bool {
    let from = in_query(uri, "X-Amz-Date").and_then(|date| DateTime::strptime("%Y%m%dT%H%M%SZ", date).ok());
    let from = from.and_then(|from| from.to_zoned(TimeZone::UTC).ok());
    let seconds = in_query(uri, "X-Amz-Expires").and_then(|seconds| seconds.parse::<i64>().ok());
    from.zip(seconds).is_some_and(|(from, seconds)| {
        let age = Timestamp::now().as_second() - from.timestamp().as_second();
        (0..seconds).contains(&age)
    })
}

impl Request {
    /// Parses a request. A request that the emulated AWS does not support is refused as AWS would refuse it.
    pub(super) fn read(method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Result<Self, Refusal> {
        let scope = CredentialScope::read(headers, uri).ok_or_else(|| {
            Refusal::new(403, "MissingAuthenticationToken", "the request has no SigV4 Authorization header")
        })?;
        if scope.by_url && !is_valid_now(uri) {
            return Err(Refusal::new(403, "AccessDenied", "Request has expired"));
        }
        if let Some((protocol, action, parameters)) = protocol::read(&scope.service, method, uri, headers, body) {
            return Ok(Self { scope, action, parameters, protocol });
        }
        if method != Method::POST {
            return Err(Refusal::new(405, "InvalidHttpRequest", "only signed POST requests are served"));
        }
        let parameters: BTreeMap<String, String> = form_urlencoded::parse(body).into_owned().collect();
        match parameters.get("Action") {
            Some(action) => Ok(Self { scope, action: action.clone(), parameters, protocol: Protocol::Query }),
            None => Err(Refusal::new(400, "MissingAction", "the form in the body names no Action")),
        }
    }

    /// A parameter; `None` where it is absent or empty.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The subnet of a launch.
    pub(super) fn subnet(&self) -> Option<&str> {
        self.parameter("SubnetId").or_else(|| self.parameter("NetworkInterface.1.SubnetId"))
    }

    /// The instances that the request names by id.
    pub(super) fn instance_ids(&self) -> impl Iterator<Item = &str> {
        let named = self.parameters.iter().filter(|(key, _)| key.starts_with("InstanceId."));
        named.map(|(_, id)| id.as_str())
    }

    /// Removes the filters with these names from the request; the remaining filters are renumbered.
    pub(super) fn take_filters(&mut self, names: &[&str]) -> Vec<Filter> {
        let mut filters: BTreeMap<usize, Filter> = BTreeMap::new();
        self.parameters.retain(|key, value| {
            let Some((number, field)) = key.strip_prefix("Filter.").and_then(|rest| rest.split_once('.')) else {
                return true;
            };
            let Ok(number) = number.parse() else { return true };
            let filter = filters.entry(number).or_insert_with(|| Filter { name: String::new(), values: Vec::new() });
            if field == "Name" {
                filter.name.clone_from(value);
            } else {
                filter.values.push(value.clone());
            }
            false
        });
        let (taken, kept): (Vec<_>, Vec<_>) =
            filters.into_values().partition(|filter| names.contains(&filter.name.as_str()));
        for (index, filter) in kept.into_iter().enumerate() {
            self.parameters.insert(format!("Filter.{}.Name", index + 1), filter.name);
            for (value_index, value) in filter.values.into_iter().enumerate() {
                self.parameters.insert(format!("Filter.{}.Value.{}", index + 1, value_index + 1), value);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed() -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::AUTHORIZATION,
            "AWS4-HMAC-SHA256 Credential=AKIAX/20260101/eu-west-1/ec2/aws4_request, SignedHeaders=host, Signature=0"
                .parse()
                .unwrap(),
        );
        headers
    }

    fn read(method: &Method, headers: &HeaderMap, body: &[u8]) -> Result<Request, Refusal> {
        Request::read(method, &Uri::from_static("/"), headers, body)
    }

    #[test]
    fn the_scope_and_the_decoded_form_are_read() {
        let request = read(&Method::POST, &signed(), b"Action=DescribeVpcs&VpcId.1=vpc-1%2B2").unwrap();
        assert_eq!(request.action, "DescribeVpcs");
        assert_eq!(
            request.scope,
            CredentialScope {
                access_key_id: "AKIAX".into(),
                region: "eu-west-1".into(),
                service: "ec2".into(),
                by_url: false,
            }
        );
        assert_eq!(request.parameter("VpcId.1"), Some("vpc-1+2"));
    }

    #[test]
    fn requests_without_signature_form_or_action_are_refused() {
        let code = |method, headers: &HeaderMap, body: &[u8]| read(&method, headers, body).unwrap_err().code;
        assert_eq!(code(Method::POST, &HeaderMap::new(), b"Action=X"), "MissingAuthenticationToken");
        assert_eq!(code(Method::GET, &signed(), b"Action=X"), "InvalidHttpRequest");
        assert_eq!(code(Method::POST, &signed(), b"Version=1"), "MissingAction");
    }

    #[test]
    fn a_presigned_url_counts_until_its_time_is_over() {
        let date = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let get = |seconds: u32| {
            let url = format!(
                "/bucket/key?X-Amz-Credential=AKIAX%2F20260101%2Feu-west-1%2Fs3%2Faws4_request&X-Amz-Date={date}\
                 &X-Amz-Expires={seconds}&X-Amz-Signature=0"
            );
            Request::read(&Method::GET, &url.parse().unwrap(), &HeaderMap::new(), b"")
        };
        let request = get(60).unwrap();
        assert_eq!(request.action, "GetObject");
        assert!(request.scope.by_url);
        assert_eq!(request.parameters.keys().collect::<Vec<_>>(), ["Path"], "no signature");
        assert_eq!(get(0).unwrap_err().code, "AccessDenied");
    }

    #[test]
    fn taking_a_filter_closes_the_gap_it_leaves() {
        let body = b"Action=D&Filter.1.Name=client-token&Filter.1.Value.1=t\
            &Filter.2.Name=vpc-id&Filter.2.Value.1=a&Filter.2.Value.2=b";
        let mut request = read(&Method::POST, &signed(), body).unwrap();
        let taken = request.take_filters(&["client-token", "instance-state-name"]);
        assert_eq!(taken, [Filter { name: "client-token".into(), values: vec!["t".into()] }]);
        let left: Vec<_> = request.parameters.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(left, ["Action=D", "Filter.1.Name=vpc-id", "Filter.1.Value.1=a", "Filter.1.Value.2=b"]);
    }
}
