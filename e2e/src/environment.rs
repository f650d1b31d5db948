//! The environment of one test.

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use capa_api::meta::{GROUP, VERSION};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams, TypeMeta},
};
use parking_lot::Mutex;
use serde_json::json;

use crate::{
    aws_proxy::Account,
    eventually_by_polling, evidence, fleet, left_behind,
    local_world::LocalWorld,
    manager::{Controllers, Manager},
    objects, provider,
    supervised::Supervised,
    turn::{Turn, taken, turn},
    wait::eventually,
};

/// The kinds with a namespace that this provider's managers write to.
const NAMESPACED_KINDS: [&str; 3] = ["AWSMachine", "AWSCluster", "AWSMachineTemplate"];

/// Those without a namespace whose objects a test names after its own namespace. Each manager of the world reads their
/// Secrets again and again.
const IDENTITY_KINDS: [&str; 2] = ["AWSClusterStaticIdentity", "AWSClusterRoleIdentity"];

/// A namespace and an AWS account that belong to one test. A successful test ends with
/// [`finish`](TestEnvironment::finish), as every [`Story`](crate::Story) does. If the value is dropped without it,
/// evidence is kept in a folder whose name is printed.
#[must_use = "a test that succeeded ends with finish()"]
pub struct TestEnvironment {
    world: Arc<LocalWorld>,
    client: Client,
    namespace: String,
    account: Account,
    folder: PathBuf,
    /// The number of programs that were started for the test.
    started: AtomicUsize,
    /// The managers that became ready, in the order of their starts. Managers that have ended stay in the list.
    managers: Mutex<Vec<Manager>>,
    /// The APIs of the kinds that the test has asked for, by version and kind: waits ask several times a second, and
    /// the discovery of a kind costs as much as the read of an object.
    apis: Mutex<BTreeMap<(String, String), Api<DynamicObject>>>,
    /// The environments that are finished together with this one.
    companions: Mutex<Vec<Arc<Self>>>,
    finished: AtomicBool,
    turn: Turn,
}

impl TestEnvironment {
    /// A namespace and an AWS account for the test or story with this name.
    pub async fn new(world: Arc<LocalWorld>, name: &str) -> anyhow::Result<Self> {
        let account = world.aws().account();
        Self::with_account(world, named_like(name), account).await
    }

    /// Another namespace, whose manager uses the same AWS account. Its environment is finished together with this one.
    pub async fn neighbour(&self, name: &str) -> anyhow::Result<Arc<Self>> {
        self.companion(&self.world, named_like(name), self.account.clone()).await
    }

    /// Another namespace with an account of its own. Its environment is finished together with this one.
    pub async fn stranger(&self, name: &str) -> anyhow::Result<Arc<Self>> {
        self.companion(&self.world, named_like(name), self.world.aws().account()).await
    }

    /// The namespace of the same name in another world with the same AWS. Its environment is finished together with
    /// this one, unless the test finishes it earlier.
    pub async fn in_other_world(&self, world: &Arc<LocalWorld>) -> anyhow::Result<Arc<Self>> {
        let metadata = ObjectMeta { name: Some(self.namespace.clone()), ..ObjectMeta::default() };
        self.companion(world, metadata, self.account.clone()).await
    }

    async fn companion(
        &self,
        world: &Arc<LocalWorld>,
        metadata: ObjectMeta,
        account: Account,
    ) -> anyhow::Result<Arc<Self>> {
        let companion = Arc::new(Self::with_account(world.clone(), metadata, account).await?);
        self.companions.lock().push(companion.clone());
        Ok(companion)
    }

