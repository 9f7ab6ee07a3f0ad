//! Memory for tables that are looked at everywhere.
//!
//! Cache lines, all zero at first, of which only those that were written take memory: so a table may
//! be reserved at its largest. Large ones lie in large pages where the system has them: with small
//! pages nearly every look at a table of a hundred megabytes costs another at the system's own table
//! of its pages.

use memmap2::{MmapMut, MmapOptions};
use zerocopy::FromBytes as _;

/// What the processor reads at once.
pub(super) type Line = [u32; 16];

/// Smaller tables stay in the processor's own table of pages anyway.
const LARGE_BYTES_MIN: usize = 8 << 20;

#[derive(Debug)]
pub(super) enum Lines {
    Large(MmapMut),
    Small(Vec<Line>),
}

impl Lines {
    pub(super) fn new(count: usize) -> Self {
        let bytes = count.saturating_mul(size_of::<Line>());
        if bytes < LARGE_BYTES_MIN {
            return Self::Small(vec![[0; 16]; count]);
        }
        match MmapOptions::new().len(bytes).no_reserve_swap().map_anon() {
            Ok(map) => {
                // Only a wish: where it is refused, small pages do.
                #[cfg(target_os = "linux")]
                let _refused = map.advise(memmap2::Advice::HugePage);
                Self::Large(map)
            }
            Err(_) => Self::Small(vec![[0; 16]; count]),
        }
    }

    pub(super) fn all(&self) -> &[Line] {
        match self {
            Self::Large(map) => <[Line]>::ref_from_bytes(map).expect("whole lines, page-aligned"),
            Self::Small(lines) => lines,
        }
    }

    pub(super) fn all_mut(&mut self) -> &mut [Line] {
        match self {
            Self::Large(map) => <[Line]>::mut_from_bytes(map).expect("whole lines, page-aligned"),
            Self::Small(lines) => lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_zero_and_keep_what_is_written() {
        for count in [100, 1 << 20] {
            let mut lines = Lines::new(count);
            assert_eq!(lines.all().len(), count);
            lines.all_mut()[77] = [7; 16];
            assert_eq!((lines.all()[77], lines.all()[76]), ([7; 16], [0; 16]));
        }
    }
}
