//! No secret in anything that a manager leaves behind.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use capa_e2e::aws_proxy::{AccessKey, Fault, SECRET_KEYS, Session};
use capa_e2e::{Manager, ManagerBuilder, eventually, fixtures, planted};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::machines::{INLINE, condition_of, machine};
use super::scenario::{FASTER, OURS, Scenario, WITHIN};

/// Where the manager looks for the Secrets of static identities.
const IDENTITY_NAMESPACE: &str = "capa-rs-system";

/// What the role of the story asks for. Whoever may read the identity may know it, and nobody else.
const EXTERNAL_ID: &str = "planted.external.id.8d1f52c07ab94e36";

#[tokio::test]
async fn nothing_that_a_manager_leaves_behind_shows_a_secret() -> anyhow::Result<()> {
    // As talkative as it can be made by its flags.
    nothing_shows_a_secret("secrets", |manager| manager.flag("-v=9")).await
}

#[tokio::test]
async fn nothing_that_a_manager_leaves_behind_shows_a_secret_whatever_it_is_asked_to_trace() -> anyhow::Result<()> {
    nothing_shows_a_secret("secrets-traced", |manager| {
        manager
            .variable(
                "RUST_LOG",
                "trace,aws_sigv4::http_request=trace,aws_smithy_runtime::client=trace",
            )
            // Has the AWS SDK print what it signs, the whole form with its user data.
            .variable("LOG_SIGNABLE_BODY", "true")
    })
    .await
}

async fn nothing_shows_a_secret(
    name: &str,
    talkative: impl for<'a> FnOnce(ManagerBuilder<'a>) -> ManagerBuilder<'a>,
) -> anyhow::Result<()> {
    let scenario = Scenario::new(name).await?;
    let environment = &scenario.environment;
    let manager = talkative(environment.manager().flag(FASTER)).start().await?;
    let key = environment.aws().another_key();
    let name = identities(&scenario, &key).await?;
    let reference = format!("  identityRef: {{kind: AWSClusterRoleIdentity, name: {name}}}");
    scenario.owned("dev", &scenario.unmanaged("dev", &reference)).await?;
    scenario.infrastructure_provisioned("dev").await?;
    good_and_bad_lives(&scenario).await?;
    bad_keys(&scenario, &name, &manager).await?;

    let left = left_behind(&scenario, &manager).await?;
    // After what is searched: the manager may get another one at any time.
    let sessions = environment.aws().sessions();
    let lasting = [fixtures::JOIN_TOKEN, SECRET_KEYS, EXTERNAL_ID].map(str::to_owned);
    let hidden: Vec<String> = sessions.iter().flat_map(Session::secrets).chain(lasting).collect();
    for (what, text) in &left {
        // The journal is what AWS was told, and the identity is where the user has written it.
        let may_say = what == "journal" || what.starts_with("awsclusterroleidentities.");
        let found = planted::found(text.as_bytes(), &hidden);
        ensure!(
            found.iter().all(|found| may_say && *found == EXTERNAL_ID),
            "{what} shows {found:?}"
        );
    }
    can_find(&scenario, &name, &left).await?;
    can_find_sessions(&scenario, &sessions)?;
    assert!(manager.stop().await?.success());
    scenario.environment.finish().await
}

/// A role, assumed with an external id by a key; called after the namespace, because identities have none.
async fn identities(scenario: &Scenario, key: &AccessKey) -> anyhow::Result<String> {
    let environment = &scenario.environment;
    let name = environment.namespace().to_owned();
    let role = environment.aws().role_arn("clusters");
    environment.aws().allow_assume_role(&role, Some(EXTERNAL_ID));
    secret(scenario, &name, key).await?;
    let identities = format!(
        "
apiVersion: {OURS}
kind: AWSClusterStaticIdentity
metadata: {{name: {name}}}
spec: {{secretRef: {name}, allowedNamespaces: {{}}}}
---
apiVersion: {OURS}
kind: AWSClusterRoleIdentity
metadata: {{name: {name}}}
spec:
  roleARN: {role}
  externalID: {EXTERNAL_ID}
  allowedNamespaces: {{}}
  sourceIdentityRef: {{kind: AWSClusterStaticIdentity, name: {name}}}
"
    );
    environment.apply(&identities).await?;
    Ok(name)
}

async fn secret(scenario: &Scenario, name: &str, key: &AccessKey) -> anyhow::Result<()> {
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": IDENTITY_NAMESPACE},
        "stringData": {"AccessKeyID": key.access_key_id, "SecretAccessKey": key.secret_access_key},
    });
    scenario.environment.apply(&secret.to_string()).await?;
    Ok(())
}

