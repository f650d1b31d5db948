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

/// Libraries that log every request at the levels at which the program logs its decisions.
const LIBRARIES: [&str; 5] = ["hyper", "hyper_util", "h2", "rustls", "tower"];

/// Libraries that both return and log each failure, although the program logs returned failures itself. They also log
/// normal failures, such as conflicts, and whole objects that they cannot read.
const RETURNING: [&str; 2] = ["kube_client", "kube_runtime"];

/// The prefixes of the log targets of the program itself and of noisy libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogTargets {
    /// Prefix of the program's own targets.
    pub own: &'static str,
    /// Libraries, besides those that this crate uses, that log every request.
    pub libraries: &'static [&'static str],
}

/// The flag `--logging-format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Only the program's own targets may log at trace level, because libraries print whole requests and answers, including
/// Secrets, at that level. This is a separate filter, because within one filter the directive with the longest target
/// wins.
fn only_own_trace(targets: LogTargets) -> Targets {
    Targets::new().with_default(LevelFilter::DEBUG).with_target(targets.own, LevelFilter::TRACE)
}

/// The reasons why logging cannot be set up.
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

/// Sets up the logging of the process, with the verbosity of the flag `-v`. If `RUST_LOG` is set, it replaces `-v`, but
/// it cannot enable the trace level for libraries.
pub fn init(format: LogFormat, verbosity: u8, targets: LogTargets) -> Result<(), LoggingError> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(directives) if !directives.is_empty() => directives,
        _ => directives(verbosity, targets),
    };
    dispatch(format, targets, EnvFilter::try_new(filter)?, io::stderr().is_terminal(), io::stderr).try_init()?;
    Ok(())
}

/// Formats and filters log events.
pub(crate) fn dispatch<W>(
    format: LogFormat,
    targets: LogTargets,
    filter: EnvFilter,
    colours: bool,
    writer: W,
) -> Dispatch
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(writer);
    match format {
        LogFormat::Text => subscriber.finish().with(only_own_trace(targets)).into(),
        LogFormat::Json => subscriber
            .fmt_fields(JsonFields::new())
            .event_format(FlatJson)
            .finish()
            .with(only_own_trace(targets))
            .into(),
    }
}

/// The levels of Cluster API's `-v`: info up to 3, debug at 4, trace from 5. Libraries log less; they reach debug at 8,
/// where the Go client starts to print requests.
pub(crate) fn directives(verbosity: u8, targets: LogTargets) -> String {
    let (own, libraries, returning) = match verbosity {
        0..=3 => ("info", "warn", "off"),
        4 => ("debug", "info", "off"),
        5..=7 => ("trace", "info", "off"),
        8.. => ("trace", "debug", "debug"),
    };
    let libraries = LIBRARIES.iter().chain(targets.libraries).map(|library| (library, libraries));
    let returning = RETURNING.iter().map(|library| (library, returning));
    libraries.chain(returning).fold(own.to_owned(), |all, (library, level)| format!("{all},{library}={level}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing::{debug, trace};

    use super::*;

    const TARGETS: LogTargets = LogTargets { own: "widgets_", libraries: &["sdk"] };

    #[test]
    fn verbosity_maps_to_levels_and_keeps_libraries_quiet() {
        for (verbosity, own, library, returning) in [
            (0, "info,", ",sdk=warn,", ",kube_client=off,"),
            (4, "debug,", ",sdk=info,", ",kube_client=off,"),
            (5, "trace,", ",sdk=info,", ",kube_client=off,"),
            (9, "trace,", ",sdk=debug,", ",kube_client=debug,"),
        ] {
            let directives = directives(verbosity, TARGETS);
            assert!(directives.starts_with(own), "{directives}");
            assert!(directives.contains(library) && directives.contains(returning), "{directives}");
        }
        for verbosity in 0..10 {
            EnvFilter::try_new(directives(verbosity, TARGETS)).unwrap();
        }
    }

    #[test]
    fn no_directive_lets_a_library_trace_requests() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = Mutex::new(file.reopen().unwrap());
        let directives = "trace,sdk_runtime::client=trace,[{request}]=trace,some_library=trace";
        let dispatch = dispatch(LogFormat::Text, TARGETS, EnvFilter::new(directives), false, writer);
        // See `a_failure_is_logged_with_the_object_it_belongs_to` for the second one.
        let _second = Dispatch::new(tracing_subscriber::registry());
        tracing::dispatcher::with_default(&dispatch, || {
            trace!(target: "sdk_runtime::client", request = "UserData=", "transmitting");
            trace!(target: "kube_client::client", "Secret");
            trace!(target: "some_library", "anything");
            debug!(target: "sdk_runtime::client", "a library's decision");
            trace!(target: "widgets_store::write", "our own detail");
        });
        let logs = std::fs::read_to_string(file.path()).unwrap();
        let told: Vec<_> = logs.lines().filter_map(|line| line.split_once(": ")?.1.into()).collect();
        assert_eq!(told, ["a library's decision", "our own detail"], "{logs}");
    }

    #[test]
    fn formats_are_those_of_the_flag() {
        assert_eq!("json".parse::<LogFormat>().unwrap(), LogFormat::Json);
        assert_eq!("text".parse::<LogFormat>().unwrap(), LogFormat::Text);
        assert!("yaml".parse::<LogFormat>().is_err());
    }
}
