//! Who owns a shard?
//!
//! One task per shard holds its [`Frontier`] and is the only one who talks to its keeper. It
//! turns what happens (reports, answers of the keeper, names resolved, letters) into the
//! frontier's verbs, and what the frontier wants into jobs.
//!
//! Always: a request leaves only after its grant is noted; a slot is held from the lease until
//! the visit is committed, so no more than `crawl.concurrency` visits can be lost by a crash; at
//! most one job of a kind is under way.

mod audit;
mod durable;
mod grants;
mod heavy;
mod letters;
mod words;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use frontier::{Errand, Fate, Frontier, Lease, Place, RobotsErrand, RobotsMark, Wake};
use ports::shard_store::{
    Arrival, LetterBody, RefillWant, Refilled, RobotsFound, SeenFacts, UrlChange, VisitLine,
    WaitingHost,
};
use ports::{Clock, PortError, PortErrorKind, PortResult, Resolution};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use types::record::After;
use types::{Fault, HostKey, HostState, Outcome, PageLine, Refusal, ShardId, Timestamp, VisitId};

use crate::ctx::Ctx;
use crate::keeper::{Job, KeeperHandle, Reply};
use crate::limits::Limits;
use crate::report::{Done, PageDone, Report, RobotsStep};
use crate::robots_book::Rules;
use crate::roles::worker::{Hands, Worker};
use crate::stages::store::{Books, Group, SettledVisit};
use heavy::Heavy;
use words::{Envelope, Jobs, Mode, Post, Scan};
pub use words::{Note, OwnerParts, Reviser, Revision, Standing};

/// Counts links that were not taken; the reason follows.
pub const SKIPPED: &str = "skipped.";
/// Counts visits that found the page that we have, by the server's word or by its digest.
pub const UNCHANGED: &str = "unchanged";
/// Letters that travel in one envelope.
const LETTERS_MAX: usize = 256;
/// Hosts read in one go when the front queues are filled.
const HOSTS_MAX: usize = 1_024;
/// URLs that fall due in one go.
const DUE_MAX: usize = 1_024;
/// Visits in one group at most; a larger group only adds to the wait of its first visit.
const GROUP_MAX: usize = 256;
/// An origin that we ask nothing of is not looked at again for as long.
const REFUSED: Duration = Duration::from_secs(24 * 3_600);
/// A robots.txt that points elsewhere is waited for as long.
const CHASE: Duration = Duration::from_secs(180);
/// Walks over all records that may wait for their turn; each is somebody at a keyboard.
const REVISIONS_MAX: usize = 8;
/// How often leases are looked through.
const EXPIRY_TICK: Duration = Duration::from_secs(30);

pub struct Owner {
    shard: ShardId,
    ctx: Arc<Ctx>,
    limits: Arc<Limits>,
    pub(crate) frontier: Frontier,
    hands: Box<dyn Hands>,
    keeper: KeeperHandle,
    replies: mpsc::Receiver<PortResult<Reply>>,
    reports: mpsc::Receiver<Report>,
    notes: mpsc::Receiver<Note>,
    /// To every owner, this one included, by shard.
    owners: Vec<mpsc::Sender<Note>>,
    slots: Arc<Semaphore>,
    /// A slot that was waited for.
    spare: Option<OwnedSemaphorePermit>,
    /// A slot for every visit that is not committed.
    held: BTreeMap<VisitId, OwnedSemaphorePermit>,
    to_grant: Vec<Lease>,
    /// Granted, until their moment comes.
    granted: BTreeMap<(Timestamp, VisitId), Lease>,
    group: Group,
    group_since: Option<Timestamp>,
    heavy: Heavy,
    /// Who waits for a group to be committed.
    envelopes: Vec<Envelope>,
    envelopes_under_way: Vec<Envelope>,
    jobs: Jobs,
    next_due: Option<Timestamp>,
    post: BTreeMap<ShardId, Post>,
    delivered: mpsc::Receiver<(ShardId, u64)>,
    delivered_to: mpsc::Sender<(ShardId, u64)>,
    scan: Scan,
    /// At most `REVISIONS_MAX`.
    revisions: VecDeque<Revision>,
    mode: Mode,
    /// When leases are looked through next.
    expire_at: Timestamp,
    /// The books, when they are closed.
    closed: Option<Books>,
    /// Bytes in this shard's archive, as counted already.
    archive_bytes: u64,
    /// How the seen test went, as counted already.
    seen: SeenFacts,
    activity: u64,
    shown: (i64, i64, i64),
    /// After each step everything is compared with everything else.
    pub(crate) audited: bool,
}

