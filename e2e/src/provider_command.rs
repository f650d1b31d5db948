//! Commands of the provider's program other than its manager, as a user runs them.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::aws_proxy::Account;
use crate::programs;

/// A run of the provider's program with the credentials of an account.
#[derive(Debug)]
pub struct ProviderCommand(Command);

/// The result of a run.
#[derive(Debug)]
pub struct ProviderOutput {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub printed: String,
    /// Standard error.
    pub errors: String,
}

impl ProviderCommand {
    /// A command with these arguments, in the folder of the checkout.
    ///
    /// # Errors
    /// The program was not built.
    pub fn new(account: &Account, arguments: &[&str]) -> anyhow::Result<Self> {
        let key = account.key();
        let mut command = Command::new(programs::provider_program()?);
        command
            .current_dir(programs::repository())
            .args(arguments)
            .env("AWS_ENDPOINT_URL", account.url())
            .env("AWS_ACCESS_KEY_ID", &key.access_key_id)
            .env("AWS_SECRET_ACCESS_KEY", &key.secret_access_key);
        Ok(Self(command))
    }

    /// The same with a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Runs the program to its end with this standard input.
    ///
    /// # Errors
    /// The program cannot be started, is killed, or prints no text.
    pub fn run(mut self, input: &str) -> anyhow::Result<ProviderOutput> {
        let program = self.0.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = program.spawn().context("run capa-rs")?;
        let mut stdin = program.stdin.take().context("standard input")?;
        stdin.write_all(input.as_bytes())?;
        drop(stdin);
        let ran = program.wait_with_output()?;
        let errors = String::from_utf8(ran.stderr)?;
        let code = ran.status.code();
        Ok(ProviderOutput {
            code: code.with_context(|| format!("capa-rs was killed: {errors}"))?,
            printed: String::from_utf8(ran.stdout)?,
            errors,
        })
    }
}
