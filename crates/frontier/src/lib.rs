//! May it enter, which is next, and when?
//!
//! The frontier of one shard, a pure value: its verbs take `now`, and what it needs from outside
//! it asks for ([`Wants`]). URLs wait in the store; here are the active hosts with the near part
//! of their queues, and the order in which they may be visited.
//!
//! ```text
//! offer ─► front queues ─► activation ─► back queue of the host ─► heap of hosts ─► next
//!           (hosts, by      (refill,       (near part)              (by time)   │
//!            band)           resolve)                                           ▼
//!                                              settle, committed ◄───────────  lease
//! ```
//!
//! Always: a host with waiting URLs is in exactly one place (asleep, in a front queue, or active);
//! an active one is in exactly one [`Phase`]. Taking a host out of the heap for a lease takes it
//! out until the visit is settled, so two visits to one host cannot meet: the structure forbids
//! it, no lock does. A host's next visit never moves earlier.
//!
//! Not here: whether robots.txt permits a URL (`engine::stages::gate`), what is new (the store).

mod active;
mod audit;
mod back;
mod errands;
mod front;
pub mod host;
mod lease;
mod names;
mod pauses;
pub mod politeness;
pub mod priority;
pub mod queues;
mod robots;
pub mod scope;
mod seats;
pub mod sheets;
mod sleepers;
mod suspects;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use foldhash::fast::FixedState;
use types::{
    Fault, HostKey, HostRule, HostState, Site, SiteState, Task, Timestamp, UrlId, VisitId,
};

use active::{Host, Phase, Pick, PlaceNow};
use back::Back;
use front::Front;
pub use host::Touch;
pub use lease::*;
pub use politeness::{Addresses, Politeness};
pub use robots::{RobotsMark, RobotsMarks};
pub use scope::{CrawlSettings, Scope, ScopeKind};
use seats::Doors;
pub use sheets::{HostSheet, HostSheets};
use sleepers::Sleepers;
use suspects::Suspects;

/// A host that rests longer than this gives up its place in memory.
const SLEEP_MIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Frontier {
    options: FrontierOptions,
    front: Front,
    hosts: HashMap<HostKey, Host, FixedState>,
    sites: HashMap<Site, SiteSlot, FixedState>,
    /// Hosts whose time is known, soonest first.
    heap: BinaryHeap<Reverse<Turn>>,
    /// Hosts whose time has come, but whose address is busy.
    doors: Doors,
    /// Hosts that rest for long, out of memory.
    asleep: Sleepers,
    /// Hosts that have used up their budget: no use in waking them for every new URL.
    spent: HashSet<HostKey, FixedState>,
    leases: BTreeMap<VisitId, Held>,
    suspects: Suspects,
    /// Robots requests for hosts that are not active yet.
    errands: HashMap<HostKey, VecDeque<RobotsErrand>, FixedState>,
    wants: Wants,
    /// Hosts that have gone out of memory.
    left: Vec<(HostKey, Timestamp)>,
    /// Hosts that wait for an answer of the store or the resolver.
    pending: usize,
    turns: u64,
    next_visit: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    at: Timestamp,
    number: u64,
    host: HostKey,
}

#[derive(Debug, Default)]
struct SiteSlot {
    state: SiteState,
    in_flight: u64,
    hosts: usize,
}

#[derive(Debug)]
struct Held {
    lease: Lease,
    expires_at: Timestamp,
}

impl Frontier {
    pub fn new(options: FrontierOptions) -> Self {
        let hasher = FixedState::with_seed(options.seed);
        Self {
            front: Front::new(options.sizes.front_max, options.seed),
            hosts: HashMap::with_hasher(hasher.clone()),
            sites: HashMap::with_hasher(hasher.clone()),
            heap: BinaryHeap::new(),
            doors: Doors::default(),
            asleep: Sleepers::new(options.sizes.front_max, hasher.clone()),
            spent: HashSet::with_hasher(hasher.clone()),
            leases: BTreeMap::new(),
            suspects: Suspects::new(options.opened_at),
            errands: HashMap::with_hasher(hasher),
            wants: Wants::default(),
            left: Vec::new(),
            pending: 0,
            turns: 0,
            next_visit: options.next_visit,
            options,
        }
    }

