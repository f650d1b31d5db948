//! A server that speaks the protocols of AWS and returns the answers of a test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::AppendHeaders;
use capa_cloud::{CloudError, ClusterKey, CredentialSource, InstanceState, MachineKey, ResolvedIdentity, Timing};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::{AccessKey, Options, SessionPool, iam_actions};

pub(super) const REGION: &str = "us-test-1";
/// The cluster of all machines.
pub(super) const CLUSTER: &str = "dev";

/// The sub-resources of a bucket in the queries of S3, and the permissions to read them.
const OF_BUCKETS: [(&str, &str); 4] = [
    ("acl", "GetBucketAcl"),
    ("location", "GetBucketLocation"),
    ("policyStatus", "GetBucketPolicyStatus"),
    ("publicAccessBlock", "GetBucketPublicAccessBlock"),
];

/// The methods of S3 that change objects.
const OF_OBJECTS: [(Method, &str); 2] = [(Method::PUT, "PutObject"), (Method::DELETE, "DeleteObject")];

/// A call received over the wire.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) action: String,
    pub(super) path: String,
    pub(super) form: BTreeMap<String, String>,
    pub(super) headers: HeaderMap,
}

impl Call {
    /// Reads a call in the query protocol, in JSON with the action in a header, or of S3.
    fn read(method: &Method, uri: &Uri, headers: HeaderMap, body: &str) -> Self {
        let target = headers.get("x-amz-target").map(|target| target.to_str().unwrap());
        let target = target.and_then(|target| target.split_once('.'));
        let (action, form) = if let Some((_, action)) = target {
            (action.to_owned(), json_form(body))
        } else if method == Method::GET {
            let query: BTreeMap<String, String> =
                form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
            let action = OF_BUCKETS.iter().find(|(resource, _)| query.contains_key(*resource));
            (action.map(|(_, action)| (*action).to_owned()).unwrap_or_default(), query)
        } else if let Some((_, action)) = OF_OBJECTS.iter().find(|(of, _)| of == method) {
            ((*action).to_owned(), BTreeMap::from([("Body".to_owned(), body.to_owned())]))
        } else {
            let form: BTreeMap<String, String> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
            (form.get("Action").cloned().unwrap_or_default(), form)
        };
        let path = uri.path().to_owned();
        Self { action, path, form, headers }
    }

    pub(super) fn field(&self, name: &str) -> &str {
        self.form.get(name).map_or("", String::as_str)
    }

    /// The access key that the call is signed with.
    pub(super) fn access_key(&self) -> &str {
        self.credential_scope().first().copied().unwrap_or_default()
    }

    /// The service that the call is signed for.
    pub(super) fn service(&self) -> &str {
        self.credential_scope().get(3).copied().unwrap_or_default()
    }

    /// The region that the call is signed for.
    pub(super) fn region(&self) -> &str {
        self.credential_scope().get(2).copied().unwrap_or_default()
    }

