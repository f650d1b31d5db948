//! Reads objects of which some may be malformed: each is read by itself, and its problem names the field.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use thiserror::Error;

/// An object, or the reason for which it cannot be read. Unlike kube's `DeserializeGuard`, the reason names the field,
/// and does not repeat the field's value. The object has no managed fields.
///
/// The text of the object must come from a JSON text as it is. In an event of a watch, the type must therefore precede
/// the object, as it does in the events of kube-apiserver.
#[derive(Clone, Debug)]
pub struct Guarded<K>(pub(crate) Result<K, Box<Malformed>>);

impl<K> Guarded<K> {
    /// The object.
    ///
    /// # Errors
    /// The object cannot be read.
    pub fn object(self) -> Result<K, Box<Malformed>> {
        self.0
    }
}

/// The known properties of an object that cannot be read. The text names the field and the type or value that the
/// schema expects.
#[derive(Clone, Debug, Error)]
#[error("{problem}")]
pub struct Malformed {
    /// The field, and the type or value that the schema expects.
    pub(crate) problem: String,
    pub(crate) metadata: ObjectMeta,
    pub(crate) reference: ObjectReference,
}

impl<'de, K: DeserializeOwned + Resource<DynamicType = ()>> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Box::<RawValue>::deserialize(deserializer)?;
        let object = without_managed_fields(&object).map_err(D::Error::custom)?;
        if let Ok(object) = serde_json::from_str::<K>(object.get()) {
            return Ok(Self(Ok(object)));
        }
        // Only an object that cannot be read is read as fields and values, which takes several times as long.
        let object = Value::deserialize(object.as_ref()).map_err(D::Error::custom)?;
        let error = match serde_path_to_error::deserialize::<_, K>(&object) {
            Ok(object) => return Ok(Self(Ok(object))),
            Err(error) => error,
        };
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let metadata = ObjectMeta::deserialize(metadata).map_err(D::Error::custom)?;
        let reference = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            ..ObjectReference::default()
        };
        Ok(Self(Err(Box::new(Malformed { problem: problem(&error), metadata, reference }))))
    }
}

/// The object without its managed fields. They take up to half of an object's memory and of the time to read it, and
/// only the API server needs them.
fn without_managed_fields(object: &RawValue) -> serde_json::Result<Box<RawValue>> {
    let mut fields: BTreeMap<String, &RawValue> = serde_json::from_str(object.get())?;
    let Some(metadata) = fields.get("metadata") else {
        return Ok(object.to_owned());
    };
    let mut metadata: BTreeMap<String, &RawValue> = serde_json::from_str(metadata.get())?;
    if metadata.remove("managedFields").is_none() {
        return Ok(object.to_owned());
    }
    let metadata = to_raw_value(&metadata)?;
    fields.insert("metadata".to_owned(), &metadata);
    to_raw_value(&fields)
}

/// The field and the type or value that the schema expects. The actual value is left out: it may be a secret.
fn problem(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let said = error.inner().to_string();
    let wanted = match said.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None => said,
    };
    match error.path().to_string().as_str() {
        // The object itself.
        "." => wanted,
        field => format!("{field}: {wanted}"),
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|malformed| &malformed.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|malformed| &mut malformed.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
    use kube::api::WatchEvent;
    use serde_json::json;

    use super::*;
    use crate::testing::{Widget, widget};

    #[test]
    fn a_problem_names_the_field_and_hides_its_value() {
        let read = |object: Value| serde_json::from_value::<Guarded<Widget>>(object).unwrap();
        for hidden in [json!("expected secret, expected key"), json!({"key": "secret"}), json!([4711])] {
            let malformed = read(json!({"metadata": {"name": "a"}, "spec": {"size": hidden}})).0.unwrap_err();
            assert_eq!(malformed.problem, "spec.size: expected u32");
            assert_eq!(malformed.metadata.name.as_deref(), Some("a"));
        }
        let malformed = read(json!({"metadata": {"name": "a"}})).0.unwrap_err();
        assert_eq!(malformed.problem, "missing field `spec`");
        assert_eq!(read(serde_json::to_value(widget("a")).unwrap()).0.unwrap(), widget("a"));
    }

    #[test]
    fn managed_fields_are_not_read() {
        let mut managed = widget("a");
        managed.metadata.managed_fields = Some(vec![ManagedFieldsEntry::default()]);
        let object = serde_json::to_string(&managed).unwrap();
        let read: Guarded<Widget> = serde_json::from_str(&object).unwrap();
        assert_eq!(read.0.unwrap(), widget("a"));
        let event = format!(r#"{{"type": "ADDED", "object": {object}}}"#);
        let WatchEvent::Added(read) = serde_json::from_str::<WatchEvent<Guarded<Widget>>>(&event).unwrap() else {
            panic!("{event} is an addition");
        };
        assert_eq!(read.0.unwrap(), widget("a"));
    }
}
