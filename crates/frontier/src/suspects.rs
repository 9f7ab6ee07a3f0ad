//! Which URL kills the process?
//!
//! When a process dies, every visit in flight is lost, and any of their URLs may be the reason;
//! most are innocent. So one that was lost is a suspect. Suspects wait until the process has
//! proved that it can live without them; then those of one loss go in small company, and one that
//! was lost twice goes alone. Who is alone when the process dies again has done it.
//!
//! A process that is killed again and again, for reasons of its own, never lives long enough to
//! try a suspect, and so accuses nobody.

use std::time::Duration;

use types::{HostKey, Task, Timestamp};

/// How long a process must have lived before it visits suspects.
const CALM: Duration = Duration::from_secs(10);
/// Suspects of one loss that are in flight together, at most.
const COMPANY_MAX: usize = 32;
/// When others are on their way, a suspect looks again after this.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub(crate) struct Suspects {
    /// None are visited before; zero when nobody died.
    from: Timestamp,
    company: usize,
    alone: Option<Alone>,
}

/// The one that goes alone, until its visit is in the store.
#[derive(Debug)]
struct Alone {
    host: HostKey,
    /// Visits of its host that are to be committed up to its own; none while it is in flight.
    uncommitted: Option<usize>,
}

impl Suspects {
    /// `opened_at` is given on resume.
    pub(crate) fn new(opened_at: Option<Timestamp>) -> Self {
        let from = opened_at.map_or(Timestamp::ZERO, |opened| opened + CALM);
        Self { from, ..Self::default() }
    }

    /// When a URL may be visited, if it may not be now.
    pub(crate) fn wait(&self, task: &Task, now: Timestamp) -> Option<Timestamp> {
        let free = match task.record.lost {
            0 => return None,
            1 => self.company < COMPANY_MAX,
            _ => self.alone.is_none(),
        };
        match free {
            _ if now < self.from => Some(self.from),
            true => None,
            false => Some(now + LOOK_AGAIN),
        }
    }

    /// It goes.
    pub(crate) fn goes(&mut self, host: &HostKey, task: &Task) {
        match task.record.lost {
            0 => {}
            1 => self.company += 1,
            _ => self.alone = Some(Alone { host: host.clone(), uncommitted: None }),
        }
    }

    /// Its visit is over; so many of its host are still to be committed, its own the last of them.
    pub(crate) fn ended(&mut self, task: &Task, uncommitted: usize) {
        match task.record.lost {
            0 => {}
            1 => self.company -= 1,
            _ => {
                if let Some(alone) = &mut self.alone {
                    alone.uncommitted = Some(uncommitted);
                }
            }
        }
    }

    /// A visit of that host is in the store.
    pub(crate) fn committed(&mut self, host: &HostKey) {
        if let Some(Alone { host: its, uncommitted: Some(left) }) = &mut self.alone
            && its == host
        {
            *left -= 1;
            if *left == 0 {
                self.alone = None;
            }
        }
    }

    /// How many are in flight in company, and whether one is alone; for audits.
    pub(crate) fn standing(&self) -> (usize, bool) {
        let alone = self.alone.as_ref().is_some_and(|alone| alone.uncommitted.is_none());
        (self.company, alone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{CrawlUrl, Discovery, QueueKey, Record};

    fn task(lost: u8) -> Task {
        let url = CrawlUrl::parse("http://a.test/").unwrap();
        let found = Discovery { at: Timestamp::ZERO, depth: 0, hops: 0, seed: false, band: 0 };
        let mut record = Record::new(url, found);
        record.lost = lost;
        Task { key: QueueKey { band: 0, seq: 1 }, id: record.url.id(), record }
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + millis)
    }

    #[test]
    fn a_young_process_visits_nobody_who_was_there_when_the_last_one_died() {
        let suspects = Suspects::new(Some(at(0)));
        assert_eq!(suspects.wait(&task(0), at(0)), None);
        assert_eq!(suspects.wait(&task(1), at(0)), Some(at(10_000)));
        assert_eq!(suspects.wait(&task(2), at(9_999)), Some(at(10_000)));
        assert_eq!(suspects.wait(&task(2), at(10_000)), None);
        assert_eq!(Suspects::new(None).wait(&task(2), at(0)), None);
    }

    #[test]
    fn who_was_lost_once_goes_in_small_company() {
        let mut suspects = Suspects::new(None);
        let host = HostKey::new("a.test");
        for _ in 0..COMPANY_MAX {
            assert_eq!(suspects.wait(&task(1), at(0)), None);
            suspects.goes(&host, &task(1));
        }
        assert_eq!(suspects.wait(&task(1), at(0)), Some(at(200)));
        assert_eq!(suspects.wait(&task(0), at(0)), None, "the others go on");
        suspects.ended(&task(1), 1);
        assert_eq!(suspects.wait(&task(1), at(0)), None);
    }

    #[test]
    fn who_was_lost_twice_goes_alone_until_its_visit_is_in_the_store() {
        let mut suspects = Suspects::new(None);
        let host = HostKey::new("a.test");
        suspects.goes(&host, &task(2));
        assert_eq!(suspects.wait(&task(2), at(0)), Some(at(200)));
        suspects.committed(&host);
        suspects.ended(&task(2), 2);
        suspects.committed(&host);
        suspects.committed(&HostKey::new("b.test"));
        assert!(suspects.wait(&task(2), at(0)).is_some(), "its own commit is still to come");
        suspects.committed(&host);
        assert_eq!(suspects.wait(&task(2), at(0)), None);
    }
}
