//! Flags of `capa-rs manager`. They have the names of the flags of Cluster API and CAPA.

use std::collections::BTreeMap;
use std::str::FromStr;

use capa_aws::ServiceEndpoints;
use capa_cloud::Timing;
use capa_cloud::limits::{AccountShares, Share, Shares};
use capa_cloud::targets::TargetPolicy;
use clap::Args;
use tracing::warn;

use crate::duration_flag::{GoDuration, period};
use crate::process::{ProcessFlags, own_namespace};

/// The name of CAPA's Lease. With the same Lease in one namespace, CAPA and this provider never run at the same time.
const LEASE_NAME: &str = "controller-leader-elect-capa";

/// Flags of `capa-rs manager`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) process: ProcessFlags,

    /// Namespace of the Secrets of static identities. Default: the manager's own (POD_NAMESPACE).
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) identity_namespace: Option<String>,

    /// Name of the Lease.
    #[arg(long, value_name = "NAME", default_value = LEASE_NAME)]
    pub(crate) leader_elect_resource_name: String,

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

    /// Maximum time that the termination of a control plane instance waits for its deregistration from load balancers
    /// to complete; at least 1s. The default is the request timeout of kube-apiserver, which does not end watches.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = period)]
    pub(crate) target_drain_timeout: GoDuration,

    /// Share of AWS's published request rates that the manager uses, 0.001 to 1. The share does not apply to
    /// RunInstances and TerminateInstances.
    #[arg(long, value_name = "SHARE", default_value = "0.5")]
    pub(crate) aws_rate_share: Share,

    /// Share of AWS's published request rates of RunInstances and TerminateInstances that the manager uses, 0.001 to 1;
    /// set less than 1 if several managers launch machines in one account.
    #[arg(long, value_name = "SHARE", default_value = "1")]
    pub(crate) aws_launch_rate_share: Share,

    /// Shares for individual accounts, as `<account id>=<share>[,…]`.
    #[arg(long, value_name = "SHARES", default_value = "")]
    pub(crate) aws_account_rate_share: AccountShares,

    /// Endpoints that replace AWS's endpoints, as `region:service=url[,service=url][;region:…]`.
    #[arg(long, value_name = "ENDPOINTS", default_value = "")]
    pub(crate) service_endpoints: ServiceEndpoints,

    /// Target groups and classic load balancers that control planes may name. Any: those that no other cluster owns or
    /// uses. Tagged: those whose tag infrastructure.cluster.x-k8s.io/control-plane is `<namespace>/<cluster>`.
    #[arg(long, value_name = "POLICY", default_value = "Any")]
    pub(crate) control_plane_targets: TargetPolicy,

    /// Feature gates. AutoControllerIdentityCreator creates AWSClusterControllerIdentity/default for all namespaces if
    /// it has never existed; other gates are ignored with a warning.
    #[arg(long, value_name = "GATES", default_value = "AutoControllerIdentityCreator=true")]
    pub(crate) feature_gates: FeatureGates,

    /// A webhook flag of CAPA, which is accepted but has no effect, because this provider has no webhooks.
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

    /// Factor by which every period of AWS access is divided, for tests with real servers. Safety ages are not divided.
    #[arg(long, value_name = "FACTOR", default_value_t = 1, hide = true)]
    pub(crate) timing_divisor: u32,
}

impl Flags {
    /// Namespace of the Secrets of static identities.
    pub(crate) fn effective_identity_namespace(&self) -> String {
        self.identity_namespace.clone().filter(|name| !name.is_empty()).unwrap_or_else(own_namespace)
    }

    /// Periods and ages of AWS access.
    pub(crate) fn timing(&self) -> Timing {
        let timing = Timing {
            listing_interval: self.instance_poll_interval.into(),
            drain_limit: self.target_drain_timeout.into(),
            ..Timing::default()
        };
        Timing { target_interval: self.sync_period.into(), ..timing.with_periods_divided_by(self.timing_divisor) }
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
        self.feature_gates.0.get(AUTO_CONTROLLER_IDENTITY).copied().unwrap_or(true)
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

/// Feature gates by name, in the syntax of Go's flags: `One=true,Other=false`. If a gate has several values, the last
/// one applies.
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
        return Err(format!("feature gate {text} has no value: write {text}=true or {text}=false"));
    };
    let on = match value.trim() {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
        "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
        other => return Err(format!("feature gate {name} is neither true nor false but {other:?}")),
    };
    Ok((name.trim().to_owned(), on))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use capa_runtime::diagnostics::TlsVersion;
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
        assert!(!flags(&[]).process.leader_elect);
        assert!(flags(&["--leader-elect"]).process.leader_elect);
        assert!(!flags(&["--leader-elect=false"]).process.leader_elect);
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
        let process = given.process;
        assert_eq!((process.verbosity, process.tls_min_version), (4, TlsVersion::Tls13));
        assert!(process.insecure_diagnostics && process.leader_elect);

        let defaults = flags(&[]);
        assert_eq!((defaults.awscluster_concurrency, defaults.awsmachine_concurrency), (5, 10));
        assert_eq!(Duration::from(defaults.sync_period), Duration::from_mins(10));
        assert_eq!(defaults.timing().drain_limit, Duration::from_mins(1));
        let process = defaults.process;
        assert_eq!(process.tls_min_version, TlsVersion::Tls12);
        assert_eq!((process.health_addr.as_str(), process.diagnostics_address.as_str()), (":9440", ":8443"));
        assert!(!process.insecure_diagnostics && process.namespace.is_none());
    }

    #[test]
    fn periods_below_a_second_are_refused_by_the_name_of_their_flag() {
        for flag in ["--sync-period", "--instance-poll-interval", "--target-drain-timeout"] {
            assert!(Only::try_parse_from(["manager", flag, "1s"]).is_ok(), "{flag}");
            for value in ["0", "0s", "999ms"] {
                let refused = Only::try_parse_from(["manager", flag, value]).err().unwrap().to_string();
                assert!(refused.contains(flag), "{value}: {refused}");
            }
            let refused = Only::try_parse_from(["manager", flag, "999ms"]).err().unwrap().to_string();
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
            let refused = Only::try_parse_from(["manager", flag, value]).err().unwrap().to_string();
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
        let divided =
            Timing { target_interval: Duration::from_mins(10), ..Timing::default().with_periods_divided_by(10) };
        assert_eq!(timing, divided);
    }
}
