//! What do we know of a URL, and how does an outcome change it?
//!
//! A [`Record`] is the row of the crawl db. [`Record::settle`] is the only way its state moves;
//! the matrix of every state with every outcome is the test below. "Fetching" is not a state of
//! the record: a URL is being fetched while a grant is noted for it, so that a grant costs no
//! write to its row and a crash leaves nothing to mend.
//!
//! Not here: how a record becomes bytes (`ports::codec`).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::host::ShardId;
use crate::outcome::{Answer, Fault, Outcome, Refusal, Retry};
use crate::time::Timestamp;
use crate::url::CrawlUrl;

/// What we know of one URL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub url: CrawlUrl,
    pub found: Discovery,
    pub state: State,
    /// Failed attempts in a row.
    pub attempts: u8,
    /// Visits in a row that were lost, with their process or alone.
    pub lost: u8,
    /// Answers we have had from it.
    pub fetch_count: u32,
    /// The next visit waits until then; the URL is in `due` and not in its host's queue.
    pub due: Option<Timestamp>,
    pub last: Option<Box<LastVisit>>,
    /// Set while `last` tells of a page that we have whole. The serde form of a record is that of
    /// an old layout of rows, which does not know it.
    #[serde(skip)]
    pub held: Option<Held>,
}

/// How we came to know a URL, by the shortest way so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discovery {
    pub at: Timestamp,
    /// Links from the nearest seed.
    pub depth: u16,
    /// Redirects since the last link.
    pub hops: u8,
    /// Given by the user, or the target of a seed's redirect.
    pub seed: bool,
    /// Which front queue: 0 goes first.
    pub band: u8,
}

/// Where a URL stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Waits for its visit, in its host's queue or until it is due.
    Queued,
    /// Visited; the answer is in `last`.
    Parsed,
    /// Not requested, and why.
    Blocked(Refusal),
    /// No longer visited, and why.
    Retired(Retirement),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retirement {
    /// The server said there is nothing for us (4xx).
    Gone(u16),
    /// A dead letter: it failed too often.
    DeadLetter { fault: Fault, attempts: u8 },
    /// It was a dead letter, and somebody has dropped it.
    Dropped { fault: Fault, attempts: u8 },
}

impl fmt::Display for Retirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(status) => write!(f, "the server answered {status}"),
            Self::DeadLetter { fault, attempts } => {
                write!(f, "dead letter after {attempts} attempts: {fault}")
            }
            Self::Dropped { fault, attempts } => {
                write!(f, "dropped by hand after {attempts} attempts: {fault}")
            }
        }
    }
}

/// The latest answer and where its bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastVisit {
    pub at: Timestamp,
    pub answer: Answer,
    pub moved_to: Option<Box<str>>,
    /// Why the target was not taken, when it was not.
    pub target_refused: Option<Refusal>,
    pub warc: Option<WarcRef>,
}

/// A page that we have whole: which visit brought it, and what later ones said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The visit whose records hold it.
    pub visit: VisitId,
    /// The date of these records, by the clock of whoever wrote them.
    pub at: Timestamp,
    /// Visits since then that found it unchanged.
    pub unchanged: u32,
    /// The latest of them that went by the server's word (304) and saw no body.
    pub told: u32,
}

impl Held {
    /// `told` of a page whose server has contradicted itself: its word counts no more.
    const DOUBTED: u32 = u32::MAX;

    const fn new(visit: VisitId, at: Timestamp) -> Self {
        Self { visit, at, unchanged: 0, told: 0 }
    }
}

/// What a conditional request needs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Validators {
    pub etag: Option<Box<str>>,
    pub last_modified: Option<Box<str>>,
}