    /// Other sizes than the usual ones; to be told before anything else.
    pub fn resize(&mut self, sizes: Sizes) {
        self.front = Front::new(sizes.front_max, self.options.seed);
        self.asleep.resize(sizes.front_max);
        self.options.sizes = sizes;
    }

    // ── what comes in ────────────────────────────────────────────────────────────────────────

    /// The store knows a host with waiting URLs (after opening, or after a scan).
    pub fn know(&mut self, host: &HostKey, best_band: u8) {
        if !self.hosts.contains_key(host) && !self.asleep.has(host) && !self.spent.contains(host) {
            self.front.push(host, best_band);
        }
    }

    /// A new URL, already in the store's queue of its host.
    pub fn offer(&mut self, now: Timestamp, task: Task) {
        let host_key = task.record.url.host_key();
        let (near_max, _) = self.options.sizes.near(self.hosts.len());
        let Some(host) = self.hosts.get_mut(&host_key) else {
            self.know(&host_key, task.key.band);
            return;
        };
        let may_go = host.waits_for_robots && !host.waits_for(&task, now);
        host.back.offer(task, near_max);
        if (host.phase == Phase::Idle && !host.over_budget)
            || (may_go && matches!(host.phase, Phase::Scheduled { .. }))
        {
            let at = host.state.not_before.max(now);
            self.schedule(now, &host_key, at);
        }
    }

    /// The answer to a [`Refill`].
    pub fn refilled(
        &mut self,
        now: Timestamp,
        host_key: &HostKey,
        tasks: Vec<Task>,
        more: bool,
        wake: Option<Wake>,
    ) {
        let opened_at = self.options.opened_at;
        let Some(host) = self.hosts.get_mut(host_key) else { return };
        host.back.refilled(tasks, more);
        if let Some(wake) = wake {
            host.state = wake.state;
            host.rule = wake.rule;
            host.robots = RobotsMarks::new(wake.robots);
            // The clock may stand before what the state says of the future only by what it asks
            // the host to wait; what lies beyond all reason is a clock that was set back.
            host.state.last_end = host.state.last_end.min(now);
            // Its Crawl-delay, or a rule, may have become known after its state was written.
            host.lengthen_pause(&self.options.politeness);
            let pause = host::pause(&host.state, &host.manners(&self.options.politeness));
            if let Some(opened) = opened_at {
                // Whether the last process had sent something after its last commit nobody
                // knows: every host gets its full pause from the opening.
                host.state.not_before = host.state.not_before.max(opened + pause);
            }
            let slot = self.sites.entry(host.site.clone()).or_default();
            if slot.hosts == 0 {
                slot.state = wake.site;
            }
            slot.hosts += 1;
        }
        match host.phase {
            Phase::Waking => {
                if host.place.is_none() {
                    // Asked for when it woke up; if nobody could tell, that is its failure now.
                    self.wait_for_name(now, host_key);
                } else {
                    self.pending -= 1;
                    let at = host.state.not_before.max(now);
                    self.schedule(now, host_key, at);
                }
            }
            Phase::Starved => {
                self.pending -= 1;
                let at = host.state.not_before.max(now);
                self.schedule(now, host_key, at);
            }
            _ => {}
        }
    }

    // ── what goes out ────────────────────────────────────────────────────────────────────────

    /// What is wanted from the outside since the last call.
    pub fn wants(&mut self, now: Timestamp) -> Wants {
        self.activate(now);
        self.wants.scan |= self.front.take_overflowed();
        std::mem::take(&mut self.wants)
    }

