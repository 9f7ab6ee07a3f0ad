//! What exactly went over the wire?
//!
//! A [`Recorder`] sits between hyper and the (decrypted) stream. It reads into a [`Tape`] and
//! hands hyper a copy, so the tape is the wire: what hyper makes of it changes nothing. The tape
//! also keeps the times of the socket, and stops reading when its room is used up.
//!
//! hyper is stricter than browsers in one thing that real servers do: a `Content-Length` that is no
//! length. So it is given a head when all of it is there, with such fields under another name of
//! the same length.
//!
//! A gate keeps the request back until its visit says that it may leave. Until then nothing may
//! have come from the other side either: an open connection that has something to read (its end,
//! usually) is dead, and this is known for certain before a byte is sent.
//!
//! What is beyond memory is taken off the tape in between ([`Tape::change`]).
//!
//! Always: `received` holds at most `room` bytes. Nothing is written while the gate is closed.
//!
//! Not here: what the bytes mean (`exchange`, `head`).

use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use hyper::rt::{Read, ReadBufCursor, Write};
use ports::Clock;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;
use types::Timestamp;

use crate::head::{self, HeadScan};

/// Most bytes of one read, so that one fast server does not hold up the others.
const READ_BYTES_MAX: usize = 64 << 10;
/// Most bytes hyper is given at once. Its own buffer doubles whenever it is filled to the brim;
/// one byte less than its first size keeps it small, also in connections that wait.
const HAND_BYTES_MAX: usize = 8191;

/// The bytes and times of one exchange.
pub(crate) struct Tape {
    clock: Arc<dyn Clock>,
    pub(crate) sent: Vec<u8>,
    pub(crate) received: Vec<u8>,
    /// How much came before `received` and was taken off the tape.
    base: usize,
    /// How much of `received` hyper was given.
    handed: usize,
    /// Looks for the answer's head; gone when hyper may have what comes.
    scan: Option<HeadScan>,
    /// Where hyper is given another byte than the one that came.
    masked: Vec<usize>,
    /// How long `received` may get.
    room: usize,
    /// Reading stopped because the room is used up.
    full: bool,
    gate: Gate,
    /// The connection has served before.
    reused: bool,
    pub(crate) first_byte_at: Option<Timestamp>,
    /// When something was last read, the end included.
    pub(crate) last_read_at: Option<Timestamp>,
    last_read: Option<Instant>,
    /// The other side has closed, or broken off.
    pub(crate) ended: Option<Ending>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Closed,
    /// hyper wants to write.
    Knocking,
    Open,
    /// Open, and the whole request is the kernel's.
    Passed,
    /// Passed, and told.
    Told,
}

/// How the other side stopped sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Closed,
    Broken(io::ErrorKind),
}

