//! The moto server: EC2, STS and other AWS services in memory, without checks of keys or permissions.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// The limit for moto's start: on a busy computer moto imports its modules for seconds.
const START: Duration = Duration::from_mins(2);

/// An image in every account and region of moto: Linux, x86_64, root volume `/dev/sda1`.
pub const IMAGE_ID: &str = "ami-0a00000000000002b";

/// The command that runs moto from the virtual environment at `environment` until it is killed. moto writes its port
/// into `port_file`, for which [`url`] waits.
pub fn command(environment: &Path, port_file: &Path) -> Command {
    let mut command = Command::new(environment.join("bin/python"));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("moto/server.py")).arg(port_file);
    command
}

/// Waits until moto has written its port, then returns its URL. Fails as soon as `running` returns false.
pub async fn url(port_file: &Path, mut running: impl FnMut() -> bool) -> anyhow::Result<String> {
    let deadline = Instant::now() + START;
    loop {
        if let Ok(port) = std::fs::read_to_string(port_file) {
            return Ok(format!("http://127.0.0.1:{port}"));
        }
        if !running() {
            bail!("moto ended before it wrote its port into {}", port_file.display());
        }
        if Instant::now() > deadline {
            bail!("moto wrote no port into {} within {START:?}", port_file.display());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A moto server that ends with this value and with this process, however that ends: its input is a pipe from this
/// process.
#[derive(Debug)]
pub struct Moto {
    url: String,
    child: Child,
}

impl Moto {
    /// Starts moto from the virtual environment at `environment`; its log goes to `moto.log` in `directory`.
    pub async fn start(environment: &Path, directory: &Path) -> anyhow::Result<Self> {
        let log = directory.join("moto.log");
        let log = std::fs::File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let port_file: PathBuf = directory.join("moto.port");
        if port_file.exists() {
            std::fs::remove_file(&port_file).with_context(|| format!("removing {}", port_file.display()))?;
        }
        let child = command(environment, &port_file)
            .arg("--exit-with-stdin")
            .stdin(Stdio::piped())
            .stdout(log.try_clone().context("sharing moto's log")?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting moto from {}", environment.display()))?;
        let mut moto = Self { url: String::new(), child };
        let child = &mut moto.child;
        moto.url = url(&port_file, || matches!(child.try_wait(), Ok(None))).await.context("see moto.log")?;
        Ok(moto)
    }

    /// The URL of the server.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        // Both calls fail only when the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