impl Validators {
    pub fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }

    /// A 304 repeats the validators of what it speaks of. Takes them over, and says whether it can
    /// be the page that these belong to. A weak tag and a strong one of the same text are one: they
    /// were compared so by the server, too.
    fn confirm(&mut self, said: &Self) -> bool {
        fn opaque(tag: &str) -> &str {
            tag.strip_prefix("W/").unwrap_or(tag)
        }
        if let (Some(ours), Some(theirs)) = (&self.etag, &said.etag)
            && opaque(ours) != opaque(theirs)
        {
            return false;
        }
        for (known, said) in
            [(&mut self.etag, &said.etag), (&mut self.last_modified, &said.last_modified)]
        {
            if said.is_some() {
                known.clone_from(said);
            }
        }
        true
    }
}

/// A record in an archive file of the shard: the response's gzip member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WarcRef {
    /// Serial number of the file within its shard.
    pub file: u32,
    pub offset: u64,
    pub length: u64,
}

/// The number of one visit, never used twice: the shard in the upper 16 bits, a count below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VisitId(pub u64);

impl VisitId {
    const COUNT_BITS: u32 = 48;

    pub const fn new(shard: ShardId, count: u64) -> Self {
        Self((shard.0 as u64) << Self::COUNT_BITS | count & ((1 << Self::COUNT_BITS) - 1))
    }

    pub const fn shard(self) -> ShardId {
        ShardId((self.0 >> Self::COUNT_BITS) as u16)
    }

    pub const fn count(self) -> u64 {
        self.0 & ((1 << Self::COUNT_BITS) - 1)
    }
}

impl fmt::Display for VisitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.shard(), self.count())
    }
}

/// How often and how soon a failed URL is tried again.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    pub attempts_max: u8,
    /// Least wait before the second attempt; four times as long before each further one.
    pub delay: Duration,
    /// A URL that was lost this often kills its worker. The frontier sees to it that the last
    /// times tell something: it visits suspects apart from the crowd.
    pub lost_max: u8,
    /// Retries that one host may owe; 0 is no limit.
    pub host_max: u32,
}

/// What becomes of the URL after its visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Nothing more to do for now.
    Done,
    /// Another attempt, not before then.
    Retry { at: Timestamp },
}

impl Record {
    pub fn new(url: CrawlUrl, found: Discovery) -> Self {
        Self {
            url,
            found,
            state: State::Queued,
            attempts: 0,
            lost: 0,
            fetch_count: 0,
            due: None,
            last: None,
            held: None,
        }
    }

    /// The visit at `at` came to `outcome`.
    pub fn settle(
        &mut self,
        visit: VisitId,
        outcome: &Outcome,
        at: Timestamp,
        policy: RetryPolicy,
    ) -> After {
        self.due = None;
        if let Some(answer) = outcome.answer() {
            self.fetch_count = self.fetch_count.saturating_add(1);
            self.remember(visit, outcome, answer, at);
        }
        match outcome {
            Outcome::Fetched(answer) if (400..500).contains(&answer.status) => {
                self.calm(State::Retired(Retirement::Gone(answer.status)))
            }
            Outcome::Fetched(_) | Outcome::Unchanged(_) | Outcome::Moved { .. } => {
                self.calm(State::Parsed)
            }
            Outcome::Refused(refusal) => self.calm(State::Blocked(refusal.clone())),
            Outcome::Failed(failure) => {
                self.failed(&failure.fault, failure.retry_after, at, policy)
            }
        }
    }

    /// What we know of the page after an answer.
    fn remember(&mut self, visit: VisitId, outcome: &Outcome, answer: &Answer, at: Timestamp) {
        let same = self.is_held(answer);
        match (outcome, &mut self.held, &mut self.last) {
            // A 304 has no body: what we know of the page is what the last body told, and where
            // that lies.
            (Outcome::Unchanged(_), Some(held), Some(last)) => {
                held.unchanged = held.unchanged.saturating_add(1);
                held.told = match last.answer.validators.confirm(&answer.validators) {
                    true => held.told.saturating_add(1),
                    false => Held::DOUBTED,
                };
                last.at = at;
                last.answer.took_ms = answer.took_ms;
            }
            // The same body once more; the archive points at the first one.
            (Outcome::Fetched(_), Some(held), Some(last)) if same => {
                held.unchanged = held.unchanged.saturating_add(1);
                held.told = 0;
                last.at = at;
                last.answer = answer.kept();
            }
            // It speaks of the server's health, and not of the page that we have.
            (Outcome::Failed(_), Some(_), Some(_)) => {}
            (outcome, held, last) => {
                let fetched = matches!(outcome, Outcome::Fetched(_));
                *held = (fetched && answer.is_whole()).then(|| Held::new(visit, at));
                let moved_to = match outcome {
                    Outcome::Moved { to: Some(to), .. } => Some(to.as_str().into()),
                    _ => None,
                };
                let answer = answer.kept();
                let visit = LastVisit { at, answer, moved_to, target_refused: None, warc: None };
                *last = Some(Box::new(visit));
            }
        }
    }

