//! `templates/` against the parts that its cluster templates are rendered from.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is test code, where a panic is a failed test"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The cluster templates in a folder, by the names of their files.
fn cluster_templates(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let named = files.map(|file| (file.file_name().to_string_lossy().into_owned(), file.path()));
    named
        .filter(|(name, _)| name.starts_with("cluster-template"))
        .map(|(name, path)| (name, fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn cluster_templates_equal_what_their_parts_render() {
    let repository = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let rendered = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("templates");
    let _ = fs::remove_dir_all(&rendered);
    fs::create_dir_all(&rendered).unwrap();
    let script = repository.join("hack/release/templates.sh");
    let output = Command::new(script).arg(&rendered).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let (rendered, kept) = (
        cluster_templates(&rendered),
        cluster_templates(&repository.join("templates")),
    );
    assert_eq!(
        kept.keys().collect::<Vec<_>>(),
        rendered.keys().collect::<Vec<_>>(),
        "the flavors in templates/"
    );
    for (name, text) in rendered {
        assert!(
            kept[&name] == text,
            "templates/{name} is not up to date: run `make generate`"
        );
    }
}