    /// The next visit that may go within `ahead` from now; its lease says when.
    pub fn next(&mut self, now: Timestamp, ahead: Duration, addresses: &mut Addresses) -> Next {
        let by = now + ahead;
        loop {
            if let Some(host) = self.doors.next(by, addresses) {
                if let Some(lease) = self.consider(&host, now, by, addresses) {
                    return Next::Visit(lease);
                }
                continue;
            }
            match self.heap.peek() {
                Some(Reverse(turn)) if turn.at <= by => {}
                _ => return Next::Wait(self.look_at(now, ahead)),
            }
            let Some(Reverse(turn)) = self.heap.pop() else { continue };
            if self.is_current(&turn)
                && let Some(lease) = self.consider(&turn.host, now, by, addresses)
            {
                return Next::Visit(lease);
            }
        }
    }

    /// Takes one of the retries that the host of a visit under way may cost; `most` that it may owe.
    pub fn take_retry(&mut self, visit: VisitId, most: u32) -> bool {
        let host = self.leases.get(&visit).and_then(|held| self.hosts.get_mut(&held.lease.host));
        host.is_some_and(|host| host.state.take_retry(most))
    }

    /// The visit is over.
    pub fn settle(
        &mut self,
        now: Timestamp,
        visit: VisitId,
        touch: &Touch,
        fate: Fate,
        addresses: &mut Addresses,
    ) -> Option<Settled> {
        let held = self.leases.remove(&visit)?;
        let lease = held.lease;
        let host = self.hosts.get_mut(&lease.host).expect("a leased host is active");
        if let Some(address) = lease.address {
            addresses.release(address, visit, touch.sent(), now);
            self.doors.poke(address, now);
        }
        host.uncommitted += 1;
        let was_parked = host.state.parked;
        let last_end = Some(host.state.last_end).filter(|at| *at > Timestamp::ZERO);
        let manners = host.manners(&self.options.politeness);
        host::learn(&mut host.state, touch, &manners);
        if matches!(touch, Touch::Faulted { fault: Fault::Connect(_) | Fault::Timeout(_), .. }) {
            host.address_turn = host.address_turn.wrapping_add(1);
        }
        let slot = self.sites.entry(host.site.clone()).or_default();
        if let Errand::Page(task) = &lease.errand {
            self.suspects.ended(task, host.uncommitted);
            slot.in_flight -= 1;
            slot.state.pages += u64::from(counts_as_page(touch));
        }
        let alert = match &host.state {
            state if state.parked && !was_parked => Some(Alert::Parked {
                faults: state.faults,
                last: state.last_fault.clone().unwrap_or(Fault::Lost),
            }),
            state if state.denied > 0 && state.denied % host::DENIED_ALERT == 0 => {
                Some(Alert::Denied { times: state.denied })
            }
            _ => None,
        };
        let settled = Settled {
            host: lease.host.clone(),
            state: host.state.clone(),
            site: (host.site.clone(), slot.state),
            last_end_before: last_end,
            alert,
        };
        if let Fate::Stays(task) = fate {
            host.back.put_back(*task);
        }
        let at = host.turn(now);
        self.renew_name(now, &lease.host, at);
        self.schedule(now, &lease.host, at);
        Some(settled)
    }

    /// A settled visit is in the store; if it was about a URL, that is no longer in the queue
    /// there, unless it stayed.
    pub fn committed(&mut self, now: Timestamp, host_key: &HostKey, url: Option<UrlId>) {
        if let Some(host) = self.hosts.get_mut(host_key) {
            self.suspects.committed(host_key);
            host.uncommitted -= 1;
            if let Some(url) = url {
                host.back.release(url);
            }
            self.retire(host_key);
            self.rests_for_long(now, host_key);
        }
    }

