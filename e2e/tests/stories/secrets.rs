//! The search for secrets in everything that a manager leaves behind, and for the manager's role in what tenants read.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use capa_e2e::aws_proxy::{CALLER, Fault, SECRET_KEYS, Session};
use capa_e2e::{ManagerBuilder, Story, eventually, eventually_by_polling, fixtures, planted};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use serde_json::Value;

use super::machines::{INLINE, condition_of, machine};
use super::scenario::{CORE, FASTER, IDENTITY_NAMESPACE, OURS, Scenario, WITHIN, run_story, story};

/// The external id of the story's role. Only users who may read the identity may know it.
const EXTERNAL_ID: &str = "planted.external.id.8d1f52c07ab94e36";

#[test]
fn a_refusal_reaches_tenants_without_the_managers_role() -> anyhow::Result<()> {
    story("refusal", async |s| {
        s.cluster("dev").await?;
        let refusal = s.aws().fault(Fault::on("RunInstances").error("UnauthorizedOperation"));
        s.machine("refused", "dev", INLINE).await?;
        let message = s.machine_condition_false("refused", "InstanceReady", "Unauthorized").await?;
        for part in ["RunInstances", "AWSClusterControllerIdentity/default"] {
            ensure!(message.contains(part), "{part} is not in {message}");
        }
        s.event("AWSMachine", "refused", "Unauthorized").await?;
        eventually_by_polling(WITHIN, "AWS's words in the log", async || {
            ensure!(s.manager().log()?.contains(CALLER), "not yet");
            Ok(())
        })
        .await?;
        nobody_is_told_the_caller(s).await?;
        refusal.lift();
        s.machine_ready("refused").await?;
        Ok(())
    })
}

/// No object that a tenant can read names the role of the manager.
async fn nobody_is_told_the_caller(scenario: &Scenario) -> anyhow::Result<()> {
    for (api_version, kind) in
        [(OURS, "AWSMachine"), (OURS, "AWSCluster"), (CORE, "Machine"), ("events.k8s.io/v1", "Event")]
    {
        let objects = scenario.api(api_version, kind).await?.list(&ListParams::default()).await?.items;
        ensure!(!objects.is_empty(), "no {kind}");
        for object in objects {
            let text = serde_json::to_string(&object)?;
            ensure!(!text.contains(CALLER), "{kind} {}: {text}", object.name_any());
        }
    }
    Ok(())
}

mod long_stories {
    use super::*;

    #[test]
    fn a_manager_that_traces_everything_shows_no_secret() -> anyhow::Result<()> {
        nothing_shows_a_secret("secrets-traced", |manager| {
            manager
                .variable("RUST_LOG", "trace,aws_sigv4::http_request=trace,aws_smithy_runtime::client=trace")
                // Makes the AWS SDK print the form that it signs, user data included.
                .variable("LOG_SIGNABLE_BODY", "true")
        })
    }

    #[test]
    fn a_manager_at_its_highest_verbosity_shows_no_secret() -> anyhow::Result<()> {
        // The highest verbosity of the flags.
        nothing_shows_a_secret("secrets", |manager| manager.flag("-v=9"))
    }
}

fn nothing_shows_a_secret(
    name: &str,
    talkative: impl for<'a> FnOnce(ManagerBuilder<'a>) -> ManagerBuilder<'a>,
) -> anyhow::Result<()> {
    run_story(Story::new(name), async |s| {
        talkative(s.new_manager().flag(FASTER)).start().await?;
        identities(s).await?;
        s.owned_with_identity("dev", "AWSClusterRoleIdentity", s.namespace()).await?;
        s.infrastructure_provisioned("dev").await?;
        good_and_bad_lives(s).await?;
        bad_keys(s).await?;

        let left = left_behind(s).await?;
        // The sessions are read after the searched texts: the manager may start another session at any time.
        let sessions = s.aws().sessions();
        let lasting = [fixtures::JOIN_TOKEN, SECRET_KEYS, EXTERNAL_ID].map(str::to_owned);
        let hidden: Vec<String> = sessions.iter().flat_map(Session::secrets).chain(lasting).collect();
        for (what, text) in &left {
            // The journal contains the requests to AWS, and the user has written the external id into the identity.
            let may_say = what == "journal" || what.starts_with("awsclusterroleidentities.");
            let found = planted::found(text.as_bytes(), &hidden);
            ensure!(found.iter().all(|found| may_say && *found == EXTERNAL_ID), "{what} shows {found:?}");
        }
        can_find(s, &left).await?;
        can_find_sessions(s, &sessions)
    })
}

/// A role that a key assumes with an external id; named after the namespace, because identities have no namespace.
async fn identities(scenario: &Scenario) -> anyhow::Result<()> {
    let (name, aws) = (scenario.namespace(), scenario.aws());
    let role = aws.role_arn("clusters");
    aws.allow_assume_role(&role, Some(EXTERNAL_ID));
    scenario.static_identity(name, "{}", &aws.another_key()).await?;
    let spec = format!(
        "{{roleARN: \"{role}\", externalID: {EXTERNAL_ID}, allowedNamespaces: {{}}, \
          sourceIdentityRef: {{kind: AWSClusterStaticIdentity, name: {name}}}}}"
    );
    scenario.identity("AWSClusterRoleIdentity", name, &spec).await
}

