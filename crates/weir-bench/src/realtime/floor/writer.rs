//! The writing process.

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use anyhow::{Context, Result};
use clap::Args;

use crate::clock::own_thread_cpu_time;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct WriterFlags {
    #[arg(long)]
    sockets: usize,
    #[arg(long)]
    frame_bytes: usize,
}

/// The writing process: "PORT" when it listens, "ready" when all are connected; then a round of writes for each
/// line with a number of frames, answered by the CPU time of the loop in nanoseconds.
pub(crate) fn write(flags: &WriterFlags, output: &mut Output) -> Result<bool> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening")?;
    output.print(&format!("{}\n", listener.local_addr()?.port()))?;
    let accepted = (0..flags.sockets).map(|_| listener.accept().map(|(stream, _)| stream));
    let mut sockets = accepted.collect::<io::Result<Vec<TcpStream>>>().context("accepting")?;
    for socket in &sockets {
        socket.set_nodelay(true)?;
    }
    output.print("ready\n")?;
    for line in io::stdin().lines() {
        let frames: usize = line?.trim().parse().context("a number of frames")?;
        let bytes = vec![b'x'; flags.frame_bytes * frames];
        let before = own_thread_cpu_time();
        for socket in &mut sockets {
            socket.write_all(&bytes)?;
        }
        let cpu = own_thread_cpu_time().saturating_sub(before);
        output.print(&format!("{}\n", cpu.as_nanos()))?;
    }
    Ok(true)
}
