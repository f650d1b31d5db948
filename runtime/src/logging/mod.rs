//! Structured logs on standard error.

mod json;

use std::io::{self, IsTerminal};
use std::str::FromStr;

use thiserror::Error;
use tracing::Dispatch;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt;

use json::FlatJson;

/// Libraries that tell of every request at levels where our own code tells of decisions.
const NOISY: [&str; 8] = [
    "kube_client",
    "kube_runtime",
    "hyper",
    "hyper_util",
    "h2",
    "rustls",
    "tower",
    "aws",
];

/// The flag `--logging-format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Ours are the only targets that may trace: at that level libraries print what they send and receive; the AWS SDK prints
/// whole requests with user data, and only a variable in the environment and the kind of a body stand before that.
/// A filter of its own, because among the directives of one filter the longest wins.
fn only_ours_trace() -> Targets {
    Targets::new()
        .with_default(LevelFilter::DEBUG)
        .with_target("capa_", LevelFilter::TRACE)
}

/// Why logging cannot be set up.
#[derive(Debug, Error)]
pub enum LoggingError {
    /// Neither `text` nor `json`.
    #[error("unknown logging format {0:?}: expected text or json")]
    Format(String),
    /// `RUST_LOG` is not a filter.
    #[error("RUST_LOG is not a valid filter")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// Logging was set up before.
    #[error("failed to set up logging")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

impl FromStr for LogFormat {
    type Err = LoggingError;

    fn from_str(text: &str) -> Result<Self, LoggingError> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(LoggingError::Format(other.to_owned())),
        }
    }
}

/// Sets the process's logging up: in this format, as talkative as `-v` asks for. `RUST_LOG`, where set, takes the place of `-v`,
/// but gets no library to trace.
pub fn init(format: LogFormat, verbosity: u8) -> Result<(), LoggingError> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(directives) if !directives.is_empty() => directives,
        _ => directives(verbosity),
    };
    dispatch(
        format,
        EnvFilter::try_new(filter)?,
        io::stderr().is_terminal(),
        io::stderr,
    )
    .try_init()?;
    Ok(())
}

/// What formats and filters.
pub(crate) fn dispatch<W>(format: LogFormat, filter: EnvFilter, colours: bool, writer: W) -> Dispatch
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colours)
        .with_writer(writer);
    match format {
        LogFormat::Text => subscriber.finish().with(only_ours_trace()).into(),
        LogFormat::Json => subscriber
            .fmt_fields(JsonFields::new())
            .event_format(FlatJson)
            .finish()
            .with(only_ours_trace())
            .into(),
    }
}

/// Levels as Cluster API's controllers use `-v`: up to 3 info, 4 debug, from 5 on trace. Libraries stay one step behind, and follow from
/// 8 on, where the Go client begins to print requests.
fn directives(verbosity: u8) -> String {
    let (ours, libraries) = match verbosity {
        0..=3 => ("info", "warn"),
        4 => ("debug", "info"),
        5..=7 => ("trace", "info"),
        8.. => ("trace", "debug"),
    };
    NOISY
        .iter()
        .fold(ours.to_owned(), |all, library| format!("{all},{library}={libraries}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing::{debug, trace};

    use super::*;

    #[test]
    fn verbosity_maps_to_levels_and_keeps_libraries_quiet() {
        assert!(directives(0).starts_with("info,kube_client=warn,"));
        assert!(directives(4).starts_with("debug,kube_client=info,"));
        assert!(directives(5).starts_with("trace,kube_client=info,"));
        assert!(directives(9).starts_with("trace,kube_client=debug,"));
        for verbosity in 0..10 {
            EnvFilter::try_new(directives(verbosity)).unwrap();
        }
    }

    #[test]
    fn no_directive_lets_a_library_trace_requests() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = Mutex::new(file.reopen().unwrap());
        let directives = "trace,aws_smithy_runtime::client::orchestrator=trace,[{request}]=trace,some_library=trace";
        let dispatch = dispatch(LogFormat::Text, EnvFilter::new(directives), false, writer);
        // See `a_failure_is_logged_with_the_object_it_belongs_to` for the second one.
        let _second = Dispatch::new(tracing_subscriber::registry());
        tracing::dispatcher::with_default(&dispatch, || {
            trace!(target: "aws_smithy_runtime::client::orchestrator", request = "UserData=", "transmitting");
            trace!(target: "kube_client::client", "Secret");
            trace!(target: "some_library", "anything");
            debug!(target: "aws_smithy_runtime::client::orchestrator", "a library's decision");
            trace!(target: "capa_aws::launch", "our own detail");
        });
        let logs = std::fs::read_to_string(file.path()).unwrap();
        let told: Vec<_> = logs
            .lines()
            .filter_map(|line| line.split_once(": ")?.1.into())
            .collect();
        assert_eq!(told, ["a library's decision", "our own detail"], "{logs}");
    }

    #[test]
    fn formats_are_those_of_the_flag() {
        assert_eq!("json".parse::<LogFormat>().unwrap(), LogFormat::Json);
        assert_eq!("text".parse::<LogFormat>().unwrap(), LogFormat::Text);
        assert!("yaml".parse::<LogFormat>().is_err());
    }
}
