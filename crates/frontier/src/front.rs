//! Which host is activated next?
//!
//! One front queue per band holds the hosts that have waiting URLs and no place among the active
//! ones. The choice between bands is biased, not strict: the best band is taken most often, and
//! every other band gets a share, so that none starves.
//!
//! Always: a host stands in at most one queue. The index is bounded; what does not fit is not
//! lost, because the store knows it: `overflowed` asks for another scan when the queues run dry.

use std::collections::{HashMap, VecDeque};

use types::HostKey;

use crate::priority::BANDS;

#[derive(Debug)]
pub(crate) struct Front {
    queues: [VecDeque<HostKey>; BANDS as usize],
    band_of: HashMap<HostKey, u8, foldhash::fast::FixedState>,
    hosts_max: usize,
    overflowed: bool,
    chance: Chance,
}

impl Front {
    pub(crate) fn new(hosts_max: usize, seed: u64) -> Self {
        Self {
            queues: std::array::from_fn(|_| VecDeque::new()),
            band_of: HashMap::with_hasher(foldhash::fast::FixedState::with_seed(seed)),
            hosts_max,
            overflowed: false,
            chance: Chance(seed),
        }
    }

    /// The host has something waiting in this band.
    pub(crate) fn push(&mut self, host: &HostKey, band: u8) {
        let band = band.min(BANDS - 1);
        let full = self.band_of.len() >= self.hosts_max;
        match self.band_of.get_mut(host) {
            Some(known) if *known <= band => return,
            // The old entry stays behind and is skipped: its band no longer agrees.
            Some(known) => *known = band,
            None if full => {
                self.overflowed = true;
                return;
            }
            None => {
                self.band_of.insert(host.clone(), band);
            }
        }
        self.queues[usize::from(band)].push_back(host.clone());
    }

    pub(crate) fn pop(&mut self) -> Option<HostKey> {
        while !self.band_of.is_empty() {
            let band = self.choose();
            if let Some(host) = self.queues[band].pop_front()
                && self.band_of.get(&host).is_some_and(|known| usize::from(*known) == band)
            {
                self.band_of.remove(&host);
                return Some(host);
            }
        }
        self.queues.iter_mut().for_each(VecDeque::clear);
        None
    }

    /// The best band with probability one half, the next with one quarter, and so on.
    fn choose(&mut self) -> usize {
        let mut last = 0;
        for (band, queue) in self.queues.iter().enumerate() {
            if queue.is_empty() {
                continue;
            }
            last = band;
            if self.chance.coin() {
                break;
            }
        }
        last
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.band_of.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.band_of.len()
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &HostKey> {
        self.band_of.keys()
    }

    pub(crate) fn has(&self, host: &HostKey) -> bool {
        self.band_of.contains_key(host)
    }

    /// Some hosts did not fit; asks once.
    pub(crate) fn take_overflowed(&mut self) -> bool {
        self.is_empty() && std::mem::take(&mut self.overflowed)
    }
}

/// A stream of coins from a seed (SplitMix64), so that a run can be replayed.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn coin(&mut self) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(n: usize) -> HostKey {
        HostKey::new(&format!("h{n}.test"))
    }

    #[test]
    fn a_better_band_goes_first_most_of_the_time_and_nobody_starves() {
        let mut front = Front::new(10_000, 7);
        for n in 0..1_000 {
            front.push(&host(n), if n < 500 { 0 } else { 5 });
        }
        let first: Vec<_> = (0..200).map(|_| front.pop().unwrap()).collect();
        let good = first.iter().filter(|h| (0..500).any(|n| host(n) == **h)).count();
        assert!((80..140).contains(&good), "{good} of 200 from the best band");
    }

    #[test]
    fn a_host_comes_out_once_and_in_its_best_band() {
        let mut front = Front::new(10, 1);
        front.push(&host(1), 5);
        front.push(&host(1), 2);
        front.push(&host(1), 7);
        assert_eq!(front.len(), 1);
        assert_eq!(front.pop(), Some(host(1)));
        assert_eq!(front.pop(), None);
    }

    #[test]
    fn what_does_not_fit_is_asked_for_again() {
        let mut front = Front::new(2, 1);
        for n in 0..3 {
            front.push(&host(n), 0);
        }
        assert!(!front.take_overflowed(), "not while hosts are waiting");
        front.pop();
        front.pop();
        assert!(front.take_overflowed());
        assert!(!front.take_overflowed());
    }
}
