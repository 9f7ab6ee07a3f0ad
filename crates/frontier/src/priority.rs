//! How soon is a URL worth a visit?
//!
//! A score becomes one of eight bands; band 0 goes first. Inside a host the bands are the order
//! of its back queue; among hosts the best band decides which is activated next.
//!
//! Importance by links comes later; until then nearness to a seed stands for it, which makes a
//! host's pages come breadth first.

/// Number of bands; each is one front queue.
pub const BANDS: u8 = 8;

/// What a seed gets: it goes first.
pub const SEED_BAND: u8 = 0;

/// The band of a link found at this depth.
pub const fn band_of_depth(depth: u16) -> u8 {
    if depth as u64 >= BANDS as u64 { BANDS - 1 } else { depth as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearer_pages_never_wait_behind_farther_ones() {
        let bands: Vec<_> = (0..20).map(band_of_depth).collect();
        assert!(bands.is_sorted());
        assert!(bands.iter().all(|band| *band < BANDS));
        assert_eq!(band_of_depth(0), SEED_BAND);
    }
}
