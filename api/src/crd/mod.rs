//! The CustomResourceDefinitions of all kinds.

mod structural;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceValidation,
};
use kube::CustomResourceExt;
use schemars::JsonSchema;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::cluster::AWSCluster;
use crate::cluster::template::AWSClusterTemplate;
use crate::identity::{AWSClusterControllerIdentity, AWSClusterRoleIdentity, AWSClusterStaticIdentity};
use crate::machine::AWSMachine;
use crate::machine::template::AWSMachineTemplate;
use crate::network_mapping::AWSNetworkMapping;
use crate::{meta, unsupported};

pub(crate) use structural::schema_of;

/// The reason why a CustomResourceDefinition cannot be generated from its Rust type: a bug in this program.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// The generated schema uses something that custom resources cannot express.
    #[error("making the CRD {name}: its generated schema is no OpenAPI v3 schema")]
    NotOpenApi {
        /// Name of the CRD.
        name: String,
        /// The error of the conversion.
        #[source]
        source: serde_json::Error,
    },
    /// The table of fields without effect names a field that the schema lacks or does not describe.
    #[error("making a CRD")]
    NoSuchField(#[from] unsupported::NoSuchField),
    /// The definition cannot be written as JSON.
    #[error("writing the CRD {name} as JSON")]
    Serialize {
        /// Name of the CRD.
        name: String,
        /// The error of the conversion.
        #[source]
        source: serde_json::Error,
    },
}

/// The definitions of all kinds, always in the same order, with the labels that Cluster API and clusterctl look for and
/// with [`meta::DEFINITION_ANNOTATION`].
pub fn crds() -> Result<Vec<CustomResourceDefinition>, CrdError> {
    let network = (meta::MACHINE_NETWORK_LABEL, meta::MACHINE_NETWORK_CONTRACT);
    let hierarchy = (meta::MOVE_HIERARCHY_LABEL, "");
    Ok(vec![
        crd::<AWSCluster>(&[network])?,
        crd::<AWSClusterTemplate>(&[])?,
        crd::<AWSMachine>(&[])?,
        crd::<AWSMachineTemplate>(&[])?,
        crd::<AWSClusterControllerIdentity>(&[hierarchy])?,
        crd::<AWSClusterRoleIdentity>(&[hierarchy])?,
        crd::<AWSClusterStaticIdentity>(&[hierarchy])?,
        crd::<AWSNetworkMapping>(&[(meta::MOVE_LABEL, "")])?,
    ])
}

/// A definition as its file contains it: whole numbers are integers, whereas the typed form has floats.
pub fn manifest(crd: &CustomResourceDefinition) -> Result<Value, CrdError> {
    let mut value = serde_json::to_value(crd)
        .map_err(|source| CrdError::Serialize { name: crd.metadata.name.clone().unwrap_or_default(), source })?;
    structural::whole_numbers(&mut value);
    Ok(value)
}

/// The zero value of a scalar field with this schema: the empty string, 0 or `false`. `None` for other fields, and if
/// the schema refuses the value.
pub fn zero_value(schema: &Value) -> Option<Value> {
    let zero = match schema["type"].as_str()? {
        "string" => Value::from(""),
        "integer" => Value::from(0),
        "boolean" => Value::from(false),
        _ => return None,
    };
    let exceeds = |bound: &str| schema[bound].as_f64().is_some_and(|bound| bound > 0.0);
    let choices = schema["enum"].as_array();
    let is_choice = choices.is_none_or(|choices| choices.contains(&zero));
    let is_refused = exceeds("minimum") || exceeds("minLength") || schema.get("pattern").is_some() || !is_choice;
    (!is_refused).then_some(zero)
}

/// The value of [`meta::DEFINITION_ANNOTATION`] for a CRD or policy with this text.
pub fn definition_hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let first = digest.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    format!("{first:016x}")
}

fn crd<K>(labels: &[(&str, &str)]) -> Result<CustomResourceDefinition, CrdError>
where
    K: CustomResourceExt + JsonSchema,
{
    let mut crd = K::crd();
    let mut schema = schema_of::<K>();
    unsupported::explain(&crd.spec.names.kind, &mut schema)?;
    let schema = serde_json::from_value(schema)
        .map_err(|source| CrdError::NotOpenApi { name: K::crd_name().to_owned(), source })?;
    let validation = CustomResourceValidation { open_api_v3_schema: Some(schema) };
    for version in &mut crd.spec.versions {
        version.schema = Some(validation.clone());
    }
    // The API server would set this default; the definitions are also read without an API server.
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    let common = [(meta::CONTRACT_LABEL, meta::VERSION), (meta::PROVIDER_LABEL, meta::PROVIDER_LABEL_VALUE)];
    let all = common.iter().chain(labels).map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    crd.metadata.labels.get_or_insert_default().extend(all);
    // Set explicitly, because an apply over another provider's CRD would otherwise keep that CRD's conversion webhook.
    crd.spec.conversion = Some(CustomResourceConversion { strategy: "None".to_owned(), webhook: None });
    let hash = definition_hash(&manifest(&crd)?.to_string());
    let annotations = crd.metadata.annotations.get_or_insert_default();
    annotations.insert(meta::DEFINITION_ANNOTATION.to_owned(), hash);
    Ok(crd)
}
