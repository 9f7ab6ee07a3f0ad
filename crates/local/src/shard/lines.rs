//! Memory for a table that is looked at everywhere.
//!
//! Cache lines, all zero at first, of which only those that were written take memory: so a table
//! may be reserved at its largest and grow without a move. In large pages where the system has
//! them: with small ones, nearly every look at a table of hundreds of megabytes costs another at
//! the system's own table of its pages.

use memmap2::{MmapMut, MmapOptions};
use ports::{PortError, PortResult};
use zerocopy::FromBytes;

/// What the processor reads at once.
pub(super) type Line = [u8; 64];

/// So many lines, never fewer than one.
#[derive(Debug)]
pub(super) struct Lines(MmapMut);

impl Lines {
    pub(super) fn new(count: usize) -> PortResult<Self> {
        let bytes = count.max(1).saturating_mul(size_of::<Line>());
        let map = MmapOptions::new().len(bytes).no_reserve_swap().map_anon();
        let map = map.map_err(|error| {
            PortError::io(format!("reserve {bytes} bytes of addresses for recent links"), &error)
        })?;
        #[cfg(target_os = "linux")]
        if let Err(error) = map.advise(memmap2::Advice::HugePage) {
            tracing::debug!(%error, "no large pages for recent links");
        }
        Ok(Self(map))
    }

    pub(super) fn all(&self) -> &[Line] {
        <[Line]>::ref_from_bytes(&self.0).expect("whole lines, at the start of a page")
    }

    pub(super) fn all_mut(&mut self) -> &mut [Line] {
        <[Line]>::mut_from_bytes(&mut self.0).expect("whole lines, at the start of a page")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_zero_and_keep_what_is_written() {
        let mut lines = Lines::new(1 << 20).unwrap();
        assert_eq!(lines.all().len(), 1 << 20);
        lines.all_mut()[777_777] = [7; 64];
        assert_eq!(lines.all()[777_777], [7; 64]);
        assert_eq!(lines.all()[777_776], [0; 64]);
        assert_eq!(Lines::new(0).unwrap().all().len(), 1);
        assert!(Lines::new(usize::MAX).is_err());
    }
}