    async fn with_account(world: Arc<LocalWorld>, metadata: ObjectMeta, account: Account) -> anyhow::Result<Self> {
        let turn = turn().await;
        let client = world.admin().await?;
        let namespace = Api::<Namespace>::all(client.clone())
            .create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() })
            .await
            .context("create a namespace for a test")?
            .name_any();
        world.report_to_this_test(&namespace);
        let folder = world.directory.folder(&namespace)?;
        Ok(Self {
            world,
            client,
            namespace,
            account,
            folder,
            started: AtomicUsize::new(0),
            managers: Mutex::default(),
            apis: Mutex::default(),
            companions: Mutex::default(),
            finished: AtomicBool::new(false),
            turn,
        })
    }

    /// The world of the environment.
    pub fn world(&self) -> &Arc<LocalWorld> {
        &self.world
    }

    /// A client with all permissions.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The AWS account: its keys, its journal, the settings of its instances.
    pub fn aws(&self) -> &Account {
        &self.account
    }

    /// The manager that was started last.
    pub fn manager(&self) -> anyhow::Result<Manager> {
        self.managers.lock().last().cloned().context("no manager was started")
    }

    pub(crate) fn keep(&self, manager: Manager) {
        self.managers.lock().push(manager);
    }

    /// Applies YAML of one or several objects, in this order, server-side. Objects without a namespace go to the
    /// test's.
    pub async fn apply(&self, yaml: &str) -> anyhow::Result<Vec<DynamicObject>> {
        let mut applied = Vec::new();
        for object in objects::parse(yaml)? {
            applied.push(objects::apply(&self.client, &object, &self.namespace).await?);
        }
        Ok(applied)
    }

    /// Applies an object like [`apply`](Self::apply), in a dry run in which schemas, policies and webhooks judge it,
    /// and unknown fields are refused.
    pub async fn apply_strictly(&self, object: &DynamicObject) -> anyhow::Result<()> {
        objects::apply_strictly(&self.client, object, &self.namespace).await
    }

    /// All objects of the namespace, and all cluster-scoped objects of this provider's group, by the name of their kind
    /// (`secrets.core`).
    pub async fn objects(&self) -> anyhow::Result<BTreeMap<String, Vec<DynamicObject>>> {
        evidence::objects(&self.client, &self.namespace).await
    }

    /// The API of a kind, e.g. `("cluster.x-k8s.io/v1beta2", "Machine")`, in the test's namespace if it has namespaces.
    pub async fn api(&self, api_version: &str, kind: &str) -> anyhow::Result<Api<DynamicObject>> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.apis.lock().get(&key) {
            return Ok(known.clone());
        }
        let types = TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() };
        let api = objects::api_of(&self.client, &types, &self.namespace).await?;
        self.apis.lock().insert(key, api.clone());
        Ok(api)
    }

    /// Deletes an object and waits until it is gone.
    pub async fn delete(&self, api_version: &str, kind: &str, name: &str, within: Duration) -> anyhow::Result<()> {
        let api = self.api(api_version, kind).await?;
        api.delete(name, &DeleteParams::default()).await.with_context(|| format!("delete {kind} {name}"))?;
        eventually(within, &format!("{kind} {name} to be gone"), async || match api.get_opt(name).await? {
            None => Ok(()),
            Some(object) => bail!("the object still exists:\n{}", objects::to_yaml(&object)?),
        })
        .await
    }

    /// Stops the managers that still run, and checks the test's leftovers. Fails if a manager does not end with
    /// success, if the leftovers show a secret or an undocumented condition, or if a call was made that no published
    /// policy allows. No evidence is kept. The Clusters of the namespace are deleted, and this provider's finalizers
    /// are removed. The namespace itself stays as long as its world, because the deletion of a namespace costs the API
    /// server more requests than most tests.
    pub async fn finish(&self) -> anyhow::Result<()> {
        if self.finished.load(Ordering::Relaxed) {
            return Ok(());
        }
        let companions = self.companions.lock().clone();
        for companion in companions {
            Box::pin(companion.finish()).await?;
        }
        let managers = self.managers.lock().clone();
        for manager in managers {
            manager.stop_if_running().await?;
        }
        self.check_what_is_left().await?;
        self.finished.store(true, Ordering::Relaxed);
        self.release_objects().await?;
        std::fs::remove_dir_all(&self.folder)?;
        Self::tell_how_long_it_took()
    }

    /// Writes the duration for the summary of `make test`, to the stream itself, because the output of a successful
    /// test is not shown.
    fn tell_how_long_it_took() -> anyhow::Result<()> {
        let thread = std::thread::current();
        // A test runs on a thread with its name, and a program on a thread called main.
        if let Some(story) = thread.name().filter(|name| *name != "main") {
            writeln!(std::io::stderr(), "took {:7.1} s  {story}", taken().as_secs_f32())?;
        }
        Ok(())
    }

    async fn check_what_is_left(&self) -> anyhow::Result<()> {
        let journal = self.account.journal().to_string();
        let mut texts = vec![("the journal of AWS calls", journal)];
        let mut objects = self.written_objects(&NAMESPACED_KINDS).await?;
        objects.extend(self.written_objects(&IDENTITY_KINDS).await?);
        for object in &objects {
            texts.push(("an object of ours", serde_json::to_string(object)?));
        }
        let events = self.api("events.k8s.io/v1", "Event").await?;
        for event in events.list(&ListParams::default()).await?.items {
            texts.push(("an event", serde_json::to_string(&event)?));
        }
        let secrets = left_behind::secrets(&self.account.sessions());
        left_behind::ensure_secrets_are_kept(&secrets, &self.folder, texts)?;
        if self.started.load(Ordering::Relaxed) > 0 {
            left_behind::ensure_conditions_are_explained(&objects)?;
            left_behind::ensure_calls_are_in_the_table(&self.account.manager_journal())?;
            left_behind::ensure_calls_are_in_the_table(&self.account.checks_journal())?;
        }
        left_behind::ensure_checks_change_nothing(&self.account.checks_journal())?;
        Ok(())
    }

    /// Deletes the Clusters, so that Cluster API has nothing left to do in the namespace, and removes this provider's
    /// finalizers from the remaining objects: the managers that would remove them have ended.
    async fn release_objects(&self) -> anyhow::Result<()> {
        if self.world.has_provider() {
            let clusters = self.api("cluster.x-k8s.io/v1beta2", "Cluster").await?;
            let all = ListParams::default();
            clusters.delete_collection(&DeleteParams::background(), &all).await?;
            for cluster in clusters.list(&all).await?.items {
                release(&clusters, &cluster).await?;
            }
            self.delete_identities().await?;
        }
        for object in self.written_objects(&NAMESPACED_KINDS).await? {
            let types = object.types.clone().unwrap_or_default();
            release(&self.api(&types.api_version, &types.kind).await?, &object).await?;
        }
        Ok(())
    }

    /// Deletes the identities that the test has named after its namespace.
    async fn delete_identities(&self) -> anyhow::Result<()> {
        for object in self.written_objects(&IDENTITY_KINDS).await? {
            let types = object.types.clone().unwrap_or_default();
            let api = self.api(&types.api_version, &types.kind).await?;
            unless_not_found(api.delete(&object.name_any(), &DeleteParams::default()).await)?;
        }
        Ok(())
    }

    /// The objects of these kinds that belong to the test; none in a world without these kinds.
    async fn written_objects(&self, kinds: &[&str]) -> anyhow::Result<Vec<DynamicObject>> {
        let mut objects = Vec::new();
        if !self.world.has_provider() {
            return Ok(objects);
        }
        let api_version = format!("{GROUP}/{VERSION}");
        let is_own = |object: &DynamicObject| {
            object.metadata.namespace.is_some() || object.name_any().starts_with(&self.namespace)
        };
        for kind in kinds {
            let listed = self.api(&api_version, kind).await?.list(&ListParams::default()).await?;
            for mut object in listed.items.into_iter().filter(is_own) {
                // The items of a list do not contain their kind.
                object.types = Some(TypeMeta { api_version: api_version.clone(), kind: (*kind).to_owned() });
                objects.push(object);
            }
        }
        Ok(objects)
    }

    /// A kubeconfig with a token of the own ServiceAccount of a manager with these controllers.
    pub(crate) async fn manager_kubeconfig(&self, controllers: Controllers) -> anyhow::Result<PathBuf> {
        let (file, (namespace, name)) = match controllers {
            Controllers::OfProvider => {
                self.world.install_provider().await?;
                ("manager.kubeconfig", (provider::NAMESPACE, provider::SERVICE_ACCOUNT))
            }
            Controllers::OfFleet => {
                self.world.install_fleet().await?;
                ("fleet.kubeconfig", fleet::SERVICE_ACCOUNT)
            }
        };
        let kubeconfig = self.world.server.service_account(namespace, name).await?;
        let path = self.folder.join(file);
        std::fs::write(&path, kubeconfig)?;
        Ok(path)
    }

    /// Runs a program for this test, with its log among the test's evidence.
    pub(crate) fn start(&self, name: &str, command: &std::process::Command) -> anyhow::Result<Supervised> {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("{name}-{number}");
        let started = Supervised::start(&self.world.directory, &self.folder, &name, command)?;
        Ok(started.of_test(Some(&self.turn)))
    }

    /// The folder for the logs of programs that belong to this test.
    pub(crate) fn logs(&self) -> &Path {
        &self.folder
    }

    /// Counts a program among those of this test.
    pub(crate) fn adopt(&self, program: Supervised) -> Supervised {
        program.of_test(Some(&self.turn))
    }

    /// Runs a program for this test to its end, which must come within a time and be a success, and returns its log.
    /// Otherwise the error contains the last lines of the log, which is among the test's evidence.
    pub async fn run(&self, name: &str, command: &std::process::Command, within: Duration) -> anyhow::Result<String> {
        let mut process = self.start(name, command)?;
        let status = eventually_by_polling(within, &format!("the end of {name}"), async || {
            process.try_wait()?.context("it still runs")
        })
        .await?;
        ensure!(status.success(), "{name} ended with {status}; {}", process.last_words());
        Ok(std::fs::read_to_string(process.log())?)
    }

    /// A new folder for evidence of this name, beside that which failed tests leave. It stays until the caller removes
    /// it.
    pub fn new_evidence(&self, name: &str) -> anyhow::Result<PathBuf> {
        evidence::folder(name)
    }

    /// Writes the logs of the world and of this test, its AWS calls and its objects to a folder, and returns the
    /// folder. Dropping an unfinished environment does the same.
    pub fn keep_evidence(&self) -> anyhow::Result<PathBuf> {
        let kept = evidence::folder(&self.namespace)?;
        evidence::copy_logs(&self.folder, &kept)?;
        evidence::copy_logs(&self.world.directory.folder("logs")?, &kept)?;
        std::fs::write(kept.join("aws-calls.txt"), self.account.journal().to_string())?;
        let kubeconfig = std::fs::read_to_string(self.world.admin_kubeconfig())?;
        evidence::write_objects(kubeconfig, self.namespace.clone(), kept.clone())?;
        Ok(kept)
    }
}

