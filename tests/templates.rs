//! `templates/` against the parts that its cluster templates are rendered from.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this is test code, where a panic is a failed test")]

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

    let (rendered, kept) = (cluster_templates(&rendered), cluster_templates(&repository.join("templates")));
    assert_eq!(kept.keys().collect::<Vec<_>>(), rendered.keys().collect::<Vec<_>>(), "the flavors in templates/");
    for (name, text) in rendered {
        assert!(kept[&name] == text, "templates/{name} is not up to date: run `make generate`");
    }
}

/// A template without its comment, and how many subnets it names.
fn objects_and_subnets(template: &str) -> (Vec<&str>, usize) {
    let objects = template.lines().filter(|line| !line.starts_with('#'));
    let (subnets, others): (Vec<&str>, Vec<&str>) = objects.partition(|line| line.contains("${AWS_SUBNET_ID_"));
    (others, subnets.len())
}

/// The flavors whose subnets are named outside the template.
const WITHOUT_SUBNETS: [&str; 7] =
    ["ack", "crossplane", "managed-by", "managed-clusterclass", "managed", "terraform", "unmanaged-discovery"];

#[test]
fn each_flavor_with_subnets_is_there_for_one_two_and_three() {
    let templates = cluster_templates(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("templates"));
    let names = templates.keys().filter_map(|name| name.strip_prefix("cluster-template-")?.strip_suffix(".yaml"));
    let (variants, flavors): (Vec<&str>, Vec<&str>) = names.partition(|name| name.contains("subnet"));
    let (without, with): (Vec<&str>, Vec<&str>) =
        flavors.into_iter().partition(|flavor| WITHOUT_SUBNETS.contains(flavor));
    assert_eq!(without, WITHOUT_SUBNETS);
    assert_eq!(with.len(), 6, "{with:?}");
    assert_eq!(variants.len(), 2 * with.len(), "{variants:?}");
    let template = |name: String| objects_and_subnets(&templates[&format!("cluster-template-{name}.yaml")]);
    for flavor in without {
        assert_eq!(template(flavor.to_owned()).1, 0, "{flavor}");
    }
    for flavor in with {
        let (objects, subnets) = template(flavor.to_owned());
        assert_eq!(subnets, 3, "{flavor}");
        for (suffix, fewer) in [("-two-subnets", 2), ("-one-subnet", 1)] {
            let variant = template(format!("{flavor}{suffix}"));
            assert_eq!(variant, (objects.clone(), fewer), "{flavor}{suffix}");
        }
    }
}
