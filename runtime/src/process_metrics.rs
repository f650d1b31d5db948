//! The metrics of the process, with the names of Prometheus's client libraries. They are read from Linux's `/proc` at
//! each scrape. Other systems have none of these metrics.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// Registers the metrics.
pub fn register(registry: &mut Registry) {
    registry.register_collector(Box::new(ProcessMetrics));
}

#[derive(Debug)]
struct ProcessMetrics;

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let units = Units::of_this_computer(&read("/proc/stat"));
        let Some(usage) = Usage::parse(&read("/proc/self/stat"), &units) else {
            return Ok(());
        };
        let help = "CPU time of the process in seconds";
        let metric = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
        ConstCounter::new(usage.cpu_seconds).encode(metric)?;
        let mut gauge = |name, help, value: f64| {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)
        };
        gauge("process_start_time_seconds", "Start of the process in Unix time", usage.started_at)?;
        gauge("process_resident_memory_bytes", "Resident memory of the process", usage.resident_bytes)?;
        gauge("process_virtual_memory_bytes", "Virtual memory of the process", usage.virtual_bytes)?;
        if let Some(open) = open_files() {
            gauge("process_open_fds", "Open file descriptors of the process", open)?;
        }
        if let Some(most) = getrlimit(Resource::Nofile).current {
            gauge("process_max_fds", "Most file descriptors that the process may open", float(most))?;
        }
        Ok(())
    }
}

/// The units of the numbers in `/proc`.
struct Units {
    ticks_per_second: f64,
    page_bytes: f64,
    /// Unix time.
    booted_at: f64,
}

impl Units {
    /// The units of this computer. `stat` is the text of its `/proc/stat`.
    fn of_this_computer(stat: &str) -> Self {
        let booted_at = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
        Self {
            ticks_per_second: float(clock_ticks_per_second()),
            page_bytes: page_size().try_into().map_or(0.0, float),
            booted_at: booted_at.unwrap_or_default(),
        }
    }
}

#[derive(Debug, PartialEq)]
struct Usage {
    cpu_seconds: f64,
    started_at: f64,
    virtual_bytes: f64,
    resident_bytes: f64,
}

impl Usage {
    /// Reads `/proc/self/stat` (`man 5 proc_pid_stat`). The second field, the name, may contain spaces, so the fields
    /// here start with the third one.
    fn parse(stat: &str, units: &Units) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let field = |number: usize| -> Option<f64> { fields.get(number - 3)?.parse().ok() };
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / units.ticks_per_second,
            started_at: units.booted_at + field(22)? / units.ticks_per_second,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * units.page_bytes,
        })
    }
}

/// The number of open file descriptors, except the descriptor with which this function reads them.
fn open_files() -> Option<f64> {
    let open = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(float(open.saturating_sub(1).try_into().ok()?))
}

/// Numbers above 2^53 are rounded, which does not matter for metrics.
#[expect(clippy::cast_precision_loss, reason = "rounded numbers are precise enough")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scrape;

    #[test]
    fn usage_is_read_behind_a_name_with_spaces() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 5 6 20 0 9 0 1000 8192 3 18446744073709551615";
        let units = Units { ticks_per_second: 100.0, page_bytes: 4096.0, booted_at: 1_700_000_000.0 };
        let expected =
            Usage { cpu_seconds: 2.0, started_at: 1_700_000_010.0, virtual_bytes: 8192.0, resident_bytes: 12288.0 };
        assert_eq!(Usage::parse(stat, &units), Some(expected));
        assert_eq!(Usage::parse("", &units), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_shows_its_memory_files_and_start() {
        let mut registry = Registry::default();
        register(&mut registry);
        let text = scrape(&registry);
        for name in [
            "process_cpu_seconds_total",
            "process_start_time_seconds",
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_open_fds",
            "process_max_fds",
        ] {
            let value = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            let value: f64 = value.unwrap_or_else(|| panic!("{name} is not in\n{text}")).parse().unwrap();
            let least = if name == "process_cpu_seconds_total" { 0.0 } else { 1.0 };
            assert!(value >= least, "{name} {value}");
        }
    }
}
