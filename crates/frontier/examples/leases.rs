//! What does a lease cost, and how does that grow with the hosts at work?
//!
//! Hosts that always have something to visit, their queues refilled from nowhere, every visit
//! answered at once: what is left is the frontier itself. The clock jumps to whatever is due.
//! A lease is leased, settled and committed, and a 64th part of it refilled.
//!
//! `cargo run --release -p lycosa-frontier --example leases [HOSTS…]`

use std::net::IpAddr;
use std::time::Duration;

use lycosa_frontier::{Addresses, Fate, Frontier, FrontierOptions, Next, Place, Touch, Wake};
use types::{CrawlUrl, Discovery, HostKey, QueueKey, Record, ShardId, Task, Timestamp};

/// Leases that are counted, after as many for each host as warm it up.
const LEASES: u64 = 500_000;
const ANSWER: Duration = Duration::from_millis(50);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &String| text.replace('_', "").parse().expect("a number of hosts");
    let mut sizes: Vec<u64> = args.iter().map(number).collect();
    if sizes.is_empty() {
        sizes = vec![1_000, 10_000, 100_000];
    }
    println!("hosts at work | leases per CPU-second | µs a lease");
    for hosts in sizes {
        let rate = rate(hosts);
        println!("{hosts:>13} | {rate:>21.0} | {:>10.2}", 1e6 / rate);
    }
}

fn rate(hosts: u64) -> f64 {
    let mut desk = Desk::new(hosts);
    (0..hosts).for_each(|n| desk.frontier.know(&desk.names[n as usize], 3));
    desk.leases(2 * hosts);
    let began = thread_cpu();
    let nothing = desk.made;
    desk.leases(LEASES);
    let spent = thread_cpu() - began - (desk.made - nothing);
    LEASES as f64 / spent.as_secs_f64()
}

/// A frontier, and a world that always says yes.
struct Desk {
    frontier: Frontier,
    addresses: Addresses,
    now: Timestamp,
    names: Vec<HostKey>,
    seq: u64,
    /// CPU time that went into making tasks.
    made: Duration,
}

impl Desk {
    fn new(hosts: u64) -> Self {
        let mut options = FrontierOptions::new(ShardId(0));
        options.sizes.active_max = hosts as usize;
        options.sizes.front_max = hosts as usize;
        options.obey_robots = false;
        options.politeness.domain_pages_max = 0;
        options.politeness.host_pages_max = 0;
        let addresses = Addresses::new(&options.politeness, None).expect("no networks are named");
        let name = |n| HostKey::new(&format!("www.host-{n:x}.test"));
        Self {
            frontier: Frontier::new(options),
            addresses,
            now: Timestamp::from_secs(1_000_000),
            names: (0..hosts).map(name).collect(),
            seq: 0,
            made: Duration::ZERO,
        }
    }

    fn leases(&mut self, count: u64) {
        let mut left = count;
        while left > 0 {
            self.serve();
            match self.frontier.next(self.now, Duration::ZERO, &mut self.addresses) {
                // Nothing at all waits only while the hosts at work are being changed.
                Next::Wait(at) => self.now = at.unwrap_or(self.now),
                Next::Visit(lease) => {
                    let (sent, ended) = (self.now, self.now + ANSWER);
                    let address = lease.address.expect("every host has one");
                    self.addresses.sent(address, lease.visit, sent);
                    let touch = Touch::Answered { sent, ended, status: 200, page: true };
                    let (frontier, doors) = (&mut self.frontier, &mut self.addresses);
                    frontier.settle(ended, lease.visit, &touch, Fate::Leaves, doors);
                    let id = lease.errand.task().map(|task| task.id);
                    frontier.committed(ended, &lease.host, id);
                    left -= 1;
                }
            }
        }
    }

    /// Answers every wish at once.
    fn serve(&mut self) {
        let wants = self.frontier.wants(self.now);
        for want in wants.refill {
            let began = thread_cpu();
            let tasks = (0..want.limit).map(|_| self.task(&want.host)).collect();
            self.made += thread_cpu() - began;
            let wake = want.wake.then(Wake::default);
            self.frontier.refilled(self.now, &want.host, tasks, true, wake);
        }
        for host in wants.resolve {
            self.seq += 1;
            let address = IpAddr::from((0x0b00_0000 + self.seq as u32 % 0x00ff_ffff).to_be_bytes());
            let until = self.now + Duration::from_secs(1 << 30);
            let place = Place::Addresses { addresses: vec![address], until };
            self.frontier.resolved(self.now, &host, place);
        }
    }

    fn task(&mut self, host: &HostKey) -> Task {
        self.seq += 1;
        let url = format!("http://{}/page-{:x}", host.as_str(), self.seq);
        let url = CrawlUrl::parse(&url).expect("a URL");
        let found = Discovery { at: self.now, depth: 1, hops: 0, seed: false, band: 3 };
        let key = QueueKey { band: 3, seq: self.seq };
        Task { key, id: url.id(), record: Record::new(url, found) }
    }
}

/// CPU time of this thread so far, as Linux tells it: a busy machine does not blur it.
fn thread_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
