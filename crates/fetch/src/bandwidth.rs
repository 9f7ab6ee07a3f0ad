//! How fast may all answers together come?
//!
//! A visit reserves its share of the line before it begins, as much as a usual page takes, and
//! settles the difference when it is over. So the average holds, whatever the answers come to, and
//! a single one is never slowed down on its way: its server sees a client that reads as fast as it
//! can, and seldom comes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// What a visit reserves: near the middle of what pages take, compressed.
const SHARE_BYTES: u64 = 16 << 10;

/// The line that all visits share.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    bytes_per_second: u64,
    /// Until then the line is taken.
    taken_until: Mutex<Option<Instant>>,
}

impl Bandwidth {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, taken_until: Mutex::new(None) }
    }

    fn is_unlimited(&self) -> bool {
        self.bytes_per_second == 0
    }

    fn span(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64)
    }

    /// Waits until it is this visit's turn; `false` if that will not be before `deadline`. Then
    /// nothing is reserved, and the wait was for nothing: whoever comes again at once would ask
    /// without end.
    pub(crate) async fn reserve(&self, deadline: Instant) -> bool {
        if self.is_unlimited() {
            return true;
        }
        let turn = {
            let mut taken = self.taken_until.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let turn = taken.map_or(now, |until| until.max(now));
            if turn <= deadline {
                *taken = Some(turn + self.span(SHARE_BYTES));
            }
            turn
        };
        sleep_until(turn.min(deadline)).await;
        turn <= deadline
    }

    /// The visit is over and took so much.
    pub(crate) fn settle(&self, bytes: u64) {
        if self.is_unlimited() {
            return;
        }
        let mut taken = self.taken_until.lock().unwrap_or_else(PoisonError::into_inner);
        *taken = taken.map(|until| match bytes.checked_sub(SHARE_BYTES) {
            Some(more) => until + self.span(more),
            None => until - self.span(SHARE_BYTES - bytes),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(86_400)
    }

    async fn seconds(rate: u64, answers: &[u64]) -> f64 {
        let line = Bandwidth::new(rate);
        let begun = Instant::now();
        for bytes in answers {
            assert!(line.reserve(far()).await);
            line.settle(*bytes);
        }
        assert!(line.reserve(far()).await);
        begun.elapsed().as_secs_f64()
    }

    #[tokio::test(start_paused = true)]
    async fn the_average_holds_for_small_and_large_answers() {
        for answers in [vec![1_000; 500], vec![500_000], vec![16 << 10; 30], vec![0; 100]] {
            let bytes: u64 = answers.iter().sum();
            let took = seconds(100_000, &answers).await;
            let ideal = bytes as f64 / 100_000.0;
            // No visit waits for its own share.
            assert!((took - ideal).abs() < 0.01, "{bytes} bytes in {took} s, not {ideal} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_nobody_waits_and_idle_time_is_not_saved_up() {
        assert!(seconds(0, &[1 << 40]).await < 0.001);
        let line = Bandwidth::new(SHARE_BYTES);
        assert!(line.reserve(far()).await);
        line.settle(SHARE_BYTES);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let begun = Instant::now();
        for _ in 0..3 {
            assert!(line.reserve(far()).await);
            line.settle(SHARE_BYTES);
        }
        assert_eq!(begun.elapsed().as_secs(), 2, "one at once, then one a second");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_no_turn_in_time_takes_none() {
        // A visit in ten seconds, and forty that want to be made within a minute or so.
        let line = std::sync::Arc::new(Bandwidth::new(SHARE_BYTES / 10));
        let begun = Instant::now();
        let deadline = begun + Duration::from_secs(61);
        let mut visits = tokio::task::JoinSet::new();
        for _ in 0..40 {
            let line = std::sync::Arc::clone(&line);
            visits.spawn(async move { (line.reserve(deadline).await, Instant::now()) });
        }
        let (mut made, mut not) = (0, 0);
        while let Some(visit) = visits.join_next().await {
            match visit.unwrap() {
                (true, at) => {
                    assert_eq!((at - begun).as_secs(), made * 10);
                    made += 1;
                }
                (false, at) => {
                    assert_eq!(at, deadline, "not at once: it would only ask again");
                    not += 1;
                }
            }
        }
        assert_eq!((made, not), (7, 33));
        // They have left nothing behind.
        assert!(line.reserve(far()).await);
        assert_eq!(begun.elapsed().as_secs(), 70);
    }
}
