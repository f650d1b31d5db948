//! The image and what runs it, against each other and against the program.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this is test code, where a panic is a failed test")]

use std::fs;
use std::path::PathBuf;

use capa_rs::Cli;
use clap::Parser as _;
use serde_json::Value;

fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    let file = repository(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The Deployments of the provider and of its add-on, which run one image.
fn deployments() -> [Value; 2] {
    ["config/manager/deployment.yaml", "config/fleet/deployment.yaml"]
        .map(|file| serde_saphyr::from_str(&read(file)).unwrap())
}

fn deployment() -> Value {
    let [manager, _] = deployments();
    manager
}

/// The text with each `${NAME:=default}` replaced by its default.
fn with_defaults(text: &str) -> String {
    let mut parts = text.split("${");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (variable, rest) = part.split_once('}').unwrap();
        filled.push_str(variable.split_once(":=").unwrap().1);
        filled.push_str(rest);
    }
    filled
}

/// What follows the keyword on the last line of the Dockerfile that begins with it.
fn instruction<'a>(dockerfile: &'a str, keyword: &str) -> &'a str {
    let mut lines = dockerfile.lines().rev();
    lines.find_map(|line| line.strip_prefix(keyword)).unwrap().trim()
}

#[test]
fn a_deployment_gives_its_process_flags_that_it_takes() {
    for deployment in deployments() {
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let arguments = container["args"].as_array().unwrap();
        let arguments = arguments.iter().map(|argument| with_defaults(argument.as_str().unwrap()));
        let command = std::iter::once("capa-rs".to_owned()).chain(arguments);
        if let Err(error) = Cli::try_parse_from(command) {
            panic!("{error}");
        }
    }
}

#[test]
fn image_and_deployments_agree_on_program_and_user() {
    let dockerfile = read("Dockerfile");
    for deployment in deployments() {
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(container["image"], "capa-rs:latest");
        let program = container["command"][0].as_str().unwrap();
        assert_eq!(container["command"], serde_json::json!([program]));
        assert_eq!(instruction(&dockerfile, "ENTRYPOINT"), format!("[\"{program}\"]"));
        assert_eq!(instruction(&dockerfile, "COPY"), format!("--from=build /capa-rs {program}"));
        let context = &pod["securityContext"];
        let user = format!("{}:{}", context["runAsUser"], context["runAsGroup"]);
        assert_eq!(instruction(&dockerfile, "USER"), user);
    }
}

#[test]
fn the_image_build_has_all_crates_and_the_pinned_compiler() {
    let channel = read("rust-toolchain.toml");
    let version = channel.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap();
    let dockerfile = read("Dockerfile");
    assert!(dockerfile.contains(&format!("ARG RUST_VERSION={}\n", version.trim_matches('"'))));
    let manifest = read("Cargo.toml");
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    let members: Vec<String> = serde_json::from_str(members).unwrap();
    let ignored = read(".dockerignore");
    for member in
        members.iter().map(String::as_str).chain(["src", "build.rs", "Cargo.toml", "Cargo.lock", ".cargo/config.toml"])
    {
        assert!(ignored.lines().any(|line| line == format!("!{member}")), "{member} is not sent");
    }
}

#[test]
fn pods_are_restricted_and_have_probes_and_limits() {
    for deployment in deployments() {
        assert_eq!(deployment["spec"]["replicas"], 1);
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        let container = &pod["containers"][0];
        let context = &container["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["capabilities"]["drop"], serde_json::json!(["ALL"]));
        for probe in ["livenessProbe", "readinessProbe"] {
            assert_eq!(container[probe]["httpGet"]["port"], "healthz", "{probe}");
        }
        let resources = &container["resources"];
        assert!(resources["requests"]["cpu"].is_string() && resources["limits"]["memory"].is_string());
    }
}

/// Tilt is not run here; what can be seen is that nothing it is given has been renamed.
#[test]
fn the_tiltfile_names_existing_files() {
    let tiltfile = read("Tiltfile");
    for path in ["Dockerfile", "config/default", "config"] {
        assert!(tiltfile.contains(path) && repository(path).exists(), "{path}");
    }
    let deployment = deployment();
    let name = deployment["metadata"]["name"].as_str().unwrap();
    assert!(tiltfile.contains(&format!("k8s_resource('{name}'")));
    let image = deployment["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap();
    let (image, _) = image.split_once(':').unwrap();
    assert!(tiltfile.contains(&format!("docker_build('{image}'")));
}
