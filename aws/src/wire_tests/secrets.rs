//! Bootstrap data in Secrets Manager and Parameter Store.

use std::collections::BTreeMap;

use capa_api::machine::SecretsBackend;
use capa_cloud::{CloudError, ErrorClass, MachineCloud, MachineClouds, StoredSecret};
use serde_json::json;

use super::fake::{Answer, CLUSTER, Fake, REGION, at_its_turn, identity, machine};

pub(super) fn secret(backend: SecretsBackend) -> StoredSecret {
    StoredSecret {
        backend,
        name: "aws.cluster.x-k8s.io/uid-0".to_owned(),
        content: b"am9pbg==".to_vec(),
        tags: BTreeMap::from([("kubernetes.io/cluster/dev".to_owned(), "owned".to_owned())]),
    }
}

fn refused(code: &str) -> Answer {
    (400, json!({"__type": code, "message": "no"}).to_string())
}

async fn store(machines: &dyn MachineCloud, backend: SecretsBackend) -> Result<(), CloudError> {
    let secret = secret(backend);
    at_its_turn(async || machines.store_secret(&machine("m"), &secret).await).await
}

#[tokio::test]
async fn a_secret_is_created_with_its_tags_and_deleted_for_good() {
    let fake = Fake::start(|_| (200, "{}".to_owned())).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    store(machines.as_ref(), SecretsBackend::SecretsManager).await.unwrap();
    let name = secret(SecretsBackend::SecretsManager).name;
    let names = [name.clone(), "aws.cluster.x-k8s.io/uid-1".to_owned()];
    let key = machine("m");
    let deleted = machines.delete_secrets(&key, SecretsBackend::SecretsManager, &names);
    deleted.await.unwrap();
    let created = fake.calls_of("CreateSecret").remove(0);
    assert_eq!(created.field("Name"), name);
    assert_eq!(created.field("SecretBinary"), "YW05cGJnPT0=", "the content in base64");
    assert!(created.field("Tags").contains("kubernetes.io/cluster/dev"));
    assert_ne!(
        created.field("ClientRequestToken"),
        "",
        "a repeated call is the same call"
    );
    let deleted = fake.calls_of("DeleteSecret");
    assert_eq!(deleted.len(), 2);
    assert_eq!(deleted[1].field("SecretId"), names[1]);
    assert_eq!(deleted[0].field("ForceDeleteWithoutRecovery"), "true");
}

#[tokio::test]
async fn a_parameter_is_encrypted_and_parameters_are_deleted_together() {
    let fake = Fake::start(|_| (200, "{}".to_owned())).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    store(machines.as_ref(), SecretsBackend::SsmParameterStore)
        .await
        .unwrap();
    let names: Vec<String> = (0..12)
        .map(|number| format!("/cluster.x-k8s.io/uid/{number}"))
        .collect();
    let key = machine("m");
    let deleted = machines.delete_secrets(&key, SecretsBackend::SsmParameterStore, &names);
    deleted.await.unwrap();
    let created = fake.calls_of("PutParameter").remove(0);
    assert_eq!(created.field("Type"), "SecureString");
    assert_eq!(created.field("Value"), "am9pbg==");
    assert!(created.field("Tags").contains("kubernetes.io/cluster/dev"));
    assert_eq!(fake.calls_of("DeleteParameters").len(), 2, "ten names a call");
}

#[tokio::test]
async fn the_content_of_a_name_that_is_taken_is_replaced() {
    let fake = Fake::start(|call| match (call.action.as_str(), call.field("Overwrite")) {
        ("CreateSecret", _) => refused("ResourceExistsException"),
        ("PutParameter", "") => refused("ParameterAlreadyExists"),
        _ => (200, "{}".to_owned()),
    })
    .await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    for backend in [SecretsBackend::SecretsManager, SecretsBackend::SsmParameterStore] {
        store(machines.as_ref(), backend).await.unwrap();
    }
    let replaced = fake.calls_of("PutSecretValue").remove(0);
    assert_eq!(replaced.field("SecretId"), secret(SecretsBackend::SecretsManager).name);
    let calls = fake.calls_of("PutParameter");
    let overwrites: Vec<&str> = calls.iter().map(|call| call.field("Overwrite")).collect();
    assert_eq!(
        overwrites,
        ["", "true"],
        "the replacement waits for its turn, and nothing is created again"
    );
    let replaced = calls.last().unwrap();
    assert_eq!(replaced.field("Tags"), "", "none in a call that overwrites");
}

#[tokio::test]
async fn a_refusal_has_its_class_and_shows_no_content() {
    for (code, class) in [
        ("AccessDeniedException", ErrorClass::Unauthorized),
        ("LimitExceededException", ErrorClass::QuotaExceeded),
        ("InvalidRequestException", ErrorClass::NoAnswer),
    ] {
        let fake = Fake::start(move |_| refused(code)).await;
        let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
        let error = store(machines.as_ref(), SecretsBackend::SecretsManager)
            .await
            .unwrap_err();
        assert_eq!(error.class, class, "{code}");
        assert!(!error.to_string().contains("am9pbg"), "{error}");
    }
}
