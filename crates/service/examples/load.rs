//! How fast does a frontier service take URLs, and give them out?
//!
//! A few streams bring new URLs as fast as they are acknowledged; then as many ask for them until
//! all are out. `cargo xtask bench service` runs it against the real binary; alone it is
//!
//! `cargo run --release -p lycosa-service --example load -- ADDRESS PID STREAMS URLS QUEUES`, where
//! PID is the service's process, whose CPU time is read.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;
use tonic::transport::{Channel, Endpoint};
use wire::urlfrontier::url_frontier_client::UrlFrontierClient;
use wire::urlfrontier::{
    DiscoveredUrlItem, GetParams, QueueDelayParams, QueueWithinCrawlParams, UrlInfo, UrlItem,
    get_params, url_item,
};

/// URLs of one queue, and queues, in one call.
const URLS_PER_QUEUE: u32 = 10;
const QUEUES_PER_CALL: u32 = 200;

/// Whoever gets nothing for so long gets nothing any more.
const SILENCE: Duration = Duration::from_secs(10);

type Client = UrlFrontierClient<Channel>;
type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, pid, streams, urls, queues] = &args[..] else {
        panic!("ADDRESS PID STREAMS URLS QUEUES");
    };
    let (streams, urls, queues): (u64, u64, u64) =
        (streams.parse()?, urls.parse()?, queues.parse()?);
    // What is held is not put back here, so a queue is served once.
    assert!(urls <= queues * u64::from(URLS_PER_QUEUE), "at most {URLS_PER_QUEUE} URLs a queue");
    let mut client = connect(address).await?;
    let delay = QueueDelayParams { delay_requestable: 0, ..QueueDelayParams::default() };
    client.set_delay(delay).await?;

    let put = Phase::begin(pid);
    let mut work = JoinSet::new();
    for stream in 0..streams {
        let client = connect(address).await?;
        work.spawn(bring(client, (stream..urls).step_by(streams as usize), queues));
    }
    let mut taken = 0;
    while let Some(count) = work.join_next().await {
        taken += count??;
    }
    put.end("PutURLs", taken);
    let stats = client.get_stats(QueueWithinCrawlParams::default()).await?.into_inner();
    assert_eq!((taken, stats.size), (urls, urls), "all were taken");

    let get = Phase::begin(pid);
    let out = Arc::new(AtomicU64::new(0));
    let mut work = JoinSet::new();
    for _ in 0..streams {
        work.spawn(fetch(connect(address).await?, Arc::clone(&out), urls));
    }
    while let Some(done) = work.join_next().await {
        done??;
    }
    get.end("GetURLs", out.load(Ordering::Relaxed));
    let stats = client.get_stats(QueueWithinCrawlParams::default()).await?.into_inner();
    assert_eq!(u64::from(stats.in_process), urls, "each was given out once");
    Ok(())
}

async fn connect(address: &str) -> Done<Client> {
    Ok(Client::new(Endpoint::from_shared(format!("http://{address}"))?.connect().await?))
}

async fn bring(
    mut client: Client,
    numbers: impl Iterator<Item = u64> + Send + 'static,
    queues: u64,
) -> Done<u64> {
    let items = numbers.map(move |n| {
        let url = format!("http://www.host-{}.test/some/path/to/page-{n}.html", n % queues);
        let info = UrlInfo { url, ..UrlInfo::default() };
        let item = url_item::Item::Discovered(DiscoveredUrlItem { info: Some(info) });
        UrlItem { item: Some(item), id: n.to_string(), creation_date: 0 }
    });
    let mut acks = client.put_ur_ls(tokio_stream::iter(items)).await?.into_inner();
    let mut taken = 0;
    while let Some(ack) = acks.next().await {
        taken += u64::from(ack?.status == 0);
    }
    Ok(taken)
}

async fn fetch(mut client: Client, out: Arc<AtomicU64>, urls: u64) -> Done<()> {
    let params = GetParams {
        max_urls_per_queue: URLS_PER_QUEUE,
        max_queues: QUEUES_PER_CALL,
        delay_requestable: 10_000,
        item: Some(get_params::Item::CrawlId("DEFAULT".to_owned())),
        ..GetParams::default()
    };
    let mut last = Instant::now();
    while out.load(Ordering::Relaxed) < urls {
        let mut answers = client.get_ur_ls(params.clone()).await?.into_inner();
        let mut count = 0;
        while let Some(info) = answers.next().await {
            info?;
            count += 1;
        }
        out.fetch_add(count, Ordering::Relaxed);
        if count > 0 {
            last = Instant::now();
        } else if last.elapsed() > SILENCE {
            return Err("nothing is served any more, and not all was".into());
        } else {
            // Every queue was served in this second.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

struct Phase {
    pid: String,
    began: Instant,
    cpu: f64,
}

impl Phase {
    fn begin(pid: &str) -> Self {
        Self { pid: pid.to_owned(), began: Instant::now(), cpu: cpu_seconds(pid) }
    }

    fn end(self, what: &str, urls: u64) {
        let (wall, cpu) = (self.began.elapsed().as_secs_f64(), cpu_seconds(&self.pid) - self.cpu);
        let (rate, each) = (urls as f64 / wall, cpu * 1e6 / urls as f64);
        println!(
            "{what:<8} {urls:>9} URLs in {wall:>6.1} s: {rate:>7.0} a second, {each:.1} µs of the service's CPU each"
        );
    }
}

/// CPU time of a process so far, as Linux tells it (in hundredths of a second).
fn cpu_seconds(pid: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit(')').next().map(|rest| rest.split_whitespace().collect()).unwrap_or_default();
    let ticks = |n: usize| fields.get(n).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12)) as f64 / 100.0
}
