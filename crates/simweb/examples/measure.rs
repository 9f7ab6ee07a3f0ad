//! How fast is the web of our own? Numbers for one machine, in a few seconds:
//! `cargo run --release -p lycosa-simweb --example measure`.
//!
//! Rates are per CPU second of this process (user and system), so a busy machine does not
//! change them much.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use lycosa_simweb::web::Body;
use lycosa_simweb::{Ask, Journal, SimClock, SimFetcher, Web, World, WorldSpec};
use ports::{Clock, Fetcher, Purpose, Request};
use types::{CrawlUrl, Timestamp, Validators};

fn main() {
    bodies();
    exchanges();
}

/// CPU time of this process so far, children not included.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
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