    /// Whether this is the page that we have, byte for byte.
    pub fn is_held(&self, answer: &Answer) -> bool {
        let known = self.held.and(self.last.as_ref()).map(|last| &last.answer);
        known.is_some_and(|known| {
            answer.is_whole() && known.digest.is_some() && known.digest == answer.digest
        })
    }

    /// What makes a request conditional, if it may be: the server is asked for the page only if it
    /// is not the one that we have whole. After `told_max` answers in a row that it has not changed
    /// we want to see it for ourselves; 0 believes them for ever. With `archive`, only a page that is
    /// in the archive can be referred to.
    pub fn condition(&self, told_max: u32, archive: bool) -> Option<&Validators> {
        let held = self.held?;
        let believed = held.told != Held::DOUBTED && (told_max == 0 || held.told < told_max);
        let Answer { validators, digest, .. } = &self.last.as_ref()?.answer;
        let there = digest.is_some() || !archive;
        (believed && there && !validators.is_empty()).then_some(validators)
    }

    /// Whether its page has been counted already: we have it, or it has answered and this is not
    /// just another attempt.
    pub fn is_revisit(&self) -> bool {
        self.held.is_some() || (self.last.is_some() && self.attempts == 0)
    }

    /// To be visited again, as if it had never failed.
    pub fn retried(self) -> Self {
        Self { state: State::Queued, attempts: 0, lost: 0, due: None, ..self }
    }

    fn calm(&mut self, state: State) -> After {
        self.state = state;
        self.attempts = 0;
        self.lost = 0;
        After::Done
    }

    fn failed(
        &mut self,
        fault: &Fault,
        retry_after: Option<Duration>,
        at: Timestamp,
        policy: RetryPolicy,
    ) -> After {
        if *fault == Fault::Lost {
            // The process died, perhaps through no fault of the URL: it uses up no attempt. Only
            // one that is there every time is suspected of being the cause.
            self.lost = self.lost.saturating_add(1);
            if self.lost < policy.lost_max {
                self.state = State::Queued;
                return After::Retry { at };
            }
        } else {
            self.attempts = self.attempts.saturating_add(1);
            if fault.retry() == Retry::Later && self.attempts < policy.attempts_max {
                let at = at + self.retry_wait(policy.delay).max(retry_after.unwrap_or_default());
                self.state = State::Queued;
                self.due = Some(at);
                return After::Retry { at };
            }
        }
        self.give_up(fault);
        After::Done
    }

    /// It failed and is not tried again.
    pub fn give_up(&mut self, fault: &Fault) {
        let attempts = if *fault == Fault::Lost { self.lost } else { self.attempts };
        self.state = State::Retired(Retirement::DeadLetter { fault: fault.clone(), attempts });
        self.due = None;
    }

