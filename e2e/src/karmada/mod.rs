//! A real Karmada control plane, and members of it that have no machines.

mod bare_cluster;
mod pods;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::Client;
use parking_lot::Mutex;
use tokio::net::TcpStream;

use crate::environment::TestEnvironment;
use crate::pki::FRONT_PROXY;
use crate::ports::free_port;
use crate::supervised::Supervised;
use crate::wait::{eventually_by_polling, http_get};
use crate::{objects, programs};

use bare_cluster::WITHOUT_ACCOUNTS;
pub use bare_cluster::{BareCluster, STEP_WITHIN};
pub use pods::PodRunner;

/// The limit for the control plane to serve: four programs start one after the other.
const READY_WITHIN: Duration = Duration::from_mins(4);

/// The group of Karmada's members, which Karmada's own API server serves: kube-apiserver hands the requests on.
const MEMBERS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: karmada-system}
---
apiVersion: v1
kind: Service
metadata: {name: karmada-aggregated-apiserver, namespace: karmada-system}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1alpha1.cluster.karmada.io}
spec:
  insecureSkipTLSVerify: true
  group: cluster.karmada.io
  groupPriorityMinimum: 2000
  version: v1alpha1
  versionPriority: 10
  service: {name: karmada-aggregated-apiserver, namespace: karmada-system, port: PORT}
";

/// A running Karmada control plane. It ends when it is dropped.
pub struct Karmada {
    api: BareCluster,
    programs: Mutex<Vec<Supervised>>,
}

impl Karmada {
    /// Starts a control plane for a test. Taints of members act within seconds, as long as nothing is healthy yet.
    pub async fn start(environment: &Arc<TestEnvironment>, name: &str) -> anyhow::Result<Self> {
        let api = BareCluster::start_as(environment, name, front_proxy, &[]).await?;
        let karmada = Self { api, programs: Mutex::default() };
        karmada.serve_members(environment, name).await?;
        karmada.call_webhooks(environment, name).await?;
        let status = [
            "--cluster-status-update-frequency=2s",
            "--cluster-success-threshold=2s",
            "--cluster-failure-threshold=5s",
            "--feature-gates=Failover=true",
            "--enable-no-execute-taint-eviction=true",
            "--graceful-eviction-timeout=2m",
            "--leader-elect=false",
        ];
        let mut manager = karmada.program("controller-manager")?;
        manager.args(status).envs(environment.world().endpoint_variables());
        karmada.run(environment, name, "controller-manager", manager).await?;
        let mut scheduler = karmada.program("scheduler")?;
        scheduler.args(["--enable-scheduler-estimator=false", "--leader-elect=false"]);
        karmada.run(environment, name, "scheduler", scheduler).await?;
        Ok(karmada)
    }

    /// The API of the control plane.
    pub fn api(&self) -> &BareCluster {
        &self.api
    }

    /// A client with all permissions.
    pub async fn client(&self) -> anyhow::Result<Client> {
        self.api.client().await
    }

    /// The API server of members, and its kind.
    async fn serve_members(&self, environment: &TestEnvironment, name: &str) -> anyhow::Result<()> {
        let server = self.api.server();
        let kubeconfig = server.admin_kubeconfig.display();
        let port = free_port()?;
        let mut command = program("aggregated-apiserver")?;
        command
            .arg(format!("--kubeconfig={kubeconfig}"))
            .arg(format!("--authentication-kubeconfig={kubeconfig}"))
            .arg(format!("--authorization-kubeconfig={kubeconfig}"))
            .arg(format!("--etcd-servers={}", server.etcd))
            .arg(format!("--tls-cert-file={}", server.pki.file("tls.crt")))
            .arg(format!("--tls-private-key-file={}", server.pki.file("tls.key")))
            .arg(format!("--secure-port={port}"))
            .arg("--bind-address=127.0.0.1");
        self.keep(environment.start(&format!("{name}-aggregated-apiserver"), &command)?);
        let client = self.client().await?;
        let definitions = programs::built_by("fleet-tools", "karmada/definitions")?;
        let mut manifests = objects::parse(&MEMBERS.replace("PORT", &port.to_string()))?;
        for file in std::fs::read_dir(definitions)? {
            manifests.extend(objects::parse(&std::fs::read_to_string(file?.path())?)?);
        }
        objects::apply_all(&client, manifests, "karmada-system").await?;
        eventually_by_polling(READY_WITHIN, "the members of a Karmada to be served", async || {
            let request = http::Request::get("/apis/cluster.karmada.io/v1alpha1/clusters").body(Vec::new())?;
            client.request_text(request).await?;
            Ok(())
        })
        .await
    }

    /// The webhooks, without which policies have no identity.
    async fn call_webhooks(&self, environment: &TestEnvironment, name: &str) -> anyhow::Result<()> {
        let server = self.api.server();
        let port = free_port()?;
        let flags = [
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", server.pki.folder.display()),
            format!("--health-probe-bind-address=127.0.0.1:{}", free_port()?),
        ];
        let mut started = environment.start(&format!("{name}-webhook"), self.program("webhook")?.args(flags))?;
        let listens = async || Ok(TcpStream::connect(("127.0.0.1", port)).await.map(drop)?);
        started.ready(READY_WITHIN, listens).await?;
        self.keep(started);
        let file = programs::built_by("fleet-tools", "karmada/webhook-configuration.yaml")?;
        let configuration = std::fs::read_to_string(file)?
            .replace("{{caBundle}}", &BASE64_STANDARD.encode(&server.pki.ca))
            .replace("https://karmada-webhook.karmada-system.svc:443", &format!("https://127.0.0.1:{port}"));
        objects::apply_all(&self.client().await?, objects::parse(&configuration)?, "").await
    }

    /// Starts a program that has a health probe, and waits until it is healthy.
    async fn run(
        &self,
        environment: &TestEnvironment,
        name: &str,
        what: &str,
        mut command: Command,
    ) -> anyhow::Result<()> {
        let health = format!("127.0.0.1:{}", free_port()?);
        command.arg(format!("--health-probe-bind-address={health}"));
        let mut started = environment.start(&format!("{name}-{what}"), &command)?;
        let healthy = async || http_get(&format!("http://{health}/healthz")).await.map(drop);
        started.ready(READY_WITHIN, healthy).await.with_context(|| format!("start Karmada's {what}"))?;
        self.keep(started);
        Ok(())
    }

    /// The command of a controller of the control plane.
    fn program(&self, name: &str) -> anyhow::Result<Command> {
        let mut command = program(name)?;
        command
            .arg(format!("--kubeconfig={}", self.api.server().admin_kubeconfig.display()))
            .arg("--metrics-bind-address=0");
        Ok(command)
    }

    fn keep(&self, program: Supervised) {
        self.programs.lock().push(program);
    }
}

/// The arguments of a kube-apiserver that hands requests on to another API server.
fn front_proxy(pki: &crate::pki::Pki) -> Vec<String> {
    vec![
        WITHOUT_ACCOUNTS.to_owned(),
        format!("--proxy-client-cert-file={}", pki.file("front-proxy.crt")),
        format!("--proxy-client-key-file={}", pki.file("front-proxy.key")),
        format!("--requestheader-client-ca-file={}", pki.file("ca.crt")),
        format!("--requestheader-allowed-names={FRONT_PROXY}"),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
    ]
}

fn program(name: &str) -> anyhow::Result<Command> {
    Ok(Command::new(programs::built_by("fleet-tools", &format!("karmada/{name}"))?))
}
