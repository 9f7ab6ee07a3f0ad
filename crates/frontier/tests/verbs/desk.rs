//! A frontier against a store that is a list.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use lycosa_frontier::{
    Addresses, Errand, Fate, Frontier, FrontierOptions, Lease, Next, Place, Touch, Wake,
};
use types::{CrawlUrl, Discovery, HostKey, QueueKey, Record, ShardId, Task, Timestamp};

pub fn at(millis: u64) -> Timestamp {
    Timestamp::from_secs(1_000_000) + Duration::from_millis(millis)
}

/// A frontier with its world: tasks on "disk", names that resolve, robots that permit.
pub struct Desk {
    pub frontier: Frontier,
    pub addresses: Addresses,
    pub disk: BTreeMap<HostKey, Vec<Task>>,
    pub wakes: BTreeMap<HostKey, Wake>,
    pub places: BTreeMap<HostKey, Place>,
    pub seq: u64,
}

impl Desk {
    pub fn new(edit: impl FnOnce(&mut FrontierOptions)) -> Self {
        let mut options = FrontierOptions::new(ShardId(0));
        options.obey_robots = false;
        edit(&mut options);
        let addresses = Addresses::new(&options.politeness, options.opened_at).unwrap();
        Self {
            frontier: Frontier::new(options),
            addresses,
            disk: BTreeMap::new(),
            wakes: BTreeMap::new(),
            places: BTreeMap::new(),
            seq: 0,
        }
    }

    pub fn add(&mut self, now: Timestamp, url: &str, band: u8) {
        let url = CrawlUrl::parse(url).unwrap();
        self.seq += 1;
        let key = QueueKey { band, seq: self.seq };
        let found = Discovery { at: now, depth: 0, hops: 0, seed: false, band };
        let task = Task { key, id: url.id(), record: Record::new(url, found) };
        let queue = self.disk.entry(task.record.url.host_key()).or_default();
        queue.push(task.clone());
        queue.sort_by_key(|task| task.key);
        self.frontier.offer(now, task);
    }

    /// Answers every wish at once.
    pub fn serve(&mut self, now: Timestamp) {
        loop {
            self.frontier.audit(&self.addresses).unwrap();
            let wants = self.frontier.wants(now);
            if wants.is_empty() {
                return;
            }
            for want in wants.refill {
                let queue = self.disk.get(&want.host).cloned().unwrap_or_default();
                let beyond = queue.into_iter().filter(|t| want.after.is_none_or(|a| t.key > a));
                let mut tasks: Vec<_> = beyond.take(want.limit + 1).collect();
                let more = tasks.len() > want.limit;
                tasks.truncate(want.limit);
                let wake =
                    want.wake.then(|| self.wakes.get(&want.host).cloned().unwrap_or_default());
                self.frontier.refilled(now, &want.host, tasks, more, wake);
            }
            for host in wants.resolve.into_iter().chain(wants.renew) {
                let n = 1 + host.as_str().bytes().map(u32::from).sum::<u32>();
                let address = IpAddr::from((0x0b00_0000 + n).to_be_bytes());
                let until = now + Duration::from_secs(3_600);
                let here = Place::Addresses { addresses: vec![address], until };
                let place = self.places.get(&host).cloned().unwrap_or(here);
                self.frontier.resolved(now, &host, place);
            }
        }
    }

    pub fn next(&mut self, now: Timestamp) -> Option<Lease> {
        for _ in 0..3 {
            self.serve(now);
            if let Next::Visit(lease) = self.frontier.next(now, Duration::ZERO, &mut self.addresses)
            {
                return Some(*lease);
            }
        }
        None
    }

    /// The path of the next page, if one may go now.
    pub fn path(&mut self, now: Timestamp) -> Option<String> {
        self.next(now).map(|lease| match lease.errand {
            Errand::Page(task) => task.record.url.path().to_owned(),
            other => format!("{other:?}"),
        })
    }

    pub fn answer(&mut self, lease: &Lease, ended: Timestamp) {
        if let Some(address) = lease.address {
            self.addresses.sent(address, lease.visit, ended);
        }
        let touch = Touch::Answered { sent: ended, ended, status: 200, page: true };
        self.end(lease, ended, &touch);
    }

    pub fn end(&mut self, lease: &Lease, now: Timestamp, touch: &Touch) {
        let id = lease.errand.task().map(|task| task.id);
        if let (Touch::Faulted { sent: Some(sent), .. }, Some(address)) = (touch, lease.address) {
            self.addresses.sent(address, lease.visit, *sent);
        }
        let addresses = &mut self.addresses;
        self.frontier.settle(now, lease.visit, touch, Fate::Leaves, addresses).unwrap();
        if let Some(queue) = self.disk.get_mut(&lease.host) {
            queue.retain(|task| Some(task.id) != id);
        }
        self.frontier.committed(now, &lease.host, id);
    }
}
