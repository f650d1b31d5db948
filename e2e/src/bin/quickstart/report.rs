//! The final checks and tables: the objects, the calls, the user's network.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use capa_e2e::{Metrics, TestEnvironment, aws_proxy::Account};
use comfy_table::{CellAlignment, Table, presets::NOTHING};
use serde_json::Value;

use crate::screen::Screen;

/// The writing AWS actions that the manager may call for machines on existing infrastructure.
const LAUNCH: &str = "RunInstances";
const TERMINATE: &str = "TerminateInstances";
const WRITES: [&str; 4] = [LAUNCH, TERMINATE, "RegisterTargets", "DeregisterTargets"];

/// The kubectl that `make tools` installed, as a path relative to the repository.
pub(crate) const KUBECTL: &str = "bin/kubectl";

/// Runs kubectl for objects of a kind and shows its output.
pub(crate) fn kubectl_get(screen: &Screen, environment: &TestEnvironment, kinds: &[&str]) -> anyhow::Result<()> {
    for (index, kind) in kinds.iter().enumerate() {
        if index > 0 {
            screen.show("")?;
        }
        screen.show(&format!("$ kubectl get {kind}"))?;
        screen.show(&without_empty_columns(&kubectl(
            environment.world().admin_kubeconfig(),
            &["--namespace", environment.namespace(), "get", kind],
        )?))?;
    }
    Ok(())
}

/// Runs kubectl and returns its output.
pub(crate) fn kubectl(kubeconfig: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    kubectl_through(None, kubeconfig, arguments)
}

/// Runs kubectl through a proxy, which resolves the name of the API server.
pub(crate) fn kubectl_through(proxy: Option<&str>, kubeconfig: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    capa_e2e::kubectl(kubeconfig, proxy.map(|proxy| ("HTTPS_PROXY", proxy)), arguments)
}

/// Removes the columns of a kubectl table that are empty in all rows.
pub(crate) fn without_empty_columns(table: &str) -> String {
    let rows = cells(table);
    let columns = rows.first().map_or(0, Vec::len);
    let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
    let kept: Vec<usize> =
        (0..columns).filter(|column| rows.iter().skip(1).any(|row| !cell(row, *column).is_empty())).collect();
    let mut narrow = Table::new();
    narrow.load_style(NOTHING);
    for row in &rows {
        narrow.add_row(kept.iter().map(|column| cell(row, *column)));
    }
    text(&narrow)
}

/// The cells of a kubectl table: columns are three spaces apart, and cells start in the column of their title.
fn cells(table: &str) -> Vec<Vec<String>> {
    let header: Vec<char> = table.lines().next().unwrap_or_default().chars().collect();
    let is_start = |index: &usize| {
        let before = header.get(index.saturating_sub(3)..*index).unwrap_or_default();
        header.get(*index) != Some(&' ') && before.iter().all(|character| *character == ' ')
    };
    let starts: Vec<usize> = (0..header.len()).filter(is_start).collect();
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    let bounds: Vec<(usize, usize)> = starts.iter().copied().zip(ends).collect();
    let cell = |line: &str, (start, end): (usize, usize)| {
        let text: String = line.chars().take(end).skip(start).collect();
        text.trim().to_owned()
    };
    table.lines().map(|line| bounds.iter().map(|bounds| cell(line, *bounds)).collect()).collect()
}

/// Shows the number of the manager's calls for each action, and the actions that change something.
pub(crate) fn show_calls(screen: &Screen, account: &Account) -> anyhow::Result<()> {
    let journal = account.manager_journal();
    let changes = journal.mutating().counts();
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["ACTION", "CALLS", "CHANGES AWS"]);
    for (action, calls) in journal.counts() {
        let changes = if changes.contains_key(&action) { "yes" } else { "" };
        table.add_row([&action, &calls.to_string(), changes]);
    }
    if let Some(calls) = table.column_mut(1) {
        calls.set_cell_alignment(CellAlignment::Right);
    }
    screen.show(&text(&table))
}

