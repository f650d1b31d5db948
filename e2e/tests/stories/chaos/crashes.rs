//! A manager that is killed at critical moments. The bootstrap data of its machines is in Secrets Manager or in S3, and
//! no instance fetches it.

use capa_e2e::aws_proxy::Fault;
use capa_e2e::fixtures;

use super::super::scenario::{run_story, template};
use super::{ALL_WITHIN, ANSWER, Chaos, HIDDEN};
use capa_e2e::Story;

mod long_stories {
    use super::{BUCKET, SECRETS_MANAGER, crashes};

    #[test]
    fn a_manager_killed_in_mid_launch_never_doubles_an_instance() -> anyhow::Result<()> {
        crashes(&SECRETS_MANAGER)
    }

    #[test]
    fn a_manager_killed_with_presigned_urls_leaves_no_object() -> anyhow::Result<()> {
        crashes(&BUCKET)
    }
}

/// Where the bootstrap data is, and how many machines and kills there are.
struct Storage {
    name: &'static str,
    /// The delivery in the spec of machines.
    delivery: &'static str,
    format: &'static str,
    /// The actions that store and delete data.
    actions: [&'static str; 2],
    machines: u32,
    kills: usize,
}

const SECRETS_MANAGER: Storage = Storage {
    name: "crashes",
    delivery: "cloudInit: {}",
    format: "cloud-config",
    actions: ["CreateSecret", "DeleteSecret"],
    machines: 50,
    kills: 8,
};

/// With presigned URLs, which a repeated call has to have again.
const BUCKET: Storage = Storage {
    name: "crashes-objects",
    delivery: "ignition: {version: '3.4'}",
    format: "ignition",
    actions: ["PutObject", "DeleteObject"],
    machines: 12,
    kills: 3,
};

fn crashes(storage: &Storage) -> anyhow::Result<()> {
    let mut chaos = Chaos::new(storage.name)?;
    let (machines, kills) = (storage.machines as usize, storage.kills);
    run_story(Story::new(storage.name), async |s| {
        let aws = s.aws();
        aws.set_hidden(HIDDEN);
        let [store, delete] = storage.actions;
        for action in [store, "RunInstances", delete] {
            aws.fault(Fault::on(action).delay(ANSWER));
        }
        let bucket = format!("boot-{}", s.namespace());
        s.user.create_bucket(&bucket).await?;
        let builder = s.new_manager();
        let mut manager = builder.start().await?;
        let of_cluster = format!("  s3Bucket: {{name: {bucket}, presignedURLDuration: 1h}}");
        s.owned("dev", &s.unmanaged("dev", &of_cluster)).await?;
        s.infrastructure_provisioned("dev").await?;
        let kept = template("workers", "").replace("cloudInit: {insecureSkipSecretsManager: true}", storage.delivery);
        let data = fixtures::bootstrap_secret("workers", "#cloud-config");
        s.apply(&data.replace("format: cloud-config", &format!("format: {}", storage.format))).await?;
        s.apply(&kept).await?;
        s.apply(&fixtures::machine_deployment("workers", "dev", storage.machines)).await?;
        let mut unanswered = Vec::new();
        for _ in 0..kills {
            let at_least = chaos.moments.usize(1..=3);
            unanswered.push(s.pause_in_mid_launch(&manager, at_least).await?);
            manager.kill().await?;
            manager = builder.start().await?;
        }
        s.machines_ready_within(machines, ALL_WITHIN).await?;
        let live = s.ensure_one_instance_each().await?;
        let (launched, awsmachines) = (s.ever_launched().len(), s.machines_ever_launched().len());
        s.delete_all_machines().await?;
        let left = s.user.live_instances().await?.len();
        let secrets = s.user.secrets().await?.len() + s.user.objects(&bucket).await?.len();
        let stored = s.aws().manager_journal().of(store).len();
        let calls = s.calls();
        chaos.report(&format!(
            "{machines} machines, {kills} kills with {unanswered:?} launches unanswered, {} RunInstances \
         sent, {launched} instances launched for {awsmachines} AWSMachines, {live} live, {left} left after \
         deletion; {stored} {store} sent, {secrets} secrets left; calls: {calls:?}",
            s.aws().manager_journal().of("RunInstances").len(),
        ))?;
        assert_eq!((launched, live, left), (awsmachines, machines, 0));
        assert!(stored >= awsmachines, "{stored} secrets for {awsmachines} machines");
        assert_eq!(secrets, 0, "secrets are left");
        Ok(())
    })
}
