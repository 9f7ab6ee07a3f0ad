//! What does a page cost us, and what would it cost anybody?
//!
//! `cargo run --release -p lycosa-fetch --example cost [PAGES [CASE]]`, or `cargo xtask bench fetch`.
//!
//! Pages of 20 KB are fetched from a server in a process of its own: by our fetcher, and by bare
//! hyper that sends the same request and collects the body. 64 hosts at once, a connection each.
//! Both run in this process in turns, on one thread, so that a slow minute of the machine is slow
//! for both. What is counted is the CPU time of this process. Our fetcher keeps the exact bytes
//! beside the body, watches five clocks, takes memory from a budget; all of that may cost half as
//! much again as the bare client, and no more.

mod bare;
mod ours;
mod server;

use std::time::Instant;

use nix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

use bare::Bare;
use ours::Ours;
use server::Served;

const HOSTS: usize = 64;
/// Turns that each client has in a case; one more comes first and is not counted.
const TURNS: usize = 8;
/// How much of the bare client's cost ours may be, where it is asked for.
const RATIO_MAX: f64 = 1.5;

/// How a page comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Plain,
    Chunked,
    Gzip,
    Tls,
    /// Each page has a connection of its own, and nothing is resumed.
    TlsClose,
    Http2,
}

impl Case {
    const ALL: [Self; 6] =
        [Self::Plain, Self::Tls, Self::TlsClose, Self::Http2, Self::Chunked, Self::Gzip];

    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Chunked => "chunked",
            Self::Gzip => "gzip",
            Self::Tls => "tls",
            Self::TlsClose => "tls-close",
            Self::Http2 => "http2",
        }
    }

    const fn is_tls(self) -> bool {
        matches!(self, Self::Tls | Self::TlsClose | Self::Http2)
    }

    /// A handshake costs as much as ten pages.
    const fn share(self) -> usize {
        match self {
            Self::TlsClose => 10,
            _ => 1,
        }
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let first = words.next();
    if first.as_deref() == Some("serve") {
        return server::run();
    }
    let pages = first.and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let wanted = words.next();
    let served = Served::start();
    println!("{HOSTS} hosts, pages of {} bytes", server::page().len());
    println!("               ours     bare           ours     bare");
    println!("case        pages per CPU-second      µs of CPU a page    ratio");
    let mut missed = Vec::new();
    for case in Case::ALL {
        if wanted.as_deref().is_none_or(|wanted| wanted == case.name()) {
            let ratio = measure(case, pages / case.share(), &served);
            if ratio > RATIO_MAX {
                missed.push(case.name());
            }
        }
    }
    if !missed.is_empty() {
        eprintln!("more than {RATIO_MAX} times the bare client: {}", missed.join(", "));
        std::process::exit(1);
    }
}

/// How much more ours costs.
fn measure(case: Case, pages: usize, served: &Served) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (ours, bare) = (Ours::new(case, served), Bare::new(case, served));
    let each = (pages / TURNS / HOSTS).max(1);
    let mut cost = [0.0; 2];
    for turn in 0..=TURNS {
        let took =
            [cpu_seconds(&runtime, ours.fetch(each)), cpu_seconds(&runtime, bare.fetch(each))];
        if turn > 0 {
            cost.iter_mut().zip(took).for_each(|(sum, took)| *sum += took);
        }
    }
    let pages = (each * HOSTS * TURNS) as f64;
    let [ours, bare] = cost.map(|seconds| seconds / pages);
    println!(
        "{:10} {:8.0} {:8.0}       {:8.1} {:8.1}   {:6.2}",
        case.name(),
        1.0 / ours,
        1.0 / bare,
        ours * 1e6,
        bare * 1e6,
        ours / bare
    );
    ours / bare
}

fn cpu_seconds(runtime: &Runtime, work: impl Future<Output = ()>) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux counts it");
        time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
    };
    let before = now();
    runtime.block_on(work);
    now() - before
}

/// Visits all hosts at once, `each` pages of every one.
async fn at_once<F: Future<Output = ()> + Send + 'static>(visits: impl Fn(usize) -> F) {
    let hosts: Vec<_> = (0..HOSTS).map(|host| tokio::spawn(visits(host))).collect();
    for host in hosts {
        host.await.expect("no panic");
    }
}

/// For whoever wants to know how long it took by the wall.
#[derive(Debug, Clone)]
struct RealClock {
    start: Instant,
}

impl ports::Clock for RealClock {
    fn now(&self) -> types::Timestamp {
        types::Timestamp::from_secs(1_800_000_000) + self.start.elapsed()
    }
}
