//! The script that runs the tests: when a run is red, and which stories get a second chance. A stand-in for cargo gives
//! the output.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use tempfile::TempDir;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const PASSED: &str = "running 1 test\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out\n";
const FAILED_PROGRAM: &str = "error: 1 target failed:\n    `-p capa-e2e --test e2e`\n";

/// Runs the script. The first run of cargo has this output and fails; each later one has `again`, and fails if asked
/// to.
fn run(first: &str, again: &str, fails_again: bool) -> std::io::Result<(Output, String)> {
    let folder = TempDir::new()?;
    let path = |name: &str| folder.path().join(name);
    fs::write(path("first"), first)?;
    fs::write(path("again"), again)?;
    let script = format!(
        "#!/bin/sh\ncd '{}'\nif [ -e ran ]; then cat again; exit {}; fi\ntouch ran\ncat first\nexit 101\n",
        folder.path().display(),
        i32::from(fails_again),
    );
    fs::write(path("cargo"), script)?;
    fs::set_permissions(path("cargo"), fs::Permissions::from_mode(0o755))?;
    let ran = Command::new(format!("{ROOT}/hack/tests/run.sh"))
        .args(["--tests", "--"])
        .current_dir(ROOT)
        .env("PATH", format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default()))
        .env("XDG_CACHE_HOME", folder.path())
        .output()?;
    let noted = fs::read_to_string(path("capa-rs/flaky-stories")).unwrap_or_default();
    Ok((ran, noted))
}

/// The output of a program in which these tests have failed.
fn failures(names: &[&str]) -> String {
    let each = |form: &dyn Fn(&str) -> String| names.iter().map(|name| form(name)).collect::<String>();
    format!(
        "{}\nfailures:\n\n{}\nfailures:\n{}\ntest result: FAILED. 7 passed; {} failed; 0 ignored; 0 measured\n\n",
        each(&|name| format!("test {name} ... FAILED\n")),
        each(&|name| format!("---- {name} stdout ----\n    a line of its output\n")),
        each(&|name| format!("    {name}\n")),
        names.len()
    )
}

#[test]
fn a_story_that_passes_the_second_time_is_flaky_and_the_run_green() {
    let (ran, noted) = run(&format!("{}{FAILED_PROGRAM}", failures(&["stories::a::b"])), PASSED, false).unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stdout).ends_with("FLAKY stories::a::b\n"), "{ran:?}");
    assert!(noted.ends_with(" stories::a::b\n"), "{noted}");
}

#[test]
fn a_run_is_red_unless_at_most_two_stories_alone_have_failed_and_pass_again() {
    let one = failures(&["stories::a"]);
    let nothing = PASSED.replace("1 passed", "0 passed");
    let other_program = FAILED_PROGRAM.replace("e2e", "fleet");
    for (first, again, fails_again, why) in [
        (format!("{one}{FAILED_PROGRAM}"), PASSED, true, "it fails again"),
        (format!("{one}{FAILED_PROGRAM}"), &nothing, false, "no test was run again"),
        (format!("{}{FAILED_PROGRAM}", failures(&["stories::a", "stories::b", "stories::c"])), PASSED, false, "three"),
        (format!("{}{FAILED_PROGRAM}", failures(&["stories::a", "aws::b"])), PASSED, false, "a test that is no story"),
        (format!("{one}{other_program}"), PASSED, false, "another program"),
        (format!("{one}{one}{FAILED_PROGRAM}"), PASSED, false, "two programs"),
        (format!("test stories::a ... FAILED\n{FAILED_PROGRAM}"), PASSED, false, "the program has not ended"),
        (one.replace("1 failed", "2 failed") + FAILED_PROGRAM, PASSED, false, "a failure without a name"),
        (
            format!("{one}  process didn't exit successfully: `e2e` (signal: 9)\n{FAILED_PROGRAM}"),
            PASSED,
            false,
            "killed",
        ),
        ("error: could not compile `capa-api`\n".to_owned(), PASSED, false, "nothing was run"),
    ] {
        let (ran, noted) = run(&first, again, fails_again).unwrap();
        assert!(!ran.status.success(), "{why}: {ran:?}");
        assert_eq!(noted, "", "{why}");
    }
}