/// Bootstrap data that is launched, plain and compressed, refused by us, and refused by AWS.
async fn good_and_bad_lives(scenario: &Scenario) -> anyhow::Result<()> {
    scenario.machine("plain", "dev", INLINE).await?;
    scenario
        .machine("compressed", "dev", &format!("{INLINE}, uncompressedUserData: false"))
        .await?;
    for name in ["plain", "compressed"] {
        scenario.machine_ready(name).await?;
    }
    let large = fixtures::bootstrap_secret("large", &format!("#cloud-config\n# {}", "x".repeat(16 * 1024)));
    scenario.environment.apply(&large).await?;
    let uncompressed = format!("{INLINE}, uncompressedUserData: true");
    scenario
        .environment
        .apply(&machine("large", "dev", &uncompressed))
        .await?;
    scenario
        .condition("AWSMachine", "large", "BootstrapDataReady", "False", "TooLarge")
        .await?;
    let refusal = Fault::on("RunInstances").error("UnauthorizedOperation");
    let refusal = scenario.environment.aws().fault(refusal);
    scenario.machine("refused", "dev", INLINE).await?;
    scenario
        .condition("AWSMachine", "refused", "InstanceReady", "False", "Unauthorized")
        .await?;
    refusal.lift();
    scenario.machine_ready("refused").await?;
    Ok(())
}

/// The key stops working, and is mended: what AWS says of it is shown, not the key.
async fn bad_keys(scenario: &Scenario, name: &str, manager: &Manager) -> anyhow::Result<()> {
    let aws = scenario.environment.aws();
    let revoked = aws.another_key();
    aws.revoke(&revoked.access_key_id);
    secret(scenario, name, &revoked).await?;
    scenario.looked_again("plain", manager).await?;
    scenario
        .condition("AWSMachine", "plain", "IdentityReady", "False", "CredentialsFailed")
        .await?;
    let valid = aws.another_key();
    secret(scenario, name, &valid).await?;
    eventually(WITHIN, "the mended key to be used", async || {
        let plain = scenario.get(OURS, "AWSMachine", "plain").await?;
        ensure!(condition_of(&plain, "IdentityReady")?.status == "True", "not yet");
        Ok(())
    })
    .await
}

/// Everything but Secrets, by what it is.
async fn left_behind(scenario: &Scenario, manager: &Manager) -> anyhow::Result<BTreeMap<String, String>> {
    let mut left = BTreeMap::from([
        ("log".to_owned(), manager.log()?),
        ("metrics".to_owned(), manager.scrape().await?),
        ("journal".to_owned(), scenario.environment.aws().journal().to_string()),
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
    ensure!(
        log.contains("DEBUG") && log.contains("RunInstances"),
        "the log says little"
    );
    Ok(left)
}

/// The same search finds each secret where it has to be, or it proves nothing.
async fn can_find(scenario: &Scenario, name: &str, left: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let ours = scenario.environment.objects().await?;
    let identity = scenario.environment.client();
    let identity: kube::Api<k8s_openapi::api::core::v1::Secret> = kube::Api::namespaced(identity, IDENTITY_NAMESPACE);
    let bootstrap: &Vec<DynamicObject> = ours.get("secrets.core").context("no Secrets")?;
    let dumps = [
        serde_json::to_value(bootstrap)?,
        serde_json::to_value(identity.get(name).await?)?,
    ];
    let dumps = Value::from(dumps.to_vec()).to_string();
    let token = &[fixtures::JOIN_TOKEN.to_owned()];
    ensure!(
        planted::found(dumps.as_bytes(), token) == [fixtures::JOIN_TOKEN],
        "not in the Secrets"
    );
    let keys = [SECRET_KEYS.to_owned()];
    ensure!(
        !planted::found(dumps.as_bytes(), &keys).is_empty(),
        "no key in the Secrets"
    );

    let launches = scenario.environment.aws().raw_launches();
    ensure!(launches.len() >= 3, "{} launches", launches.len());
    for launch in launches {
        ensure!(
            planted::found(&launch.body, token) == [fixtures::JOIN_TOKEN],
            "not in a launch"
        );
    }
    for (what, text) in left {
        let shows = !planted::found(text.as_bytes(), &[EXTERNAL_ID.to_owned()]).is_empty();
        let says = what == "journal" || what.starts_with("awsclusterroleidentities.");
        ensure!(shows == says, "{what} shows the external id: {shows}");
    }
    Ok(())
}

/// The sessions are those that instances were launched with, and the search finds their secrets in AWS's answers.
fn can_find_sessions(scenario: &Scenario, sessions: &[Session]) -> anyhow::Result<()> {
    let launches = scenario.environment.aws().manager_journal().of("RunInstances");
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
