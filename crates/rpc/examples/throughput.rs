//! Measures a cheap request over pipes, as on stdio: `cargo run --release -p signalbox-rpc --example throughput`;
//! with `--threads` the way that works on every kernel.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program for developers")]

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use signalbox_rpc::{ConnOptions, Ctx, Frame, Lane, MethodSpec, Registry, RpcError, Stdio, serve};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

fn pipe() -> std::io::Result<(File, File)> {
    let (reader, writer) = std::io::pipe()?;
    Ok((OwnedFd::from(reader).into(), OwnedFd::from(writer).into()))
}

/// The least that a round trip through two pipes and another thread costs on this machine right now.
fn raw_reference() -> Result<(), Box<dyn Error>> {
    let ((mut server_in, mut client_out), (mut client_in, mut server_out)) = (pipe()?, pipe()?);
    let copier = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = server_in.read(&mut buffer) {
            if server_out.write_all(&buffer[..n]).is_err() {
                return;
            }
        }
    });
    let (mut times, mut buffer) = (Vec::new(), [0; 4096]);
    for _ in 0..20_000 {
        let begun = Instant::now();
        client_out.write_all(&[b'x'; 140])?;
        let _ = client_in.read(&mut buffer)?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    println!("{:>10}: one at a time  p50 {:?}  p99 {:?}", "raw pipes", times[10_000], times[19_800]);
    drop(client_out);
    copier.join().map_err(|_panic| "the copier panicked".into())
}

fn main() -> Result<(), Box<dyn Error>> {
    raw_reference()?;
    let mut registry: Registry<()> = Registry::new();
    let spec = |name, lane| MethodSpec::new(name, lane, "Says the same again.");
    registry.method_sync(spec("inline", Lane::Inline), |_: Ctx<()>, p: Echo| Ok::<_, RpcError>(p));
    for (name, lane) in [("ordered", Lane::Ordered), ("concurrent", Lane::Concurrent)] {
        registry.method(spec(name, lane), |_: Ctx<()>, p: Echo| async move { Ok::<_, RpcError>(p) });
    }
    registry.method_sync(spec("push", Lane::Inline), |ctx: Ctx<()>, p: Echo| {
        let frame = Frame::notification("note", &p).map_err(RpcError::internal)?;
        let peer = ctx.peer()?;
        for _ in 0..1_000 {
            let _ = peer.notify(frame.clone());
        }
        Ok::<_, RpcError>(p)
    });
    let service = registry.build(())?;
    let ((server_in, mut client_out), (client_in, server_out)) = (pipe()?, pipe()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let options = ConnOptions { initialized: true, ..ConnOptions::default() };
    let stdio = Stdio::over(server_in, server_out);
    let stdio = if std::env::args().any(|arg| arg == "--threads") { stdio.with_threads() } else { stdio };
    let served = runtime.spawn(serve(stdio, service, options));
    let mut client_in = BufReader::with_capacity(1 << 20, client_in);
    let mut line = String::new();
    let call = |method: &str, id: usize| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{\"text\":\"{:064}\"}}}}\n",
            id
        )
    };
    for method in ["inline", "ordered", "concurrent"] {
        let mut times: Vec<Duration> = Vec::new();
        for id in 0..20_000 {
            let begun = Instant::now();
            client_out.write_all(call(method, id).as_bytes())?;
            line.clear();
            client_in.read_line(&mut line)?;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        println!("{method:>10}: one at a time  p50 {:?}  p99 {:?}", times[10_000], times[19_800]);
        let total = 400_000;
        let begun = Instant::now();
        let mut window = String::new();
        for round in 0..total / 32 {
            window.clear();
            for id in 0..32 {
                window.push_str(&call(method, round * 32 + id));
            }
            client_out.write_all(window.as_bytes())?;
            // Two windows of 32 are under way.
            for _ in 0..if round == 0 { 0 } else { 32 } {
                line.clear();
                client_in.read_line(&mut line)?;
            }
        }
        for _ in 0..32 {
            line.clear();
            client_in.read_line(&mut line)?;
        }
        let rate = f64::from(u32::try_from(total)?) / begun.elapsed().as_secs_f64();
        println!("{method:>10}: 64 in flight   {rate:.0} requests/s");
    }
    let begun = Instant::now();
    for id in 0..500 {
        client_out.write_all(call("push", id).as_bytes())?;
        for _ in 0..1_001 {
            line.clear();
            client_in.read_line(&mut line)?;
        }
    }
    println!("notifications of 120 bytes: {:.0}/s", 500_000.0 / begun.elapsed().as_secs_f64());
    drop(client_out);
    println!("{}", runtime.block_on(served)?);
    Ok(())
}