    /// Leases that have run out; each must be settled as lost. Looks at all of them.
    pub fn expired(&self, now: Timestamp) -> Vec<Lease> {
        let late = self.leases.values().filter(|held| held.expires_at <= now);
        late.map(|held| held.lease.clone()).collect()
    }

    pub fn lease(&self, visit: VisitId) -> Option<&Lease> {
        self.leases.get(&visit).map(|held| &held.lease)
    }

    /// Hosts that have gone out of memory since the last call, and when the pause of each is over.
    pub fn left(&mut self) -> Vec<(HostKey, Timestamp)> {
        std::mem::take(&mut self.left)
    }

    // ── how things stand ─────────────────────────────────────────────────────────────────────

    pub fn in_flight(&self) -> usize {
        self.leases.len()
    }

    /// Hosts that wait for the store or the resolver.
    pub fn pending(&self) -> usize {
        self.pending + self.wants.refill.len() + self.wants.resolve.len()
    }

    pub fn active(&self) -> usize {
        self.hosts.len()
    }

    pub fn inactive(&self) -> usize {
        self.front.len() + self.asleep.len()
    }

    pub fn next_visit(&self) -> u64 {
        self.next_visit
    }

    /// The soonest moment at which anything could happen by itself.
    pub fn wake_at(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.look_at(now, Duration::ZERO)
    }

    /// The same for somebody who looks `ahead`.
    fn look_at(&mut self, now: Timestamp, ahead: Duration) -> Option<Timestamp> {
        while let Some(Reverse(turn)) = self.heap.peek() {
            if self.is_current(turn) {
                break;
            }
            self.heap.pop();
        }
        let heap = self.heap.peek().map(|Reverse(turn)| turn.at - ahead);
        let door = self.doors.wake_at().map(|at| at - ahead);
        let sleeper = self.asleep.wake_at();
        let front = (!self.front.is_empty() && self.hosts.len() < self.options.sizes.active_max)
            .then_some(now);
        [heap, door, sleeper, front].into_iter().flatten().min()
    }

    // ── inside ───────────────────────────────────────────────────────────────────────────────

    fn is_current(&self, turn: &Turn) -> bool {
        self.hosts.get(&turn.host).is_some_and(
            |host| matches!(host.phase, Phase::Scheduled { number, .. } if number == turn.number),
        )
    }

    /// Hosts from the front queues, and those whose long rest is over, become active.
    fn activate(&mut self, now: Timestamp) {
        while let Some(host) = self.asleep.wake(now) {
            self.front.push(&host, 0);
        }
        self.wants.scan |= self.asleep.take_scan(now);
        while self.hosts.len() < self.options.sizes.active_max {
            let Some(host_key) = self.front.pop() else { break };
            let mut host = Host {
                site: host_key.site(),
                state: HostState::default(),
                rule: HostRule::default(),
                back: Back::unknown(),
                phase: Phase::Waking,
                place: None,
                asked: true,
                nameless_since: None,
                name_wait: Duration::ZERO,
                robots: RobotsMarks::default(),
                errands: self.errands.remove(&host_key).unwrap_or_default(),
                errand_had_turn: false,
                unresolved: false,
                rewind_at: None,
                waits_for_robots: false,
                address_turn: 0,
                over_budget: false,
                uncommitted: 0,
                delay: self.options.sheets.delay(host_key.as_str(), &self.options.politeness),
                obeys_robots: self
                    .options
                    .sheets
                    .obeys_robots(host_key.as_str())
                    .unwrap_or(self.options.obey_robots),
            };
            let after = host.back.want(0).expect("an unknown queue wants to be read");
            let (near_max, _) = self.options.sizes.near(self.hosts.len());
            self.wants.refill.push(Refill {
                host: host_key.clone(),
                after,
                limit: near_max,
                wake: true,
            });
            self.pending += 1;
            self.wants.resolve.push(host_key.clone());
            self.hosts.insert(host_key, host);
        }
    }