/// Bootstrap data that is launched plain and compressed, refused by the manager, and refused by AWS.
async fn good_and_bad_lives(scenario: &Scenario) -> anyhow::Result<()> {
    scenario.machine("plain", "dev", INLINE).await?;
    scenario.machine("compressed", "dev", &format!("{INLINE}, uncompressedUserData: false")).await?;
    for name in ["plain", "compressed"] {
        scenario.machine_ready(name).await?;
    }
    let large = fixtures::bootstrap_secret("large", &format!("#cloud-config\n# {}", "x".repeat(16 * 1024)));
    scenario.apply(&large).await?;
    let uncompressed = format!("{INLINE}, uncompressedUserData: true");
    scenario.apply(&machine("large", "dev", &uncompressed)).await?;
    scenario.machine_condition_false("large", "BootstrapDataReady", "TooLarge").await?;
    let refusal = Fault::on("RunInstances").error("UnauthorizedOperation");
    let refusal = scenario.aws().fault(refusal);
    scenario.machine("refused", "dev", INLINE).await?;
    scenario.machine_condition_false("refused", "InstanceReady", "Unauthorized").await?;
    refusal.lift();
    scenario.machine_ready("refused").await?;
    Ok(())
}

/// Revokes and restores the key: conditions show AWS's error, not the key.
async fn bad_keys(scenario: &Scenario) -> anyhow::Result<()> {
    let aws = scenario.aws();
    let revoked = aws.another_key();
    aws.revoke(&revoked.access_key_id);
    scenario.identity_secret(scenario.namespace(), &revoked).await?;
    scenario.looked_again("plain").await?;
    scenario.machine_condition_false("plain", "IdentityReady", "CredentialsFailed").await?;
    let valid = aws.another_key();
    scenario.identity_secret(scenario.namespace(), &valid).await?;
    eventually(WITHIN, "the mended key to be used", async || {
        let plain = scenario.get(OURS, "AWSMachine", "plain").await?;
        ensure!(condition_of(&plain, "IdentityReady")?.status == "True", "not yet");
        Ok(())
    })
    .await
}

/// All objects except Secrets, by their kind and name.
async fn left_behind(scenario: &Scenario) -> anyhow::Result<BTreeMap<String, String>> {
    let mut left = BTreeMap::from([
        ("log".to_owned(), scenario.manager().log()?),
        ("metrics".to_owned(), scenario.manager().scrape().await?),
        ("journal".to_owned(), scenario.aws().journal().to_string()),
    ]);
    for (kind, objects) in scenario.environment.objects().await? {
        if kind != "secrets.core" {
            left.insert(kind, serde_json::to_string(&objects)?);
        }
    }
    for needed in ["events.core", "awsmachines.infrastructure.cluster.x-k8s.io"] {
        ensure!(left.contains_key(needed), "no {needed} among {:?}", left.keys());
    }
    let log = &left["log"];
    ensure!(log.contains("DEBUG") && log.contains("RunInstances"), "the log says little");
    Ok(left)
}

/// Checks that the same search finds each secret where it must be: otherwise the search proves nothing.
async fn can_find(scenario: &Scenario, left: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let ours = scenario.environment.objects().await?;
    let identity = scenario.environment.client();
    let identity: kube::Api<k8s_openapi::api::core::v1::Secret> = kube::Api::namespaced(identity, IDENTITY_NAMESPACE);
    let bootstrap: &Vec<DynamicObject> = ours.get("secrets.core").context("no Secrets")?;
    let dumps = [serde_json::to_value(bootstrap)?, serde_json::to_value(identity.get(scenario.namespace()).await?)?];
    let dumps = Value::from(dumps.to_vec()).to_string();
    let token = &[fixtures::JOIN_TOKEN.to_owned()];
    ensure!(planted::found(dumps.as_bytes(), token) == [fixtures::JOIN_TOKEN], "not in the Secrets");
    let keys = [SECRET_KEYS.to_owned()];
    ensure!(!planted::found(dumps.as_bytes(), &keys).is_empty(), "no key in the Secrets");

    let launches = scenario.aws().raw_launches();
    ensure!(launches.len() >= 3, "{} launches", launches.len());
    for launch in launches {
        ensure!(planted::found(&launch.body, token) == [fixtures::JOIN_TOKEN], "not in a launch");
    }
    for (what, text) in left {
        let shows = !planted::found(text.as_bytes(), &[EXTERNAL_ID.to_owned()]).is_empty();
        let says = what == "journal" || what.starts_with("awsclusterroleidentities.");
        ensure!(shows == says, "{what} shows the external id: {shows}");
    }
    Ok(())
}

/// Checks that the instances were launched with these sessions, and that the search finds their secrets in AWS's
/// answers.
fn can_find_sessions(scenario: &Scenario, sessions: &[Session]) -> anyhow::Result<()> {
    let launches = scenario.aws().manager_journal().of("RunInstances");
    for launch in launches.calls() {
        let signed_by = |session: &Session| session.access_key_id == launch.access_key_id;
        ensure!(sessions.iter().any(signed_by), "no session is known for {launch}");
    }
    for session in sessions {
        let secrets = session.secrets();
        ensure!(
            planted::found(&session.answer, &secrets) == secrets && secrets.iter().all(|secret| secret.len() > 30),
            "not in the answer for {session:?}"
        );
    }
    Ok(())
}
