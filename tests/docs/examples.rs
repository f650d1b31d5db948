//! The YAML in code blocks.

use serde_json::Value;

use crate::schema::{GROUP, Schemas};
use crate::{documents, markdown, read};

#[test]
fn examples_of_our_kinds_fit_their_schemas() {
    let schemas = Schemas::read();
    let mut problems = Vec::new();
    let mut checked = 0;
    for path in documents() {
        for (line, block) in markdown::blocks(&read(&path), "yaml") {
            let objects: Vec<Value> =
                serde_saphyr::from_multiple(&block).unwrap_or_else(|error| panic!("{path}:{line}: {error}"));
            let ours = objects.iter().filter(|object| {
                let api_version = object["apiVersion"].as_str().unwrap_or_default();
                api_version.starts_with(&format!("{GROUP}/"))
            });
            for object in ours {
                checked += 1;
                let found = schemas.problems(object).into_iter();
                problems.extend(found.map(|problem| format!("{path}:{line}: {problem}")));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(checked > 5, "only {checked} objects were found");
}
