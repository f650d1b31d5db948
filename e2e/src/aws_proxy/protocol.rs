//! The protocols of AWS's services other than the Query protocol: JSON with the action in a header, and S3.

use std::collections::BTreeMap;

use http::{HeaderMap, Method, Uri};
use serde_json::{Map, Value};

/// The part of a request that the Query protocol does not have. A call is passed on with it unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    /// A form in the body of a POST.
    #[default]
    Query,
    /// JSON in the body of a POST.
    Json {
        /// The header `X-Amz-Target`: `TrentService.DescribeKey`.
        target: String,
        /// The body.
        body: Vec<u8>,
    },
    /// S3: what is called is in the method, the path and the query.
    S3 {
        /// The method.
        method: Method,
        /// The path with the bucket, and the query.
        path: String,
        /// The body.
        body: Vec<u8>,
    },
}

/// The service of S3 in the scope of signatures.
const S3: &str = "s3";

/// The sub-resources of buckets, whose permissions have these names behind `Get` and `Put`.
const OF_BUCKETS: [(&str, &str); 5] = [
    ("acl", "BucketAcl"),
    ("location", "BucketLocation"),
    ("policy", "BucketPolicy"),
    ("policyStatus", "BucketPolicyStatus"),
    ("publicAccessBlock", "BucketPublicAccessBlock"),
];

/// The action and the parameters of a request in one of these protocols; `None` for a request in the Query protocol.
pub(super) fn read(
    service: &str,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
) -> Option<(Protocol, String, BTreeMap<String, String>)> {
    if service == S3 {
        let query = uri.query().unwrap_or_default();
        let mut parameters: BTreeMap<String, String> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let action = s3_action(method, uri.path(), &parameters);
        // The signature of a presigned URL is a secret.
        parameters.retain(|name, _| !name.starts_with("X-Amz-"));
        parameters.insert("Path".to_owned(), uri.path().to_owned());
        let protocol = Protocol::S3 { method: method.clone(), path: uri.to_string(), body: body.to_vec() };
        return Some((protocol, action, parameters));
    }
    let target = headers.get("x-amz-target")?.to_str().ok()?;
    let (_, action) = target.split_once('.')?;
    let protocol = Protocol::Json { target: target.to_owned(), body: body.to_vec() };
    Some((protocol, action.to_owned(), members(body)))
}

/// The action as its permission is named, where the name of the method alone would not tell what is read or written.
fn s3_action(method: &Method, path: &str, query: &BTreeMap<String, String>) -> String {
    let verb = match *method {
        Method::GET => "Get",
        Method::HEAD => "Head",
        Method::DELETE => "Delete",
        _ => "Put",
    };
    if let Some((_, resource)) = OF_BUCKETS.iter().find(|(name, _)| query.contains_key(*name)) {
        return format!("{verb}{resource}");
    }
    let has_object = path.trim_start_matches('/').split_once('/').is_some_and(|(_, key)| !key.is_empty());
    format!("{verb}{}", if has_object { "Object" } else { "Bucket" })
}

/// The members of a JSON object that are no objects or lists.
fn members(body: &[u8]) -> BTreeMap<String, String> {
    let object: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    object.into_iter().filter_map(|(name, value)| Some((name, text(value)?))).collect()
}

/// Whether a service answers in JSON.
pub(super) fn is_json(service: &str) -> bool {
    ["kms", "secretsmanager", "servicequotas", "ssm"].contains(&service)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The action of a request to S3.
    fn s3(method: &Method, uri: &str) -> String {
        let uri: Uri = uri.parse().unwrap();
        let (_, action, parameters) = read("s3", method, &uri, &HeaderMap::new(), b"").unwrap();
        assert_eq!(parameters["Path"], uri.path());
        action
    }

    #[test]
    fn an_action_of_s3_is_named_as_its_permission() {
        for (method, uri, action) in [
            (Method::GET, "/bucket?location", "GetBucketLocation"),
            (Method::GET, "/bucket/?acl", "GetBucketAcl"),
            (Method::GET, "/bucket?policyStatus", "GetBucketPolicyStatus"),
            (Method::GET, "/bucket?publicAccessBlock", "GetBucketPublicAccessBlock"),
            (Method::PUT, "/bucket?publicAccessBlock", "PutBucketPublicAccessBlock"),
            (Method::PUT, "/bucket", "PutBucket"),
            (Method::HEAD, "/bucket", "HeadBucket"),
            (Method::GET, "/bucket/a/key?versionId=1", "GetObject"),
            (Method::PUT, "/bucket/a/key", "PutObject"),
            (Method::DELETE, "/bucket/a/key", "DeleteObject"),
        ] {
            assert_eq!(s3(&method, uri), action, "{method} {uri}");
        }
    }

    #[test]
    fn an_action_in_json_is_read_from_its_header() {
        let mut headers = HeaderMap::new();
        let uri = Uri::from_static("/");
        let body = br#"{"KeyId": "alias/a", "Dry": true, "GrantTokens": ["x"]}"#;
        let read = |headers: &HeaderMap| read("kms", &Method::POST, &uri, headers, body);
        assert_eq!(read(&headers), None);
        headers.insert("x-amz-target", "TrentService.DescribeKey".parse().unwrap());
        let (protocol, action, parameters) = read(&headers).unwrap();
        assert_eq!(action, "DescribeKey");
        let expected = [("KeyId", "alias/a"), ("Dry", "true")];
        assert_eq!(parameters, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        let target = "TrentService.DescribeKey".to_owned();
        assert_eq!(protocol, Protocol::Json { target, body: body.to_vec() });
    }
}
