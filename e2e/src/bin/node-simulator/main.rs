//! Simulates the nodes behind the instances of an AWS proxy: see `capa_e2e::nodes`.

use capa_e2e::nodes::{self, Options};
use clap::Parser;
use tracing_subscriber::EnvFilter;

/// Plays kubeadm on the instances behind an AWS proxy, and proxies CONNECT to the endpoints of their clusters.
#[derive(Parser)]
#[command(name = "node-simulator")]
struct Cli {
    #[command(flatten)]
    options: Options,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("capa_e2e=info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    nodes::simulate(Cli::parse().options).await
}