    /// The host's time comes not later than `by`: what can it do then? Everything that ends
    /// without a lease leaves the host in another phase.
    fn consider(
        &mut self,
        host_key: &HostKey,
        now: Timestamp,
        by: Timestamp,
        addresses: &mut Addresses,
    ) -> Option<Box<Lease>> {
        let (near_max, near_low) = self.options.sizes.near(self.hosts.len());
        let host = self.hosts.get_mut(host_key)?;
        host.waits_for_robots = false;
        if host.rewind_at.is_some_and(|at| at <= by) {
            host.rewind_at = None;
            host.back.rewind();
        }
        if let Some(after) = host.back.want(near_low) {
            self.wants.refill.push(Refill {
                host: host_key.clone(),
                after,
                limit: near_max,
                wake: false,
            });
        }
        let pick = match host.pick(by, &self.suspects) {
            Pick::Rest(at) => {
                self.schedule(now, host_key, at);
                return None;
            }
            Pick::Wait(at) => {
                let at = host.rewind_at.map_or(at, |rewind_at| rewind_at.min(at));
                let passed = host.back.pass_over();
                if passed {
                    host.rewind_at = Some(at);
                }
                host.waits_for_robots = !passed;
                self.schedule(now, host_key, if passed { by } else { at });
                return None;
            }
            Pick::Nothing if host.back.has_passed_over() && !host.back.is_refilling() => {
                let at = host.rewind_at.unwrap_or(by);
                host.waits_for_robots = true;
                self.schedule(now, host_key, at);
                return None;
            }
            Pick::Nothing if host.back.is_exhausted() => {
                host.phase = Phase::Idle;
                self.retire(host_key);
                return None;
            }
            Pick::Nothing => {
                host.phase = Phase::Starved;
                self.pending += 1;
                return None;
            }
            pick => pick,
        };
        let (address, refusal) = match (&pick, host.place_now(by)) {
            (Pick::Unanswered, _) => (None, None),
            (Pick::Refused(_, refusal), _) => (None, Some(refusal.clone())),
            (_, PlaceNow::Unknown) => {
                self.pending += 1;
                self.wait_for_name(now, host_key);
                return None;
            }
            (_, PlaceNow::At(address)) => (Some(address), None),
            (_, PlaceNow::Forbidden(refusal)) => (None, Some(refusal)),
        };
        let slot = self.sites.entry(host.site.clone()).or_default();
        if let (Pick::Page(key), None) = (&pick, &refusal) {
            let policy = &self.options.politeness;
            let over = |count: u64, max: u64| max > 0 && count >= max;
            // A page that was counted before is not counted again.
            let known =
                || host.back.iter().any(|task| task.key == *key && task.record.is_revisit());
            if (over(host.state.pages, policy.host_pages_max)
                || over(slot.state.pages + slot.in_flight, policy.domain_pages_max))
                && !known()
            {
                // Deferred: it stays in the store, and only a higher budget frees it. Visits of
                // the domain that are under way may still fail and leave room.
                host.over_budget = over(host.state.pages, policy.host_pages_max)
                    || over(slot.state.pages, policy.domain_pages_max);
                if host.over_budget {
                    host.phase = Phase::Idle;
                    self.retire(host_key);
                } else {
                    self.schedule(now, host_key, by + SITE_RECHECK);
                }
                return None;
            }
        }
        let visit = VisitId::new(self.options.shard, self.next_visit);
        // Who sends nothing waits for nothing.
        let mut not_before = now;
        if let Some(address) = address {
            let free_at = match addresses.reserve(address, visit, by) {
                Ok(free_at) => free_at,
                Err(busy) => {
                    let delay = self.options.politeness.ip_delay.get();
                    host.phase = Phase::AtDoor;
                    if let Err(at) = self.doors.wait(host_key, address, busy, by, delay) {
                        self.schedule(now, host_key, at);
                    }
                    return None;
                }
            };
            let resting_until = host.state.not_before;
            not_before = not_before.max(free_at).max(resting_until);
            if let Pick::Robots(_, at) = pick {
                not_before = not_before.max(at);
            }
        }
        host.errand_had_turn = matches!(pick, Pick::Errand | Pick::Unanswered);
        let errand = match pick {
            Pick::Page(key) | Pick::Refused(key, _) => {
                let task = host.back.take(key).expect("picked from the near part");
                match refusal {
                    Some(refusal) => Errand::Refuse(task, refusal),
                    None => {
                        slot.in_flight += 1;
                        self.suspects.goes(host_key, &task);
                        Errand::Page(task)
                    }
                }
            }
            Pick::Errand | Pick::Unanswered => {
                Errand::Robots(host.errands.pop_front().expect("picked because there is one"))
            }
            Pick::Robots(errand, _) => Errand::Robots(errand),
            Pick::Rest(_) | Pick::Wait(_) | Pick::Nothing => unreachable!("handled above"),
        };
        host.phase = Phase::Leased;
        let pause = host::pause(&host.state, &host.manners(&self.options.politeness));
        let name_wait = std::mem::take(&mut host.name_wait);
        self.next_visit += 1;
        let (host, granted_at) = (host_key.clone(), now);
        let lease =
            Lease { visit, host, errand, address, granted_at, not_before, pause, name_wait };
        let expires_at = now + self.options.sizes.lease_time;
        self.leases.insert(visit, Held { lease: lease.clone(), expires_at });
        Some(Box::new(lease))
    }

