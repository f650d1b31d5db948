//! docs/flags.md against the definitions of the command line.

use std::collections::BTreeMap;

use capa_rs::Cli;
use clap::{Arg, Command, CommandFactory as _};

use crate::{markdown, read};

/// Rows of flags, by command.
type Rows = BTreeMap<String, Vec<String>>;

/// The row of a flag.
fn row(flag: &Arg) -> String {
    let long = flag.get_long().map(|name| format!("--{name}"));
    let short = flag.get_short().map(|name| format!("-{name}"));
    let mut name: Vec<String> = short.into_iter().chain(long).collect();
    let takes_value = flag.get_num_args().is_some_and(|count| count.min_values() > 0);
    if let Some(value) = flag.get_value_names().filter(|_| takes_value).and_then(<[_]>::first)
        && let Some(last) = name.last_mut()
    {
        last.push(' ');
        last.push_str(value);
    }
    let default: Vec<String> = flag.get_default_values().iter().map(|value| value.to_string_lossy().into()).collect();
    let default = match default.join(",").as_str() {
        "" => "–".to_owned(),
        default => format!("`{default}`"),
    };
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    format!("| `{}` | {default} | {}. |", name.join("`, `"), help.trim_end_matches('.'))
}

fn defined(command: &Command, name: &str, rows: &mut Rows) {
    let flags = command.get_arguments().filter(|flag| !flag.is_hide_set() && !flag.is_positional());
    let flags = flags.filter(|flag| !["help", "version"].contains(&flag.get_id().as_str()));
    let mut flags: Vec<String> = flags.map(row).collect();
    flags.sort();
    if !flags.is_empty() {
        rows.insert(name.to_owned(), flags);
    }
    let commands = command.get_subcommands().filter(|command| command.get_name() != "help");
    for command in commands {
        defined(command, &format!("{name} {}", command.get_name()), rows);
    }
}

fn documented() -> Rows {
    let page = read("docs/flags.md");
    let sections = markdown::sections(&page, "## `");
    let rows = sections.into_iter().map(|(heading, text)| {
        let mut rows: Vec<String> = text.lines().filter(|line| line.starts_with("| `")).map(str::to_owned).collect();
        rows.sort();
        (heading.trim_end_matches('`').to_owned(), rows)
    });
    rows.filter(|(_, rows)| !rows.is_empty()).collect()
}

#[test]
fn the_page_has_each_flag_as_the_program_explains_it() {
    let mut command = Cli::command();
    command.build();
    let mut rows = Rows::new();
    defined(&command, "capa-rs", &mut rows);
    let documented = documented();
    for (command, rows) in &rows {
        let page = documented.get(command).map(Vec::as_slice).unwrap_or_default();
        let missing: Vec<_> = rows.iter().filter(|row| !page.contains(row)).collect();
        assert!(missing.is_empty(), "docs/flags.md lacks rows of {command}: {missing:#?}");
    }
    assert_eq!(documented, rows);
}