impl Tape {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            sent: Vec::new(),
            received: Vec::new(),
            base: 0,
            handed: 0,
            scan: None,
            masked: Vec::new(),
            room: 0,
            full: false,
            gate: Gate::Closed,
            reused: false,
            first_byte_at: None,
            last_read_at: None,
            last_read: None,
            ended: None,
        }
    }

    /// Makes ready for an exchange that may receive `room` bytes.
    pub(crate) fn begin(&mut self, room: usize) {
        self.sent = Vec::with_capacity(512);
        self.received = Vec::new();
        self.base = 0;
        self.handed = 0;
        self.scan = Some(HeadScan::default());
        self.masked = Vec::new();
        self.room = room;
        self.full = false;
        self.gate = Gate::Closed;
        self.first_byte_at = None;
        self.last_read_at = None;
        self.last_read = None;
        self.ended = None;
    }

    /// Ends an exchange whose connection is to serve again.
    pub(crate) fn rest(&mut self) {
        self.gate = Gate::Closed;
        self.reused = true;
    }

    /// Lets the request leave, if it is waiting to.
    pub(crate) fn open_gate(&mut self) -> bool {
        let knocking = self.gate == Gate::Knocking;
        if knocking {
            self.gate = Gate::Open;
        }
        knocking
    }

    /// Whether it was let go: from then on the other side may have seen some of it.
    pub(crate) fn is_gate_open(&self) -> bool {
        matches!(self.gate, Gate::Open | Gate::Passed | Gate::Told)
    }

    /// Whether all of it has left, said once.
    pub(crate) fn has_passed(&mut self) -> bool {
        let passed = self.gate == Gate::Passed;
        if passed {
            self.gate = Gate::Told;
        }
        passed
    }

    /// Whether it was let go without anybody having been told that it has left, said once.
    pub(crate) fn is_untold(&mut self) -> bool {
        let untold = matches!(self.gate, Gate::Open | Gate::Passed);
        if untold {
            self.gate = Gate::Told;
        }
        untold
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    pub(crate) fn room(&self) -> usize {
        self.room
    }

    pub(crate) fn widen(&mut self, room: usize) {
        debug_assert!(room >= self.room, "room does not shrink");
        self.room = room;
        self.full = false;
    }

    /// Takes off what is there, all of which hyper has seen; `empty` is filled from now on, up to
    /// `room` bytes.
    pub(crate) fn change(&mut self, empty: Vec<u8>, room: usize) -> Vec<u8> {
        debug_assert!(empty.is_empty() && self.unread() == 0, "hyper has seen all of it");
        self.base += self.received.len();
        self.handed = 0;
        // They were in the head, which hyper has.
        self.masked.clear();
        self.room = room;
        self.full = false;
        std::mem::replace(&mut self.received, empty)
    }

    /// How much came in all.
    pub(crate) fn len(&self) -> usize {
        self.base + self.received.len()
    }

    /// Bytes that came but that hyper has not even looked at.
    pub(crate) fn unread(&self) -> usize {
        self.received.len() - self.handed
    }

    /// How much came, and when the last of it.
    pub(crate) fn progress(&self) -> (usize, Option<Instant>) {
        (self.len(), self.last_read)
    }

    /// Whether hyper may be given what is there: the head is whole, or will never be one.
    fn is_ripe(&mut self) -> bool {
        let Some(scan) = &mut self.scan else { return true };
        match scan.find(&self.received) {
            Some(head) => {
                let bad = head::bad_lengths(&self.received[head.clone()]);
                self.masked = bad.into_iter().map(|at| head.start + at).collect();
            }
            None if self.ended.is_some() || !head::may_be_http(&self.received) => {}
            None => return false,
        }
        self.scan = None;
        true
    }

    /// Gives hyper what it has not seen yet.
    fn hand(&mut self, cursor: &mut ReadBufCursor<'_>) {
        let end = self.received.len().min(self.handed + cursor.remaining().min(HAND_BYTES_MAX));
        let start = self.handed;
        for &at in self.masked.iter().filter(|at| (start..end).contains(at)) {
            cursor.put_slice(&self.received[self.handed..at]);
            cursor.put_slice(b"x");
            self.handed = at + 1;
        }
        cursor.put_slice(&self.received[self.handed..end]);
        self.handed = end;
    }

    /// Reads more from the stream; zero bytes are its end.
    fn fill(&mut self, stream: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let left = self.room.saturating_sub(self.received.len());
        if left == 0 {
            self.full = true;
            // No one is told to wake us: whoever drives the exchange asks `is_full`.
            return Poll::Pending;
        }
        // All of the room at once: it was granted for this, and it grows in large steps.
        self.received.reserve_exact(left);
        let mut buffer = (&mut self.received).limit(left.min(READ_BYTES_MAX));
        let result = match stream {
            Stream::Plain(tcp) => ready!(pin!(tcp.read_buf(&mut buffer)).poll(cx)),
            Stream::Tls(tls) => ready!(pin!(tls.read_buf(&mut buffer)).poll(cx)),
        };
        let now = self.clock.now();
        self.last_read_at = Some(now);
        self.last_read = Some(Instant::now());
        match result {
            Ok(0) => self.ended = Some(Ending::Closed),
            Ok(_) => {
                self.first_byte_at.get_or_insert(now);
            }
            Err(error) => {
                self.ended = Some(Ending::Broken(error.kind()));
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The tape, shared by the recorder inside hyper's connection and whoever drives it. Both are in
/// one task, so the lock is never waited for.
#[derive(Clone)]
pub(crate) struct SharedTape(Arc<Mutex<Tape>>);

impl SharedTape {
    pub(crate) fn new(tape: Tape) -> Self {
        Self(Arc::new(Mutex::new(tape)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Tape> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Ready when there is something to read, which before a request means the end.
    ///
    /// Asks the kernel itself: tokio would answer from its last look, and the other side may have
    /// closed since. For TLS the bytes would be a farewell, or a late ticket; either way a new
    /// connection is the safe choice.
    fn poll_silence(&self) -> Poll<io::Result<()>> {
        let tcp = match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        };
        match SockRef::from(tcp).peek(&mut [MaybeUninit::uninit()]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
            Ok(_) => Poll::Ready(Ok(())),
        }
    }
}

/// The stream as hyper sees it.
pub(crate) struct Recorder {
    stream: Stream,
    tape: SharedTape,
}

impl Recorder {
    pub(crate) fn new(stream: Stream, tape: SharedTape) -> Self {
        Self { stream, tape }
    }
}

impl Read for Recorder {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let mut tape = this.tape.lock();
        while tape.unread() == 0 || !tape.is_ripe() {
            match (tape.is_gate_open(), tape.reused) {
                (true, _) => ready!(tape.fill(&mut this.stream, cx))?,
                (false, true) => return this.stream.poll_silence(),
                (false, false) => return Poll::Pending,
            }
            if tape.ended.is_some() {
                break;
            }
        }
        tape.hand(&mut cursor);
        Poll::Ready(Ok(()))
    }
}

impl Write for Recorder {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let mut tape = this.tape.lock();
        if !tape.is_gate_open() {
            tape.gate = Gate::Knocking;
            // Not woken: whoever drives the exchange asks `open_gate`.
            return Poll::Pending;
        }
        let written = ready!(match &mut this.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        })?;
        tape.sent.extend_from_slice(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(match &mut this.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        })?;
        let mut tape = this.tape.lock();
        if tape.gate == Gate::Open && !tape.sent.is_empty() {
            tape.gate = Gate::Passed;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
