//! etcd, kube-apiserver, and the controllers of kube-controller-manager that Cluster API needs.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Context;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use crate::{
    audit,
    directory::Directory,
    pki::{Issued, Pki},
    ports::free_port,
    programs,
    supervised::Supervised,
    wait::http_get,
};

/// The limit for a busy machine with cold disk caches; the start usually takes a tenth of this.
const START_WITHIN: Duration = Duration::from_mins(3);

/// The controllers of kube-controller-manager that run.
const CONTROLLERS: [&str; 4] = [
    "namespace-controller",
    "garbage-collector-controller",
    "clusterrole-aggregation-controller",
    "validatingadmissionpolicy-status-controller",
];

/// The program of API servers.
const API_SERVER: &str = "kube-apiserver";

/// The prefix of the argument that names etcd's data folder.
pub(crate) const DATA_FLAG: &str = "--data-dir=";

/// The lifetime of ServiceAccount tokens: longer than any test run.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// What sets one API server and its controllers apart from others.
pub(crate) struct Shape<'a> {
    /// Further arguments of kube-apiserver.
    pub(crate) arguments: fn(&Pki) -> Vec<String>,
    /// Controllers of kube-controller-manager beside those that every API server has.
    pub(crate) controllers: &'a [&'a str],
    /// The beginning of the names of the programs and their logs.
    pub(crate) prefix: &'a str,
}

/// The shape of the API server of a world.
const OF_WORLD: Shape<'static> = Shape { arguments: |_| Vec::new(), controllers: &[], prefix: "" };

/// The running Kubernetes API of a world.
pub(crate) struct ApiServer {
    /// The certificates of the world; its webhooks use the same serving certificate.
    pub(crate) pki: Pki,
    /// `https://127.0.0.1:<port>`.
    pub(crate) url: String,
    /// A kubeconfig file of an administrator.
    pub(crate) admin_kubeconfig: PathBuf,
    /// The URL of etcd.
    pub(crate) etcd: String,
}

impl ApiServer {
    /// Starts etcd, kube-apiserver and kube-controller-manager; returns them in this order when the API is ready.
    pub(crate) async fn start(directory: &Directory) -> anyhow::Result<(Self, Vec<Supervised>)> {
        Self::start_as(directory, &directory.folder("logs")?, &OF_WORLD).await
    }

    /// The same with a shape, and with the logs in another folder.
    pub(crate) async fn start_as(
        directory: &Directory,
        logs: &Path,
        shape: &Shape<'_>,
    ) -> anyhow::Result<(Self, Vec<Supervised>)> {
        let pki = Pki::generate(directory)?;
        let port = free_port()?;
        let url = format!("https://127.0.0.1:{port}");
        let admin_kubeconfig = directory.write("admin.kubeconfig", admin_kubeconfig(&url, &pki))?;
        let named = |program: &str| format!("{}{program}", shape.prefix);
        let (etcd, etcd_url) = start_etcd(directory, logs, &named("etcd")).await?;
        let server = Self { pki, url, admin_kubeconfig, etcd: etcd_url };
        let mut command = server.command(directory, port)?;
        command.args((shape.arguments)(&server.pki));
        let mut api = Supervised::start(directory, logs, &named(API_SERVER), &command)?;
        server.ready(&mut api).await?;
        let command = server.controllers_command(shape.controllers)?;
        let controllers = Supervised::start(directory, logs, &named("kube-controller-manager"), &command)?;
        Ok((server, vec![etcd, api, controllers]))
    }

    /// Waits until kube-apiserver serves.
    pub(crate) async fn ready(&self, process: &mut Supervised) -> anyhow::Result<()> {
        let client = self.admin().await?;
        let probe = async || {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            client.request_text(request).await?;
            Ok(())
        };
        process.ready(START_WITHIN, probe).await
    }

    fn command(&self, directory: &Directory, port: u16) -> anyhow::Result<Command> {
        let mut command = Command::new(programs::tool(API_SERVER)?);
        command
            .arg(format!("--etcd-servers={}", self.etcd))
            .arg(format!("--secure-port={port}"))
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"])
            .arg(format!("--tls-cert-file={}", self.pki.file("tls.crt")))
            .arg(format!("--tls-private-key-file={}", self.pki.file("tls.key")))
            .arg(format!("--client-ca-file={}", self.pki.file("ca.crt")))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg(format!("--service-account-key-file={}", self.pki.file("sa.pub")))
            .arg(format!("--service-account-signing-key-file={}", self.pki.file("sa.key")))
            .args(audit::flags(directory)?)
            .args(["--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC", "--allow-privileged=true"]);
        Ok(command)
    }

