//! Flags of `capa-rs manager`, named as Cluster API and CAPA name them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use capa_aws::ServiceEndpoints;
use capa_cloud::Timing;
use capa_cloud::limits::{AccountShares, Share, Shares};
use capa_cloud::targets::TargetPolicy;
use capa_runtime::diagnostics::TlsVersion;
use capa_runtime::logging::LogFormat;
use clap::Args;
use tracing::warn;

/// Namespace of the manager if `POD_NAMESPACE` is not set.
const DEFAULT_NAMESPACE: &str = "capa-rs-system";

/// The name of CAPA's Lease. With the same Lease in one namespace, CAPA and this provider never run at the same time.
const LEASE_NAME: &str = "controller-leader-elect-capa";

/// Flags of `capa-rs manager`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Kubeconfig of the management cluster. Default: the service account of the pod, or else the default kubeconfig.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Reconcile only objects of this namespace. Default: all namespaces.
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    /// Reconcile only objects whose label cluster.x-k8s.io/watch-filter has this value.
    #[arg(long, value_name = "VALUE")]
    pub(crate) watch_filter: Option<String>,

    /// Namespace of the Secrets of static identities. Default: the manager's own (POD_NAMESPACE).
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) identity_namespace: Option<String>,

    /// Run the controllers only while holding a Lease, so that several managers may run.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) leader_elect: bool,

    /// Name of the Lease.
    #[arg(long, value_name = "NAME", default_value = LEASE_NAME)]
    pub(crate) leader_elect_resource_name: String,

    /// Time that other managers wait after the leader's last renewal of the Lease.
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub(crate) leader_elect_lease_duration: GoDuration,

    /// Time for which the leader tries to renew the Lease before it gives up leadership.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub(crate) leader_elect_renew_deadline: GoDuration,

    /// Time between two attempts to acquire or renew the Lease.
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub(crate) leader_elect_retry_period: GoDuration,

    /// Number of AWSClusters that are reconciled concurrently, at most half of them with one identity and region; the
    /// same number applies to AWSMachineTemplates.
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    pub(crate) awscluster_concurrency: u16,

    /// Number of AWSMachines that are reconciled concurrently, at most half of them of one Cluster, or of one AWS
    /// account and region.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    pub(crate) awsmachine_concurrency: u16,

    /// Maximum time between two reconciles of an object; at least 1s.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = period)]
    pub(crate) sync_period: GoDuration,

    /// Time between two full listings of instances; at least 1s.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = period)]
    pub(crate) instance_poll_interval: GoDuration,

    /// Maximum time for which the termination of a control plane instance waits until it has left its load balancers;
    /// at least 1s. The default is the time that kube-apiserver gives a request; watches never end by themselves.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = period)]
    pub(crate) target_drain_timeout: GoDuration,

    /// Share of AWS's published request rates that the manager uses, 0.001 to 1. The share does not apply to
    /// RunInstances and TerminateInstances.
    #[arg(long, value_name = "SHARE", default_value = "0.5")]
    pub(crate) aws_rate_share: Share,

    /// Share of AWS's published request rates of RunInstances and TerminateInstances that the manager uses, 0.001 to 1;
    /// less than 1 where several managers launch machines in one account.
    #[arg(long, value_name = "SHARE", default_value = "1")]
    pub(crate) aws_launch_rate_share: Share,

    /// Shares for individual accounts, as `<account id>=<share>[,…]`.
    #[arg(long, value_name = "SHARES", default_value = "")]
    pub(crate) aws_account_rate_share: AccountShares,

    /// Endpoints that replace AWS's endpoints, as `region:service=url[,service=url][;region:…]`.
    #[arg(long, value_name = "ENDPOINTS", default_value = "")]
    pub(crate) service_endpoints: ServiceEndpoints,

    /// Which target groups and classic load balancers control planes may name: Any that no other cluster owns or uses,
    /// or Tagged ones, whose tag infrastructure.cluster.x-k8s.io/control-plane is `<namespace>/<cluster>`.
    #[arg(long, value_name = "POLICY", default_value = "Any")]
    pub(crate) control_plane_targets: TargetPolicy,

    /// Feature gates. AutoControllerIdentityCreator creates AWSClusterControllerIdentity/default for all namespaces if
    /// it was never there; other gates are ignored with a warning.
    #[arg(long, value_name = "GATES", default_value = "AutoControllerIdentityCreator=true")]
    pub(crate) feature_gates: FeatureGates,

    /// Address of /healthz and /readyz.
    #[arg(long, value_name = "ADDRESS", default_value = ":9440")]
    pub(crate) health_addr: String,

    /// Address of /metrics. The manager serves metrics with TLS to users with the permission to get the nonResourceURL
    /// /metrics. 0 turns metrics off.
    #[arg(long, value_name = "ADDRESS", default_value = ":8443")]
    pub(crate) diagnostics_address: String,

    /// Minimum TLS version for metrics: VersionTLS12 or VersionTLS13.
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12")]
    pub(crate) tls_min_version: TlsVersion,

    /// Serve metrics over plain HTTP to every client that reaches the address.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true")]
    pub(crate) insecure_diagnostics: bool,

    /// Format of the log: text or json.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) logging_format: LogFormat,

    /// Verbosity of the log: 0 to 9.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    pub(crate) verbosity: u8,

    /// CAPA's webhook flags: accepted, without effect, because there are no webhooks.
    #[arg(long, value_name = "PORT", hide = true)]
    pub(crate) webhook_port: Option<String>,

    /// See `webhook_port`.
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub(crate) webhook_cert_dir: Option<String>,

    /// See `webhook_port`.
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) webhook_cert_name: Option<String>,

    /// See `webhook_port`.
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) webhook_key_name: Option<String>,

    /// Divisor of every period of AWS access, but of no safety age, for tests with real servers.
    #[arg(long, value_name = "FACTOR", default_value_t = 1, hide = true)]
    pub(crate) timing_divisor: u32,
}

