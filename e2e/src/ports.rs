//! Free TCP ports on the loopback address.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::Context;

/// The first port, below the range from which Linux takes the ports of outgoing connections: no client of the world can
/// occupy a port between its selection and the server's start.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;

/// A port without a listener that this process has not returned before (until all were returned).
pub(crate) fn free_port() -> anyhow::Result<u16> {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Processes that start worlds at the same time begin at different ports.
    let start = std::process::id().wrapping_mul(97);
    (0..COUNT)
        .find_map(|_| {
            let offset = start.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
            let port = u16::try_from(FIRST + offset).ok()?;
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok().then_some(port)
        })
        .context("no port is free on the loopback address")
}
