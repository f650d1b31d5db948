use secrecy::ExposeSecret;

use super::*;
use crate::testing::{FakeKubernetes, Journal, read};

fn kubernetes() -> FakeKubernetes {
    FakeKubernetes::new(&Journal::default())
}

async fn resolved(kubernetes: &FakeKubernetes, reference: &str) -> Result<ResolvedIdentity, IdentityProblem> {
    let request = IdentityRequest {
        reference: &read(reference),
        namespace: "team-a",
        cluster_name: "dev",
        identity_namespace: "capa-rs-system",
    };
    match resolve(kubernetes, &request).await {
        Ok(identity) => Ok(identity),
        Err(IdentityError::Unusable(problem) | IdentityError::Unread(problem)) => Err(problem),
    }
}

fn role(kubernetes: &FakeKubernetes, name: &str, more: &str) {
    let spec = format!("roleARN: 'arn:aws:iam::1:role/{name}', allowedNamespaces: {{}}, {more}");
    kubernetes.identity_object("AWSClusterRoleIdentity", name, &spec);
}

/// Roles `r1` … `r<count>`, each assumed by the next, the last by the manager.
fn chain(kubernetes: &FakeKubernetes, count: usize) {
    for hop in 1..=count {
        let source = if hop == count {
            String::new()
        } else {
            format!("sourceIdentityRef: {{kind: AWSClusterRoleIdentity, name: r{}}}", hop + 1)
        };
        role(kubernetes, &format!("r{hop}"), &source);
    }
}

const KEYS: [(&str, &str); 2] = [("AccessKeyID", " AKIA\n"), ("SecretAccessKey", "hunter2")];

fn static_key(kubernetes: &FakeKubernetes) {
    let spec = "secretRef: keys, allowedNamespaces: {}";
    kubernetes.identity_object("AWSClusterStaticIdentity", "key", spec);
    kubernetes.put_secret("capa-rs-system", "keys", &KEYS);
}

#[tokio::test]
async fn a_chain_of_roles_is_assumed_from_its_source_outwards() {
    let kubernetes = kubernetes();
    static_key(&kubernetes);
    let policy = "externalID: shared, durationSeconds: 3600, sessionName: ci, policyARNs: ['arn:p'], \
                  sourceIdentityRef: {kind: AWSClusterRoleIdentity, name: hub}";
    role(&kubernetes, "team", policy);
    role(
        &kubernetes,
        "hub",
        "externalID: '', sessionName: '', sourceIdentityRef: {kind: AWSClusterStaticIdentity, name: key}",
    );
    let identity = resolved(&kubernetes, "{kind: AWSClusterRoleIdentity, name: team}").await;
    let CredentialSource::Role { role_arn, session_name, external_id, duration_seconds, policy_arns, source, .. } =
        identity.unwrap().source
    else {
        panic!("no role")
    };
    assert_eq!((role_arn.as_str(), session_name.as_str()), ("arn:aws:iam::1:role/team", "ci"));
    assert_eq!((external_id.as_deref(), duration_seconds), (Some("shared"), 3600));
    assert_eq!(policy_arns, ["arn:p"]);
    let CredentialSource::Role { session_name, external_id, duration_seconds, source, .. } = *source else {
        panic!("no second role")
    };
    assert_eq!(duration_seconds, 900, "what is documented is sent");
    assert_eq!((session_name.as_str(), external_id), ("capa-rs-team-a-dev", None), "empty text is absent");
    let CredentialSource::Static { access_key_id, secret_access_key, session_token } = *source else {
        panic!("no key")
    };
    assert_eq!((access_key_id.as_str(), secret_access_key.expose_secret()), ("AKIA", "hunter2"));
    assert!(session_token.is_none());
}

#[tokio::test]
async fn a_chain_is_at_most_five_identities_long() {
    let kubernetes = kubernetes();
    let first = "{kind: AWSClusterRoleIdentity, name: r1}";
    chain(&kubernetes, 4);
    assert!(resolved(&kubernetes, first).await.is_ok(), "four roles and the manager");
    chain(&kubernetes, 5);
    let problem = resolved(&kubernetes, first).await.unwrap_err();
    assert_eq!(problem.reason, Reason::NotFound);
    assert!(problem.message.contains("AWSClusterRoleIdentity/r1"), "{}", problem.message);
}

