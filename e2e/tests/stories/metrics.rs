//! The metrics of a working manager, and the users who may read them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use capa_e2e::{Metrics, Story, eventually_by_polling};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::AuthInfo;
use kube::{Api, Client, Config};

use super::machines::INLINE;
use super::scenario::{FASTER, OURS, Scenario, WITHIN, run_story};

const DOCUMENT: &str = include_str!("../../../docs/metrics.md");

/// The metrics that appear with their first sample.
const AT_NEED: [&str; 2] = ["capa_aws_throttle_wait_seconds", "capa_instances_without_machine"];

/// The type and the labels of each metric.
type Families = BTreeMap<String, (String, BTreeSet<String>)>;

#[test]
fn a_manager_at_work_serves_exactly_the_documented_metrics() -> anyhow::Result<()> {
    run_story(Story::new("metrics"), async |s| {
        let manager = s.new_manager().leader_election().flag(FASTER);
        let manager = manager.start().await?;
        s.cluster("dev").await?;
        s.machine("counted", "dev", INLINE).await?;
        s.machine_ready("counted").await?;
        // Gauges follow the caches of the manager.
        let text = eventually_by_polling(WITHIN, "one ready machine in the metrics", async || {
            let text = manager.scrape().await?;
            counts_one_ready_machine(&Metrics::parse(&text))?;
            Ok(text)
        })
        .await?;
        let documented = documented()?;
        let types = |families: &Families| -> BTreeMap<String, String> {
            families.iter().map(|(name, (kind, _))| (name.clone(), kind.clone())).collect()
        };
        let served = served(&text)?;
        let mut expected = types(&documented);
        expected.retain(|name, _| !AT_NEED.contains(&name.as_str()) || served.contains_key(name));
        assert_eq!(types(&served), expected, "name and type of each metric");
        for (name, (_, labels)) in served {
            let (_, documented) = &documented[&name];
            assert!(labels.is_empty() || labels == *documented, "{name} has the labels {labels:?}");
        }

        for object in ["dev", "counted", s.namespace()] {
            assert!(!text.contains(&format!("\"{object}\"")), "{object} is a label");
        }
        s.delete(OURS, "AWSMachine", "counted").await
    })
}

#[test]
fn metrics_are_served_with_tls_to_authorized_readers_only() -> anyhow::Result<()> {
    run_story(Story::new("scrape"), async |s| {
        let environment = &s.environment;
        let manager = environment.new_manager().flag("--insecure-diagnostics=false").start().await?;
        let namespace = environment.namespace();
        for name in ["reader", "stranger"] {
            let account = format!("{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: {name}}}}}");
            environment.apply(&account).await?;
        }
        let role = format!(
            "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: {namespace}}}
rules: [{{nonResourceURLs: [/metrics], verbs: [get]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {namespace}}}
subjects: [{{kind: ServiceAccount, name: reader, namespace: {namespace}}}]
"
        );
        environment.apply(&role).await?;

        let (reader, stranger) = (token(s, "reader").await?, token(s, "stranger").await?);
        let address = manager.diagnostics();
        let text =
            eventually_by_polling(WITHIN, "the reader to be known as one", async || scrape(address, &reader).await)
                .await?;
        assert!(text.contains("controller_runtime_max_concurrent_reconciles"), "{text}");
        for (token, says) in [(stranger.as_str(), "403"), ("made-up", "401")] {
            let refused = scrape(address, token).await.err().context("metrics for a stranger")?;
            assert!(format!("{refused:#}").contains(says), "{refused:#}");
        }
        assert!(manager.metrics().await.is_err(), "plain HTTP");
        let log = manager.log()?;
        assert!(!log.contains(&reader) && !log.contains(&stranger), "a token is in the log");
        manager.stop().await?;
        for kind in ["ClusterRoleBinding", "ClusterRole"] {
            let api = "rbac.authorization.k8s.io/v1";
            s.delete(api, kind, namespace).await?;
        }
        Ok(())
    })
}

/// Fails unless the metrics show one cluster and one machine, both Ready, a launch at the first attempt, and a listing.
fn counts_one_ready_machine(metrics: &Metrics) -> anyhow::Result<()> {
    let is = |name: &str, labels: &[(&str, &str)], expected: f64| {
        let value = metrics.sum(name, labels);
        ensure!(value == Some(expected), "{name} of {labels:?} is {value:?}");
        Ok(())
    };
    is("capa_launch_attempts_total", &[("result", "success")], 1.0)?;
    is("capa_launch_attempts_total", &[("result", "throttled")], 0.0)?;
    is("capa_machines", &[("phase", "running")], 1.0)?;
    is("capa_machines", &[], 1.0)?;
    for kind in ["AWSCluster", "AWSMachine"] {
        let ready = [("kind", kind), ("condition", "Ready"), ("status", "True"), ("reason", "Ready")];
        is("capa_objects", &ready, 1.0)?;
        is("capa_objects", &ready[..2], 1.0)?;
    }
    is("capa_build_info", &[("program", "manager")], 1.0)?;
    is("leader_election_master_status", &[], 1.0)?;
    let launched = [("controller", "awsmachine"), ("operation", "RunInstances"), ("error_code", "")];
    // The SDK may have repeated the call.
    let requests = metrics.sum("aws_api_requests_total", &launched).unwrap_or_default();
    ensure!(requests >= 1.0, "{requests} requests of RunInstances");
    let age = metrics.sum("capa_instance_store_age_seconds", &[]);
    ensure!(age.is_some(), "there was no listing yet");
    Ok(())
}

/// The rows of the table in the documentation.
fn documented() -> anyhow::Result<Families> {
    // The other table lists alerts.
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `") && !line.starts_with("| `Capa"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, kind, labels, _] = cells.as_slice() else {
            anyhow::bail!("a row of another shape: {row}");
        };
        let word = |text: &str| text.trim_matches('`').to_owned();
        let labels = labels.split(", ").map(word).collect();
        Ok((word(name), ((*kind).to_owned(), labels)))
    })
    .collect()
}

/// The metrics of a scrape, including those without a sample.
fn served(text: &str) -> anyhow::Result<Families> {
    let mut families = Families::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').context("a metric without a type")?;
        let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        let samples = Metrics::parse(text);
        let suffix = if kind == "histogram" { "_count" } else { "" };
        let labels = samples.labels(&format!("{name}{suffix}"));
        families.insert(name, (kind.to_owned(), labels));
    }
    Ok(families)
}

async fn token(scenario: &Scenario, account: &str) -> anyhow::Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(scenario.environment.client(), scenario.namespace());
    let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await?;
    Ok(answer.status.context("no token was granted")?.token)
}

/// A scrape like that of Prometheus, with a token and `insecureSkipVerify`.
async fn scrape(address: &str, token: &str) -> anyhow::Result<String> {
    let mut config = Config::new(format!("https://{address}").parse()?);
    config.accept_invalid_certs = true;
    config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
    let request = http::Request::get("/metrics").body(Vec::new())?;
    Ok(Client::try_from(config)?.request_text(request).await?)
}
