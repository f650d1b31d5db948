//! The YAML in code blocks, and in the folder of examples.

use serde_json::Value;

use crate::schema::{GROUP, Schemas};
use crate::{documents, markdown, names_in, read};

/// The objects of our kinds in YAML, and what is wrong with them.
fn ours(schemas: &Schemas, place: &str, yaml: &str) -> (usize, Vec<String>) {
    let objects: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("{place}: {error}"));
    let is_ours = |object: &&Value| {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        // Other infrastructure providers have kinds in the same group.
        api_version.starts_with(&format!("{GROUP}/"))
            && object["kind"].as_str().is_some_and(|kind| kind.starts_with("AWS"))
    };
    let ours: Vec<&Value> = objects.iter().filter(is_ours).collect();
    let problems = ours.iter().flat_map(|object| schemas.problems(object));
    let problems = problems.map(|problem| format!("{place}: {problem}")).collect();
    (ours.len(), problems)
}

#[test]
fn examples_of_our_kinds_fit_their_schemas() {
    let schemas = Schemas::read();
    let mut problems = Vec::new();
    let mut checked = 0;
    for path in documents() {
        for (line, block) in markdown::blocks(&read(&path), "yaml") {
            let (count, found) = ours(&schemas, &format!("{path}:{line}"), &block);
            checked += count;
            problems.extend(found);
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(checked > 5, "only {checked} objects were found");
}

/// The files of `examples/` but its README.
fn example_files() -> Vec<String> {
    let names = names_in("examples").into_iter();
    names.filter(|name| name != "README.md").collect()
}

#[test]
fn the_folder_of_examples_fits_the_schemas() {
    let schemas = Schemas::read();
    for name in example_files() {
        let path = format!("examples/{name}");
        let (count, problems) = ours(&schemas, &path, &read(&path));
        assert!(count > 0, "{path} has no object of ours");
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}

#[test]
fn the_readme_of_the_examples_lists_every_file() {
    let links = markdown::links(&read("examples/README.md"));
    let mut listed: Vec<&String> = links.iter().filter(|link| !link.contains('/')).collect();
    listed.sort();
    assert_eq!(listed, example_files().iter().collect::<Vec<_>>());
}
