//! The API server of a simulated cluster, and the stub of its kubelets and its etcd.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use super::addons;
use super::authority::Authority;
use super::etcd::Etcd;
use super::keys::{write, write_keys};
use super::user_data::Init;
use crate::api_server;
use crate::directory::Directory;
use crate::pki;
use crate::ports::free_port;
use crate::programs;
use crate::supervised::Supervised;

const START_WITHIN: Duration = Duration::from_mins(3);

/// A running cluster.
pub(super) struct Cluster {
    /// The endpoint that the nodes use, `host:port`.
    pub(super) endpoint: String,
    /// The address that the API server listens on.
    pub(super) address: SocketAddr,
    /// A client with all permissions.
    pub(super) admin: Client,
    /// The hash of the authority's public key.
    pub(super) authority_hash: String,
    /// The stub of stacked etcd; `None` for a cluster with external etcd.
    pub(super) etcd: Option<Etcd>,
    authority: String,
    api_server: Mutex<Option<Supervised>>,
    /// The controller of Deployments.
    deployments: AbortHandle,
}

impl Cluster {
    /// Performs `kubeadm init`: starts the API server with the keys of the user data. `name` is the name of its folder
    /// and its log.
    pub(super) async fn start(
        directory: &Directory,
        options: &super::Options,
        name: &str,
        init: &Init,
    ) -> anyhow::Result<Self> {
        let endpoint = init.endpoint.clone();
        let authority = Authority::read(&init.pki, "ca")?;
        let folder = directory.folder(&format!("clusters/{name}"))?;
        write_keys(&folder, &init.pki)?;
        let mut names = pki::names();
        names.extend(endpoint.rsplit_once(':').map(|(host, _)| host.to_owned()));
        write(&folder, "server", &authority.server("kube-apiserver", names)?)?;
        let administrator = authority.administrator()?;
        write(&folder, "kubelet-client", &administrator)?;

        let port = free_port()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let command = command(&folder, &options.etcd, name, port)?;
        let log = format!("workload-{name}");
        let mut api_server = Supervised::start(directory, &options.logs, &log, &command)?;
        let user = api_server::certificate_user(&administrator);
        let kubeconfig = api_server::kubeconfig(&format!("https://{address}"), &authority.certificate, &user);
        let admin = api_server::client(&kubeconfig).await?;
        let probe = async || {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            admin.request_text(request).await?;
            Ok(())
        };
        api_server.ready(START_WITHIN, probe).await?;
        init.configuration.store(&admin).await?;
        addons::install(&admin, &init.configuration).await?;
        let deployments = tokio::spawn(addons::run_deployments(admin.clone())).abort_handle();
        let etcd = if init.configuration.has_stacked_etcd() {
            Some(Etcd::start(directory, options, name, &folder, &init.pki, address).await?)
        } else {
            None
        };
        Ok(Self {
            endpoint,
            address,
            admin,
            authority_hash: authority.hash(),
            etcd,
            authority: authority.certificate,
            api_server: Mutex::new(Some(api_server)),
            deployments,
        })
    }

    /// Whether the API server accepts a bootstrap token.
    pub(super) async fn accepts(&self, token: &str) -> anyhow::Result<()> {
        let user = serde_json::json!({ "token": token });
        let url = format!("https://{}", self.address);
        let client = api_server::client(&api_server::kubeconfig(&url, &self.authority, &user)).await?;
        let review = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
        let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(review.as_bytes().to_vec())?;
        let answer: Value = client.request(request).await.context("the bootstrap token is refused")?;
        let groups = answer.pointer("/status/userInfo/groups").and_then(Value::as_array);
        let bootstrapper = groups.is_some_and(|groups| groups.iter().any(|group| group == "system:bootstrappers"));
        anyhow::ensure!(bootstrapper, "the token is none of a node that joins");
        Ok(())
    }

    /// Stops the API server, the controller of Deployments and the stub.
    pub(super) async fn stop(&self) -> anyhow::Result<()> {
        self.deployments.abort();
        if let Some(etcd) = &self.etcd {
            etcd.stop().await?;
        }
        if let Some(api_server) = self.api_server.lock().await.take() {
            api_server.kill().await?;
        }
        Ok(())
    }
}

fn command(folder: &Path, etcd: &str, name: &str, port: u16) -> anyhow::Result<Command> {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut command = Command::new(programs::tool("kube-apiserver")?);
    command
        .arg(format!("--etcd-servers={etcd}"))
        .arg(format!("--etcd-prefix=/clusters/{name}"))
        .arg(format!("--secure-port={port}"))
        .arg(format!("--tls-cert-file={}", file("server.crt")))
        .arg(format!("--tls-private-key-file={}", file("server.key")))
        .arg(format!("--client-ca-file={}", file("ca.crt")))
        .arg(format!("--kubelet-client-certificate={}", file("kubelet-client.crt")))
        .arg(format!("--kubelet-client-key={}", file("kubelet-client.key")))
        .arg(format!("--service-account-key-file={}", file("sa.pub")))
        .arg(format!("--service-account-signing-key-file={}", file("sa.key")))
        .args([
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            "--enable-bootstrap-token-auth=true",
            // The host names of nodes do not resolve on this host.
            "--kubelet-preferred-address-types=InternalIP",
        ]);
    Ok(command)
}
