//! What have we learnt of a host that must survive a restart?
//!
//! Plain data; how an outcome changes it is the frontier's (`frontier::host`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::outcome::Fault;
use crate::time::Timestamp;

/// How a host has treated us, and how we must treat it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HostState {
    /// When the last byte of its last answer came, or we gave up on it.
    pub last_end: Timestamp,
    /// The next request leaves no earlier.
    pub not_before: Timestamp,
    /// Time it took for its last answer.
    pub answer_ms: u32,
    /// Extra pause in steps: doubled by a fault, one less after a good answer.
    pub backoff: u32,
    /// Faults in a row, and the latest of them.
    pub faults: u32,
    pub last_fault: Option<Fault>,
    /// It failed so often that it waits in a lane of its own until `not_before`.
    pub parked: bool,
    /// 403 answers in a row.
    pub denied: u32,
    /// Pages it has given us, for its budget.
    pub pages: u64,
    /// All requests, robots.txt included.
    pub requests: u64,
    /// Smallest pause we ever left before a request, by the socket's own times.
    pub gap_min_ms: Option<u64>,
    /// Retries that its failures have cost, less what its good answers have paid back since, in
    /// quarters of a retry. Stored behind the others, because rows of older versions end there.
    #[serde(skip)]
    pub retry_debt: u32,
}

/// Good answers that pay for one retry.
const ANSWERS_PER_RETRY: u32 = 4;

impl HostState {
    /// Takes one of the retries that the host may still cost; false if there is none left. `most`
    /// that it may owe; 0 is no limit.
    pub fn take_retry(&mut self, most: u32) -> bool {
        if most == 0 {
            return true;
        }
        let debt = self.retry_debt.saturating_add(ANSWERS_PER_RETRY);
        let granted = debt <= most.saturating_mul(ANSWERS_PER_RETRY);
        if granted {
            self.retry_debt = debt;
        }
        granted
    }

    /// It has answered as it should.
    pub fn pay_back(&mut self) {
        self.retry_debt = self.retry_debt.saturating_sub(1);
    }
}

/// What whoever runs the crawl has said of a host. It holds until something else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostRule {
    /// Least pause of this host. It may lengthen a pause, and never shortens one.
    pub delay_ms: Option<u32>,
}

impl HostRule {
    pub fn delay(self) -> Option<Duration> {
        self.delay_ms.map(|millis| Duration::from_millis(u64::from(millis)))
    }

    /// Nothing is said.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_owed_and_paid_back_by_good_answers() {
        let mut host = HostState::default();
        let taken = (0..5).filter(|_| host.take_retry(3)).count();
        assert_eq!(taken, 3, "to begin with");
        for _ in 0..3 {
            host.pay_back();
            assert!(!host.take_retry(3));
        }
        host.pay_back();
        assert!(host.take_retry(3) && !host.take_retry(3), "four good answers, one retry");
        assert!((0..1_000).all(|_| host.take_retry(0)), "no limit");
    }
}