#[tokio::test]
async fn only_changes_of_chain_or_secret_change_the_identity_key() {
    let kubernetes = kubernetes();
    static_key(&kubernetes);
    role(&kubernetes, "team", "sourceIdentityRef: {kind: AWSClusterStaticIdentity, name: key}");
    let reference = "{kind: AWSClusterRoleIdentity, name: team}";
    let mut keys = vec![resolved(&kubernetes, reference).await.unwrap().key];
    kubernetes.touch_role("team");
    assert_eq!(resolved(&kubernetes, reference).await.unwrap().key, keys[0]);
    kubernetes.put_secret("capa-rs-system", "keys", &KEYS);
    keys.push(resolved(&kubernetes, reference).await.unwrap().key);
    let spec = "secretRef: keys, allowedNamespaces: {}";
    kubernetes.identity_object("AWSClusterStaticIdentity", "key", spec);
    keys.push(resolved(&kubernetes, reference).await.unwrap().key);
    role(&kubernetes, "team", "sourceIdentityRef: {kind: AWSClusterStaticIdentity, name: key}");
    keys.push(resolved(&kubernetes, reference).await.unwrap().key);
    keys.dedup();
    assert_eq!(keys.len(), 4, "{keys:?}");
    assert!(keys.iter().all(|key| !key.contains("hunter2")), "{keys:?}");
}

#[tokio::test]
async fn clusters_share_a_key_unless_a_session_is_named_after_them() {
    let kubernetes = kubernetes();
    static_key(&kubernetes);
    role(&kubernetes, "named", "sessionName: ci");
    role(&kubernetes, "unnamed", "");
    role(
        &kubernetes,
        "over-unnamed",
        "sessionName: ci, sourceIdentityRef: {kind: AWSClusterRoleIdentity, name: unnamed}",
    );
    for (reference, shared) in [
        ("{kind: AWSClusterStaticIdentity, name: key}", true),
        ("{kind: AWSClusterRoleIdentity, name: named}", true),
        ("{kind: AWSClusterRoleIdentity, name: unnamed}", false),
        ("{kind: AWSClusterRoleIdentity, name: over-unnamed}", false),
    ] {
        let mut keys = Vec::new();
        for (namespace, cluster_name) in [("team-a", "dev"), ("team-a", "prod"), ("team-b", "dev")] {
            let request = IdentityRequest {
                reference: &read(reference),
                namespace,
                cluster_name,
                identity_namespace: "capa-rs-system",
            };
            let identity = resolve(&kubernetes, &request).await.unwrap();
            assert_eq!(identity.is_for_one_cluster, !shared, "{reference}");
            keys.push(identity.key);
        }
        keys.dedup();
        assert_eq!(keys.len(), if shared { 1 } else { 3 }, "{reference}");
    }
}

#[test]
fn a_session_name_that_is_cut_stays_unique() {
    let name = |namespace: &str, cluster_name: &str| {
        session_name(&IdentityRequest {
            reference: &IdentityReference::controller_default(),
            namespace,
            cluster_name,
            identity_namespace: "",
        })
    };
    assert_eq!(name("team-a", "dev"), "capa-rs-team-a-dev");
    let (namespace, cluster) = ("n".repeat(40), "c".repeat(15));
    assert_eq!(name(&namespace, &cluster), format!("capa-rs-{namespace}-{cluster}"), "64 characters");
    let long = "c".repeat(40);
    let (first, second) = (name(&namespace, &format!("{long}-1")), name(&namespace, &format!("{long}-2")));
    assert_eq!((first.len(), second.len()), (64, 64));
    assert_ne!(first, second);
    assert!(first.starts_with(&format!("capa-rs-{namespace}-")), "{first}");
    assert_eq!(first, name(&namespace, &format!("{long}-1")), "of one cluster it is always the same");
}
