//! How does a filter use all cores and keep its order?
//!
//! One thread reads lines and hands them out in bundles; workers prepare them side by side; the
//! caller's thread takes the bundles in the order in which they were read, finishes each line and
//! writes it. What needs an order (near duplicates name the earlier one) happens in `finish`, what
//! is work in `prepare`.
//!
//! Always: bundles in flight are bounded. Whoever asks line by line gets the answer before the next
//! question: a bundle is closed as soon as nothing more can be read at once, and nothing is held
//! back while nobody else has something to write.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::next_line;

/// A bundle is closed when it holds this much: enough to make its way between threads cheap.
const BUNDLE_BYTES_MAX: usize = 256 << 10;
const BUNDLE_LINES_MAX: usize = 1_000;

/// Bundles on their way, for each worker: one at work and one that waits.
const BUNDLES_PER_WORKER: usize = 2;

/// Lines in, their answers out.
struct Bundle<P> {
    lines: Vec<Vec<u8>>,
    answers: SyncSender<Vec<P>>,
}

/// Prepares every line on any core, finishes them in order.
pub fn filter<P: Send>(
    input: impl Read + Send,
    output: impl Write,
    prepare: impl Fn(&[u8]) -> P + Sync,
    mut finish: impl FnMut(P, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let workers = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (to_workers, jobs) = sync_channel::<Bundle<P>>(workers * BUNDLES_PER_WORKER);
    let (to_writer, order) = sync_channel::<Receiver<Vec<P>>>(workers * BUNDLES_PER_WORKER);
    let jobs = Mutex::new(jobs);
    thread::scope(|scope| {
        let reader = scope.spawn(move || read(input, &to_workers, &to_writer));
        for _ in 0..workers {
            scope.spawn(|| work(&jobs, &prepare));
        }
        let written = write(&order, output, &mut finish);
        // The reader learns by this that nobody listens any more.
        drop(order);
        written?;
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn read<P>(
    input: impl Read,
    to_workers: &SyncSender<Bundle<P>>,
    to_writer: &SyncSender<Receiver<Vec<P>>>,
) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut lines = Vec::new();
    let mut bytes = 0;
    loop {
        let mut line = Vec::new();
        let more = next_line(&mut input, &mut line)?;
        if more {
            bytes += line.len();
            lines.push(line);
        }
        let full = bytes >= BUNDLE_BYTES_MAX || lines.len() >= BUNDLE_LINES_MAX;
        if !lines.is_empty() && (full || !more || input.buffer().is_empty()) {
            let (answers, answered) = sync_channel(1);
            let bundle = Bundle { lines: std::mem::take(&mut lines), answers };
            bytes = 0;
            // Nobody takes it any more: the output is gone, and its error is told by the writer.
            if to_writer.send(answered).is_err() || to_workers.send(bundle).is_err() {
                return Ok(());
            }
        }
        if !more {
            return Ok(());
        }
    }
}

fn work<P>(jobs: &Mutex<Receiver<Bundle<P>>>, prepare: &(impl Fn(&[u8]) -> P + Sync)) {
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Bundle { lines, answers }) = next else { return };
        let prepared = lines.iter().map(|line| prepare(line)).collect();
        // The output may be gone. Bundles are taken all the same, so that the reader never waits for
        // a place in a queue that nobody empties.
        let _ = answers.send(prepared);
    }
}

fn write<P>(
    order: &Receiver<Receiver<Vec<P>>>,
    output: impl Write,
    finish: &mut impl FnMut(P, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut output = BufWriter::with_capacity(1 << 16, output);
    loop {
        let next = match order.try_recv() {
            Ok(next) => next,
            Err(TryRecvError::Disconnected) => return output.flush(),
            Err(TryRecvError::Empty) => {
                output.flush()?;
                let Ok(next) = order.recv() else { return Ok(()) };
                next
            }
        };
        // A worker that has panicked has no answer; its panic ends the scope.
        let Ok(prepared) = next.recv() else { return output.flush() };
        for one in prepared {
            finish(one, &mut output)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_kept_whatever_takes_long() {
        let input: String = (0..20_000).map(|n| format!("{n}\n")).collect();
        let mut out = Vec::new();
        let prepare = |line: &[u8]| {
            let n: u64 = String::from_utf8_lossy(line).trim().parse().unwrap();
            // Now and then one that takes a thousand times as long.
            let rounds = if n.is_multiple_of(1_000) { 1_000_000 } else { 1_000 };
            (n, (0..rounds).fold(n, |all, round| std::hint::black_box(all ^ round)))
        };
        filter(input.as_bytes(), &mut out, prepare, |(n, _), out| writeln!(out, "{n}")).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), input);
    }

    #[test]
    fn an_output_that_is_gone_ends_it() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let endless = io::repeat(b'\n');
        let result = filter(endless, Gone, |_| (), |(), out| out.write_all(&[b'x'; 99]));
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