/// The manager's own namespace, from the environment variable that the Deployment sets.
pub(crate) fn own_namespace() -> String {
    std::env::var("POD_NAMESPACE")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
}

impl Flags {
    /// Namespace of the Secrets of static identities.
    pub(crate) fn effective_identity_namespace(&self) -> String {
        self.identity_namespace
            .clone()
            .filter(|name| !name.is_empty())
            .unwrap_or_else(own_namespace)
    }

    /// Periods and ages of AWS access.
    pub(crate) fn timing(&self) -> Timing {
        let timing = Timing {
            listing_interval: self.instance_poll_interval.into(),
            drain_limit: self.target_drain_timeout.into(),
            ..Timing::default()
        };
        Timing {
            target_interval: self.sync_period.into(),
            ..timing.with_periods_divided_by(self.timing_divisor)
        }
    }

    /// The shares of AWS's published request rates.
    pub(crate) fn rate_shares(&self) -> Shares {
        Shares {
            default: self.aws_rate_share,
            accounts: self.aws_account_rate_share.clone(),
            launches: self.aws_launch_rate_share,
        }
    }

    /// Whether the manager creates `AWSClusterControllerIdentity/default` if it is absent.
    pub(crate) fn creates_controller_identity(&self) -> bool {
        self.feature_gates
            .0
            .get(AUTO_CONTROLLER_IDENTITY)
            .copied()
            .unwrap_or(true)
    }

    /// Logs the flags and feature gates that have no effect.
    pub(super) fn warn_about_ignored(&self) {
        for (name, value) in [
            ("--webhook-port", &self.webhook_port),
            ("--webhook-cert-dir", &self.webhook_cert_dir),
            ("--webhook-cert-name", &self.webhook_cert_name),
            ("--webhook-key-name", &self.webhook_key_name),
        ] {
            if value.is_some() {
                warn!(flag = name, "there are no webhooks: the flag has no effect");
            }
        }
        let gates = self.feature_gates.0.keys();
        for name in gates.filter(|name| *name != AUTO_CONTROLLER_IDENTITY) {
            warn!(gate = name, "this feature gate is not known here: it has no effect");
        }
    }
}

const AUTO_CONTROLLER_IDENTITY: &str = "AutoControllerIdentityCreator";

/// Feature gates by name, in the syntax of Go's flags: `One=true,Other=false`. Of several values of one gate the last
/// value applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeatureGates(BTreeMap<String, bool>);

impl FromStr for FeatureGates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let gates = text.split(',').map(str::trim).filter(|gate| !gate.is_empty());
        gates.map(gate).collect::<Result<_, _>>().map(Self)
    }
}

