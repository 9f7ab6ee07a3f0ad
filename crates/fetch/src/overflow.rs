//! Where does the part of an answer go that memory has no room for?
//!
//! An answer is held in memory up to a limit, which is low where many others are held. What comes
//! behind that passes through a window of
//! [`WINDOW_BYTES`] to the spool, which is a disk: a full window is written while nobody reads from
//! the server, on a thread that may wait. So one answer takes its start and one window, however
//! long it is. What is to be read of it beyond its start comes back when it is its turn ([`load`]).
//!
//! Not here: how much is held (`limits`), whose turn it is (`budget`), what is read (`body`).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ports::{Draft, Rest, Spool, Unwritten};
use tokio::time::Instant;

use crate::budget::Hold;

/// What is written at once.
const WINDOW_BYTES: usize = 256 << 10;
/// What is held of a large answer where the budget is crowded. Nearly all pages are shorter on the
/// wire, so the disk sees little of them.
const CROWDED_BYTES: usize = 256 << 10;
/// How long an answer that lies on the disk waits for the memory to be read in.
const LOAD_WAIT: Duration = Duration::from_secs(20);

/// How much of an answer is in memory: its start, then a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    start: usize,
    pub(crate) window: usize,
}

impl Share {
    /// Of an answer of which `held` bytes are wanted in memory, as far as there is memory at all.
    pub(crate) fn new(held: usize, hold: &Hold) -> Self {
        let window = WINDOW_BYTES.min(hold.bytes_max() / 4);
        Self { start: held.min(hold.bytes_max() - window), window }
    }

    /// How long the start may get, as things are now.
    pub(crate) fn start(&self, hold: &Hold) -> usize {
        if hold.is_crowded() { self.start.min(CROWDED_BYTES) } else { self.start }
    }
}

/// An answer that is longer than its start.
#[derive(Debug)]
pub(crate) struct Overflow {
    spool: Arc<dyn Spool>,
    start: Vec<u8>,
    /// Begun when the first window is full.
    draft: Option<Box<dyn Draft>>,
    failed: Option<io::Error>,
}

impl Overflow {
    pub(crate) fn new(spool: &Arc<dyn Spool>, start: Vec<u8>) -> Self {
        Self { spool: Arc::clone(spool), start, draft: None, failed: None }
    }

    /// Bytes that came before those in the window.
    pub(crate) fn bytes(&self) -> usize {
        let written = self.draft.as_ref().map_or(0, |draft| draft.bytes());
        self.start.len() + usize::try_from(written).unwrap_or(usize::MAX)
    }

    /// Writes a full window down and gives it back empty; nothing if that failed.
    pub(crate) async fn write(&mut self, mut window: Vec<u8>) -> Option<Vec<u8>> {
        let (spool, draft) = (Arc::clone(&self.spool), self.draft.take());
        let write = move || {
            let mut draft = draft.map_or_else(|| spool.begin(), Ok)?;
            draft.append(&window)?;
            window.clear();
            Ok((draft, window))
        };
        match blocking(write).await {
            Ok((draft, window)) => {
                self.draft = Some(draft);
                Some(window)
            }
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }

    /// The answer up to `end`: what is in memory, and what lies behind it.
    pub(crate) async fn close(mut self, window: Vec<u8>, end: usize) -> (Vec<u8>, Option<Rest>) {
        let mut start = std::mem::take(&mut self.start);
        if end <= start.len() && self.failed.is_none() {
            start.truncate(end);
            return (start, None);
        }
        let spool = Arc::clone(&self.spool);
        let bytes = end.saturating_sub(start.len()) as u64;
        let stored = match self.finish(window, bytes).await {
            Ok(draft) => draft.finish(),
            Err(error) => Unwritten::because(&error),
        };
        (start, Some(Rest { stored, spool }))
    }

    /// The draft with so many bytes, of which the last may be in the window.
    async fn finish(self, mut window: Vec<u8>, bytes: u64) -> io::Result<Box<dyn Draft>> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let (spool, draft) = (self.spool, self.draft);
        blocking(move || {
            let mut draft = draft.map_or_else(|| spool.begin(), Ok)?;
            match usize::try_from(bytes.saturating_sub(draft.bytes())).unwrap_or(usize::MAX) {
                0 => draft.truncate(bytes)?,
                more => {
                    window.truncate(more);
                    draft.append(&window)?;
                }
            }
            Ok(draft)
        })
        .await
    }
}

