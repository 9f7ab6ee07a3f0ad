//! Which names do we remember, and what may that cost?
//!
//! The name that was unused for longest makes room, for two reasons: there are as many as may be, or
//! they are longer than names are. A name of twenty letters with two addresses takes some 230 bytes;
//! one of 253 with sixteen takes 700, and whoever makes up millions of those takes no more memory
//! than others do.
//!
//! Always: at most `entries_max` names, and at most [`ENTRY_BYTES`] for each of so many.

use std::num::NonZeroUsize;

use lru::LruCache;
use ports::Resolution;
use types::{HostKey, Timestamp};

/// What a name may take on average, as [`cost`] counts it.
pub(super) const ENTRY_BYTES: usize = 256;
/// The entry itself, its place in the table (which is up to half empty), and what the allocator adds
/// to three pieces of memory.
const FIXED_BYTES: usize = 176;
/// Longest reason that is remembered.
const WHY_BYTES_MAX: usize = 120;

/// Names and what is known of them.
pub(super) struct Memory {
    known: LruCache<HostKey, Resolution>,
    bytes: usize,
    bytes_max: usize,
}

impl Memory {
    pub(super) fn new(entries_max: usize) -> Self {
        let entries_max = NonZeroUsize::new(entries_max).unwrap_or(NonZeroUsize::MIN);
        // Not `LruCache::new`, which would make room for all of them at once.
        let mut known = LruCache::unbounded();
        known.resize(entries_max);
        Self { known, bytes: 0, bytes_max: entries_max.get().saturating_mul(ENTRY_BYTES) }
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// What is known of a name, if it still holds.
    pub(super) fn get(&mut self, host: &HostKey, now: Timestamp) -> Option<Resolution> {
        match self.known.get(host) {
            Some(known) if until(known) > now => Some(known.clone()),
            Some(_) => {
                if let Some((host, known)) = self.known.pop_entry(host) {
                    self.bytes -= cost(&host, &known);
                }
                None
            }
            None => None,
        }
    }

    pub(super) fn put(&mut self, host: HostKey, resolution: Resolution) {
        let resolution = short(resolution);
        self.bytes += cost(&host, &resolution);
        // What it takes the place of: an older answer, or another name.
        if let Some((host, known)) = self.known.push(host, resolution) {
            self.bytes -= cost(&host, &known);
        }
        while self.bytes > self.bytes_max
            && let Some((host, known)) = self.known.pop_lru()
        {
            self.bytes -= cost(&host, &known);
        }
    }
}

fn cost(host: &HostKey, resolution: &Resolution) -> usize {
    let beside = match resolution {
        Resolution::Addresses { addresses, .. } => size_of_val(&**addresses),
        Resolution::Forbidden { range, .. } => range.len(),
        Resolution::Failed { why, .. } => why.len(),
    };
    FIXED_BYTES + host.as_str().len() + beside
}

/// Without room to spare, and without a reason that goes on and on.
fn short(resolution: Resolution) -> Resolution {
    match resolution {
        Resolution::Addresses { mut addresses, until } => {
            addresses.shrink_to_fit();
            Resolution::Addresses { addresses, until }
        }
        Resolution::Failed { why, until } if why.len() > WHY_BYTES_MAX => {
            let end = why.floor_char_boundary(WHY_BYTES_MAX);
            Resolution::Failed { why: why[..end].into(), until }
        }
        other => other,
    }
}

fn until(resolution: &Resolution) -> Timestamp {
    match resolution {
        Resolution::Addresses { until, .. }
        | Resolution::Forbidden { until, .. }
        | Resolution::Failed { until, .. } => *until,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const UNTIL: Timestamp = Timestamp::from_secs(1_000);

    fn found(addresses: u32) -> Resolution {
        let addresses = (0..addresses).map(|n| IpAddr::V4(Ipv4Addr::from_bits(n))).collect();
        Resolution::Addresses { addresses, until: UNTIL }
    }

    fn usual(n: usize) -> HostKey {
        HostKey::new(&format!("www.name{n:07}.test"))
    }

    #[cfg(target_os = "linux")]
    fn resident_bytes() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096
    }

    /// Other tests of this process are at work, too; they take a few MB.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_million_names_take_no_more_memory_than_is_said() {
        const NAMES: usize = 1_000_000;
        let before = resident_bytes();
        let mut memory = Memory::new(NAMES);
        for n in 0..NAMES {
            memory.put(usual(n), found(2));
        }
        let taken = resident_bytes().saturating_sub(before);
        println!("{} names, {} bytes each", memory.len(), taken / NAMES);
        assert_eq!(memory.len(), NAMES);
        assert!(taken <= NAMES * ENTRY_BYTES, "{taken}");
        // Nor is our own account far from the truth.
        assert!(memory.bytes <= NAMES * ENTRY_BYTES && memory.bytes * 5 / 4 >= taken, "{taken}");
        assert_eq!(memory.get(&usual(7), Timestamp::ZERO), Some(found(2)));
    }

    #[test]
    fn names_that_are_longer_than_names_are_leave_room_for_fewer() {
        let mut memory = Memory::new(1_000);
        for n in 0..5_000 {
            memory.put(HostKey::new(&format!("{n:0250}")), found(16));
        }
        assert!((250..=400).contains(&memory.len()), "{}", memory.len());
        assert!(memory.bytes <= 1_000 * ENTRY_BYTES);
        for n in 0..2_000 {
            memory.put(usual(n), found(1));
        }
        assert_eq!(memory.len(), 1_000);
        let bytes: usize = memory.known.iter().map(|(host, known)| cost(host, known)).sum();
        assert_eq!(memory.bytes, bytes);
    }

    #[test]
    fn what_is_over_or_replaced_is_not_counted_any_more() {
        let mut memory = Memory::new(10);
        memory.put(usual(1), found(16));
        memory.put(usual(1), found(1));
        assert_eq!(memory.bytes, cost(&usual(1), &found(1)));
        assert_eq!(memory.get(&usual(1), UNTIL), None);
        assert_eq!((memory.len(), memory.bytes), (0, 0));
    }

    #[test]
    fn a_reason_is_remembered_as_far_as_anybody_reads() {
        let mut memory = Memory::new(10);
        let why = "ä".repeat(1_000).into();
        memory.put(usual(1), Resolution::Failed { why, until: UNTIL });
        match memory.get(&usual(1), Timestamp::ZERO) {
            Some(Resolution::Failed { why, .. }) => assert_eq!(why.len(), WHY_BYTES_MAX),
            other => panic!("{other:?}"),
        }
    }
}
