//! Lenient deserialization: an ill-typed value reads as absent, so that one broken field does not make the whole object
//! unreadable.
//!
//! For status fields only. A value that another controller, an older version or a restore left in the status must
//! neither stop a watch nor survive the next status write, which replaces the whole status.

use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::Value;

/// Reads a field; a value of another type reads as the default. Fails only if the input itself is broken.
pub fn field<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).unwrap_or_default())
}

/// Reads a list and keeps the entries that fit; anything but a list reads as empty.
pub fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let Value::Array(entries) = Value::deserialize(deserializer)? else {
        return Ok(Vec::new());
    };
    Ok(entries.into_iter().filter_map(|entry| T::deserialize(entry).ok()).collect())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Status {
        #[serde(default, deserialize_with = "super::field")]
        ready: Option<bool>,
        #[serde(default, deserialize_with = "super::list")]
        zones: Vec<String>,
    }

    fn read(value: serde_json::Value) -> Status {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn well_typed_values_are_read() {
        let status = read(json!({"ready": true, "zones": ["a", "b"]}));
        assert_eq!(status, Status { ready: Some(true), zones: vec!["a".to_owned(), "b".to_owned()] });
    }

    #[test]
    fn ill_typed_values_read_as_absent_and_spare_their_neighbours() {
        assert_eq!(read(json!({"ready": {"since": 1}, "zones": ["a"]})).zones, ["a"]);
        assert_eq!(read(json!({"ready": true, "zones": {"a": {}}})), Status { ready: Some(true), zones: vec![] });
        assert_eq!(read(json!({"zones": ["a", 7, null]})).zones, ["a"]);
        assert_eq!(read(json!({"ready": null, "zones": null})), Status::default());
    }
}