    /// The host's next turn is at `at`.
    fn schedule(&mut self, now: Timestamp, host_key: &HostKey, at: Timestamp) {
        let Some(host) = self.hosts.get_mut(host_key) else { return };
        self.turns += 1;
        host.phase = Phase::Scheduled { number: self.turns, at };
        if self.rests_for_long(now, host_key) {
            return;
        }
        self.heap.push(Reverse(Turn { at, number: self.turns, host: host_key.clone() }));
    }

    /// A host that rests for long gives up its place in memory, once all about it is stored.
    fn rests_for_long(&mut self, now: Timestamp, host_key: &HostKey) -> bool {
        let Some(host) = self.hosts.get(host_key) else { return false };
        let Phase::Scheduled { at, .. } = host.phase else { return false };
        if at.since(now) <= SLEEP_MIN || !host.is_stored() {
            return false;
        }
        self.asleep.insert(host_key, at);
        self.forget(host_key);
        true
    }

    /// An idle host leaves memory once all about it is stored. The moment before which it may not
    /// be visited is part of that, and is read again when the host comes back.
    fn retire(&mut self, host_key: &HostKey) {
        let Some(host) = self.hosts.get(host_key) else { return };
        if host.phase == Phase::Idle && host.is_stored() {
            if host.over_budget && self.spent.len() < self.options.sizes.front_max {
                self.spent.insert(host_key.clone());
            }
            self.forget(host_key);
        }
    }

    fn forget(&mut self, host_key: &HostKey) {
        let Some(mut host) = self.hosts.remove(host_key) else { return };
        // What its server asked of us after faults is ours to keep; the pause is everybody's.
        host.state.backoff = 0;
        let pause = host::pause(&host.state, &host.manners(&self.options.politeness));
        self.left.push((host_key.clone(), host.state.last_end + pause));
        if let Some(slot) = self.sites.get_mut(&host.site) {
            slot.hosts -= 1;
            if slot.hosts == 0 && slot.in_flight == 0 {
                self.sites.remove(&host.site);
            }
        }
    }
}

/// When a domain's last pages are under way, its other hosts look again after this.
const SITE_RECHECK: Duration = Duration::from_secs(1);

fn counts_as_page(touch: &Touch) -> bool {
    matches!(touch, Touch::Answered { page: true, .. } | Touch::Faulted { page: true, .. })
}
