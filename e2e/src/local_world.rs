//! The local world: everything a management cluster and an AWS account consist of, on the loopback address.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::{Context, anyhow};
use kube::Client;
use tokio::sync::OnceCell;

use crate::{
    api_server::ApiServer,
    aws_proxy::AwsProxy,
    cloud,
    cluster_api::{BOOTSTRAP, CONTROL_PLANE as KUBEADM_CONTROL_PLANE, CORE, Provider},
    directory::Directory,
    environment::TestEnvironment,
    evidence,
    metrics::Metrics,
    ports::free_port,
    programs, provider,
    supervised::{Memory, Supervised},
    turn::{Turn, turn},
    wait::http_get,
};

/// A running world. It ends when it is stopped or dropped, and with the process in whatever way that ends.
pub struct LocalWorld {
    pub(crate) server: ApiServer,
    aws: Arc<AwsProxy>,
    provider: OnceCell<()>,
    kubeadm: OnceCell<()>,
    /// Where the node simulator leads clients to the endpoints of clusters, once it runs.
    endpoints: SocketAddr,
    /// In the order in which they were started.
    pub(crate) processes: Mutex<Vec<Supervised>>,
    pub(crate) directory: Directory,
    /// That of the test whose own world it is.
    _turn: Option<Turn>,
}