/// The first `bytes` of an answer, or all that there is: its start, and as much of what lies behind it
/// as was written and there is memory for.
pub(crate) async fn load(start: &Bytes, rest: &Rest, bytes: usize, hold: &mut Hold) -> Bytes {
    let behind = usize::try_from(rest.stored.bytes()).unwrap_or(usize::MAX);
    let bytes = bytes.min(start.len().saturating_add(behind));
    if bytes <= start.len() || !hold.grow_to(hold.bytes() + bytes, Instant::now() + LOAD_WAIT).await
    {
        return start.clone();
    }
    let (start, stored) = (start.clone(), Arc::clone(&rest.stored));
    let read = blocking({
        let start = start.clone();
        move || {
            let mut all = vec![0; bytes];
            all[..start.len()].copy_from_slice(&start);
            let mut filled = start.len();
            while filled < bytes {
                match stored.read_at((filled - start.len()) as u64, &mut all[filled..])? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    read => filled += read,
                }
            }
            Ok(all)
        }
    });
    // Bytes that cannot be read are missed by whoever archives them, which is told there.
    read.await.map_or(start, Bytes::from)
}

/// Runs what waits for the disk where nobody else waits.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use ports::{Blob, MemorySpool};

    use super::*;

    fn text(rest: &Rest) -> io::Result<String> {
        let mut text = Vec::new();
        Blob::Stored(Arc::clone(&rest.stored)).read(&mut |piece| {
            text.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(String::from_utf8(text).unwrap())
    }

    #[tokio::test]
    async fn an_answer_ends_wherever_it_ends() {
        // Start, two windows that were written, one that was not.
        let whole = "wolf spiders go out and walk";
        for end in 0..=whole.len() {
            let spool: Arc<dyn Spool> = Arc::new(MemorySpool);
            let mut overflow = Overflow::new(&spool, whole.as_bytes()[..5].to_vec());
            for part in [&whole[5..12], &whole[12..20]] {
                let window = overflow.write(part.as_bytes().to_vec()).await.unwrap();
                assert!(window.is_empty());
            }
            assert_eq!(overflow.bytes(), 20);
            let (start, rest) = overflow.close(whole.as_bytes()[20..].to_vec(), end).await;
            let rest = rest.map_or_else(String::new, |rest| text(&rest).unwrap());
            assert_eq!(String::from_utf8(start).unwrap() + &rest, whole[..end]);
        }
    }

    /// A spool on a disk without room.
    #[derive(Debug)]
    struct Full;

    impl Spool for Full {
        fn begin(&self) -> io::Result<Box<dyn Draft>> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    #[tokio::test]
    async fn what_cannot_be_written_says_so_to_whoever_wants_it() {
        let spool: Arc<dyn Spool> = Arc::new(Full);
        let mut overflow = Overflow::new(&spool, b"start".to_vec());
        assert!(overflow.write(b"more".to_vec()).await.is_none());
        for overflow in [overflow, Overflow::new(&spool, b"start".to_vec())] {
            // Also where it is not known any more how much there was.
            let end = if overflow.failed.is_some() { 5 } else { 7 };
            let (start, rest) = overflow.close(b"more".to_vec(), end).await;
            assert_eq!(start, b"start");
            let error = text(&rest.unwrap()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
    }

    #[tokio::test]
    async fn little_memory_is_shared_too() {
        let budget = Arc::new(crate::budget::Budget::new(256 << 10));
        let hold = budget.hold(1024).await;
        assert_eq!(Share::new(usize::MAX, &hold), Share { start: 192 << 10, window: 64 << 10 });
        assert_eq!(Share::new(1000, &hold).start, 1000);
    }

    #[tokio::test]
    async fn where_it_is_crowded_the_start_is_short_and_what_is_read_comes_back() {
        let budget = Arc::new(crate::budget::Budget::new(16 << 20));
        let mut hold = budget.hold(1024).await;
        let share = Share::new(4 << 20, &hold);
        assert_eq!(share.start(&hold), 4 << 20);
        let other = budget.hold(5 << 20).await;
        assert_eq!(share.start(&hold), CROWDED_BYTES);

        let whole = "wolf spiders go out and walk";
        let spool: Arc<dyn Spool> = Arc::new(MemorySpool);
        let overflow = Overflow::new(&spool, whole.as_bytes()[..5].to_vec());
        let (start, rest) = overflow.close(whole.as_bytes()[5..].to_vec(), whole.len()).await;
        let (start, rest) = (Bytes::from(start), rest.unwrap());
        for bytes in [0, 3, 5, 6, 20, whole.len(), 100] {
            let loaded = load(&start, &rest, bytes, &mut hold).await;
            assert_eq!(loaded, whole.as_bytes()[..bytes.clamp(5, whole.len())]);
        }
        drop(other);
        // What was never written is not read.
        let rest = Rest { stored: Unwritten::because(&io::ErrorKind::StorageFull.into()), spool };
        assert_eq!(load(&start, &rest, 20, &mut hold).await, start);
    }
}
