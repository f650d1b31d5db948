//! Reports missing admission policies that a manager relies on in the log. Otherwise, nothing would show that the API
//! server accepts what the missing policy would refuse.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::repeated_failure::RepeatedFailure;

/// Looks for these policies and the bindings of the same names once per `period`, until `stop`.
pub async fn look_for_policies(
    client: Client,
    names: &'static [&'static str],
    period: Duration,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client);
    let mut missing = BTreeSet::new();
    let mut failure = RepeatedFailure::new("look for the admission policies");
    let work = async {
        let mut ticks = tokio::time::interval(period);
        loop {
            ticks.tick().await;
            match check_once(&policies, &bindings, names, &mut missing).await {
                Ok(()) => failure.succeeded(),
                Err(error) => failure.failed(&error),
            }
        }
    };
    stop.run_until_cancelled(work).await;
    Ok(())
}

/// Looks for these policies once. Logs policies that have become `missing`, and policies that are no longer missing.
///
/// The first error ends the search. The API server's error names the policy, so the error of the next policy would be a
/// different failure.
async fn check_once(
    policies: &Api<ValidatingAdmissionPolicy>,
    bindings: &Api<ValidatingAdmissionPolicyBinding>,
    names: &'static [&'static str],
    missing: &mut BTreeSet<&'static str>,
) -> kube::Result<()> {
    for &policy in names {
        if is_in_force(policies, bindings, policy).await? {
            if missing.remove(policy) {
                info!(policy, "the admission policy is in force");
            }
        } else if missing.insert(policy) {
            warn!(
                policy,
                "the ValidatingAdmissionPolicy or its binding is missing: the API server accepts what the policy \
                 refuses; apply the policies of the release"
            );
        }
    }
    Ok(())
}

async fn is_in_force(
    policies: &Api<ValidatingAdmissionPolicy>,
    bindings: &Api<ValidatingAdmissionPolicyBinding>,
    name: &str,
) -> kube::Result<bool> {
    Ok(policies.get_metadata_opt(name).await?.is_some() && bindings.get_metadata_opt(name).await?.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::logging::LogFormat;
    use crate::testing::{FakeServer, Fault, Log};

    const PERIOD: Duration = Duration::from_mins(10);

    fn put(server: &FakeServer, kind: &str, name: &str) {
        let path = format!("/apis/admissionregistration.k8s.io/v1/{}s/{name}", kind.to_lowercase());
        let path = path.replace("policys", "policies");
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": {},
        });
        server.put(&path, object);
    }

    /// The levels and policies of the lines so far.
    fn told(log: &Log) -> Vec<(String, String)> {
        let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
        let lines = log.objects();
        lines.iter().map(|line| (text(line, "level"), text(line, "policy"))).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_policy_is_logged_once_and_again_when_in_force() {
        let log = Log::start(LogFormat::Json, 0);
        let server = FakeServer::default();
        put(&server, "ValidatingAdmissionPolicy", "whole");
        put(&server, "ValidatingAdmissionPolicyBinding", "whole");
        put(&server, "ValidatingAdmissionPolicy", "unbound");
        let stop = CancellationToken::new();
        let names = &["whole", "unbound", "absent"];
        let looking = tokio::spawn(look_for_policies(server.client(), names, PERIOD, stop.clone()));
        tokio::time::sleep(PERIOD * 3).await;
        let missing = ["unbound", "absent"].map(|name| ("WARN".to_owned(), name.to_owned()));
        assert_eq!(told(&log), missing);
        put(&server, "ValidatingAdmissionPolicyBinding", "unbound");
        tokio::time::sleep(PERIOD * 2).await;
        assert_eq!(told(&log)[2..], [("INFO".to_owned(), "unbound".to_owned())]);
        stop.cancel();
        looking.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_manager_that_may_not_look_says_so_once() {
        let log = Log::start(LogFormat::Json, 0);
        let server = FakeServer::default();
        server.set_fault("GET", Some(Fault::Refuse(403)));
        let stop = CancellationToken::new();
        let looking = tokio::spawn(look_for_policies(server.client(), &["one", "two"], PERIOD, stop.clone()));
        tokio::time::sleep(PERIOD * 3).await;
        let lines = log.objects();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0]["hint"].as_str().is_some_and(|hint| hint.contains("RBAC")), "{lines:?}");
        stop.cancel();
        looking.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn looking_is_possible_again_only_once_every_policy_can_be_read() {
        let log = Log::start(LogFormat::Json, 0);
        let server = FakeServer::default();
        for name in ["readable", "forbidden"] {
            put(&server, "ValidatingAdmissionPolicy", name);
            put(&server, "ValidatingAdmissionPolicyBinding", name);
        }
        let request = "GET /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/forbidden";
        server.set_fault(request, Some(Fault::Refuse(403)));
        let stop = CancellationToken::new();
        let names = &["readable", "forbidden"];
        let looking = tokio::spawn(look_for_policies(server.client(), names, PERIOD, stop.clone()));
        let levels = || told(&log).into_iter().map(|(level, _)| level).collect::<Vec<_>>();
        tokio::time::sleep(PERIOD * 3).await;
        assert_eq!(levels(), ["WARN"]);
        server.set_fault(request, None);
        tokio::time::sleep(PERIOD * 3).await;
        assert_eq!(levels(), ["WARN", "INFO"]);
        stop.cancel();
        looking.await.unwrap().unwrap();
    }
}
