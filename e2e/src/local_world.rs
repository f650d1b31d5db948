//! The local world: the components of a management cluster and of an AWS account, on the loopback address.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::{
    api_server::ApiServer,
    audit::{AuditLog, KubernetesWrite},
    aws_proxy::AwsProxy,
    cloud,
    cluster_api::{self, BOOTSTRAP, CONTROL_PLANE as KUBEADM_CONTROL_PLANE, CORE, Provider, Variables, through},
    directory::Directory,
    evidence, fleet,
    metrics::Metrics,
    ports::free_port,
    programs, provider,
    supervised::{Memory, Supervised},
    turn::{Turn, turn},
    wait::{http_get, world_started_in},
};

/// A running world. It ends when it is stopped or dropped, and with its process, however that ends.
pub struct LocalWorld {
    pub(crate) server: ApiServer,
    aws: Arc<AwsProxy>,
    provider: OnceCell<()>,
    fleet: OnceCell<()>,
    kubeadm: OnceCell<()>,
    /// The address of the node simulator's proxy to the endpoints of clusters.
    endpoints: SocketAddr,
    /// The processes of the world, in the order of their starts.
    pub(crate) processes: Mutex<Vec<Supervised>>,
    pub(crate) directory: Directory,
    audit: Arc<AuditLog>,
    /// The turn of the test that owns this world.
    turn: Option<Turn>,
}