    /// The command of kube-controller-manager with `more` controllers and the four that every API server has: deletion
    /// of namespaces, garbage collection by owner references, aggregation of ClusterRoles, and type checks of admission
    /// policies. Without the first three, Cluster API leaves objects behind or lacks permissions.
    fn controllers_command(&self, more: &[&str]) -> anyhow::Result<Command> {
        let controllers = [&CONTROLLERS, more].concat();
        let mut command = Command::new(programs::tool("kube-controller-manager")?);
        command
            .arg(format!("--kubeconfig={}", self.admin_kubeconfig.display()))
            .arg(format!("--controllers={}", controllers.join(",")))
            .arg(format!("--secure-port={}", free_port()?))
            .args(["--bind-address=127.0.0.1", "--leader-elect=false", "--use-service-account-credentials=false"]);
        Ok(command)
    }

    /// A client with all permissions. The client belongs to the runtime that creates it.
    pub(crate) async fn admin(&self) -> anyhow::Result<Client> {
        client(&admin_kubeconfig(&self.url, &self.pki)).await
    }

    /// A kubeconfig with a fresh token of a ServiceAccount, which must exist.
    pub(crate) async fn service_account(&self, namespace: &str, name: &str) -> anyhow::Result<String> {
        let request = TokenRequest {
            spec: TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() },
            ..TokenRequest::default()
        };
        let answer = Api::<ServiceAccount>::namespaced(self.admin().await?, namespace)
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("get a token for ServiceAccount {namespace}/{name}"))?;
        let token = answer.status.context("the API server granted no token")?.token;
        Ok(kubeconfig(&self.url, &self.pki.ca, &json!({ "token": token })))
    }
}

async fn start_etcd(directory: &Directory, logs: &Path, name: &str) -> anyhow::Result<(Supervised, String)> {
    let (clients, peers) = (format!("http://127.0.0.1:{}", free_port()?), format!("http://127.0.0.1:{}", free_port()?));
    let mut command = Command::new(programs::tool("etcd")?);
    command
        .arg(format!("{DATA_FLAG}{}", directory.path().join("etcd").display()))
        .arg(format!("--listen-client-urls={clients}"))
        .arg(format!("--advertise-client-urls={clients}"))
        .arg(format!("--listen-peer-urls={peers}"))
        .arg(format!("--initial-advertise-peer-urls={peers}"))
        .arg(format!("--initial-cluster=default={peers}"))
        // The data of a test need not survive a crash of the machine.
        .args(["--unsafe-no-fsync", "--log-level=warn"]);
    let mut etcd = Supervised::start(directory, logs, name, &command)?;
    etcd.ready(START_WITHIN, async || http_get(&format!("{clients}/health")).await.map(drop)).await?;
    Ok((etcd, clients))
}

/// A client for the user of a kubeconfig. The client belongs to the runtime that creates it.
pub(crate) async fn client(kubeconfig: &str) -> anyhow::Result<Client> {
    let config =
        Config::from_custom_kubeconfig(Kubeconfig::from_yaml(kubeconfig)?, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

fn admin_kubeconfig(url: &str, pki: &Pki) -> String {
    kubeconfig(url, &pki.ca, &certificate_user(&pki.admin))
}

/// The kubeconfig entry of a user with a client certificate.
pub(crate) fn certificate_user(issued: &Issued) -> Value {
    json!({
        "client-certificate-data": BASE64_STANDARD.encode(&issued.certificate),
        "client-key-data": BASE64_STANDARD.encode(&issued.key),
    })
}

/// A kubeconfig for the server at `url`, whose certificate was issued by the authority `ca` (PEM).
pub(crate) fn kubeconfig(url: &str, ca: &str, user: &Value) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "world",
            "cluster": { "server": url, "certificate-authority-data": BASE64_STANDARD.encode(ca) },
        }],
        "users": [{ "name": "user", "user": user }],
        "contexts": [{ "name": "world", "context": { "cluster": "world", "user": "user" } }],
        "current-context": "world",
    })
    .to_string()
}
