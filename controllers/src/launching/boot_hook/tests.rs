use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use flate2::read::GzDecoder;
use proptest::prelude::{ProptestConfig, any, proptest};
use tempfile::TempDir;

use super::*;

const DATA: &[u8] = b"#cloud-config\npassword: hunter2\n";
const UID: &str = "0a1b2c3d-0000-4000-8000-000000000001";

/// The AWS CLI of the tests. It refuses as many calls as the file `throttles` says, and refuses deletions if the file
/// `undeletable` exists.
const AWS: &str = r#"#!/bin/bash
echo "$*" >>"$STUB/calls"
while [ $# -gt 0 ]; do
  case "$1" in get-* | delete-*) verb="${1%%-*}" ;; --secret-id | --name) name="${2//\//_}" ;; esac
  shift
done
refuse() { echo "An error occurred ($1) when calling the operation" >&2; exit 254; }
left="$(cat "$STUB/throttles" 2>/dev/null || echo 0)"
if [ "$left" -gt 0 ]; then echo $((left - 1)) >"$STUB/throttles"; refuse ThrottlingException; fi
[ -f "$STUB/store/$name" ] || refuse ResourceNotFoundException
if [ "$verb" = get ]; then cat "$STUB/store/$name"; exit; fi
[ ! -e "$STUB/undeletable" ] || refuse AccessDeniedException
rm "$STUB/store/$name"
"#;

/// cloud-init, which renders a template as its last line.
const CLOUD_INIT: &str = r#"#!/bin/bash
echo "cloud-init $*" >>"$STUB/calls"
if [ "$1" = init ]; then umask >"$STUB/umask"; fi
if [ "$1" = devel ]; then tail -n 1 "$3"; fi
"#;

/// A machine that boots with user data, and what the service keeps for it.
struct Machine {
    folder: TempDir,
    stored: StoredData,
}

impl Machine {
    fn new(data: &[u8], backend: SecretsBackend) -> Self {
        Self::with_parts(data, backend, 1)
    }