impl LocalWorld {
    /// The world that all tests of this binary share; the first caller starts it.
    pub async fn shared() -> anyhow::Result<Arc<Self>> {
        static SHARED: OnceLock<Result<Arc<LocalWorld>, String>> = OnceLock::new();
        // A thread with a runtime of its own: that of the calling test ends with the test.
        let start = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(Self::start_for(None, &[])).map(Arc::new)
        };
        let shared = tokio::task::spawn_blocking(move || {
            SHARED
                .get_or_init(|| start().map_err(|error: anyhow::Error| format!("{error:#}")))
                .clone()
        });
        shared.await?.map_err(|error| anyhow!(error))
    }

    /// Starts a world of its own: etcd, kube-apiserver, Cluster API core, moto and the AWS proxy. Takes about ten
    /// seconds. When it fails, the logs are kept in a folder that the error names.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(&[]).await
    }

    /// The same with further flags for Cluster API core, e.g. `--sync-period=20s`.
    pub async fn start_with(core_flags: &[&str]) -> anyhow::Result<Self> {
        Self::start_for(Some(turn().await?), core_flags).await
    }

    async fn start_for(turn: Option<Turn>, core_flags: &[&str]) -> anyhow::Result<Self> {
        let directory = Directory::new()?;
        let endpoints = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let processes = Self::processes(&directory, core_flags, endpoints).await;
        Self::of(processes, endpoints, directory, turn)
    }

    /// Starts another management cluster, whose AWS is that of a world that must not end before.
    pub async fn start_beside(world: &Self) -> anyhow::Result<Self> {
        let turn = turn().await?;
        let directory = Directory::new()?;
        let processes = Self::kubernetes(&directory, &[], world.endpoints).await;
        let processes = processes.map(|(server, processes)| (server, world.aws.clone(), processes));
        Self::of(processes, world.endpoints, directory, Some(turn))
    }

    /// Starts a world without Cluster API, in which clusterctl is to install it. Its AWS and its nodes are those of
    /// another world, if one is given; that one must not end before.
    pub async fn bare(beside: Option<&Self>) -> anyhow::Result<Self> {
        let turn = turn().await?;
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
                server,
                aws,
                provider: OnceCell::new(),
                kubeadm: OnceCell::new(),
                endpoints,
                processes: Mutex::new(processes),
                directory,
                _turn: turn,
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
        let core = CORE.start(directory, &server, manifests.await??, core_flags, endpoints);
        processes.push(core.await?);
        Ok((server, processes))
    }

    /// A namespace and an AWS account for the test or story of this name.
    pub async fn test(self: &Arc<Self>, name: &str) -> anyhow::Result<TestEnvironment> {
        TestEnvironment::new(self.clone(), name, &[]).await
    }

    /// The same, but objects in the namespace may have fields without effect: they stand for objects that were stored
    /// before there was a policy against it.
    pub async fn test_of_stored_objects(self: &Arc<Self>, name: &str) -> anyhow::Result<TestEnvironment> {
        TestEnvironment::new(self.clone(), name, &[provider::UNSUPPORTED_FIELDS_LABEL]).await
    }

    /// A client with all permissions. It belongs to the runtime it is made on.
    pub async fn admin(&self) -> anyhow::Result<Client> {
        self.server.admin().await
    }

    /// A file for `kubectl --kubeconfig`, of an administrator.
    pub fn admin_kubeconfig(&self) -> &std::path::Path {
        &self.server.admin_kubeconfig
    }

    /// The URL of the proxy by which the API servers of clusters are reached, once nodes run.
    pub fn endpoint_proxy(&self) -> String {
        format!("http://{}", self.endpoints)
    }

    /// The AWS of this world.
    pub fn aws(&self) -> &AwsProxy {
        &self.aws
    }

    /// Installs our CustomResourceDefinitions, policies and permissions, unless that was done before.
    pub async fn install_provider(&self) -> anyhow::Result<()> {
        let install = async || provider::install(&self.admin().await?).await;
        self.provider.get_or_try_init(install).await?;
        Ok(())
    }

    /// Starts the managers of Cluster API's own providers, which clusterctl has installed together with ours, each with
    /// the port at which the API server calls its webhooks.
    pub(crate) async fn run_installed(&self, providers: &[(&Provider, u16)]) -> anyhow::Result<()> {
        let starts = providers
            .iter()
            .map(|(provider, port)| provider.run(&self.directory, &self.server, *port, &[], self.endpoints));
        let started = futures::future::try_join_all(starts).await?;
        for process in started {
            self.keep(process);
        }
        let enforced = async || provider::enforced(&self.admin().await?).await;
        self.provider.get_or_try_init(enforced).await?;
        Ok(())
    }

    /// Starts what whole clusters need, unless that was done before: the kubeadm providers, and nodes behind instances.
    pub async fn start_kubeadm(&self) -> anyhow::Result<()> {
        let start = async || {
            for provider in [&BOOTSTRAP, &KUBEADM_CONTROL_PLANE] {
                let manifests = provider.manifests()?;
                let started = provider.start(&self.directory, &self.server, manifests, &[], self.endpoints);
                self.keep(started.await?);
            }
            self.start_nodes()
        };
        self.kubeadm.get_or_try_init(start).await?;
        Ok(())
    }

    /// Starts the node simulator: instances become nodes from here on.
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
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.push(process);
    }

    /// Whether our CustomResourceDefinitions and permissions are installed.
    pub(crate) fn has_provider(&self) -> bool {
        self.provider.initialized()
    }

    /// What Cluster API core counts, as Prometheus would read it.
    pub async fn core_metrics(&self) -> anyhow::Result<Metrics> {
        let address = self.argument(CORE.program, "--diagnostics-address=")?;
        Ok(Metrics::parse(&http_get(&format!("http://{address}/metrics")).await?))
    }

    /// All that a running program of the world, e.g. `node-simulator`, has logged so far.
    pub fn log(&self, program: &str) -> anyhow::Result<String> {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        let process = processes.iter().find(|process| process.name() == program);
        let process = process.with_context(|| format!("{program} does not run"))?;
        Ok(std::fs::read_to_string(process.log())?)
    }

    /// The rest of the argument of a running program that begins with this.
    fn argument(&self, program: &str, prefix: &str) -> anyhow::Result<String> {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        let process = processes.iter().find(|process| process.name() == program);
        let argument = process.and_then(|process| process.argument(prefix));
        argument
            .map(str::to_owned)
            .with_context(|| format!("{program} does not run"))
    }

    /// The memory of each program of the world, by name.
    pub fn memory(&self) -> anyhow::Result<Vec<(String, Memory)>> {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes
            .iter()
            .map(|process| Ok((process.name().to_owned(), process.memory()?)))
            .collect()
    }

    /// Ends everything, what was started last first, and waits for it.
    pub async fn stop(&self) -> anyhow::Result<()> {
        let mut processes = std::mem::take(&mut *self.processes.lock().unwrap_or_else(PoisonError::into_inner));
        while let Some(process) = processes.pop() {
            let name = process.name().to_owned();
            process.end().await.with_context(|| format!("stop {name}"))?;
        }
        Ok(())
    }
}