    /// How long it waits after its last attempt failed, if the server asks for no longer wait: four
    /// times as long after each, and up to a quarter more, so that what failed together does not
    /// come back together. That part follows from the URL and the attempt, so a simulation replays.
    pub fn retry_wait(&self, delay: Duration) -> Duration {
        let times = 4_u32.pow(u32::from(self.attempts.saturating_sub(1)).min(8));
        let wait = delay.saturating_mul(times);
        let chance = (self.url.id().0 >> (16 * u32::from(self.attempts % 4))) as u16;
        wait.saturating_add((wait / 4).saturating_mul(u32::from(chance)) / (1 << 16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Failure;

    const POLICY: RetryPolicy =
        RetryPolicy { attempts_max: 3, delay: Duration::from_secs(10), lost_max: 3, host_max: 0 };

    const VISIT: VisitId = VisitId(1);

    fn answer(status: u16) -> Answer {
        Answer { status, ..Answer::default() }
    }

    fn failed(fault: Fault, retry_after: Option<u64>) -> Outcome {
        Outcome::Failed(Failure {
            fault,
            retry_after: retry_after.map(Duration::from_secs),
            answer: None,
        })
    }

    fn record(state: State) -> Record {
        let url = CrawlUrl::parse("http://a.test/").unwrap();
        let found = Discovery { at: Timestamp::ZERO, depth: 0, hops: 0, seed: true, band: 0 };
        Record { state, ..Record::new(url, found) }
    }

    /// Every state with every outcome. The state before does not matter to where it ends, except
    /// for the counts, which the tests below follow.
    #[test]
    fn every_state_meets_every_outcome() {
        let refusal = Refusal::Loop;
        let states = [
            State::Queued,
            State::Parsed,
            State::Blocked(refusal.clone()),
            State::Retired(Retirement::Gone(404)),
            State::Retired(Retirement::DeadLetter { fault: Fault::Lost, attempts: 3 }),
        ];
        let to = CrawlUrl::parse("http://b.test/").unwrap();
        let dead =
            |fault: Fault, attempts| State::Retired(Retirement::DeadLetter { fault, attempts });
        let cases = [
            (Outcome::Fetched(answer(200)), State::Parsed),
            (Outcome::Fetched(answer(404)), State::Retired(Retirement::Gone(404))),
            (Outcome::Unchanged(answer(304)), State::Parsed),
            (Outcome::Moved { to: Some(to), lasting: true, answer: answer(301) }, State::Parsed),
            (Outcome::Refused(refusal.clone()), State::Blocked(refusal)),
            (failed(Fault::Status(503), None), State::Queued),
            (failed(Fault::Status(501), None), dead(Fault::Status(501), 1)),
            (failed(Fault::Lost, None), State::Queued),
            (failed(Fault::Ours("x".into()), None), dead(Fault::Ours("x".into()), 1)),
        ];
        let mut met = 0;
        for before in &states {
            for (outcome, want) in &cases {
                let mut record = record(before.clone());
                let after = record.settle(VISIT, outcome, Timestamp::from_secs(100), POLICY);
                assert_eq!(record.state, *want, "{before:?} + {outcome:?}");
                assert_eq!(record.state == State::Queued, after != After::Done);
                met += 1;
            }
        }
        assert_eq!(met, states.len() * cases.len());
    }

    #[test]
    fn the_third_failure_makes_a_dead_letter_and_each_wait_is_longer() {
        let mut record = record(State::Queued);
        let fault = failed(Fault::Status(500), None);
        let at = Timestamp::from_secs(1_000);
        assert!((10_000..12_500).contains(&wait_ms(record.settle(VISIT, &fault, at, POLICY))));
        assert!((40_000..50_000).contains(&wait_ms(record.settle(VISIT, &fault, at, POLICY))));
        assert_eq!(record.settle(VISIT, &fault, at, POLICY), After::Done);
        assert_eq!(
            record.state,
            State::Retired(Retirement::DeadLetter { fault: Fault::Status(500), attempts: 3 })
        );
    }

    /// From 1,000 s on.
    fn wait_ms(after: After) -> u128 {
        match after {
            After::Retry { at } => at.since(Timestamp::from_secs(1_000)).as_millis(),
            After::Done => panic!("it is over"),
        }
    }

    #[test]
    fn what_failed_together_does_not_come_back_together() {
        let at = Timestamp::from_secs(1_000);
        let fault = failed(Fault::Status(503), None);
        let waits = (0..200).map(|n| {
            let url = CrawlUrl::parse(&format!("http://a.test/{n}")).unwrap();
            let mut record = Record { url, ..record(State::Queued) };
            let first = record.clone().settle(VISIT, &fault, at, POLICY);
            assert_eq!(record.settle(VISIT, &fault, at, POLICY), first, "it replays");
            wait_ms(first)
        });
        let waits: Vec<u128> = waits.collect();
        // Nobody comes sooner, and about as many in each fifth of the time.
        assert!(waits.iter().all(|wait| (10_000..12_500).contains(wait)));
        for fifth in 0..5 {
            let from = 10_000 + fifth * 500;
            let there = waits.iter().filter(|wait| (from..from + 500).contains(*wait)).count();
            assert!((20..=60).contains(&there), "{there} in part {fifth}");
        }
    }

    #[test]
    fn the_server_may_ask_for_a_longer_wait_but_not_for_a_shorter_one() {
        let at = Timestamp::from_secs(1_000);
        let long =
            record(State::Queued).settle(VISIT, &failed(Fault::Status(429), Some(77)), at, POLICY);
        assert_eq!(long, After::Retry { at: Timestamp::from_secs(1_077) }, "to the second");
        let short =
            record(State::Queued).settle(VISIT, &failed(Fault::Status(429), Some(1)), at, POLICY);
        assert!((10_000..12_500).contains(&wait_ms(short)));
    }

    #[test]
    fn a_lost_visit_uses_up_no_attempt_but_the_third_in_a_row_is_suspicious() {
        let mut record = record(State::Queued);
        let at = Timestamp::from_secs(5);
        let lost = failed(Fault::Lost, None);
        assert_eq!(record.settle(VISIT, &lost, at, POLICY), After::Retry { at });
        assert_eq!(record.attempts, 0);
        record.settle(VISIT, &lost, at, POLICY);
        assert_eq!(record.settle(VISIT, &lost, at, POLICY), After::Done);
        assert!(matches!(record.state, State::Retired(Retirement::DeadLetter { .. })));
    }

    #[test]
    fn an_answer_clears_the_counts() {
        let mut record = record(State::Queued);
        record.settle(VISIT, &failed(Fault::Status(500), None), Timestamp::ZERO, POLICY);
        record.settle(VISIT, &failed(Fault::Lost, None), Timestamp::ZERO, POLICY);
        record.settle(VISIT, &Outcome::Fetched(answer(200)), Timestamp::ZERO, POLICY);
        assert_eq!((record.attempts, record.lost, record.fetch_count), (0, 0, 1));
    }

    #[test]
    fn an_unchanged_page_keeps_what_its_last_body_told() {
        let mut record = record(State::Queued);
        let body = Answer { title: Some("T".into()), links: 7, ..answer(200) };
        record.settle(VISIT, &Outcome::Fetched(body), Timestamp::from_secs(1), POLICY);
        record.settle(VISIT, &Outcome::Unchanged(answer(304)), Timestamp::from_secs(2), POLICY);
        let last = record.last.unwrap();
        assert_eq!((last.answer.status, last.answer.links), (200, 7));
        assert_eq!(last.at, Timestamp::from_secs(2));
        assert_eq!(last.answer.title.as_deref(), Some("T"));
    }

    fn page(etag: &str, digest: u8) -> Answer {
        let validators = Validators { etag: Some(etag.into()), last_modified: None };
        Answer { validators, digest: Some([digest; 20]), ..answer(200) }
    }

    fn not_modified(etag: Option<&str>) -> Outcome {
        let validators = Validators { etag: etag.map(Into::into), last_modified: None };
        Outcome::Unchanged(Answer { validators, ..answer(304) })
    }

    /// A page that was visited with these outcomes, each a second after the one before.
    fn visited(outcomes: &[Outcome]) -> Record {
        let mut record = record(State::Queued);
        for (outcome, n) in outcomes.iter().zip(1..) {
            record.settle(VisitId(n), outcome, Timestamp::from_secs(n), POLICY);
        }
        record
    }

    fn held(outcomes: &[Outcome]) -> Option<(u64, u32, u32)> {
        visited(outcomes).held.map(|held| (held.visit.0, held.unchanged, held.told))
    }

    #[test]
    fn a_page_is_held_from_its_first_whole_body_until_another_comes() {
        let one = || Outcome::Fetched(page("\"1\"", 1));
        let two = || Outcome::Fetched(page("\"2\"", 2));
        let cut = Answer { truncated: Some(crate::outcome::Truncated::Time), ..page("\"1\"", 1) };
        let sick = Outcome::Failed(Failure {
            fault: Fault::Status(503),
            retry_after: None,
            answer: Some(page("\"oops\"", 9)),
        });
        assert_eq!(held(&[one()]), Some((1, 0, 0)));
        assert_eq!(held(&[one(), not_modified(None), not_modified(None)]), Some((1, 2, 2)));
        assert_eq!(held(&[one(), not_modified(None), one()]), Some((1, 2, 0)), "by its digest");
        assert_eq!(held(&[one(), two()]), Some((2, 0, 0)));
        assert_eq!(held(&[one(), sick.clone(), one()]), Some((1, 1, 0)), "a bad day in between");
        assert_eq!(held(&[sick, one()]), Some((2, 0, 0)));
        assert_eq!(held(&[one(), Outcome::Fetched(cut)]), None, "half a page is not the page");
        assert_eq!(held(&[one(), Outcome::Fetched(answer(404))]), None);
        let to = CrawlUrl::parse("http://b.test/");
        let away = Outcome::Moved { to: to.ok(), lasting: true, answer: answer(301) };
        assert_eq!(held(&[one(), away]), None);
    }

    #[test]
    fn the_archive_is_pointed_at_where_the_body_came() {
        let mut record = visited(&[Outcome::Fetched(page("\"1\"", 1))]);
        let place = WarcRef { file: 1, offset: 2, length: 3 };
        record.last.as_mut().unwrap().warc = Some(place);
        for outcome in [not_modified(None), Outcome::Fetched(page("\"1b\"", 1))] {
            record.settle(VisitId(2), &outcome, Timestamp::from_secs(2), POLICY);
            assert_eq!(record.last.as_ref().unwrap().warc, Some(place));
        }
    }

    #[test]
    fn a_condition_is_what_the_last_answer_gave_and_not_for_ever() {
        let etag = |outcomes: &[Outcome], told_max| {
            let record = visited(outcomes);
            record
                .condition(told_max, true)
                .and_then(|known| known.etag.as_deref())
                .map(str::to_owned)
        };
        let one = || Outcome::Fetched(page("W/\"1\"", 1));
        let told = not_modified;
        assert_eq!(etag(&[one()], 2).as_deref(), Some("W/\"1\""));
        // The same tag, now strong: it is the better one to ask with.
        assert_eq!(etag(&[one(), told(Some("\"1\""))], 2).as_deref(), Some("\"1\""));
        assert_eq!(etag(&[one(), told(None), told(None)], 2), None);
        assert_eq!(etag(&[one(), told(None), told(None)], 0).as_deref(), Some("W/\"1\""));
        assert_eq!(etag(&[one(), told(None), told(None), one()], 2).as_deref(), Some("W/\"1\""));
        assert_eq!(etag(&[one(), told(Some("\"2\""))], 0), None, "it speaks of another page");
        assert_eq!(etag(&[Outcome::Fetched(answer(200))], 2), None, "nothing to ask with");
    }

    #[test]
    fn a_page_counts_once_however_often_it_is_visited() {
        let fetched = Outcome::Fetched(answer(200));
        let sick = failed(Fault::Status(503), None);
        assert!(!visited(&[]).is_revisit());
        assert!(visited(std::slice::from_ref(&fetched)).is_revisit());
        assert!(visited(&[fetched, sick.clone()]).retried().is_revisit());
        assert!(!visited(&[sick]).is_revisit());
    }

    #[test]
    fn a_visit_id_keeps_shard_and_count_apart() {
        let id = VisitId::new(ShardId(15), 123_456_789);
        assert_eq!((id.shard(), id.count()), (ShardId(15), 123_456_789));
        assert_eq!(id.to_string(), "15-123456789");
    }
}
