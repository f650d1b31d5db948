use std::convert::Infallible;

use capa_runtime::tasks::Tasks;
use http::{Request, Response};
use kube::client::Body;
use kube::runtime::watcher;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::testing::read;

#[test]
fn an_awscluster_publishes_the_targets_of_its_network() {
    let publishing: AWSCluster = read(
        "{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSCluster, metadata: {name: c}, spec: {}, \
          status: {network: {controlPlaneTargets: [{classicLoadBalancerName: old}, {targetGroupARN: 'arn:1'}]}}}",
    );
    let of = |arn| publishes_target_group(&publishing, arn);
    assert_eq!([of("arn:1"), of("arn:2"), of("old")], [true, false, false]);
    let silent = AWSCluster::new("c", capa_api::cluster::AWSClusterSpec::default());
    assert!(!publishes_target_group(&silent, "arn:1"));
}

/// A client of an API server that answers nothing; its caches stay empty.
fn unconnected() -> KubernetesClient {
    let service = tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
    let client = Client::new(service, "default");
    let runtime = Runtime::new(client.clone(), "test", "test", &mut Registry::default());
    let stop = CancellationToken::new();
    stop.cancel();
    let tasks = &mut Tasks::new(stop, Duration::ZERO);
    let aws_machines = cache(&runtime, tasks);
    let caches = Caches {
        clusters: cache(&runtime, tasks),
        machines: cache(&runtime, tasks),
        aws_clusters: cache(&runtime, tasks),
        machines_by_instance: aws_machines.index(|_| Vec::new()),
        aws_machines,
        aws_machine_templates: cache(&runtime, tasks),
        controller_identities: cache(&runtime, tasks),
        role_identities: cache(&runtime, tasks),
        static_identities: cache(&runtime, tasks),
        network_mappings: cache(&runtime, tasks),
        namespaces: cache(&runtime, tasks),
    };
    KubernetesClient::new(&runtime, &caches, Timing::default())
}

fn cache<K: CachedKind>(runtime: &Runtime, tasks: &mut Tasks) -> ObjectCache<K> {
    ObjectCache::start(runtime, tasks, Api::all(runtime.client.clone()), watcher::Config::default())
}

#[tokio::test]
async fn the_uptime_is_counted_from_the_start_of_the_process() {
    let began = Instant::now();
    let client = unconnected();
    let uptime = client.uptime();
    assert!(uptime <= began.elapsed(), "{uptime:?}");
    assert!(client.uptime() >= uptime);
}

#[tokio::test]
async fn a_name_that_no_secret_has_makes_no_request() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let paths = asked.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        paths.lock().push(request.uri().path().to_owned());
        let secret = json!({"metadata": {"name": "boot"}}).to_string();
        async move { Ok::<_, Infallible>(Response::new(Body::from(secret.into_bytes()))) }
    });
    let client = Client::new(service, "default");
    for name in ["../../kube-system/secrets/x", "a/b", "boot?watch=1", ""] {
        assert_eq!(secret(&client, "team-a", name).await.unwrap(), None, "{name}");
    }
    assert!(secret(&client, "team-a", "boot").await.unwrap().is_some());
    assert_eq!(*asked.lock(), ["/api/v1/namespaces/team-a/secrets/boot"]);
}