/// One `name=value`. The value is in the syntax of Go's ParseBool.
fn gate(text: &str) -> Result<(String, bool), String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err(format!(
            "feature gate {text} has no value: write {text}=true or {text}=false"
        ));
    };
    let on = match value.trim() {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
        "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
        other => return Err(format!("feature gate {name} is neither true nor false but {other:?}")),
    };
    Ok((name.trim().to_owned(), on))
}

/// A duration in the syntax of Go's flags: `90s`, `10m`, `1h30m`, `250ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoDuration(Duration);

impl From<GoDuration> for Duration {
    fn from(duration: GoDuration) -> Self {
        duration.0
    }
}

impl FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unsigned: jiff::SignedDuration = text.parse().map_err(|error| format!("{error}"))?;
        Duration::try_from(unsigned)
            .map(Self)
            .map_err(|_| "a duration cannot be negative".to_owned())
    }
}

/// A period of repeated work, with a minimum, because a period near zero would mean work without a pause.
fn period(text: &str) -> Result<GoDuration, String> {
    let duration: GoDuration = text.parse()?;
    if duration.0 < Duration::from_secs(1) {
        return Err("the period must be at least 1s".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        flags: Flags,
    }

    fn flags(arguments: &[&str]) -> Flags {
        Only::parse_from(std::iter::once("manager").chain(arguments.iter().copied())).flags
    }

    #[test]
    fn switches_are_read_as_go_writes_them() {
        assert!(!flags(&[]).leader_elect);
        assert!(flags(&["--leader-elect"]).leader_elect);
        assert!(!flags(&["--leader-elect=false"]).leader_elect);
    }

    #[test]
    fn the_flags_of_the_go_providers_are_taken_as_they_are() {
        let given = flags(&[
            "--namespace=team-a",
            "--watch-filter=blue",
            "--leader-elect=true",
            "--leader-elect-lease-duration=1m30s",
            "--leader-elect-renew-deadline=40s",
            "--leader-elect-retry-period=5s",
            "--awscluster-concurrency=3",
            "--awsmachine-concurrency=7",
            "--sync-period=5m",
            "--health-addr=127.0.0.1:9440",
            "--diagnostics-address=127.0.0.1:8080",
            "--insecure-diagnostics=true",
            "--tls-min-version=VersionTLS13",
            "--feature-gates=EKS=true,MachinePool=false",
            "--service-endpoints=eu-west-1:ec2=http://127.0.0.1:1",
            "--kubeconfig=/tmp/kubeconfig",
            "--aws-rate-share=0.3",
            "--aws-account-rate-share=123456789012=0.2",
            "--aws-launch-rate-share=0.5",
            "--identity-namespace=capa-system",
            "--instance-poll-interval=30s",
            "--target-drain-timeout=5m",
            "-v=4",
            "--webhook-port=9443",
            "--webhook-cert-dir=/tmp/certs",
            "--webhook-cert-name=tls.crt",
            "--webhook-key-name=tls.key",
        ]);
        assert_eq!((given.awscluster_concurrency, given.awsmachine_concurrency), (3, 7));
        assert_eq!(given.timing().drain_limit, Duration::from_mins(5));
        assert_eq!((given.verbosity, given.tls_min_version), (4, TlsVersion::Tls13));
        assert!(given.insecure_diagnostics && given.leader_elect);

        let defaults = flags(&[]);
        assert_eq!(
            (defaults.awscluster_concurrency, defaults.awsmachine_concurrency),
            (5, 10)
        );
        assert_eq!(defaults.sync_period, GoDuration(Duration::from_mins(10)));
        assert_eq!(defaults.timing().drain_limit, Duration::from_mins(1));
        assert_eq!(defaults.tls_min_version, TlsVersion::Tls12);
        assert_eq!(
            (defaults.health_addr.as_str(), defaults.diagnostics_address.as_str()),
            (":9440", ":8443")
        );
        assert!(!defaults.insecure_diagnostics && defaults.namespace.is_none());
    }

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, expected) in [("90s", 90_000), ("10m", 600_000), ("1h30m", 5_400_000), ("250ms", 250)] {
            assert_eq!(text.parse::<GoDuration>().unwrap().0.as_millis(), expected, "{text}");
        }
        assert!("-5s".parse::<GoDuration>().is_err());
        assert!("soon".parse::<GoDuration>().is_err());
    }

    #[test]
    fn periods_below_a_second_are_refused_by_the_name_of_their_flag() {
        for flag in ["--sync-period", "--instance-poll-interval", "--target-drain-timeout"] {
            assert!(Only::try_parse_from(["manager", flag, "1s"]).is_ok(), "{flag}");
            for value in ["0", "0s", "999ms"] {
                let refused = Only::try_parse_from(["manager", flag, value])
                    .err()
                    .unwrap()
                    .to_string();
                assert!(refused.contains(flag), "{value}: {refused}");
            }
            let refused = Only::try_parse_from(["manager", flag, "999ms"])
                .err()
                .unwrap()
                .to_string();
            assert!(refused.contains("at least 1s"), "{refused}");
        }
    }

    #[test]
    fn the_controller_identity_is_created_unless_its_gate_is_off() {
        assert!(flags(&[]).creates_controller_identity());
        assert!(flags(&["--feature-gates=EKS=true"]).creates_controller_identity());
        assert!(!flags(&["--feature-gates=AutoControllerIdentityCreator=false"]).creates_controller_identity());
    }

    #[test]
    fn gates_are_read_as_go_writes_them() {
        for (word, on) in [
            ("1", true),
            ("t", true),
            ("T", true),
            ("TRUE", true),
            ("true", true),
            ("True", true),
            ("0", false),
            ("f", false),
            ("F", false),
            ("FALSE", false),
            ("false", false),
            ("False", false),
        ] {
            let gates = format!("--feature-gates=EKS=true, AutoControllerIdentityCreator={word}");
            assert_eq!(flags(&[&gates]).creates_controller_identity(), on, "{word}");
        }
        assert_eq!("".parse(), Ok(FeatureGates(BTreeMap::new())));
    }

    #[test]
    fn a_gate_that_cannot_be_read_is_refused_by_name() {
        for gates in ["EKS=true,Creator", "Creator=", "Creator=no", "Creator=tRUE"] {
            let refusal = gates.parse::<FeatureGates>().unwrap_err();
            assert!(refusal.contains("Creator"), "{gates}: {refusal}");
        }
    }

    #[test]
    fn half_of_the_published_rates_is_the_default_share() {
        assert_eq!(flags(&[]).rate_shares(), Shares::default());
        let given = flags(&["--aws-rate-share=0.25", "--aws-account-rate-share=123456789012=0.1"]).rate_shares();
        assert_eq!(given.of(None), "0.25".parse().unwrap());
        assert_eq!(given.of(Some("123456789012")), "0.1".parse().unwrap());
        assert_eq!(given.launches, Share::WHOLE);
        let launches = flags(&["--aws-launch-rate-share=0.5"]).rate_shares();
        assert_eq!(launches.launches, "0.5".parse().unwrap());
    }

    #[test]
    fn an_invalid_share_is_refused_by_the_name_of_its_flag() {
        let table = [
            ("--aws-rate-share", "0"),
            ("--aws-rate-share", "1.5"),
            ("--aws-launch-rate-share", "0"),
            ("--aws-account-rate-share", "0.5"),
            ("--aws-account-rate-share", "prod=0.5"),
        ];
        for (flag, value) in table {
            let refused = Only::try_parse_from(["manager", flag, value])
                .err()
                .unwrap()
                .to_string();
            assert!(refused.contains(flag), "{value}: {refused}");
        }
    }

    #[test]
    fn targets_need_a_tag_only_where_that_is_asked_for() {
        assert_eq!(flags(&[]).control_plane_targets, TargetPolicy::Any);
        let tagged = flags(&["--control-plane-targets=Tagged"]);
        assert_eq!(tagged.control_plane_targets, TargetPolicy::Tagged);
        let refused = Only::try_parse_from(["manager", "--control-plane-targets=tagged"]);
        let refused = refused.err().unwrap().to_string();
        assert!(refused.contains("neither Any nor Tagged"), "{refused}");
    }

    #[test]
    fn the_divisor_scales_every_period() {
        let timing = flags(&["--timing-divisor=10"]).timing();
        assert_eq!(timing.listing_interval, Duration::from_secs(6));
        let divided = Timing {
            target_interval: Duration::from_mins(10),
            ..Timing::default().with_periods_divided_by(10)
        };
        assert_eq!(timing, divided);
    }
}
