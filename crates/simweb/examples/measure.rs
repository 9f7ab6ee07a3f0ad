//! How fast is the web of our own? Numbers for one machine, in a few seconds:
//! `cargo run --release -p lycosa-simweb --example measure`.
//!
//! Rates are per CPU second of the process that is measured (user and system), so a busy machine does not
//! change them much.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lycosa_simweb::serve::{Ready, ServeOptions, Source, run};
use lycosa_simweb::web::Body;
use lycosa_simweb::{Ask, Journal, SimClock, SimFetcher, Web, World, WorldSpec};
use ports::{Clock, Fetcher, Purpose, Request};
use types::{CrawlUrl, Timestamp, Validators};

fn main() {
    match std::env::args().nth(1).as_deref() {
        None => {
            bodies();
            exchanges();
            server("tiny pages", "tiny", 16);
            server("20 KB pages", "usual", 16);
        }
        // The server as a process of its own, so that its CPU time is its own.
        Some(kind) => serve(kind),
    }
}

fn cpu() -> Duration {
    cpu_of("self")
}

/// CPU time of a process so far, its children not included.
fn cpu_of(process: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("Linux has it");
    let after_name = stat.rsplit(") ").next().expect("the name is in parentheses");
    let fields: Vec<_> = after_name.split(' ').collect();
    let ticks = |n: usize| fields[n].parse::<u64>().expect("a number");
    // Fields 14 and 15 of proc(5), in hundredths of a second.
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

fn bodies() {
    for (name, spec) in [
        ("20 KB pages", WorldSpec { hosts: 1_000, endless: true, ..WorldSpec::default() }),
        ("tiny pages", WorldSpec { endless: true, ..WorldSpec::tiny(1, 1_000, 0) }),
    ] {
        let world = World::new(spec);
        let (mut pages, mut bytes, mut packed) = (0_u64, 0_u64, 0_u64);
        let seeds: Vec<_> =
            world.seeds(1_000).iter().map(|url| CrawlUrl::parse(url).expect("canonical")).collect();
        let mut sizes = Vec::new();
        let begun = cpu();
        while (cpu() - begun) < Duration::from_secs(1) {
            for url in &seeds {
                let body = page(&world, url);
                bytes += body.len() as u64;
                pages += 1;
                sizes.push(body.len());
            }
        }
        let took = (cpu() - begun).as_secs_f64();
        for url in seeds.iter().take(200) {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
            encoder.write_all(&page(&world, url)).expect("memory");
            packed += encoder.finish().expect("memory").len() as u64;
        }
        let plain: usize = sizes[..200].iter().sum();
        sizes.sort_unstable();
        println!(
            "{name}: {:.0} MB/s, {:.0} pages/s, median {} bytes, gzip ratio {:.2}",
            bytes as f64 / took / 1e6,
            pages as f64 / took,
            sizes[sizes.len() / 2],
            plain as f64 / packed as f64
        );
    }
}

fn page(world: &World, url: &CrawlUrl) -> bytes::Bytes {
    let plan = world.answer(&Ask {
        host: url.host(),
        port: url.port(),
        tls: url.scheme() == types::Scheme::Https,
        target: url.path_and_query(),
        headers: &[],
        nth: 0,
        at: Timestamp::ZERO,
    });
    match plan.body {
        Body::Bytes(bytes) => bytes,
        Body::Repeat { .. } => panic!("a home page is no giant"),
    }
}

fn exchanges() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let world = World::new(WorldSpec { endless: true, ..WorldSpec::tiny(1, 1_000, 0) });
        let seeds: Vec<_> =
            world.seeds(1_000).iter().map(|url| CrawlUrl::parse(url).expect("canonical")).collect();
        let clock: Arc<dyn Clock> = Arc::new(SimClock::new(Timestamp::ZERO));
        let journal = Journal::new(Arc::clone(&clock));
        let fetcher = SimFetcher::new(Arc::new(world), clock, journal)
            .with_latency(1, Duration::from_millis(20));
        let begun = cpu();
        let mut count = 0_u64;
        while (cpu() - begun) < Duration::from_secs(1) {
            for url in &seeds {
                let request = Request {
                    url: url.clone(),
                    address: std::net::Ipv4Addr::LOCALHOST.into(),
                    purpose: Purpose::Page,
                    validators: Validators::default(),
                };
                fetcher.fetch(request, &mut |_| {}).await;
                count += 1;
            }
        }
        println!(
            "exchanges in virtual time: {:.0}/s",
            count as f64 / (cpu() - begun).as_secs_f64()
        );
    });
}

fn spec(kind: &str) -> WorldSpec {
    let usual = WorldSpec { hosts: 1_000, endless: true, ..WorldSpec::default() };
    match kind {
        "tiny" => WorldSpec { endless: true, https: 0.0, ..WorldSpec::tiny(1, 1_000, 0) },
        _ => WorldSpec { https: 0.0, ..usual },
    }
}

fn serve(kind: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ServeOptions {
        source: Source::World(spec(kind)),
        ca_dir: Some(folder.path().to_owned()),
        journal: Some(folder.path().join("journal.jsonl")),
        seeds: 1_000,
        ..ServeOptions::default()
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(run(options)).expect("serves");
    runtime.shutdown_background();
}

/// Pages a second of the server's CPU time, over kept connections.
fn server(name: &str, kind: &str, connections: usize) {
    let me = std::env::current_exe().expect("this program");
    let mut child = Command::new(me)
        .arg(kind)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    stdout.read_line(&mut line).expect("a line");
    let ready: Ready = serde_json::from_str(&line).expect("the ready line");
    let process = child.id().to_string();
    let begun = cpu_of(&process);
    let deadline = Instant::now() + Duration::from_secs(4);
    let visitors: Vec<_> = (0..connections)
        .map(|n| {
            let ready = ready.clone();
            std::thread::spawn(move || visit(&ready, n, deadline))
        })
        .collect();
    let (pages, bytes) = visitors
        .into_iter()
        .map(|visitor| visitor.join().expect("a visitor ends well"))
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let took = (cpu_of(&process) - begun).as_secs_f64();
    println!(
        "server, {name}, journal on: {:.0} pages and {:.0} MB per CPU second ({pages} pages)",
        pages as f64 / took,
        bytes as f64 / took / 1e6
    );
    drop(child.stdin.take());
    child.wait().expect("ends");
}

fn visit(ready: &Ready, n: usize, deadline: Instant) -> (u64, u64) {
    let address: std::net::SocketAddr = ([127, 0, 0, 1 + n as u8], ready.http).into();
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_nodelay(true).expect("can be set");
    let (mut pages, mut bytes) = (0, 0);
    let mut buffer = vec![0; 256 * 1024];
    for url in ready.seed_urls.iter().cycle().skip(n * 50) {
        if Instant::now() > deadline {
            break;
        }
        let host = url.split('/').nth(2).expect("a URL");
        let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nuser-agent: measure\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("writes");
        let mut have = 0;
        let whole = loop {
            have += stream.read(&mut buffer[have..]).expect("reads");
            if let Some(whole) = answer_bytes(&buffer[..have]) {
                break whole;
            }
        };
        while have < whole {
            have += stream.read(&mut buffer[have..]).expect("reads");
        }
        pages += 1;
        bytes += whole as u64;
    }
    (pages, bytes)
}

fn answer_bytes(wire: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(&wire[..wire.len().min(600)]);
    let head = text.split("\r\n\r\n").next().filter(|head| head.len() < text.len())?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    Some(head.len() + 4 + length.parse::<usize>().ok()?)
}
