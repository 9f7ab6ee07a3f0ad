//! Does an input never come back, or take all memory?
//!
//! Nobody can catch that from inside, so a thread beside the hunt looks at the input that runs. One
//! that runs for [`STUCK`], or makes the process larger than [`MEMORY_MAX`], is kept as a finding
//! and the process ends: there is no other way out of it.

use std::fs;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::{Target, folders};

/// An input that needs longer than this, twice, is a finding (see `hunt`): the largest has 64 KiB,
/// and what is linear takes a thousandth of it.
pub const SLOW: Duration = Duration::from_secs(2);

/// An input that needs longer than this is taken for an endless one.
const STUCK: Duration = Duration::from_secs(30);

/// Largest process: a hundred times of what the hunts take.
const MEMORY_MAX: u64 = 2 << 30;

/// How often is looked.
const EVERY: Duration = Duration::from_millis(200);

/// What is under way.
#[derive(Debug, Default)]
pub struct Watch {
    now: Mutex<Option<(Instant, Vec<u8>)>>,
    over: AtomicBool,
}

impl Watch {
    /// Runs `hunt` with the watch beside it.
    pub fn over<T>(target: &Target, hunt: impl FnOnce(&Watch) -> T) -> T {
        let watch = Watch::default();
        thread::scope(|scope| {
            let guard = scope.spawn(|| watch.look(target));
            let end = End(&watch, guard.thread());
            let result = hunt(&watch);
            drop(end);
            result
        })
    }

    /// An input begins.
    pub fn begin(&self, input: &[u8]) {
        let mut now = self.now();
        let (since, held) = now.get_or_insert_with(|| (Instant::now(), Vec::new()));
        *since = Instant::now();
        held.clear();
        held.extend_from_slice(input);
    }

    fn now(&self) -> MutexGuard<'_, Option<(Instant, Vec<u8>)>> {
        self.now.lock().expect("nobody panics while it is locked")
    }

    fn look(&self, target: &Target) {
        while !self.over.load(Ordering::Acquire) {
            thread::park_timeout(EVERY);
            let now = self.now();
            let Some((since, input)) = &*now else { continue };
            let why = match memory() {
                Some(bytes) if bytes > MEMORY_MAX => format!("{} MB of memory", bytes >> 20),
                _ if since.elapsed() > STUCK => format!("no end after {} s", STUCK.as_secs()),
                _ => continue,
            };
            let kept = folders::keep(target, input);
            eprintln!("{}: {why}; {kept}", target.name);
            process::exit(1);
        }
    }
}

/// Lets the watch go home, also behind a panic.
struct End<'a>(&'a Watch, &'a Thread);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
        self.1.unpark();
    }
}

/// Memory of this process, where the system tells.
fn memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}
