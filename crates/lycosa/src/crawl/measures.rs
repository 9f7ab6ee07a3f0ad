//! How are millions of pages summed up in little room?
//!
//! Counts by name, over time, and of durations, each with a bound that no server can move: names beyond
//! the common ones are counted together, time is cut into as many steps as a plot has room for, and
//! durations fall into classes that are fixed.
//!
//! Always: the sum of what is counted is what was put in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Names kept at most; half of them, the most common, stay when there are more.
const NAMES_MAX: usize = 400;
/// A longer name is cut: content types are what servers say they are.
const NAME_CHARS_MAX: usize = 100;

/// Counts by name, exact for what is common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Common {
    pub counts: BTreeMap<String, u64>,
    /// What was so rare that it was not kept by name.
    pub others: u64,
}

impl Common {
    pub fn add(&mut self, name: &str) {
        if let Some(count) = self.counts.get_mut(name) {
            *count += 1;
            return;
        }
        let name: String = name.chars().take(NAME_CHARS_MAX).collect();
        *self.counts.entry(name).or_default() += 1;
        if self.counts.len() > NAMES_MAX {
            self.forget_the_rare();
        }
    }

    fn forget_the_rare(&mut self) {
        let mut counts: Vec<_> = std::mem::take(&mut self.counts).into_iter().collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let rare = counts.split_off(NAMES_MAX / 2);
        self.others += rare.iter().map(|(_, count)| count).sum::<u64>();
        self.counts = counts.into_iter().collect();
    }

    pub fn total(&self) -> u64 {
        self.counts.values().sum::<u64>() + self.others
    }
}

/// Steps of a timeline at most.
const STEPS_MAX: u64 = 120;
/// Each is a multiple of the one before, so that steps can be put together. Then days, twice as many
/// each time.
const STEP_SECONDS: [u64; 13] =
    [1, 2, 10, 20, 60, 120, 600, 1_200, 3_600, 7_200, 21_600, 43_200, 86_400];

/// Counts over time, in steps that become longer as the time does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    pub step_seconds: u64,
    /// By the second, since 1970, at which a step begins. Steps without anything are left out.
    pub counts: BTreeMap<u64, u64>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { step_seconds: STEP_SECONDS[0], counts: BTreeMap::new() }
    }
}

impl Timeline {
    pub fn add(&mut self, second: u64) {
        *self.counts.entry(second - second % self.step_seconds).or_default() += 1;
        while self.steps() > STEPS_MAX {
            let step = self.step_seconds;
            let wider = STEP_SECONDS.into_iter().find(|wider| *wider > step);
            self.step_seconds = wider.unwrap_or_else(|| step.saturating_mul(2));
            for (second, count) in std::mem::take(&mut self.counts) {
                *self.counts.entry(second - second % self.step_seconds).or_default() += count;
            }
        }
    }

    /// From the first to the last, the empty ones included.
    fn steps(&self) -> u64 {
        let (first, last) = (self.counts.first_key_value(), self.counts.last_key_value());
        let span = first.zip(last).map(|(first, last)| (last.0 - first.0) / self.step_seconds);
        span.map_or(0, |span| span.saturating_add(1))
    }

    /// Every step from the first to the last, with the second at which it begins.
    pub fn all(&self) -> Vec<(u64, u64)> {
        let Some((first, _)) = self.counts.first_key_value() else { return Vec::new() };
        let steps = (0..self.steps()).map(|step| {
            let second = first + step * self.step_seconds;
            (second, self.counts.get(&second).copied().unwrap_or(0))
        });
        steps.collect()
    }
}

/// The classes: up to so many milliseconds each, and one for what took longer.
const UP_TO_MS: [u32; 12] = [5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000];

/// How long things took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durations {
    /// The classes' upper ends; the last class has none.
    pub up_to_ms: Vec<u32>,
    pub counts: Vec<u64>,
    pub sum_ms: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self { up_to_ms: UP_TO_MS.to_vec(), counts: vec![0; UP_TO_MS.len() + 1], sum_ms: 0 }
    }
}

impl Durations {
    pub fn add(&mut self, ms: u32) {
        let class = self.up_to_ms.partition_point(|up_to| *up_to < ms);
        if let Some(count) = self.counts.get_mut(class) {
            *count += 1;
            self.sum_ms += u64::from(ms);
        }
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn mean_ms(&self) -> Option<u64> {
        self.sum_ms.checked_div(self.total())
    }

    /// The end of the class up to which this share of all lies; none if that class has no end.
    pub fn share_within_ms(&self, share: f64) -> Option<u32> {
        let wanted = (self.total() as f64 * share).ceil() as u64;
        let mut sum = 0;
        let class = self.counts.iter().position(|count| {
            sum += count;
            sum >= wanted
        });
        self.up_to_ms.get(class?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_names_take_little_room_and_the_common_ones_are_exact() {
        let mut common = Common::default();
        for n in 0..100_000 {
            common.add("text/html");
            common.add(&format!("made/up-{n}"));
            assert!(common.counts.len() <= NAMES_MAX);
        }
        common.add(&"x".repeat(5_000));
        assert_eq!(common.counts["text/html"], 100_000);
        assert_eq!(common.total(), 200_001);
        assert!(common.counts.keys().all(|name| name.len() <= NAME_CHARS_MAX));
    }

    #[test]
    fn time_is_cut_into_longer_steps_as_it_grows_in_either_direction() {
        let mut times = Timeline::default();
        let mut most = 0;
        for n in 0..20_000_u64 {
            times.add(1_800_000_000 + n * 37);
            times.add(1_800_000_000 - n * 11);
            most = most.max(times.counts.len());
        }
        assert!(most as u64 <= STEPS_MAX, "{most}");
        // Eleven days.
        assert_eq!(times.step_seconds, 21_600);
        assert_eq!(times.counts.values().sum::<u64>(), 40_000);
        assert!(times.counts.keys().all(|second| second % times.step_seconds == 0));
        assert_eq!(times.all().iter().map(|(_, count)| count).sum::<u64>(), 40_000);
        times.add(0);
        times.add(u64::MAX);
        assert!(times.all().len() as u64 <= STEPS_MAX);
    }

    #[test]
    fn steps_can_always_be_put_together() {
        assert!(STEP_SECONDS.windows(2).all(|pair| pair[1] % pair[0] == 0));
    }

    #[test]
    fn durations_fall_into_their_classes() {
        let mut took = Durations::default();
        assert_eq!((took.mean_ms(), took.share_within_ms(0.5)), (None, Some(5)));
        [1, 5, 6, 100, 40_000].into_iter().for_each(|ms| took.add(ms));
        assert_eq!((took.counts[0], took.counts[1], took.counts[4], took.counts[12]), (2, 1, 1, 1));
        assert_eq!((took.total(), took.mean_ms()), (5, Some(8_022)));
        assert_eq!((took.share_within_ms(0.5), took.share_within_ms(0.99)), (Some(10), None));
    }
}
