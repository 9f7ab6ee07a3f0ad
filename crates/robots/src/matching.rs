//! Does a pattern match a path?
//!
//! A pattern is literal segments between `*`s. The first must start the path, each next one is
//! taken at its leftmost place after the one before, and an anchored last one must end the path.
//! Leftmost is enough: a later place would only leave less room for the rest. So there is no
//! going back, and substring search is linear: one rule costs O(pattern + path), never their
//! product.
//!
//! Most rules are ruled out before that, by the set of their bytes; and where a hostile file has
//! tens of thousands of wildcards to try on a long URL, by an index of the path (`probe`).
//!
//! Not here: which rule goes first (`group`), nor escapes (`form`).

use memchr::{memchr, memmem, memrchr};

use crate::probe::Probe;

/// Which bytes occur, folded to 64 bits: what a pattern needs, or what a path has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteSet(u64);

impl ByteSet {
    /// The bytes of a path, or of a pattern but its wildcards.
    pub(crate) const fn of(bytes: &[u8]) -> ByteSet {
        let mut set = ByteSet(0);
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] != b'*' {
                set.add(bytes[at]);
            }
            at += 1;
        }
        set
    }

    pub(crate) const fn add(&mut self, byte: u8) {
        self.0 |= 1 << (byte & 63);
    }

    /// Whether this byte may occur; others may stand in its place.
    pub(crate) fn has(self, byte: u8) -> bool {
        self.0 & 1 << (byte & 63) != 0
    }

    /// Can a pattern with these bytes match a path with those?
    pub(crate) fn is_within(self, path: ByteSet) -> bool {
        self.0 & !path.0 == 0
    }
}

/// Does `pattern` (comparison form, not ending in `*`) match `path`? The probe, if any, is the
/// path's.
pub(crate) fn matches(
    pattern: &[u8],
    anchored: bool,
    path: &[u8],
    probe: Option<&mut Probe>,
) -> bool {
    if !anchored {
        return matches_start(pattern, path, probe);
    }
    // The end is looked at first: what stands before its `*` may then end anywhere.
    match memrchr(b'*', pattern) {
        None => path == pattern,
        Some(star) => path
            .strip_suffix(&pattern[star + 1..])
            .is_some_and(|path| matches_start(&pattern[..star], path, probe)),
    }
}

fn matches_start(pattern: &[u8], path: &[u8], mut probe: Option<&mut Probe>) -> bool {
    let (head, mut rest) = split_segment(pattern);
    if !path.starts_with(head) {
        return false;
    }
    let mut cursor = head.len();
    while let Some(segments) = rest {
        let (segment, next) = split_segment(segments);
        match find(segment, path, cursor, probe.as_deref_mut()) {
            Some(at) => cursor = at + segment.len(),
            None => return false,
        }
        rest = next;
    }
    true
}

/// The first segment, and what follows its `*` if there is one.
fn split_segment(segments: &[u8]) -> (&[u8], Option<&[u8]>) {
    // A segment of one byte is worth a look before the call: hostile files are full of them.
    let star = if segments.get(1) == Some(&b'*') { Some(1) } else { memchr(b'*', segments) };
    match star {
        Some(star) => (&segments[..star], Some(&segments[star + 1..])),
        None => (segments, None),
    }
}

/// The leftmost place of `segment` in `path` from `cursor` on.
fn find(segment: &[u8], path: &[u8], cursor: usize, probe: Option<&mut Probe>) -> Option<usize> {
    if path[cursor..].starts_with(segment) {
        return Some(cursor);
    }
    let mut from = cursor;
    if let Some(probe) = probe {
        let (first, last) = probe.places(segment)?;
        if last < cursor {
            return None;
        }
        from = cursor.max(first);
    }
    let rest = path.get(from..)?;
    let found = if rest.starts_with(segment) { Some(0) } else { memmem::find(rest, segment) };
    #[cfg(test)]
    steps::add(segment.len() + found.unwrap_or(rest.len()));
    found.map(|at| from + at)
}

/// Bytes that searches have looked at, so that tests can bound the work without a clock.
#[cfg(test)]
pub(crate) mod steps {
    use std::cell::Cell;

    thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn add(bytes: usize) {
        STEPS.set(STEPS.get() + bytes);
    }

    pub(crate) fn take() -> usize {
        STEPS.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, anchored: bool, path: &str) -> bool {
        let (pattern, path) = (pattern.as_bytes(), path.as_bytes());
        let plain = matches(pattern, anchored, path, None);
        let probed = matches(pattern, anchored, path, Probe::of(path).as_mut());
        assert_eq!(plain, probed, "the probe must not change the answer");
        plain
    }

    #[test]
    fn segments_are_found_in_order_and_do_not_overlap() {
        assert!(check("/a*b", false, "/a/x/b/y"));
        assert!(check("/a*b*c", false, "/abc"));
        assert!(!check("/a*ab", false, "/ab"));
        assert!(!check("/*ab*b", false, "/ab"));
        assert!(check("*b", false, "/ab"));
        assert!(!check("/b*a", false, "/ab"));
    }

    #[test]
    fn an_anchored_pattern_ends_with_the_path() {
        assert!(check("/a", true, "/a"));
        assert!(!check("/a", true, "/ab"));
        assert!(check("/*.php", true, "/x.php.php"));
        assert!(!check("/*.php", true, "/x.php?y"));
        assert!(!check("/ab*b", true, "/ab"));
        // The last segment may not share bytes with the one before.
        assert!(!check("/*aa*aa", true, "/aaa"));
        assert!(check("/*aa*aa", true, "/aaaa"));
    }

    #[test]
    fn a_pattern_needs_its_bytes_but_not_its_stars() {
        let path = ByteSet::of(b"/abc");
        assert!(ByteSet::of(b"/*c").is_within(path));
        assert!(!ByteSet::of(b"/*d").is_within(path));
    }
}