/// Shows the number of writes to AWSMachines, as the API server of the management cluster counts them.
pub(crate) fn show_writes(screen: &Screen, environment: &TestEnvironment, machines: usize) -> anyhow::Result<()> {
    let scraped = kubectl(environment.world().admin_kubeconfig(), &["get", "--raw", "/metrics"])?;
    let metrics = Metrics::parse(&scraped);
    let writes = |verb, subresource| {
        let labels = [("resource", "awsmachines"), ("verb", verb), ("subresource", subresource)];
        let sum = metrics.sum("apiserver_request_total", &labels);
        sum.with_context(|| format!("the API server counts no {verb} of AWSMachines"))
    };
    let machines = u32::try_from(machines).map(f64::from)?;
    let statuses = writes("PUT", "status")? / machines;
    let changes = (writes("PATCH", "")? + writes("PUT", "").unwrap_or_default()) / machines;
    screen.say(&format!(
        "Of the management cluster: {statuses:.1} writes of a status and {changes:.1} other changes for each \
         AWSMachine, \
         those of Cluster API among them."
    ))
}

/// The lines of a table without the leading space of the first column.
fn text(table: &Table) -> String {
    let table = table.trim_fmt();
    let lines: Vec<&str> = table.lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    lines.join("\n")
}

/// Checks the manager's calls against the allowed ones: one launch for each of `machines`, and on infrastructure that
/// the user brings nothing but registrations and deregistrations, and terminations of deleted machines.
pub(crate) fn check_calls(account: &Account, is_brought: bool, machines: usize) -> anyhow::Result<()> {
    let changes = account.manager_journal().mutating();
    let counts = changes.counts();
    let unexpected: Vec<&String> =
        counts.keys().filter(|action| is_brought && !WRITES.contains(&action.as_str())).collect();
    ensure!(unexpected.is_empty(), "the manager changed AWS by other calls as well: {unexpected:?}\n{changes}");
    let launches = changes.of(LAUNCH).distinct().len();
    ensure!(launches == machines, "{machines} machines took {launches} launches:\n{changes}");
    Ok(())
}

/// The number of items in a dump of the user's network.
pub(crate) fn size(dump: &Value) -> usize {
    let lists = dump.as_object().into_iter().flat_map(serde_json::Map::values);
    lists.map(count_items).sum()
}

/// The number of items in an answer, which has them in one list or in several.
fn count_items(answer: &Value) -> usize {
    let sets = answer.as_array().into_iter().flatten();
    sets.map(|set| set.as_array().map_or(0, Vec::len)).sum()
}

/// Compares two dumps of the user's network; the error names the differences.
pub(crate) fn check_untouched(before: &Value, after: &Value) -> anyhow::Result<()> {
    if before == after {
        return Ok(());
    }
    let parts = before.as_object().into_iter().flatten();
    let different: Vec<String> = parts
        .filter(|(action, part)| after.get(action.as_str()) != Some(part))
        .map(|(action, part)| {
            format!("{action}\n  before: {part}\n  after:  {}", after.get(action).unwrap_or(&Value::Null))
        })
        .collect();
    bail!("AWS is not what it was:\n{}", different.join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_columns_are_left_out_and_others_keep_their_place() {
        let table = "NAME   CLASS   READY   NOT SEEN   AGE\n\
            demo           True               3s\nb              -                  4s";
        let expected = "NAME  READY  AGE\ndemo  True   3s\nb     -      4s";
        assert_eq!(without_empty_columns(table), expected);
    }

    #[test]
    fn a_difference_names_the_part_that_changed() {
        let (before, after) = (
            json!({"DescribeVpcs": [["vpc-1"]], "DescribeSubnets": []}),
            json!({"DescribeVpcs": [["vpc-2"]], "DescribeSubnets": []}),
        );
        assert!(check_untouched(&before, &before.clone()).is_ok());
        let error = check_untouched(&before, &after).unwrap_err().to_string();
        assert!(error.contains("DescribeVpcs") && !error.contains("DescribeSubnets"), "{error}");
    }
}
