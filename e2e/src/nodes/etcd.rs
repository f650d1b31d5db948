//! The stub of the kubelets and the stacked etcd of one cluster: a separate program that receives which members run.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::authority::Authority;
use super::keys::{self, Files};
use crate::directory::Directory;
use crate::pki;
use crate::programs;
use crate::supervised::Supervised;

const START_WITHIN: Duration = Duration::from_mins(2);

/// The addresses of the program, as it prints them.
#[derive(Deserialize)]
struct Ports {
    kubelet: u16,
    control: u16,
}

/// The state of the program.
#[derive(Deserialize)]
struct Members {
    members: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    name: String,
}

/// A running stub.
pub(super) struct Etcd {
    /// The port of the kubelets of all control plane nodes.
    pub(super) kubelet_port: u16,
    control: String,
    /// Every node that ever ran a member, and whether the member still runs. The lock is held during an update of the
    /// stub, so that updates keep their order.
    members: Mutex<BTreeMap<String, bool>>,
    program: Mutex<Option<Supervised>>,
}

impl Etcd {
    pub(super) async fn start(
        directory: &Directory,
        options: &super::Options,
        name: &str,
        folder: &Path,
        files: &Files,
        api_server: SocketAddr,
    ) -> anyhow::Result<Self> {
        let authority = Authority::read(files, "etcd/ca")?;
        let server = authority.server("etcd", pki::names())?;
        let (certificate, key) = keys::write(folder, "etcd-server", &server)?;
        let port_file = folder.join("etcd-stub.ports");
        let mut command = Command::new(programs::tool("etcd-stub")?);
        command
            .arg(format!("--port-file={}", port_file.display()))
            .arg(format!("--api-server={api_server}"))
            .arg(format!("--etcd-cert={}", certificate.display()))
            .arg(format!("--etcd-key={}", key.display()))
            .arg(format!("--etcd-ca={}", folder.join("etcd/ca.crt").display()));
        let log = format!("etcd-stub-{name}");
        let mut program = Supervised::start(directory, &options.logs, &log, &command)?;
        let mut ports = None;
        program
            .ready(START_WITHIN, async || {
                ports = Some(serde_json::from_slice::<Ports>(&std::fs::read(&port_file)?)?);
                Ok(())
            })
            .await?;
        let ports = ports.context("the stub of etcd has reported no ports")?;
        let (kubelet_port, control_port) = (ports.kubelet, ports.control);
        let control = format!("http://127.0.0.1:{control_port}/members");
        Ok(Self { kubelet_port, control, members: Mutex::default(), program: Mutex::new(Some(program)) })
    }

    /// Sets whether the member on a node runs.
    pub(super) async fn set(&self, node: &str, alive: bool) -> anyhow::Result<()> {
        let mut members = self.members.lock().await;
        members.insert(node.to_owned(), alive);
        let listed: Vec<_> = members.iter().map(|(name, alive)| json!({"name": name, "alive": alive})).collect();
        let request = Request::put(&self.control).body(Full::from(serde_json::to_vec(&listed)?))?;
        let client: Client<_, Full<hyper::body::Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let response = client.request(request).await.context("tell the stub of etcd its members")?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        let text = String::from_utf8_lossy(&body);
        ensure!(status.is_success(), "the stub of etcd answers {status}: {text}");
        let known: Members = serde_json::from_slice(&body)?;
        let is_member = known.members.iter().any(|member| member.name == node);
        ensure!(is_member || !alive, "etcd does not take the member on {node}: {text}");
        Ok(())
    }

    pub(super) async fn stop(&self) -> anyhow::Result<()> {
        match self.program.lock().await.take() {
            Some(program) => program.end().await.map(drop),
            None => Ok(()),
        }
    }
}
