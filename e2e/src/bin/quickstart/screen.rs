//! The output for the reader: sections, lines that fit a terminal, and seconds. The output is the same in a log, so it
//! does not move the cursor.

use std::{
    io::{IsTerminal as _, Stdout, Write as _, stdout},
    time::Instant,
};

/// The longest line, where a line can be broken.
const WIDTH: usize = 96;

/// The indentation of lines in a section.
const INDENT: &str = "   ";

/// The indentation of a message's second line: the width of the seconds.
const MESSAGE_INDENT: &str = "             ";

/// The output and its clock.
pub(crate) struct Screen {
    output: Stdout,
    started: Instant,
    sections: u32,
    colours: bool,
}

impl Screen {
    /// Starts the clock. Headings are bold on a terminal, unless `NO_COLOR` asks for plain text.
    pub(crate) fn new() -> Self {
        Self {
            output: stdout(),
            started: Instant::now(),
            sections: 0,
            colours: stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        }
    }

    /// The seconds since the start.
    pub(crate) fn seconds(&self) -> f32 {
        self.started.elapsed().as_secs_f32()
    }

    /// Prints the text before the first section.
    pub(crate) fn introduce(&self, text: &str) -> anyhow::Result<()> {
        for line in wrap(text, WIDTH) {
            writeln!(&self.output, "{line}")?;
        }
        Ok(())
    }

    /// Prints the heading of the next section.
    pub(crate) fn section(&mut self, title: &str) -> anyhow::Result<()> {
        self.sections += 1;
        let (bold, plain) = if self.colours { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let number = self.sections;
        writeln!(&self.output, "\n{bold}{number}. {title}{plain}  [{:.0} s]", self.seconds())?;
        Ok(())
    }

    /// Prints a paragraph of the section.
    pub(crate) fn say(&self, text: &str) -> anyhow::Result<()> {
        for line in wrap(text, WIDTH - INDENT.len()) {
            writeln!(&self.output, "{INDENT}{line}")?;
        }
        Ok(())
    }

    /// Prints lines unchanged, indented.
    pub(crate) fn show(&self, text: &str) -> anyhow::Result<()> {
        for line in text.split('\n') {
            writeln!(&self.output, "{}", format!("{INDENT}{line}").trim_end())?;
        }
        Ok(())
    }

    /// Prints an event in its parts, and a message about it.
    pub(crate) fn event(&self, what: &[String], message: &str) -> anyhow::Result<()> {
        let mut seconds = format!("{:>9.1} s  ", self.seconds());
        let what = join(what.iter().cloned(), WIDTH - MESSAGE_INDENT.len(), "  ", "", "");
        for line in what.into_iter().chain(wrap(message, WIDTH - MESSAGE_INDENT.len())) {
            writeln!(&self.output, "{seconds}{line}")?;
            MESSAGE_INDENT.clone_into(&mut seconds);
        }
        Ok(())
    }
}

/// Prints a command line that is being run, broken before options in the syntax of a shell.
pub(crate) fn command(line: &str) {
    for line in fold(line, WIDTH - INDENT.len()) {
        // A closed output means that the reader has seen enough.
        let _ = writeln!(stdout(), "{INDENT}{line}");
    }
}

/// Breaks a text between words.
fn wrap(text: &str, width: usize) -> Vec<String> {
    join(text.split_whitespace().map(str::to_owned), width, " ", "", "")
}

/// Breaks a command between options; values stay with their options.
fn fold(command: &str, width: usize) -> Vec<String> {
    let mut parts = command.split(" --");
    let first = parts.next().map(str::to_owned);
    let options = parts.map(|option| format!("--{option}"));
    join(first.into_iter().chain(options), width - 2, " ", " \\", "    ")
}

/// Fills lines with parts that `space` separates. Every line except the last ends with `mark`, and every line except
/// the first starts with `indent`.
fn join(parts: impl Iterator<Item = String>, width: usize, space: &str, mark: &str, indent: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.chars().count() + space.len() + part.chars().count() <= width => {
                line.push_str(space);
                line.push_str(&part);
            }
            Some(line) => {
                line.push_str(mark);
                lines.push(format!("{indent}{part}"));
            }
            None => lines.push(part),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words_and_long_words_stay_whole() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a loooooong b", 4), ["a", "loooooong", "b"]);
        assert!(wrap("  ", 4).is_empty());
    }

    #[test]
    fn a_broken_command_stays_one_command_with_its_option_values() {
        assert_eq!(
            fold("aws ec2 create-vpc --cidr-block x --dry-run", 22),
            ["aws ec2 create-vpc \\", "    --cidr-block x \\", "    --dry-run"]
        );
    }
}
