//! The patches that break the protocol, which `make sim-mutants` plays.

#![allow(clippy::unwrap_used, reason = "all of this is test code, where a panic is a failed test")]

use std::path::Path;
use std::process::Command;

#[test]
fn every_mutant_applies_to_the_code_as_it_is() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = tree.join("simulation/mutants");
    let files = folder.read_dir().unwrap().map(|file| file.unwrap().path());
    let patches: Vec<_> = files.filter(|file| file.extension().is_some_and(|extension| extension == "patch")).collect();
    assert!(!patches.is_empty(), "{} has none", folder.display());
    for patch in patches {
        let mut git = Command::new("git");
        git.current_dir(tree).args(["apply", "--check", "-p0"]).arg(&patch);
        let checked = git.output().unwrap();
        let why = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{}: {why}", patch.display());
    }
}