/// Removes the finalizers of this provider from an object. Their names contain its API group.
async fn release(api: &Api<DynamicObject>, object: &DynamicObject) -> anyhow::Result<()> {
    let theirs = |finalizer: &&String| !finalizer.contains(GROUP);
    let others: Vec<&String> = object.finalizers().iter().filter(theirs).collect();
    if others.len() == object.finalizers().len() {
        return Ok(());
    }
    let patch = Patch::Merge(json!({"metadata": {"finalizers": others}}));
    unless_not_found(api.patch(&object.name_any(), &PatchParams::default(), &patch).await)?;
    Ok(())
}

/// The metadata of a namespace with this name as the prefix of a generated name.
fn named_like(name: &str) -> ObjectMeta {
    ObjectMeta { generate_name: Some(format!("{name}-")), ..ObjectMeta::default() }
}

fn unless_not_found<T>(answer: kube::Result<T>) -> kube::Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        answer => answer.map(drop),
    }
}

impl Drop for TestEnvironment {
    #[expect(clippy::print_stderr, reason = "whoever reads the test's output needs the folder's name")]
    fn drop(&mut self) {
        if self.finished.load(Ordering::Relaxed) {
            return;
        }
        match self.keep_evidence() {
            Ok(folder) => {
                eprintln!("{} did not finish; its logs, AWS calls and objects: {}", self.namespace, folder.display());
            }
            Err(error) => eprintln!("{} did not finish, and its evidence is incomplete: {error:#}", self.namespace),
        }
    }
}