impl Owner {
    pub fn new(ctx: Arc<Ctx>, parts: OwnerParts) -> Self {
        // Every visit reports once, and there are no more visits than slots.
        let (report, reports) = mpsc::channel(ctx.options.concurrency.max(1));
        let (delivered_to, delivered) = mpsc::channel(usize::from(ctx.options.shards).max(1));
        let hands: Box<dyn Hands> = match parts.crew {
            Some(crew) => {
                let first = parts.frontier.next_visit();
                Box::new(crew.hands((parts.shard, first), &ctx, report))
            }
            None => Box::new(Worker::new(Arc::clone(&ctx), report, None)),
        };
        let post = |shard| (shard, Post { waiting: true, busy: false });
        Self {
            shard: parts.shard,
            limits: parts.limits,
            frontier: parts.frontier,
            hands,
            keeper: parts.keeper,
            replies: parts.replies,
            reports,
            notes: parts.notes,
            owners: parts.owners,
            slots: parts.slots,
            spare: None,
            held: BTreeMap::new(),
            to_grant: Vec::new(),
            granted: BTreeMap::new(),
            group: Group::default(),
            group_since: None,
            heavy: Heavy::default(),
            envelopes: Vec::new(),
            envelopes_under_way: Vec::new(),
            jobs: Jobs::default(),
            next_due: parts.next_due,
            post: parts.letters_for.into_iter().map(post).collect(),
            delivered,
            delivered_to,
            scan: Scan { wanted: true, after: None },
            revisions: VecDeque::new(),
            mode: Mode::Running,
            expire_at: Timestamp::ZERO,
            closed: None,
            archive_bytes: parts.archive_bytes,
            seen: SeenFacts::default(),
            activity: 0,
            shown: (0, 0, 0),
            audited: false,
            ctx,
        }
    }