    /// A machine whose data is divided into at least `fewest` parts.
    fn with_parts(data: &[u8], backend: SecretsBackend, fewest: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stored = StoredData::new(data, backend, "eu-west-1", &prefix(backend, UID), fewest);
        let machine = Self { folder, stored };
        for name in ["bin", "store", "root/etc", "root/dev", "root/var/log"] {
            fs::create_dir_all(machine.path(name)).unwrap();
        }
        for (name, content) in [("aws", AWS), ("cloud-init", CLOUD_INIT)] {
            let program = machine.path("bin").join(name);
            fs::write(&program, content).unwrap();
            fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(machine.path("root/dev/console"), "").unwrap();
        fs::write(machine.path("hook"), machine.stored.script()).unwrap();
        for (name, part) in machine.stored.parts() {
            // The AWS CLI shows a binary value in base64.
            let shown = match backend {
                SecretsBackend::SecretsManager => BASE64_STANDARD.encode(part).into_bytes(),
                SecretsBackend::SsmParameterStore => part.to_vec(),
            };
            fs::write(machine.part(&name), shown).unwrap();
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn part(&self, name: &str) -> PathBuf {
        self.path("store").join(name.replace('/', "_"))
    }

    fn boot(&self) -> Output {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        Command::new("bash")
            .arg(self.path("hook"))
            .env_clear()
            .env("PATH", path)
            .env("STUB", self.folder.path())
            .env("BOOT_HOOK_ROOT", self.path("root"))
            .env("BOOT_HOOK_TRIES", "3")
            .env("BOOT_HOOK_PAUSE", "0")
            .output()
            .unwrap()
    }

    /// What cloud-init gets as its configuration.
    fn configuration(&self) -> Option<Vec<u8>> {
        fs::read(self.path("root/etc/cloud/cloud.cfg.d/99-bootstrap-data.cfg")).ok()
    }

    /// The calls of the AWS CLI and of cloud-init since the last use of this function.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let _ = fs::remove_file(self.path("calls"));
        calls.lines().map(str::to_owned).collect()
    }

    fn console(&self) -> String {
        fs::read_to_string(self.path("root/dev/console")).unwrap()
    }

    fn left(&self) -> usize {
        fs::read_dir(self.path("store")).unwrap().count()
    }
}

/// Bytes that compression does not make smaller.
fn random(length: usize) -> Vec<u8> {
    random_from(1, length)
}

fn random_from(start: u32, length: usize) -> Vec<u8> {
    let mut state = start;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

/// A configuration of this many bytes that compression does not make smaller.
fn configuration(length: usize) -> Vec<u8> {
    [b"#cloud-config\n".as_slice(), &random(length)].concat()
}

const BACKENDS: [SecretsBackend; 2] = [SecretsBackend::SecretsManager, SecretsBackend::SsmParameterStore];

#[test]
fn a_machine_takes_its_data_deletes_it_and_hands_it_over() {
    for (backend, size, count) in
        [(SecretsBackend::SecretsManager, 100_000, 2), (SecretsBackend::SsmParameterStore, 8_000, 3)]
    {
        let data = configuration(size);
        let machine = Machine::new(&data, backend);
        assert_eq!(machine.stored.count(), count);
        let output = machine.boot();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(machine.configuration(), Some(data));
        assert_eq!(machine.left(), 0);
        let calls = machine.calls();
        assert_eq!(calls.len(), 2 * count + 1, "{calls:?}");
        assert!(calls[0].ends_with("--cli-read-timeout 30") && calls[0].contains("--region eu-west-1 "));
        assert_eq!(calls[2 * count], "cloud-init init");
        for file in ["secret-userdata.txt", "cloud/cloud.cfg.d/99-bootstrap-data.cfg"] {
            let file = machine.path("root/etc").join(file);
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let left = fs::read_dir(machine.path("root/etc")).unwrap().count();
        assert_eq!(left, 2, "nothing temporary is left");
        let umask = fs::read_to_string(machine.path("umask")).unwrap();
        assert_eq!(umask, "0022\n", "what cloud-init makes may be read by others");
    }
}

#[test]
fn data_is_divided_into_as_many_parts_as_asked_for() {
    for (backend, size, fewest, count) in [
        (SecretsBackend::SecretsManager, 10, 1, 1),
        (SecretsBackend::SecretsManager, 10, 10, 10),
        (SecretsBackend::SecretsManager, 100_000, 1, 2),
        (SecretsBackend::SecretsManager, 100_000, 7, 7),
        (SecretsBackend::SsmParameterStore, 8_000, 2, 3),
        (SecretsBackend::SsmParameterStore, 8_000, 10, 10),
    ] {
        let data = configuration(size);
        let machine = Machine::with_parts(&data, backend, fewest);
        assert_eq!(machine.stored.count(), count, "{backend} {size} {fewest}");
        assert!(machine.boot().status.success());
        assert_eq!((machine.configuration(), machine.left()), (Some(data), 0));
    }
    // No part is empty.
    let most = StoredData::new(b"", SecretsBackend::SecretsManager, "eu-west-1", "p", 1_000);
    assert!(most.count() < 100 && most.parts().all(|(_, part)| !part.is_empty()));
}

#[test]
fn a_throttled_part_is_read_again() {
    for backend in BACKENDS {
        let machine = Machine::new(DATA, backend);
        fs::write(machine.path("throttles"), "2").unwrap();
        assert!(machine.boot().status.success());
        assert_eq!(machine.configuration().as_deref(), Some(DATA));
        assert!(
            machine.console().contains("try 2 of 3") && machine.console().contains("ThrottlingException"),
            "{}",
            machine.console()
        );
    }
}

#[test]
fn data_with_another_checksum_is_neither_used_nor_deleted() {
    for backend in BACKENDS {
        let machine = Machine::new(DATA, backend);
        let other = Machine::new(b"#cloud-config\npassword: other\n", backend);
        let name = names(backend, &prefix(backend, UID), 1).remove(0);
        for content in [fs::read(other.part(&name)).unwrap(), b"aGVsbG8=".to_vec()] {
            fs::write(machine.part(&name), content).unwrap();
            assert_eq!(machine.boot().status.code(), Some(1));
            assert_eq!((machine.configuration(), machine.left()), (None, 1));
            assert_eq!(machine.calls().len(), 1, "neither a deletion nor a restart");
            let console = machine.console();
            assert!(console.contains("is not what was stored for this machine"), "{console}");
            assert!(!console.contains("hunter2") && !console.contains("other"), "{console}");
        }
    }
}

#[test]
fn a_part_that_stays_away_is_named_on_the_console() {
    for backend in BACKENDS {
        let machine = Machine::new(&configuration(100_000), backend);
        let last = names(backend, &prefix(backend, UID), machine.stored.count()).pop().unwrap();
        fs::remove_file(machine.part(&last)).unwrap();
        let output = machine.boot();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(machine.configuration(), None);
        assert_eq!(machine.left(), machine.stored.count() - 1, "nothing is deleted");
        let said = format!("{last} of {backend} in eu-west-1 cannot be read");
        assert!(machine.console().contains(&said), "{}", machine.console());
        assert!(String::from_utf8(output.stderr).unwrap().contains(&said));
    }
}

#[test]
fn a_later_boot_does_nothing() {
    let machine = Machine::new(DATA, SecretsBackend::SecretsManager);
    assert!(machine.boot().status.success());
    machine.calls();
    assert!(machine.boot().status.success());
    assert_eq!(machine.calls(), [""; 0]);
    assert_eq!(machine.configuration().as_deref(), Some(DATA));
}

#[test]
fn the_files_of_another_machine_in_the_image_are_never_used() {
    let machine = Machine::new(DATA, SecretsBackend::SecretsManager);
    fs::create_dir_all(machine.path("root/etc/cloud/cloud.cfg.d")).unwrap();
    for file in ["secret-userdata.txt", "cloud/cloud.cfg.d/99-bootstrap-data.cfg"] {
        fs::write(machine.path("root/etc").join(file), "#cloud-config\n").unwrap();
    }
    fs::write(machine.path("throttles"), "3").unwrap();
    assert_eq!(machine.boot().status.code(), Some(1));
    assert_eq!(machine.configuration(), None, "it is gone though nothing could be read");
    assert!(machine.boot().status.success());
    assert_eq!(machine.configuration().as_deref(), Some(DATA));
}

#[test]
fn a_refused_deletion_is_said_and_does_not_end_the_boot() {
    for backend in BACKENDS {
        let machine = Machine::new(DATA, backend);
        fs::write(machine.path("undeletable"), "").unwrap();
        assert!(machine.boot().status.success());
        assert_eq!(machine.configuration().as_deref(), Some(DATA));
        assert_eq!(machine.calls().pop().as_deref(), Some("cloud-init init"));
        let console = machine.console();
        assert!(console.contains("cannot delete") && console.contains("AccessDenied"), "{console}");
    }
}

#[test]
fn a_machine_without_the_aws_cli_says_so() {
    let machine = Machine::new(DATA, SecretsBackend::SecretsManager);
    fs::remove_file(machine.path("bin/aws")).unwrap();
    for program in ["bash", "mktemp", "sha256sum", "base64", "gzip"] {
        let found = Command::new("bash").args(["-c", &format!("command -v {program}")]).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        std::os::unix::fs::symlink(found.trim(), machine.path("bin").join(program)).unwrap();
    }
    let output = Command::new("bash")
        .arg(machine.path("hook"))
        .env_clear()
        .env("PATH", machine.path("bin"))
        .env("BOOT_HOOK_ROOT", machine.path("root"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(machine.console().contains("aws is not installed"), "{}", machine.console());
}

#[test]
fn parts_are_named_as_capas_policies_for_nodes_allow() {
    let named = |backend| names(backend, &prefix(backend, "uid"), 2);
    assert_eq!(named(SecretsBackend::SecretsManager), ["aws.cluster.x-k8s.io/uid-0", "aws.cluster.x-k8s.io/uid-1"]);
    assert_eq!(named(SecretsBackend::SsmParameterStore), ["/cluster.x-k8s.io/uid/0", "/cluster.x-k8s.io/uid/1"]);
}

#[test]
fn user_data_is_small_ascii_without_the_data() {
    for backend in BACKENDS {
        let prefix = "x".repeat(512);
        let of = |data: &[u8]| StoredData::new(data, backend, "ap-southeast-2", &prefix, 1).user_data();
        let user_data = of(&[DATA, &random(1_000_000)].concat());
        assert!(user_data.expose().len() < UserData::MAX_BYTES / 2, "{user_data:?}");
        let text = std::str::from_utf8(user_data.expose()).unwrap();
        assert!(text.is_ascii() && !text.contains("hunter2"));
        assert_eq!(text.matches(BOUNDARY).count(), 3);
        assert!(text.lines().all(|line| line.len() < 998), "mail has a longest line");
        assert_eq!(of(DATA), of(DATA));
    }
}

#[test]
fn a_prefix_cannot_leave_its_quotes() {
    let backend = SecretsBackend::SecretsManager;
    let script = StoredData::new(DATA, backend, "eu-west-1", "a'; touch /tmp/x; '", 1).script();
    assert!(script.contains(r"prefix='a'\''; touch /tmp/x; '\''-'"), "{script}");
}

#[test]
fn stored_data_never_shows_in_debug_output() {
    let stored = StoredData::new(DATA, SecretsBackend::SecretsManager, "eu-west-1", "p", 1);
    let shown = format!("{stored:?}");
    assert!(shown.contains("count: 1") && !shown.contains("parts"), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn parts_joined_and_unpacked_are_the_data(
        start in any::<u32>(), length in 0..150_000_usize, fewest in 0..12_usize,
    ) {
        let data = random_from(start, length);
        for backend in BACKENDS {
            let parts = split(&data, backend, fewest);
            assert_eq!(parts, split(&data, backend, fewest));
            assert!(parts.len() >= fewest);
            let mut packed = Vec::new();
            for part in parts {
                match backend {
                    SecretsBackend::SecretsManager => {
                        assert!(!part.is_empty() && part.len() <= 65_536);
                        packed.extend(part);
                    }
                    SecretsBackend::SsmParameterStore => {
                        assert!(!part.is_empty() && part.len() <= 4_000);
                        packed.extend(BASE64_STANDARD.decode(part).unwrap());
                    }
                }
            }
            let mut joined = Vec::new();
            GzDecoder::new(packed.as_slice()).read_to_end(&mut joined).unwrap();
            assert_eq!(joined, data);
        }
    }
}

#[test]
fn cloud_init_renders_templates_and_runs_scripts() {
    let machine = Machine::new(b"## template: jinja\n#cloud-config\n", SecretsBackend::SecretsManager);
    assert!(machine.boot().status.success());
    assert_eq!(machine.configuration().as_deref(), Some(b"#cloud-config\n".as_slice()));
    let calls = machine.calls();
    assert!(calls.iter().any(|call| call.starts_with("cloud-init devel render ")), "{calls:?}");

    let machine = Machine::new(b"#!/bin/sh\necho joined\n", SecretsBackend::SecretsManager);
    assert!(machine.boot().status.success());
    assert_eq!(machine.configuration(), None);
    let script = machine.path("root/var/lib/cloud/scripts/per-instance/bootstrap-data");
    assert_eq!(fs::metadata(script).unwrap().permissions().mode() & 0o777, 0o700);
    machine.calls();
    assert!(machine.boot().status.success());
    assert_eq!(machine.calls(), [""; 0], "a later boot does nothing");

    for data in [b"{}".as_slice(), b"#cloud-config-archive\n"] {
        let machine = Machine::new(data, SecretsBackend::SecretsManager);
        assert_eq!(machine.boot().status.code(), Some(1));
        assert!(machine.console().contains("neither a cloud-config nor a script"));
    }
}

#[test]
fn cloud_configs_scripts_and_their_templates_are_handed_over() {
    let table = [
        ("#cloud-config\nruncmd: []\n", true),
        ("#cloud-config", true),
        ("#cloud-config # of kubeadm\r\n", true),
        ("#!/bin/sh\ntrue\n", true),
        ("## template: jinja\n#cloud-config\n", true),
        ("## template: jinja\n#!/bin/sh\n", true),
        ("## template: jinja\n{% if true %}\n#cloud-config\n{% endif %}\n", true),
        ("## template: jinja\n", false),
        ("#cloud-config-archive\n- text\n", false),
        ("#include\nhttps://example.org/data\n", false),
        ("MIME-Version: 1.0\n", false),
        ("\n#cloud-config\n", false),
        ("version: v1alpha1\n", false),
    ];
    for (data, expected) in table {
        assert_eq!(hands_over(data.as_bytes()), expected, "{data}");
    }
}
