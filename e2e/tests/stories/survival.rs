//! What a manager survives: an API server that goes and comes back, AWS out of reach, a rotated Secret.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use capa_e2e::aws_proxy::{AccessKey, Fault, Journal, Mark};
use capa_e2e::{World, eventually};
use jiff::Timestamp;
use serde_json::json;

use super::machines::{INLINE, counts, text};
use super::scenario::{CORE, FASTER, OURS, REGION, Scenario, WITHIN};

/// Where the manager looks for the Secrets of static identities.
const IDENTITY_NAMESPACE: &str = "capa-rs-system";

#[tokio::test]
async fn a_manager_outlives_the_api_server_and_misses_nothing() -> anyhow::Result<()> {
    // A world of its own: no other test could bear this.
    let world = Arc::new(World::start().await?);
    let scenario = Scenario::in_world(&world, "api-server").await?;
    // The Lease outlives the outage on a busy machine; with the usual one, whoever leads ends after 10 s.
    let manager = scenario.environment.manager().leader_election().flag(FASTER);
    let manager = manager
        .flag("--leader-elect-lease-duration=3m")
        .flag("--leader-elect-renew-deadline=2m");
    let mut manager = manager.start().await?;
    scenario.cluster("dev").await?;
    for name in ["stays", "leaves"] {
        scenario.machine(name, "dev", INLINE).await?;
        scenario.machine_ready(name).await?;
    }
    let leaves = scenario.get(OURS, "AWSMachine", "leaves").await?;
    let id = text(&leaves, "/spec/instanceID").to_owned();
    let stays = scenario.get(OURS, "AWSMachine", "stays").await?;
    let aws = scenario.environment.aws();
    let ours = |mark: Mark| aws.journal_since(mark).except(&aws.user_key().access_key_id);

    let mark = aws.mark();
    world
        .without_api_server(async {
            scenario.user.terminate(&id).await?;
            // AWS is still listened to, and what it tells cannot be written down.
            eventually(WITHIN, "three listings", async || {
                let listings = ours(mark).of("DescribeInstances").len();
                ensure!(listings >= 3, "{listings} so far");
                Ok(())
            })
            .await
        })
        .await?;
    assert!(manager.ended()?.is_none(), "it has ended");
    assert!(ours(mark).mutating().is_empty(), "{}", ours(mark).mutating());
    scenario
        .condition("AWSMachine", "leaves", "InstanceReady", "False", "Terminated")
        .await?;

    // Every watch works: of Machines, of their Secrets' users, and of our own kinds.
    scenario.machine("comes", "dev", INLINE).await?;
    scenario.machine_ready("comes").await?;
    scenario.looked_again("stays", &manager).await?;
    scenario.begin_deletion(CORE, "Machine", "stays").await?;
    scenario.begin_deletion(CORE, "Machine", "leaves").await?;
    scenario.gone(OURS, "AWSMachine", &["stays", "leaves"]).await?;
    assert_eq!(
        scenario.mutating(),
        counts(&[("RunInstances", 3), ("TerminateInstances", 1)])
    );
    assert_eq!(scenario.terminated(), [text(&stays, "/spec/instanceID")]);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await?;
    world.stop().await
}

#[tokio::test]
async fn aws_out_of_reach_is_waited_out_without_a_stampede_afterwards() -> anyhow::Result<()> {
    outage("outage", Duration::from_secs(6), 4).await
}

mod long_stories {
    use std::time::Duration;

    #[tokio::test]
    async fn half_a_minute_without_aws_is_waited_out_without_a_stampede_afterwards() -> anyhow::Result<()> {
        super::outage("long-outage", Duration::from_secs(30), 12).await
    }
}