    /// Access key, date, region and service.
    fn credential_scope(&self) -> Vec<&str> {
        let authorization = self.header("authorization");
        let scope = authorization.split("Credential=").nth(1).unwrap_or_default();
        scope.split('/').collect()
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The values of the first filter.
    pub(super) fn filter_values(&self) -> Vec<&str> {
        let values = self.form.iter().filter(|(name, _)| name.starts_with("Filter.1.Value"));
        values.map(|(_, value)| value.as_str()).collect()
    }
}

/// The members of a JSON object. Members that are not strings are in JSON.
fn json_form(body: &str) -> BTreeMap<String, String> {
    let members: BTreeMap<String, serde_json::Value> = serde_json::from_str(body).unwrap();
    let text = |value: serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    members.into_iter().map(|(name, value)| (name, text(value))).collect()
}

/// Status and body.
pub(super) type Answer = (u16, String);

pub(super) struct Fake {
    url: String,
    calls: Arc<Mutex<Vec<Call>>>,
    server: JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Fake {
    /// A server that answers every call as the launch of one instance, `i-1`.
    pub(super) async fn that_launches() -> Self {
        Self::start(|_| {
            let item = instance_xml("i-1", InstanceState::Pending);
            answer("RunInstances", &format!("<instancesSet>{item}</instancesSet>"), None)
        })
        .await
    }

    pub(super) async fn start(answer: impl Fn(&Call) -> Answer + Clone + Send + Sync + 'static) -> Self {
        let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
        let journal = calls.clone();
        let serve = move |method: Method, uri: Uri, headers: HeaderMap, body: String| async move {
            let call = Call::read(&method, &uri, headers, &body);
            journal.lock().push(call.clone());
            let (status, body) = match iam_actions::called(call.service(), &call.action) {
                Some(_) => answer(&call),
                None => ec2_error(400, "NotInTheTable", "capa_aws::iam_actions lacks this call"),
            };
            // Like S3, the fake also returns the region of a bucket that lies in another region in a header.
            let region = body.split_once("<Region>").and_then(|(_, rest)| rest.split_once("</Region>"));
            let header = region.map(|(region, _)| ("x-amz-bucket-region", region.to_owned()));
            (StatusCode::from_u16(status).unwrap(), AppendHeaders(header), body)
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = axum::serve(listener, Router::new().fallback(serve));
        let server = tokio::spawn(async move { server.await.unwrap() });
        Self { url, calls, server }
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }

    pub(super) fn calls_of(&self, action: &str) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.action == action).collect()
    }

    pub(super) async fn pool(&self) -> SessionPool {
        self.pool_and_metrics().await.0
    }

    pub(super) async fn pool_and_metrics(&self) -> (SessionPool, Registry) {
        pool(options(&self.url, &self.url, fast())).await
    }

    /// A pool with AWS's own timing.
    pub(super) async fn pool_in_real_time(&self) -> (SessionPool, Registry) {
        pool(options(&self.url, &self.url, Timing::default())).await
    }

    /// A pool in which a second of AWS's request rates takes an hour. A call without an immediate turn gets none during
    /// a test, however slow the test is.
    pub(super) async fn pool_with_an_hour_a_second(&self) -> (SessionPool, Registry) {
        let timing = Timing { rate_second: Duration::from_hours(1), ..Timing::default() };
        pool(options(&self.url, &self.url, timing)).await
    }

    /// A pool whose STS does not exist.
    pub(super) async fn pool_without_sts(&self) -> SessionPool {
        pool(options(&self.url, "http://127.0.0.1:1", fast())).await.0
    }