    /// Runs until it is told to stop, and has stopped in good order. Gives back the books.
    pub async fn run(mut self) -> PortResult<(ShardId, Books)> {
        loop {
            if let Some(books) = self.closed.take() {
                return Ok((self.shard, books));
            }
            let mut wants_slot = false;
            let wake_at = self.advance(&mut wants_slot).await;
            if self.audited {
                self.audit();
            }
            let sleep = tokio::time::sleep_until(self.ctx.clock.instant(wake_at));
            tokio::select! {
                biased;
                reply = self.replies.recv() => match reply {
                    Some(reply) => self.on_reply(reply?).await,
                    None => return Err(keeper_died()),
                },
                Some(report) = self.reports.recv() => self.on_report(report),
                Some((to, upto)) = self.delivered.recv() => {
                    self.keeper.submit(Job::Delivered { to, upto }).await;
                }
                Some(note) = self.notes.recv() => self.on_note(note).await,
                permit = Arc::clone(&self.slots).acquire_owned(), if wants_slot => {
                    // Kept until it is used: slots go to whoever waits longest, and one that is
                    // given back here would go round among the owners for ever.
                    self.spare = permit.ok();
                }
                () = sleep => {}
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.ctx.clock.now()
    }

    /// Does everything that can be done now; says when to look again.
    async fn advance(&mut self, wants_slot: &mut bool) -> Timestamp {
        let now = self.now();
        // Whatever else is quick to take is taken before new work is begun.
        for _ in 0..GROUP_MAX {
            let Ok(report) = self.reports.try_recv() else { break };
            self.on_report(report);
        }
        let mut wake_at = now + EXPIRY_TICK;
        if let Some(at) = self.take_turn(now) {
            wake_at = wake_at.min(at);
        }
        if self.mode == Mode::Running {
            self.expire(now);
            self.ask_for_wants(now).await;
            if let Some(at) = self.lease(now, wants_slot) {
                wake_at = wake_at.min(at);
            }
            // Leasing may have found hosts that need something.
            self.ask_for_wants(now).await;
            if let Some(due) = self.next_due {
                if due <= now && !self.jobs.waking {
                    self.jobs.waking = true;
                    self.keeper.submit(Job::Wake { now, limit: DUE_MAX }).await;
                }
                wake_at = wake_at.min(due.max(now + Duration::from_millis(1)));
            }
        }
        self.grant().await;
        if let Some(at) = self.start(now) {
            wake_at = wake_at.min(at);
        }
        if let Some(at) = self.keep(now).await {
            wake_at = wake_at.min(at);
        }
        self.send_letters().await;
        self.close_when_done().await;
        self.show();
        wake_at
    }

    async fn ask_for_wants(&mut self, now: Timestamp) {
        if self.scan.wanted && !self.jobs.scanning {
            self.jobs.scanning = true;
            let after = self.scan.after.take();
            self.keeper.submit(Job::Hosts { after, limit: HOSTS_MAX }).await;
        }
        if !self.jobs.revising
            && let Some(revision) = self.revisions.pop_front()
        {
            self.jobs.revising = true;
            self.keeper.submit(Job::Revise(revision)).await;
        }
        if self.jobs.refilling {
            return;
        }
        let wants = self.frontier.wants(now);
        self.scan.wanted |= wants.scan;
        let names = wants.resolve.into_iter().map(|host| (host, false));
        for (host, anew) in names.chain(wants.renew.into_iter().map(|host| (host, true))) {
            self.resolve(host, anew);
        }
        if !wants.refill.is_empty() {
            let wants = wants.refill.into_iter().map(|want| RefillWant {
                host: want.host,
                after: want.after,
                limit: want.limit,
                state: want.wake,
            });
            let wants = wants.collect();
            self.jobs.refilling = true;
            self.keeper.submit(Job::Refill(wants)).await;
        }
    }

    fn resolve(&mut self, host: HostKey, anew: bool) {
        let ctx = Arc::clone(&self.ctx);
        let owner = self.owners[usize::from(self.shard.0)].clone();
        tokio::spawn(async move {
            let resolution = match anew {
                false => ctx.resolver.resolve(&host).await,
                true => ctx.resolver.renew(&host).await,
            };
            // The owner is gone only when the crawl is over.
            let _ = owner.send(Note::Resolved { host, resolution }).await;
        });
    }

    // ── what happened ────────────────────────────────────────────────────────────────────────

    fn settle(&mut self, report: Report) {
        self.activity += 1;
        let now = self.now();
        let Some(lease) = self.frontier.lease(report.visit).cloned() else {
            // Expired before, and settled as lost: what it brings is not ours any more.
            self.hands.refused(report.visit);
            return;
        };
        self.hands.settled(report.visit);
        let mut visit = SettledVisit {
            visit: report.visit,
            host: lease.host.clone(),
            host_state: HostState::default(),
            site: None,
            url: None,
            robots: None,
            links: Default::default(),
            letters: Vec::new(),
            line: None,
            packed: report.packed,
            hold: report.hold,
        };
        let mut fate = Fate::Leaves;
        match report.done {
            Done::Page(done) => {
                let PageDone { task, outcome, mut followed, dated } = *done;
                self.ctx.events.visited(task.record.url.as_str(), &outcome);
                self.count(&outcome);
                for (why, links) in &followed.skipped {
                    self.ctx.events.skipped(why, *links);
                    self.group.tally.add(&format!("{SKIPPED}{why}"), *links);
                }
                if let Some(joined) = followed.joined.take() {
                    self.ctx.scope.write().expect("no panic while locked").add_seed(&joined);
                }
                let mut record = task.record;
                let retry = self.ctx.options.retry;
                let after = record.settle(report.visit, &outcome, report.at, retry);
                if let (After::Retry { .. }, Outcome::Failed(failure)) = (after, &outcome)
                    && !self.frontier.take_retry(report.visit, retry.host_max)
                {
                    record.give_up(&failure.fault);
                }
                if let Some(last) = &mut record.last {
                    last.target_refused = followed.refused;
                }
                let met = |held: types::Held| held.visit != report.visit;
                if outcome.answer().is_some() && record.held.is_some_and(met) {
                    let failed = matches!(outcome, Outcome::Failed(_));
                    self.group.tally.add(UNCHANGED, u64::from(!failed));
                }
                if let (Some(held), Some(dated)) = (&mut record.held, dated)
                    && held.visit == report.visit
                {
                    held.at = dated;
                }
                let held = record.held.is_some_and(met);
                visit.line = outcome.answer().map(|answer| VisitLine {
                    seq: 0,
                    visit: report.visit,
                    url: record.url.clone(),
                    at: report.at,
                    status: answer.status,
                    content_type: answer.content_type.clone(),
                    digest: answer.digest,
                    warc: None,
                    page: Some(Box::new(PageLine::new(&outcome, answer, &record.found, held))),
                });
                for (shard, links) in followed.by_shard {
                    if shard == self.shard {
                        visit.links = links;
                    } else {
                        visit.letters.push((shard, LetterBody::Links(links)));
                    }
                }
                visit.url = Some(UrlChange { key: task.key, record });
            }
            Done::GivenBack => {
                fate = stays(&lease);
                self.ask_robots_again(now, &lease);
            }
            Done::Robots { errand, step, status } => {
                let asked = report.touch != frontier::Touch::Untouched;
                self.group.tally.add("robots_requests", u64::from(asked));
                visit.line = status.map(|status| VisitLine {
                    seq: 0,
                    visit: report.visit,
                    url: errand.url.clone(),
                    at: report.at,
                    status,
                    // Comes from the archived head, as for pages.
                    content_type: None,
                    digest: None,
                    warc: None,
                    page: None,
                });
                self.robots_step(now, errand, step, &mut visit);
            }
            Done::NoRules { origin } => {
                let zero = Timestamp::ZERO;
                let expired = RobotsMark::Known { until: zero, renew_at: zero, crawl_delay: None };
                self.frontier.robots_known(now, &origin, expired);
                fate = stays(&lease);
            }
            Done::Lost { task: Some(mut task) } => {
                let outcome = Outcome::Failed(types::Failure {
                    fault: Fault::Lost,
                    retry_after: None,
                    answer: None,
                });
                let after = task.record.settle(report.visit, &outcome, now, self.ctx.options.retry);
                visit.url = Some(UrlChange { key: task.key, record: task.record.clone() });
                if after != After::Done {
                    fate = Fate::Stays(Box::new(task));
                }
            }
            Done::Lost { task: None } => {}
        }
        let answered = visit.line.is_some();
        if answered {
            self.limits.hear();
        }
        if let Errand::Page(_) = lease.errand {
            self.limits.page_ended(answered);
        }
        let settled = {
            let mut addresses = self.ctx.addresses.lock().expect("no panic while locked");
            self.frontier.settle(now, report.visit, &report.touch, fate, &mut addresses)
        };
        let settled = settled.expect("its lease is held");
        if let frontier::Touch::Answered { sent, .. }
        | frontier::Touch::Faulted { sent: Some(sent), .. } = report.touch
            && let Some(ended) = settled.last_end_before
        {
            self.ctx.events.gap(sent.since(ended));
        }
        if let Some(alert) = &settled.alert {
            self.ctx.events.alert(&settled.host, alert);
        }
        visit.host_state = settled.state;
        visit.site = Some(settled.site);
        self.group.visits.push(visit);
        self.group_since.get_or_insert(now);
    }

    fn count(&mut self, outcome: &Outcome) {
        let tally = &mut self.group.tally;
        if let Some(answer) = outcome.answer() {
            tally.add("pages", 1);
            tally.add("body_bytes", answer.body_bytes);
            tally.add(&format!("status.{}", answer.status), 1);
        }
        match outcome {
            Outcome::Refused(refusal) => tally.add(&format!("refused.{}", refusal.class()), 1),
            Outcome::Failed(failure) => {
                tally.add(&format!("failed.{}", failure.fault.name()), 1);
            }
            _ => {}
        }
    }

    /// One step of finding an origin's robots.txt.
    fn robots_step(
        &mut self,
        now: Timestamp,
        errand: RobotsErrand,
        step: RobotsStep,
        visit: &mut SettledVisit,
    ) {
        let home = errand.origin.host.site().shard(self.ctx.options.shards);
        if home == self.shard {
            // Until the answer is stored, or has come from elsewhere, nobody asks again.
            let chasing = RobotsMark::Chasing { until: now + CHASE };
            self.frontier.robots_known(now, &errand.origin, chasing);
        }
        match step {
            RobotsStep::Moved(to) => {
                let next = RobotsErrand { origin: errand.origin, url: to, hops: errand.hops + 1 };
                let shard = next.url.site().shard(self.ctx.options.shards);
                if shard == self.shard {
                    let origin = next.origin.clone();
                    if !self.frontier.ask_robots(now, next) {
                        let why = "too many robots.txt are said to be where it points to";
                        visit.robots = Some((origin, RobotsFound::Unreachable(why.into())));
                    }
                } else {
                    let RobotsErrand { origin, url, hops } = next;
                    visit.letters.push((shard, LetterBody::RobotsAsk { origin, url, hops }));
                }
            }
            RobotsStep::Refused(refusal) => {
                // In memory only: tomorrow's settings may be others.
                let refused = RobotsMark::Refused { refusal, until: now + REFUSED };
                self.frontier.robots_known(now, &errand.origin, refused);
            }
            RobotsStep::Found(found) if home == self.shard => {
                visit.robots = Some((errand.origin, found));
            }
            RobotsStep::Found(found) => {
                let answer = LetterBody::RobotsAnswer { origin: errand.origin, found };
                visit.letters.push((home, answer));
            }
        }
    }

    async fn on_reply(&mut self, reply: Reply) {
        self.activity += 1;
        let now = self.now();
        match reply {
            Reply::Granted(_) => {
                self.jobs.granting = false;
                let leases = std::mem::take(&mut self.jobs.grant).into_iter();
                self.granted.extend(leases.map(|lease| ((lease.not_before, lease.visit), lease)));
            }
            Reply::Kept(kept) => self.on_kept(now, *kept),
            Reply::Refilled(hosts) => {
                self.jobs.refilling = false;
                for host in hosts {
                    self.on_refilled(now, host);
                }
            }
            Reply::Woken(woken) => {
                self.jobs.waking = false;
                self.next_due = woken.next_due;
                for task in woken.tasks {
                    self.frontier.offer(now, task);
                }
            }
            Reply::Hosts { rows, more } => {
                self.jobs.scanning = false;
                self.scan.wanted = more;
                self.scan.after = more.then(|| rows.last().map(|row| row.host.clone())).flatten();
                for WaitingHost { host, best_band } in rows {
                    self.frontier.know(&host, best_band);
                }
            }
            Reply::Revised(revision, tasks) => {
                self.jobs.revising = false;
                for task in tasks {
                    self.frontier.offer(now, task);
                }
                if let Some(revision) = revision.end() {
                    self.revisions.push_front(revision);
                }
            }
            Reply::Letters { to, letters } => self.hand_over(to, letters).await,
            Reply::Delivered { to } => {
                self.post.entry(to).or_default().busy = false;
            }
            Reply::Closed(books) => self.closed = Some(*books),
        }
    }

    fn on_refilled(&mut self, now: Timestamp, host: Refilled) {
        let wake = host.state.map(|state| {
            let robots = state.robots.into_iter().map(|(origin, entry)| {
                let rules = Rules::of(&entry, &self.ctx.options.product, &self.ctx.options.robots);
                let mark = rules.mark();
                self.ctx.robots.put(origin.clone(), Arc::new(rules));
                (origin, mark)
            });
            Wake { robots: robots.collect(), state: state.host, rule: state.rule, site: state.site }
        });
        self.frontier.refilled(now, &host.host, host.tasks, host.more, wake);
    }

    async fn on_note(&mut self, note: Note) {
        match note {
            Note::Ping(tell) => {
                let standing = self.standing();
                let _ = tell.send(standing); // whoever asked may have gone
            }
            Note::Resolved { host, resolution } => {
                self.activity += 1;
                let now = self.now();
                if let Some(state) = self.frontier.resolved(now, &host, place(resolution)) {
                    // A visit of this host that is in the group is older: the last word counts.
                    for visit in self.group.visits.iter_mut().filter(|visit| visit.host == host) {
                        visit.host_state = state.clone();
                    }
                    self.group.hosts.push((host, state));
                    self.group_since.get_or_insert(now);
                }
            }
            Note::Letters { from, letters, taken } => {
                self.activity += 1;
                self.receive(from, letters, taken);
            }
            Note::Offer { links, taken } => {
                self.activity += 1;
                let now = self.now();
                let ids = links.iter().map(|found| found.id).collect();
                self.envelopes.push(Envelope::Offer(ids, taken));
                self.group.arrivals.push(Arrival { links, ..Arrival::default() });
                self.group_since.get_or_insert(now);
            }
            Note::Rule { host, rule, taken } => {
                self.activity += 1;
                let now = self.now();
                self.group.rules.push((host, rule));
                self.envelopes.push(Envelope::Plain(taken));
                self.group_since.get_or_insert(now);
            }
            Note::Revise(revision) => {
                self.activity += 1;
                // One too many goes, and whoever waits for it hears that nobody answers.
                if self.revisions.len() < REVISIONS_MAX {
                    self.revisions.push_back(revision);
                }
            }
            Note::Drain => {
                if self.mode == Mode::Running {
                    self.mode = Mode::Draining;
                    self.give_back_ungranted();
                }
            }
            Note::Abandon => {
                self.mode = Mode::Draining;
                self.hands.abandon();
                self.heavy.clear();
                self.give_back_ungranted();
                self.held.clear();
                self.jobs.grant.clear();
                self.granted.clear();
            }
        }
    }

    // ── how things stand ─────────────────────────────────────────────────────────────────────

    fn standing(&mut self) -> Standing {
        let now = self.now();
        let next = match (self.frontier.wake_at(now), self.next_due) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let jobs = &self.jobs;
        let busy = jobs.granting || jobs.keeping || jobs.refilling || jobs.waking || jobs.scanning;
        let quiet = !busy
            && !jobs.revising
            && self.revisions.is_empty()
            && self.held.is_empty()
            && self.to_grant.is_empty()
            && self.group_since.is_none()
            && self.frontier.pending() == 0
            && !self.scan.wanted
            && self.post.values().all(|post| !post.busy && !post.waiting);
        Standing {
            quiet,
            next,
            activity: self.activity,
            in_flight: self.frontier.in_flight(),
            active_hosts: self.frontier.active(),
        }
    }

    fn show(&mut self) {
        let now = (
            self.held.len() as i64,
            self.frontier.active() as i64,
            self.frontier.inactive() as i64,
        );
        let before = std::mem::replace(&mut self.shown, now);
        if before != now {
            self.ctx.events.standing(now.0 - before.0, now.1 - before.1, now.2 - before.2);
            self.limits.in_flight.fetch_add(now.0 - before.0, Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owner").field("shard", &self.shard).finish_non_exhaustive()
    }
}

fn keeper_died() -> PortError {
    PortError::new(
        PortErrorKind::Corrupt,
        "keep the state",
        "the store's thread has died; see the log",
    )
}

fn stays(lease: &Lease) -> Fate {
    match lease.errand.task() {
        Some(task) => Fate::Stays(Box::new(task.clone())),
        None => Fate::Leaves,
    }
}

fn place(resolution: Resolution) -> Place {
    match resolution {
        Resolution::Addresses { addresses, until } => Place::Addresses { addresses, until },
        Resolution::Forbidden { address, range, until } => {
            Place::Forbidden { refusal: Refusal::Address { address, range }, until }
        }
        Resolution::Failed { why, .. } => Place::Failed { why },
    }
}