/// With `machines` running, AWS is out of reach for a while; meanwhile as many are asked for again, and one is deleted.
async fn outage(name: &str, lasting: Duration, machines: u32) -> anyhow::Result<()> {
    let scenario = Scenario::new(name).await?;
    let manager = scenario.manager().await?;
    scenario.cluster("dev").await?;
    scenario.machine_deployment("workers", "dev", machines).await?;
    scenario.machines_ready(usize::try_from(machines)?).await?;
    scenario.machine("leaving", "dev", INLINE).await?;
    scenario.machine_ready("leaving").await?;
    let aws = scenario.environment.aws();

    let mark = aws.mark();
    let began = Instant::now();
    let outage = aws.fault(Fault::unreachable());
    let replicas = json!({"spec": {"replicas": 2 * machines}});
    scenario.patch(CORE, "MachineDeployment", "workers", replicas).await?;
    scenario.begin_deletion(CORE, "Machine", "leaving").await?;
    eventually(lasting, "the outage to be over", async || {
        ensure!(began.elapsed() >= lasting, "it lasts");
        Ok(())
    })
    .await?;
    let running = scenario
        .machines()
        .await?
        .iter()
        .filter(|machine| is_ready(machine))
        .count();
    assert!(
        running >= usize::try_from(machines)?,
        "an outage says nothing about instances: {running} are Ready"
    );
    manager.ready().await?;
    let lost = aws.journal_since(mark).except(&aws.user_key().access_key_id);

    let mark = aws.mark();
    let (over, lasted) = (Timestamp::now(), began.elapsed());
    outage.lift();
    scenario.machines_ready(usize::try_from(2 * machines)?).await?;
    scenario.gone(OURS, "AWSMachine", &["leaving"]).await?;
    let after = aws.journal_since(mark).except(&aws.user_key().access_key_id);
    // One lookup and one launch for each machine that waits, one termination, and what all of them share.
    let waiting = usize::try_from(machines)? + 1;
    let rush = after.matching(|call| call.at.duration_since(over).as_secs_f64() < 2.0);
    assert!(rush.len() <= 2 * waiting + 12, "{} calls at once:\n{rush}", rush.len());
    bounded(&lost, waiting, lasted);
    let launched = usize::try_from(2 * machines)? + 1;
    assert_eq!(scenario.user.live_instances().await?.len(), launched - 1);
    let succeeded = scenario
        .environment
        .aws()
        .manager_journal()
        .matching(|call| !call.instance_ids.is_empty() && !call.replayed);
    assert_eq!(succeeded.of("RunInstances").len(), launched, "{succeeded}");
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

/// While nobody answers, each of those that wait is tried again with growing delays, soon no more often than every 3 s
/// (a minute, divided as all periods are here), and the store lists as it always does.
fn bounded(lost: &Journal, waiting: usize, lasted: Duration) {
    let tries = 6 + usize::try_from(lasted.as_secs() / 2).unwrap_or(usize::MAX);
    let most = (waiting + 3) * tries;
    assert!(!lost.is_empty(), "nothing was lost, so the outage was none");
    assert!(lost.len() <= most, "{} calls, not {most}:\n{lost}", lost.len());
}

fn is_ready(machine: &kube::api::DynamicObject) -> bool {
    capa_e2e::objects::condition(machine, "Ready").is_some_and(|ready| ready.status == "True")
}

#[tokio::test]
async fn a_rotated_secret_counts_at_the_next_look_and_the_old_key_rests() -> anyhow::Result<()> {
    let scenario = Scenario::new("rotation").await?;
    let aws = scenario.environment.aws();
    let (old, new) = (aws.another_key(), aws.another_key());
    let name = scenario.environment.namespace().to_owned();
    let rotate = async |key: &AccessKey| {
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": IDENTITY_NAMESPACE},
            "stringData": {"AccessKeyID": key.access_key_id, "SecretAccessKey": key.secret_access_key},
        });
        scenario.environment.apply(&secret.to_string()).await
    };
    rotate(&old).await?;
    let identity = format!(
        "{{apiVersion: {OURS}, kind: AWSClusterStaticIdentity, metadata: {{name: {name}}}, \
          spec: {{secretRef: {name}, allowedNamespaces: {{}}}}}}"
    );
    scenario.environment.apply(&identity).await?;
    let manager = scenario.environment.manager().flag(FASTER).start().await?;
    let reference = format!("  identityRef: {{kind: AWSClusterStaticIdentity, name: {name}}}");
    scenario.owned("dev", &scenario.unmanaged("dev", &reference)).await?;
    scenario.infrastructure_provisioned("dev").await?;
    for machine in ["one", "two"] {
        scenario.machine(machine, "dev", INLINE).await?;
    }
    for machine in ["one", "two"] {
        scenario.machine_ready(machine).await?;
    }
    assert!(aws.manager_journal().by(&new.access_key_id).is_empty());

    rotate(&new).await?;
    for machine in ["one", "two"] {
        scenario.looked_again(machine, &manager).await?;
    }
    // The old key may go as soon as nobody needs it: from here on any call with it would be an error.
    aws.revoke(&old.access_key_id);
    let mark = aws.mark();
    eventually(WITHIN, "three listings with the new key", async || {
        let listings = aws.journal_since(mark).by(&new.access_key_id).of("DescribeInstances");
        ensure!(listings.len() >= 3, "{} so far", listings.len());
        Ok(())
    })
    .await?;
    let one = scenario.get(OURS, "AWSMachine", "one").await?;
    scenario.begin_deletion(CORE, "Machine", "one").await?;
    scenario.gone(OURS, "AWSMachine", &["one"]).await?;
    let since = aws.journal_since(mark).except(&aws.user_key().access_key_id);
    assert!(
        since.except(&new.access_key_id).is_empty(),
        "{}",
        since.except(&new.access_key_id)
    );
    assert!(since.matching(|call| call.error.is_some()).is_empty(), "{since}");
    let followed = manager
        .metrics()
        .await?
        .sum("capa_instance_store_instances", &[("region", REGION)]);
    assert_eq!(
        followed,
        Some(2.0),
        "in one store: the other instance, and the one just terminated"
    );
    assert_eq!(
        scenario.mutating(),
        counts(&[("RunInstances", 2), ("TerminateInstances", 1)])
    );
    assert_eq!(scenario.terminated(), [text(&one, "/spec/instanceID")]);
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}
