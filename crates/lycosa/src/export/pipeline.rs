//! How does an export use all cores and keep its order?
//!
//! One thread reads records and hands them out in bundles; workers take them apart and read the pages; the
//! caller's thread takes the bundles in the order in which they were read and writes.
//!
//! Always: bundles in flight are bounded, in number and in bytes. What is damaged comes through as an
//! error in its place.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use crate::captures::{Raw, RawAll};

/// A bundle is closed when it holds this much.
const BUNDLE_BYTES_MAX: usize = 1 << 20;
const BUNDLE_RECORDS_MAX: usize = 64;
/// Bundles on their way, for each worker: one at work and one that waits.
const BUNDLES_PER_WORKER: usize = 2;
/// Records in flight, as they lie in the archive; one that is larger goes alone.
const IN_FLIGHT_BYTES_MAX: usize = 128 << 20;

struct Bundle<P> {
    records: Vec<anyhow::Result<Raw>>,
    answers: SyncSender<Vec<anyhow::Result<Option<P>>>>,
}

/// What is on its way to the caller.
struct Promise<P> {
    answers: Receiver<Vec<anyhow::Result<Option<P>>>>,
    bytes: usize,
    /// How much of the archive was read when it was closed.
    read: u64,
}

/// What the caller is told.
pub enum News<P> {
    One(P),
    /// A record that could not be read.
    Damaged(anyhow::Error),
    /// So many bytes of the archive lie behind.
    Read(u64),
}

/// Prepares every record on any core, finishes them in order. `prepare` gives nothing for what is not
/// wanted; `finish` may have enough.
pub fn run<P: Send>(
    records: RawAll,
    prepare: impl Fn(Raw) -> anyhow::Result<Option<P>> + Sync,
    mut finish: impl FnMut(News<P>) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<()> {
    let workers = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (to_workers, jobs) = sync_channel::<Bundle<P>>(workers * BUNDLES_PER_WORKER);
    let (to_writer, order) = sync_channel::<Promise<P>>(workers * BUNDLES_PER_WORKER);
    let jobs = Mutex::new(jobs);
    let gate = Gate::default();
    thread::scope(|scope| {
        let gate = &gate;
        scope.spawn(move || read(records, &to_workers, &to_writer, gate));
        for _ in 0..workers {
            scope.spawn(|| work(&jobs, &prepare));
        }
        let result = write(&order, gate, &mut finish);
        // The reader learns by this that nobody listens any more.
        gate.close();
        drop(order);
        result
    })
}

/// Lets only so many bytes be in flight.
#[derive(Default)]
struct Gate {
    inside: Mutex<Inside>,
    changed: Condvar,
}

#[derive(Default)]
struct Inside {
    bytes: usize,
    closed: bool,
}

impl Gate {
    /// Waits for room; false when nobody wants anything any more.
    fn enter(&self, bytes: usize) -> bool {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        while !inside.closed && inside.bytes > 0 && inside.bytes + bytes > IN_FLIGHT_BYTES_MAX {
            inside = self.changed.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        inside.bytes += bytes;
        !inside.closed
    }

    fn leave(&self, bytes: usize) {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner).bytes -= bytes;
        self.changed.notify_all();
    }

    fn close(&self) {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.changed.notify_all();
    }
}

fn read<P>(
    mut all: RawAll,
    to_workers: &SyncSender<Bundle<P>>,
    to_writer: &SyncSender<Promise<P>>,
    gate: &Gate,
) {
    let mut records = Vec::new();
    let mut bytes = 0;
    loop {
        let next = all.next();
        let more = next.is_some();
        if let Some(record) = next {
            bytes += record.as_ref().map_or(0, Raw::bytes);
            records.push(record);
        }
        let full = bytes >= BUNDLE_BYTES_MAX || records.len() >= BUNDLE_RECORDS_MAX;
        if !records.is_empty() && (full || !more) {
            if !gate.enter(bytes) {
                return;
            }
            let (answers, answered) = sync_channel(1);
            let promise = Promise { answers: answered, bytes, read: all.bytes_read() };
            let bundle = Bundle { records: std::mem::take(&mut records), answers };
            bytes = 0;
            // Nobody takes it any more: the writer has ended, and says why.
            if to_writer.send(promise).is_err() || to_workers.send(bundle).is_err() {
                return;
            }
        }
        if !more {
            return;
        }
    }
}

fn work<P>(
    jobs: &Mutex<Receiver<Bundle<P>>>,
    prepare: &(impl Fn(Raw) -> anyhow::Result<Option<P>> + Sync),
) {
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Bundle { records, answers }) = next else { return };
        let prepared = records.into_iter().map(|raw| raw.and_then(prepare)).collect();
        // The writer may have ended. Bundles are taken all the same, so that the reader never waits for a
        // place in a queue that nobody empties.
        let _ = answers.send(prepared);
    }
}

fn write<P>(
    order: &Receiver<Promise<P>>,
    gate: &Gate,
    finish: &mut impl FnMut(News<P>) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<()> {
    while let Ok(promise) = order.recv() {
        // A worker that has panicked has no answer; its panic ends the scope.
        let Ok(prepared) = promise.answers.recv() else { return Ok(()) };
        gate.leave(promise.bytes);
        for one in prepared {
            let news = match one {
                Ok(None) => continue,
                Ok(Some(one)) => News::One(one),
                Err(error) => News::Damaged(error),
            };
            if finish(news)?.is_break() {
                return Ok(());
            }
        }
        if finish(News::Read(promise.read))?.is_break() {
            return Ok(());
        }
    }
    Ok(())
}
