//! What do we learn of a host from a visit, and how long does it rest now?
//!
//! Faults double the extra pause, good answers take one step off it; what the server asks for in
//! `Retry-After` is honoured to the second. The pause counts from the last byte of the answer:
//! a server that needs ten seconds for a page gets its rest after those ten.
//!
//! Always: a healthy, fast host is never visited faster than the configured rate.

use std::time::Duration;

use types::{Blame, Fault, HostState, Timestamp};

use crate::politeness::{GAP_SLACK, Politeness};

/// What a visit was like for the host.
#[derive(Debug, Clone, PartialEq)]
pub enum Touch {
    /// No request left us: the host noticed nothing.
    Untouched,
    /// It answered; `page` when the answer was about a page and counts for the budget.
    Answered { sent: Timestamp, ended: Timestamp, status: u16, page: bool },
    /// It failed, or asked for a rest.
    Faulted {
        sent: Option<Timestamp>,
        ended: Timestamp,
        fault: Fault,
        retry_after: Option<Duration>,
        page: bool,
    },
    /// Nobody knows: the worker died. The host must get its pause, its health does not suffer.
    Lost { at: Timestamp, sent: bool },
}

impl Touch {
    /// When its request left, or the latest moment at which it may have.
    pub(crate) fn sent(&self) -> Option<Timestamp> {
        match self {
            Self::Untouched => None,
            Self::Answered { sent, .. } => Some(*sent),
            Self::Faulted { sent, .. } => *sent,
            Self::Lost { at, sent } => sent.then_some(*at),
        }
    }
}

/// Extra pause of one backoff step when the configured delay is smaller.
const BACKOFF_STEP_MIN: Duration = Duration::from_secs(1);

/// So many 403 in a row mean that we are not wanted here.
pub const DENIED_ALERT: u32 = 20;

/// How we treat one host.
#[derive(Debug, Clone, Copy)]
pub struct Manners<'a> {
    pub policy: &'a Politeness,
    /// `politeness.delay`, unless a sheet says otherwise for this host.
    pub delay: Duration,
    /// What its robots.txt asks for, or whoever runs the crawl has said since.
    pub asked: Option<Duration>,
}

/// The state after the visit.
pub fn learn(state: &mut HostState, touch: &Touch, manners: &Manners<'_>) {
    let policy = manners.policy;
    match touch {
        Touch::Untouched => {}
        Touch::Lost { at, .. } => {
            state.last_end = *at;
            let pause = pause(state, manners);
            state.not_before = state.not_before.max(*at + pause);
        }
        Touch::Answered { sent, ended, status, page } => {
            state.note_request(Some(*sent), *ended);
            state.answer_ms = millis(ended.since(*sent));
            state.pages += u64::from(*page);
            state.denied = if *status == 403 { state.denied.saturating_add(1) } else { 0 };
            state.faults = 0;
            state.last_fault = None;
            state.parked = false;
            state.backoff = state.backoff.saturating_sub(1);
            state.pay_back();
            state.not_before = *ended + pause(state, manners);
        }
        Touch::Faulted { sent, ended, fault, retry_after, page } => {
            state.note_request(*sent, *ended);
            state.pages += u64::from(*page);
            let slow = sent.map_or(Duration::ZERO, |sent| ended.since(sent));
            state.answer_ms = state.answer_ms.max(millis(slow));
            state.last_fault = Some(fault.clone());
            if fault.blame() == Blame::Host {
                state.faults = state.faults.saturating_add(1);
                state.backoff = state.backoff.saturating_mul(2).clamp(1, steps_max(manners));
            }
            let mut rest = pause(state, manners);
            if policy.park_after > 0 && state.faults >= policy.park_after {
                state.parked = true;
                rest = rest.max(policy.backoff_max.get());
            }
            state.not_before = *ended + rest.max(retry_after.unwrap_or_default());
        }
    }
}

trait Requests {
    fn note_request(&mut self, sent: Option<Timestamp>, ended: Timestamp);
}

impl Requests for HostState {
    /// The gap is measured by the socket's times, not by what the heap intended.
    fn note_request(&mut self, sent: Option<Timestamp>, ended: Timestamp) {
        if let Some(sent) = sent {
            if self.last_end > Timestamp::ZERO {
                let gap = u64::try_from(sent.since(self.last_end).as_millis()).unwrap_or(u64::MAX);
                self.gap_min_ms = Some(self.gap_min_ms.map_or(gap, |least| least.min(gap)));
            }
            self.requests += 1;
        }
        self.last_end = self.last_end.max(ended);
    }
}

/// The rest that this host gets now, without what the server asked for.
pub fn pause(state: &HostState, manners: &Manners<'_>) -> Duration {
    let Manners { policy, delay, asked } = *manners;
    let mut pause = delay.max(asked.unwrap_or_default());
    if !delay.is_zero() {
        let answer = Duration::from_millis(u64::from(state.answer_ms));
        pause = pause.max(answer.mul_f64(policy.delay_factor.max(0.0)).min(policy.delay_max.get()));
    }
    let extra = step(delay).saturating_mul(state.backoff).min(policy.backoff_max.get());
    let pause = pause.max(extra);
    if pause.is_zero() { pause } else { pause + GAP_SLACK }
}

fn step(delay: Duration) -> Duration {
    delay.max(BACKOFF_STEP_MIN)
}

