//! The moto server: EC2, STS and other AWS services in memory, without checks of keys or permissions.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::bail;

/// The limit for moto's start: on a busy computer moto imports its modules for seconds.
const START: Duration = Duration::from_mins(2);

/// An image in every account and region of moto: Linux, x86_64, root volume `/dev/sda1`.
pub const IMAGE_ID: &str = "ami-0a00000000000002b";

/// The command that runs moto from the virtual environment at `environment` until it is killed. moto writes its port
/// into `port_file`, for which [`url`] waits.
pub(crate) fn command(environment: &Path, port_file: &Path) -> Command {
    let mut command = Command::new(environment.join("bin/python"));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("moto/server.py")).arg(port_file);
    command
}

/// Waits until moto has written its port, then returns its URL. Fails as soon as `running` returns false.
pub(crate) async fn url(port_file: &Path, mut running: impl FnMut() -> bool) -> anyhow::Result<String> {
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