    /// The pool of a process that leads until the given time.
    pub(super) async fn pool_leading(&self, until: watch::Receiver<Option<Instant>>) -> SessionPool {
        let options = Options { leads_until: Some(until), ..options(&self.url, &self.url, fast()) };
        pool(options).await.0
    }
}

/// A timing with a listing interval of 600 ms, a poll every 50 ms, and 600 ms for late registrations.
fn fast() -> Timing {
    Timing { late_registration: Duration::from_millis(600), ..Timing::default().with_periods_divided_by(100) }
}

fn options(ec2: &str, sts: &str, timing: Timing) -> Options {
    Options {
        service_endpoints: format!(
            "{REGION}:ec2={ec2},elasticloadbalancing={ec2},sts={sts},iam={ec2},kms={ec2},s3={ec2},servicequotas={ec2},\
             secretsmanager={ec2},ssm={ec2}"
        )
        .parse()
        .unwrap(),
        timing,
        controller_key: Some(AccessKey {
            id: "AKIACONTROLLER".to_owned(),
            secret: "controller-secret".to_owned().into(),
        }),
        ..Options::default()
    }
}

async fn pool(options: Options) -> (SessionPool, Registry) {
    let mut registry = Registry::default();
    (SessionPool::new(options, &mut registry).await, registry)
}

/// A static identity; its access key is made of its name.
pub(super) fn identity(name: &str) -> ResolvedIdentity {
    ResolvedIdentity {
        key: name.to_owned(),
        source: CredentialSource::Static {
            access_key_id: format!("AKIA{name}"),
            secret_access_key: "static-secret".to_owned().into(),
            session_token: None,
        },
        cluster: ClusterKey::default(),
        is_for_one_cluster: false,
    }
}

pub(super) fn role(arn: &str, source: CredentialSource) -> CredentialSource {
    CredentialSource::Role {
        role_arn: arn.to_owned(),
        session_name: "capa-rs-default-test".to_owned(),
        external_id: Some("external-secret".to_owned()),
        duration_seconds: 900,
        inline_policy: Some("{\"Statement\":[]}".to_owned()),
        policy_arns: vec!["arn:aws:iam::aws:policy/One".to_owned(), "arn:aws:iam::aws:policy/Two".to_owned()],
        source: Box::new(source),
    }
}

pub(super) fn machine(name: &str) -> MachineKey {
    MachineKey { namespace: "default".to_owned(), name: name.to_owned() }
}

/// Makes a call at the time that the provider's rate limits allow, like a reconciler.
pub(super) async fn at_its_turn<T>(call: impl AsyncFn() -> Result<T, CloudError>) -> Result<T, CloudError> {
    loop {
        match call().await {
            Err(CloudError { retry_after: Some(turn), .. }) => tokio::time::sleep(turn).await,
            answer => return answer,
        }
    }
}

/// Waits until `condition` holds.
pub(super) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_mins(2);
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(super) fn answer(action: &str, content: &str, next: Option<&str>) -> Answer {
    let next = next.map(|token| format!("<nextToken>{token}</nextToken>")).unwrap_or_default();
    let body = format!("<{action}Response><requestId>r</requestId>{content}{next}</{action}Response>");
    (200, body)
}

pub(super) fn instance_xml(id: &str, state: InstanceState) -> String {
    format!(
        "<item><instanceId>{id}</instanceId><instanceState><name>{state}</name></instanceState>\
         <placement><availabilityZone>us-test-1a</availabilityZone></placement>\
         <launchTime>2026-01-02T03:04:05.000Z</launchTime>\
         <tagSet><item><key>Name</key><value>node</value></item>\
         <item><key>MachineName</key><value>default/{id}</value></item>\
         <item><key>sigs.k8s.io/cluster-api-provider-aws/cluster/{CLUSTER}</key>\
         <value>owned</value></item></tagSet></item>"
    )
}

pub(super) fn instances(instances: &[(&str, InstanceState)], next: Option<&str>) -> Answer {
    let items: String = instances.iter().map(|(id, state)| instance_xml(id, *state)).collect();
    let content = format!("<reservationSet><item><instancesSet>{items}</instancesSet></item></reservationSet>");
    answer("DescribeInstances", &content, next)
}

pub(super) fn ec2_error(status: u16, code: &str, message: &str) -> Answer {
    let error = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
    (status, format!("<Response><Errors>{error}</Errors><RequestID>r</RequestID></Response>"))
}

pub(super) fn sts_error(status: u16, code: &str, message: &str) -> Answer {
    let error = format!("<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>");
    (status, format!("<ErrorResponse>{error}<RequestId>r</RequestId></ErrorResponse>"))
}

/// A session whose access key is made of the role's name.
pub(super) fn session(call: &Call) -> Answer {
    let role = call.field("RoleArn").rsplit('/').next().unwrap_or_default().to_owned();
    let credentials = format!(
        "<Credentials><AccessKeyId>ASIA{role}</AccessKeyId><SecretAccessKey>session-secret</SecretAccessKey>\
         <SessionToken>token-of-{role}</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials>"
    );
    let result = format!("<AssumeRoleResult>{credentials}</AssumeRoleResult>");
    (200, format!("<AssumeRoleResponse>{result}</AssumeRoleResponse>"))
}

pub(super) fn caller_identity() -> Answer {
    let result = "<GetCallerIdentityResult><Account>123456789012</Account></GetCallerIdentityResult>";
    (200, format!("<GetCallerIdentityResponse>{result}</GetCallerIdentityResponse>"))
}