/// Doubling ends here: the pause is capped by `backoff_max` anyway, and recovery goes step by
/// step, so steps beyond the cap would only prolong it.
fn steps_max(manners: &Manners<'_>) -> u32 {
    let most = manners.policy.backoff_max.get();
    let steps = most.as_secs_f64() / step(manners.delay).as_secs_f64();
    (steps.ceil() as u32).max(1)
}

fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::HumanDuration;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn answered(ended: u64) -> Touch {
        Touch::Answered { sent: at(ended), ended: at(ended), status: 200, page: true }
    }

    fn faulted(ended: u64, status: u16, retry_after: Option<u64>) -> Touch {
        Touch::Faulted {
            sent: Some(at(ended)),
            ended: at(ended),
            fault: Fault::Status(status),
            retry_after: retry_after.map(Duration::from_secs),
            page: true,
        }
    }

    fn manners(policy: &Politeness, asked: Option<Duration>) -> Manners<'_> {
        Manners { policy, delay: policy.delay.get(), asked }
    }

    fn rest_after(state: &mut HostState, touch: &Touch) -> u64 {
        let policy = Politeness::default();
        learn(state, touch, &manners(&policy, None));
        state.not_before.since(state.last_end).as_secs()
    }

    #[test]
    fn faults_double_the_pause_and_good_answers_shrink_it_step_by_step() {
        let mut state = HostState::default();
        let pauses: Vec<_> =
            (1..6).map(|n| rest_after(&mut state, &faulted(n * 1_000, 503, None))).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16]);
        let pauses: Vec<_> =
            (6..10).map(|n| rest_after(&mut state, &answered(n * 1_000))).collect();
        assert_eq!(pauses, [15, 14, 13, 12]);
    }

    #[test]
    fn retry_after_is_honoured_to_the_second() {
        let mut state = HostState::default();
        assert_eq!(rest_after(&mut state, &faulted(1_000, 429, Some(77))), 77);
        let mut state = HostState::default();
        assert_eq!(
            rest_after(&mut state, &faulted(1_000, 503, Some(0))),
            1,
            "never less than the delay"
        );
    }

    #[test]
    fn a_host_that_keeps_failing_is_parked_and_one_answer_frees_it() {
        let mut state = HostState::default();
        for n in 1..=8 {
            rest_after(&mut state, &faulted(n * 10_000, 500, None));
        }
        assert!(state.parked);
        assert_eq!(state.not_before.since(state.last_end).as_secs(), 3_600);
        rest_after(&mut state, &answered(200_000));
        assert!(!state.parked);
        assert_eq!(state.faults, 0);
    }

    #[test]
    fn a_slow_answer_earns_a_longer_rest_up_to_a_bound() {
        let policy = Politeness::default();
        let mut state = HostState::default();
        let slow = |secs: u64| Touch::Answered {
            sent: at(100),
            ended: at(100 + secs),
            status: 200,
            page: true,
        };
        learn(&mut state, &slow(7), &manners(&policy, None));
        assert_eq!(state.not_before, at(114) + GAP_SLACK);
        learn(&mut state, &slow(50), &manners(&policy, None));
        assert_eq!(state.not_before, at(180) + GAP_SLACK, "30 s at most");
    }

    #[test]
    fn crawl_delay_lengthens_the_pause_and_never_shortens_it() {
        let policy = Politeness::default();
        for (asked, want) in [(0.1, 1_000), (2.5, 2_500), (1_000.0, 1_000_000)] {
            let mut state = HostState::default();
            let asked = Some(Duration::from_secs_f64(asked));
            learn(&mut state, &answered(100), &manners(&policy, asked));
            let pause = state.not_before.since(at(100)) - GAP_SLACK;
            assert_eq!(pause.as_millis(), want);
        }
    }

    #[test]
    fn no_delay_means_no_delay_however_slow_the_answer() {
        let policy = Politeness { delay: HumanDuration::default(), ..Politeness::default() };
        let mut state = HostState::default();
        learn(
            &mut state,
            &Touch::Answered { sent: at(1), ended: at(9), status: 200, page: true },
            &manners(&policy, None),
        );
        assert_eq!(state.not_before, at(9));
        learn(&mut state, &faulted(10, 500, None), &manners(&policy, None));
        assert_eq!(state.not_before, at(11) + GAP_SLACK, "but a fault earns a rest");
    }

    #[test]
    fn a_lost_lease_costs_the_pause_and_not_the_health() {
        let policy = Politeness::default();
        let mut state = HostState::default();
        learn(&mut state, &Touch::Lost { at: at(50), sent: true }, &manners(&policy, None));
        assert_eq!((state.not_before, state.faults), (at(51) + GAP_SLACK, 0));
    }

    #[test]
    fn a_refusal_costs_nothing_because_we_never_knocked() {
        let policy = Politeness::default();
        let mut state = HostState::default();
        learn(&mut state, &answered(100), &manners(&policy, None));
        let before = state.clone();
        learn(&mut state, &Touch::Untouched, &manners(&policy, None));
        assert_eq!(state, before);
    }

    #[test]
    fn the_smallest_gap_is_remembered() {
        let policy = Politeness::default();
        let mut state = HostState::default();
        for ended in [100, 105, 107, 120] {
            learn(&mut state, &answered(ended), &manners(&policy, None));
        }
        assert_eq!(state.gap_min_ms, Some(2_000));
    }
}