impl LocalWorld {
    /// The world that all tests of this binary share, with this provider installed; the first call starts it.
    pub async fn shared() -> anyhow::Result<Arc<Self>> {
        static SHARED: OnceLock<Result<Arc<LocalWorld>, String>> = OnceLock::new();
        // The start uses its own thread and runtime, because the runtime of the calling test ends with the test.
        let start = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let world = Self::start_for(None, &[]).await?;
                world.install_provider().await?;
                Ok(Arc::new(world))
            })
        };
        let shared = tokio::task::spawn_blocking(move || {
            SHARED.get_or_init(|| start().map_err(|error: anyhow::Error| format!("{error:#}"))).clone()
        });
        shared.await?.map_err(|error| anyhow!(error))
    }

    /// Starts a world for one test: etcd, kube-apiserver, Cluster API core, moto and the AWS proxy. The start takes
    /// about ten seconds. When it fails, the logs are kept in a folder that the error names.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(&[]).await
    }

    /// Starts a world for one test, with further flags for Cluster API core, e.g. `--sync-period=20s`.
    pub async fn start_with(core_flags: &[&str]) -> anyhow::Result<Self> {
        Self::start_for(Some(turn().await), core_flags).await
    }

    async fn start_for(turn: Option<Turn>, core_flags: &[&str]) -> anyhow::Result<Self> {
        let directory = Directory::new()?;
        let endpoints = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let began = Instant::now();
        let processes = Self::processes(&directory, core_flags, endpoints).await;
        world_started_in(began.elapsed());
        Self::of(processes, endpoints, directory, turn)
    }

    /// Starts another management cluster that shares the AWS of a world, which must not end earlier.
    pub async fn start_beside(world: &Self) -> anyhow::Result<Self> {
        let turn = turn().await;
        let directory = Directory::new()?;
        let processes = Self::kubernetes(&directory, &[], world.endpoints).await;
        let processes = processes.map(|(server, processes)| (server, world.aws.clone(), processes));
        Self::of(processes, world.endpoints, directory, Some(turn))
    }

    /// Starts a world without Cluster API, for an installation by clusterctl. The world shares the AWS and the nodes of
    /// the world `beside`, if given, which must not end earlier.
    pub async fn bare(beside: Option<&Self>) -> anyhow::Result<Self> {
        let turn = turn().await;
        let directory = Directory::new()?;
        let endpoints = match beside {
            Some(world) => world.endpoints,
            None => SocketAddr::from(([127, 0, 0, 1], free_port()?)),
        };
        let processes = async {
            let Some(beside) = beside else {
                let ((server, mut processes), (aws, moto)) =
                    tokio::try_join!(ApiServer::start(&directory), cloud::start(&directory))?;
                processes.push(moto);
                return Ok((server, aws, processes));
            };
            let (server, processes) = ApiServer::start(&directory).await?;
            Ok((server, beside.aws.clone(), processes))
        };
        let processes = processes.await;
        Self::of(processes, endpoints, directory, Some(turn))
    }

    fn of(
        processes: anyhow::Result<(ApiServer, Arc<AwsProxy>, Vec<Supervised>)>,
        endpoints: SocketAddr,
        directory: Directory,
        turn: Option<Turn>,
    ) -> anyhow::Result<Self> {
        match processes {
            Ok((server, aws, processes)) => Ok(Self {
                audit: AuditLog::follow(&directory)?,
                server,
                aws,
                provider: OnceCell::new(),
                fleet: OnceCell::new(),
                kubeadm: OnceCell::new(),
                endpoints,
                processes: Mutex::new(processes.into_iter().map(|process| process.of_test(turn.as_ref())).collect()),
                directory,
                turn,
            }),
            Err(error) => {
                let kept = evidence::folder("world")?;
                evidence::copy_logs(&directory.folder("logs")?, &kept)?;
                Err(error.context(format!("start the local world (logs are kept in {})", kept.display())))
            }
        }
    }

    async fn processes(
        directory: &Directory,
        core_flags: &[&str],
        endpoints: SocketAddr,
    ) -> anyhow::Result<(ApiServer, Arc<AwsProxy>, Vec<Supervised>)> {
        let kubernetes = Self::kubernetes(directory, core_flags, endpoints);
        let ((server, mut processes), (aws, moto)) = tokio::try_join!(kubernetes, cloud::start(directory))?;
        processes.push(moto);
        Ok((server, aws, processes))
    }

    async fn kubernetes(
        directory: &Directory,
        core_flags: &[&str],
        endpoints: SocketAddr,
    ) -> anyhow::Result<(ApiServer, Vec<Supervised>)> {
        let manifests = tokio::task::spawn_blocking(|| CORE.manifests());
        let (server, mut processes) = ApiServer::start(directory).await?;
        let variables = through(endpoints);
        let core = CORE.start(directory, &server, manifests.await??, core_flags, &variables);
        processes.push(core.await?);
        Ok((server, processes))
    }

    /// A client with all permissions. The client belongs to the runtime that creates it.
    pub async fn admin(&self) -> anyhow::Result<Client> {
        self.server.admin().await
    }

    /// The kubeconfig file of an administrator, for `kubectl --kubeconfig`.
    pub fn admin_kubeconfig(&self) -> &std::path::Path {
        &self.server.admin_kubeconfig
    }

    /// A kubeconfig with a token of a ServiceAccount, which must exist.
    pub async fn service_account(&self, namespace: &str, name: &str) -> anyhow::Result<String> {
        self.server.service_account(namespace, name).await
    }

    /// The URL of the proxy to the API servers of clusters, once nodes run.
    pub fn endpoint_proxy(&self) -> String {
        format!("http://{}", self.endpoints)
    }

    /// The variables with which a program reaches the API servers of clusters.
    pub fn endpoint_variables(&self) -> [(&'static str, String); 2] {
        through(self.endpoints)
    }

    /// The AWS of this world.
    pub fn aws(&self) -> &AwsProxy {
        &self.aws
    }

    /// Installs this provider's CustomResourceDefinitions, policies and permissions, unless they are installed.
    pub async fn install_provider(&self) -> anyhow::Result<()> {
        let install = async || provider::install(&self.admin().await?).await;
        self.provider.get_or_try_init(install).await?;
        Ok(())
    }

    /// Installs what `capa-rs fleet` needs, unless it is installed.
    pub(crate) async fn install_fleet(&self) -> anyhow::Result<()> {
        let install = async || fleet::install(&self.admin().await?).await;
        self.fleet.get_or_try_init(install).await?;
        Ok(())
    }

    /// Starts the managers of Cluster API's own providers, which clusterctl has installed together with this provider.
    /// Each provider comes with the port at which the API server calls its webhooks.
    pub(crate) async fn run_installed(&self, providers: &[(&Provider, u16)]) -> anyhow::Result<()> {
        let proxy = self.endpoint_variables();
        let starts =
            providers.iter().map(|(provider, port)| provider.run(&self.directory, &self.server, *port, &[], &proxy));
        let started = futures::future::try_join_all(starts).await?;
        for process in started {
            self.keep(process);
        }
        let enforced = async || provider::enforced(&self.admin().await?).await;
        self.provider.get_or_try_init(enforced).await?;
        Ok(())
    }

    /// Starts the kubeadm providers and the nodes behind instances, for stories about whole clusters, unless they run.
    pub async fn start_kubeadm(&self) -> anyhow::Result<()> {
        let start = async || {
            let variables = self.endpoint_variables();
            for provider in [&BOOTSTRAP, &KUBEADM_CONTROL_PLANE] {
                self.start_provider(provider, provider.manifests()?, &variables).await?;
            }
            self.start_nodes()
        };
        self.kubeadm.get_or_try_init(start).await?;
        Ok(())
    }

    /// Installs a provider's manifests and starts its manager.
    pub(crate) async fn start_provider(
        &self,
        provider: &Provider,
        manifests: Vec<Value>,
        variables: &Variables,
    ) -> anyhow::Result<()> {
        let started = provider.start(&self.directory, &self.server, manifests, &[], variables);
        self.keep(started.await?);
        Ok(())
    }

    /// Kills a running manager of the world and starts it again; returns when it is ready.
    pub(crate) async fn restart(&self, program: &str) -> anyhow::Result<()> {
        let manager = {
            let mut processes = self.processes.lock();
            let position = processes.iter().position(|process| process.name() == program);
            let position = position.with_context(|| format!("{program} does not run"))?;
            processes.remove(position)
        };
        let mut manager = manager.kill_to_restart().await?.start()?;
        cluster_api::ready(&mut manager).await?;
        self.processes.lock().push(manager);
        Ok(())
    }

    /// Starts the node simulator: from now on instances become nodes.
    pub fn start_nodes(&self) -> anyhow::Result<()> {
        let logs = self.directory.folder("logs")?;
        let mut simulator = Command::new(programs::node_simulator()?);
        simulator
            .arg(format!("--aws={}", self.aws.url()))
            .arg(format!("--listen={}", self.endpoints))
            .arg(format!("--etcd={}", self.argument("etcd", "--advertise-client-urls=")?))
            .arg(format!("--logs={}", logs.display()));
        self.keep(Supervised::start(&self.directory, &logs, "node-simulator", &simulator)?);
        Ok(())
    }

    fn keep(&self, process: Supervised) {
        let mut processes = self.processes.lock();
        processes.push(process.of_test(self.turn.as_ref()));
    }

    /// Whether this provider's CustomResourceDefinitions and permissions are installed.
    pub(crate) fn has_provider(&self) -> bool {
        self.provider.initialized()
    }

    /// The metrics of Cluster API core.
    pub async fn core_metrics(&self) -> anyhow::Result<Metrics> {
        let address = self.argument(CORE.program, "--diagnostics-address=")?;
        Ok(Metrics::parse(&http_get(&format!("http://{address}/metrics")).await?))
    }

    /// The complete log of a running program of the world, e.g. `node-simulator`.
    pub fn log(&self, program: &str) -> anyhow::Result<String> {
        self.running(program, |process| Ok(std::fs::read_to_string(process.log())?))
    }

    /// Looks at a running program of the world.
    fn running<T>(&self, program: &str, look: impl FnOnce(&Supervised) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let processes = self.processes.lock();
        let process = processes.iter().find(|process| process.name() == program);
        look(process.with_context(|| format!("{program} does not run"))?)
    }

    /// What an instance has written to its console so far; empty if nothing.
    pub fn console(&self, instance_id: &str) -> anyhow::Result<String> {
        let log = self.directory.folder("logs")?.join(format!("console-{instance_id}.log"));
        Ok(std::fs::read_to_string(log).unwrap_or_default())
    }

    /// The rest of a running program's argument that begins with `prefix`.
    fn argument(&self, program: &str, prefix: &str) -> anyhow::Result<String> {
        let processes = self.processes.lock();
        let process = processes.iter().find(|process| process.name() == program);
        let argument = process.and_then(|process| process.argument(prefix));
        argument.map(str::to_owned).with_context(|| format!("{program} does not run"))
    }

    /// The CPU time of a running program of the world, e.g. `kube-apiserver`.
    pub fn cpu_time(&self, program: &str) -> anyhow::Result<Duration> {
        self.running(program, Supervised::cpu_time)
    }

    /// The memory of a running program of the world.
    pub(crate) fn memory_of(&self, program: &str) -> anyhow::Result<Memory> {
        self.running(program, Supervised::memory)
    }

    /// The writes of all ServiceAccounts so far, in the order of their answers.
    pub fn writes(&self) -> anyhow::Result<Vec<KubernetesWrite>> {
        self.audit.writes()
    }

    /// Lets writes of ServiceAccounts in this namespace wake the waits of the test on this thread.
    pub(crate) fn report_to_this_test(&self, namespace: &str) {
        self.audit.report_to_this_test(namespace);
    }

    /// The memory of each program of the world, by name.
    pub fn memory(&self) -> anyhow::Result<Vec<(String, Memory)>> {
        let processes = self.processes.lock();
        processes.iter().map(|process| Ok((process.name().to_owned(), process.memory()?))).collect()
    }

    /// Ends all programs, the last started one first, and waits for their end.
    pub async fn stop(&self) -> anyhow::Result<()> {
        let mut processes = std::mem::take(&mut *self.processes.lock());
        while let Some(process) = processes.pop() {
            let name = process.name().to_owned();
            process.end().await.with_context(|| format!("stop {name}"))?;
        }
        Ok(())
    }
}
