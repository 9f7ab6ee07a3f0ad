//! Every page once more: what is due, and what counts from here on?
//!
//! A round makes every URL that has answered due now, the gone ones too, and lets robots.txt judge
//! anew what it had forbidden. Pages that we have are asked for only if they have changed. The
//! limits of pages and bytes count from the beginning of the round.
//!
//! The beginning is a note in the first shard, safe on the disk before anything else is done; each
//! shard notes when its URLs are in their queues. So a round that was begun is begun in all shards,
//! however often the process dies; and a URL that the round has visited already is not due again.

use engine::Opened;
use ports::PortResult;
use serde::{Deserialize, Serialize};
use types::record::Retirement;
use types::{Record, Refusal, State, Timestamp};

const ROUND: &str = "round";
const QUEUED: &str = "round.queued";

/// The round under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    number: u64,
    at: Timestamp,
    /// Pages and bytes of all rounds before.
    pages: u64,
    bytes: u64,
}

impl Round {
    /// The last round that was begun; none in a crawl that has never been repeated.
    pub fn find(opened: &mut Opened) -> anyhow::Result<Option<Self>> {
        match opened.note(ROUND)? {
            Some(note) => Ok(Some(serde_json::from_slice(&note)?)),
            None => Ok(None),
        }
    }

    /// Begins another one.
    pub fn begin(opened: &mut Opened, now: Timestamp) -> anyhow::Result<Self> {
        let before = Self::find(opened)?;
        let round = Self {
            number: before.map_or(1, |round| round.number + 1),
            at: now,
            pages: opened.tally.get("pages"),
            bytes: opened.tally.get(engine::ARCHIVE_BYTES),
        };
        opened.set_note(ROUND, &serde_json::to_vec(&round)?)?;
        // Nothing to offer; but what stands before it is on the disk afterwards.
        opened.offer(std::iter::empty(), false, now)?;
        Ok(round)
    }

    /// Puts what is due into the queues, where that has not been done. Answers how many.
    pub fn queue(self, opened: &mut Opened) -> PortResult<u64> {
        let number = self.number.to_be_bytes();
        opened.revise_once((QUEUED, &number), &mut |record| self.judge(record))
    }

    fn judge(self, record: &Record) -> Option<Record> {
        let due = match &record.state {
            State::Parsed | State::Retired(Retirement::Gone(_)) => {
                record.last.as_ref().is_none_or(|last| last.at <= self.at)
            }
            State::Blocked(Refusal::Robots { .. }) => true,
            _ => false,
        };
        due.then(|| record.clone().retried())
    }

    /// A limit of this round as one of the crawl's life.
    pub fn pages_max(self, max: u64) -> u64 {
        max.saturating_add(self.pages)
    }

    /// The same of bytes.
    pub fn bytes_max(self, max: u64) -> u64 {
        max.saturating_add(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::record::RetryPolicy;
    use types::{Answer, CrawlUrl, Discovery, Fault, Outcome, VisitId};

    const POLICY: RetryPolicy = RetryPolicy {
        attempts_max: 3,
        delay: std::time::Duration::from_secs(10),
        lost_max: 3,
        host_max: 0,
    };

    fn visited(outcome: &Outcome, secs: u64) -> Record {
        let url = CrawlUrl::parse("http://a.test/").expect("a URL");
        let found = Discovery { at: Timestamp::ZERO, depth: 0, hops: 0, seed: true, band: 0 };
        let mut record = Record::new(url, found);
        record.settle(VisitId(1), outcome, Timestamp::from_secs(secs), POLICY);
        record
    }

    #[test]
    fn what_has_answered_before_the_round_is_due_and_nothing_twice() {
        let round = Round { number: 1, at: Timestamp::from_secs(50), pages: 7, bytes: 9 };
        let answered = |status| Outcome::Fetched(Answer { status, ..Answer::default() });
        let rule = Refusal::Robots { rule: "Disallow: /".into(), line: 1 };
        let failed = Outcome::Failed(types::Failure {
            fault: Fault::Status(501),
            retry_after: None,
            answer: None,
        });
        for (outcome, secs, due) in [
            (answered(200), 49, true),
            (answered(404), 49, true),
            (answered(200), 51, false),
            (Outcome::Refused(rule), 49, true),
            (Outcome::Refused(Refusal::Loop), 49, false),
            (failed, 49, false),
        ] {
            let record = visited(&outcome, secs);
            let again = round.judge(&record);
            assert_eq!(again.is_some(), due, "{outcome:?} at {secs}");
            assert!(again.is_none_or(|again| again.state == State::Queued));
        }
        assert_eq!((round.pages_max(3), round.bytes_max(u64::MAX)), (10, u64::MAX));
    }
}
