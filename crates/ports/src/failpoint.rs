//! Where may a test kill us?
//!
//! A failpoint is a named place between two steps that must both happen or be mended after a
//! crash. With the cargo feature `failpoints`, `LYCOSA_FAILPOINT=name:n` aborts the process at the
//! n-th time it comes there, as `kill -9` would. Without the feature it is nothing.

#[cfg(feature = "failpoints")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Point {
        name: String,
        hits_left: AtomicU64,
    }

    static POINT: OnceLock<Option<Point>> = OnceLock::new();

    pub fn failpoint(name: &str) {
        let Some(point) = POINT.get_or_init(from_environment) else { return };
        if point.name == name && point.hits_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            eprintln!("failpoint {name}: the process dies here");
            std::process::abort();
        }
    }

    fn from_environment() -> Option<Point> {
        let text = std::env::var("LYCOSA_FAILPOINT").ok()?;
        let (name, count) = text.split_once(':').unwrap_or((&text, "1"));
        let hits = count.parse::<u64>().ok().filter(|hits| *hits > 0);
        let hits = hits.unwrap_or_else(|| panic!("LYCOSA_FAILPOINT={text}: want `name:n`"));
        Some(Point { name: name.to_owned(), hits_left: AtomicU64::new(hits) })
    }
}

/// Dies here if a test wants it.
#[cfg(feature = "failpoints")]
pub fn failpoint(name: &str) {
    armed::failpoint(name);
}

/// Dies here if a test wants it: never, in this build.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn failpoint(_name: &str) {}
