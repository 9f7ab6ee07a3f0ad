//! Which URLs failed too often, and what becomes of them?
//!
//! A dead letter is a URL that failed as often as `fetch.attempts_max` says, or was in flight each
//! time the process died. It can be listed with its reason, tried again, or dropped for good; a
//! dropped one keeps its record, so that a link does not bring it back.

use ports::shard_store::ScanCursor;
use ports::{PortResult, ShardStore};
use regex::Regex;
use serde::{Deserialize, Serialize};
use types::record::Retirement;
use types::{Fault, HostKey, Record, State};

/// Which dead letters are meant; all, if nothing is named.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Filter {
    /// These hosts.
    pub hosts: Vec<String>,
    /// These reasons, by their names.
    pub reasons: Vec<String>,
    /// URLs in which this is found.
    pub matching: Option<String>,
}

impl Filter {
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.reasons.is_empty() && self.matching.is_none()
    }

    /// Made ready to be asked. Fails with a sentence that says what to write.
    pub fn ready(&self) -> Result<Ready, String> {
        for reason in &self.reasons {
            if !Fault::NAMES.contains(&reason.as_str()) {
                let names = Fault::NAMES.join(", ");
                return Err(format!("`{reason}` is no reason; choose of {names}"));
            }
        }
        let matching = match &self.matching {
            None => None,
            Some(text) => Some(Regex::new(text).map_err(|error| format!("--match: {error}"))?),
        };
        let hosts = self.hosts.iter().map(|host| HostKey::new(&host.to_lowercase())).collect();
        Ok(Ready { hosts, reasons: self.reasons.clone(), matching })
    }
}

/// A filter that can be asked.
#[derive(Debug, Clone)]
pub struct Ready {
    hosts: Vec<HostKey>,
    reasons: Vec<String>,
    matching: Option<Regex>,
}

impl Ready {
    /// Why and after how many attempts the URL was given up, if it is one of those that are meant.
    pub fn takes<'a>(&self, record: &'a Record) -> Option<(&'a Fault, u8)> {
        let State::Retired(Retirement::DeadLetter { fault, attempts }) = &record.state else {
            return None;
        };
        let url = &record.url;
        let meant = (self.hosts.is_empty() || self.hosts.contains(&url.host_key()))
            && (self.reasons.is_empty() || self.reasons.iter().any(|name| name == fault.name()))
            && self.matching.as_ref().is_none_or(|text| text.is_match(url.as_str()));
        meant.then_some((fault, *attempts))
    }
}

/// What is done with dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Deed {
    Retry,
    Drop,
}

impl Deed {
    /// The record as it shall be, if it is one of those that are meant.
    pub fn judge(self, filter: &Ready, record: &Record) -> Option<Record> {
        let (fault, attempts) = filter.takes(record)?;
        Some(match self {
            Self::Retry => record.clone().retried(),
            Self::Drop => {
                let dropped = Retirement::Dropped { fault: fault.clone(), attempts };
                Record { state: State::Retired(dropped), ..record.clone() }
            }
        })
    }
}

/// A dead letter, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    pub url: String,
    pub reason: String,
    pub detail: String,
    pub attempts: u8,
    /// The last answer, if there ever was one.
    pub last_answer: Option<String>,
    pub depth: u16,
    pub seed: bool,
}

/// Some dead letters, and where to go on.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Page {
    pub letters: Vec<DeadLetter>,
    /// None when there are no more.
    pub next: Option<Vec<u8>>,
}

/// Records looked through in one go, and dead letters that are shown in one go: less than a second,
/// and less than a line of the control socket holds.
const STEP: usize = 4_096;
const STEPS_MAX: usize = 16;
const LETTERS_MAX: usize = 200;

/// The next dead letters of a shard, from where the last page ended.
pub fn page(
    store: &mut dyn ShardStore,
    filter: &Ready,
    after: Option<Vec<u8>>,
) -> PortResult<Page> {
    let mut cursor = ScanCursor { after, done: false };
    let mut letters = Vec::new();
    for _ in 0..STEPS_MAX {
        if cursor.done || letters.len() >= LETTERS_MAX {
            break;
        }
        // A page may be longer by what one step finds, so steps are short once there are some.
        let step = if letters.is_empty() { STEP } else { LETTERS_MAX };
        for record in store.records(&mut cursor, step)? {
            if let Some((fault, attempts)) = filter.takes(&record) {
                letters.push(DeadLetter {
                    reason: fault.name().to_owned(),
                    detail: fault.to_string(),
                    attempts,
                    last_answer: record.last.as_ref().map(|last| last.at.rfc3339()),
                    depth: record.found.depth,
                    seed: record.found.seed,
                    url: record.url.as_str().to_owned(),
                });
            }
        }
    }
    Ok(Page { letters, next: (!cursor.done).then_some(cursor.after).flatten() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{CrawlUrl, Discovery, Timestamp};

    fn dead(url: &str, fault: Fault) -> Record {
        let found = Discovery { at: Timestamp::ZERO, depth: 2, hops: 0, seed: false, band: 3 };
        let record = Record::new(CrawlUrl::parse(url).unwrap(), found);
        let state = State::Retired(Retirement::DeadLetter { fault, attempts: 3 });
        Record { state, attempts: 3, ..record }
    }

    fn filter(hosts: &[&str], reasons: &[&str], matching: Option<&str>) -> Ready {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let matching = matching.map(str::to_owned);
        Filter { hosts: texts(hosts), reasons: texts(reasons), matching }.ready().unwrap()
    }

    #[test]
    fn a_filter_takes_what_all_of_its_parts_take() {
        let letter = dead("http://a.test/x?id=7", Fault::Status(500));
        let takes = |filter: Ready| filter.takes(&letter).is_some();
        assert!(takes(filter(&[], &[], None)));
        assert!(takes(filter(&["A.test", "b.test"], &["dns", "status"], Some("id=[0-9]+"))));
        assert!(!takes(filter(&["b.test"], &[], None)) && !takes(filter(&[], &["dns"], None)));
        assert!(!takes(filter(&[], &[], Some("/y"))));
        let found = Record { state: State::Queued, ..letter.clone() };
        assert!(filter(&[], &[], None).takes(&found).is_none(), "it is no dead letter");
    }

    #[test]
    fn mistakes_are_told() {
        let wrong = Filter { reasons: vec!["stauts".into()], ..Filter::default() };
        assert!(wrong.ready().unwrap_err().contains("choose of dns,"));
        let wrong = Filter { matching: Some("(".into()), ..Filter::default() };
        assert!(wrong.ready().unwrap_err().starts_with("--match:"));
    }

    #[test]
    fn one_that_is_tried_again_begins_anew_and_a_dropped_one_says_so() {
        let letter = dead("http://a.test/", Fault::Lost);
        let all = filter(&[], &[], None);
        let again = Deed::Retry.judge(&all, &letter).unwrap();
        assert_eq!((again.state, again.attempts), (State::Queued, 0));
        let dropped = Deed::Drop.judge(&all, &letter).unwrap();
        let State::Retired(why) = &dropped.state else { panic!("{dropped:?}") };
        assert!(why.to_string().starts_with("dropped by hand after 3 attempts"), "{why}");
        assert_eq!(Deed::Retry.judge(&all, &dropped), None);
    }
}
