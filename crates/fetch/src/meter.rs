//! What goes over an HTTP/2 connection, and when?
//!
//! A [`Metered`] stream sits between h2 and TLS. There is no tape here: frames of a connection are
//! not the bytes of an answer. What is kept is what the limits need: how much came and when, how
//! much may still come before somebody has made room for it, and whether a request has left.
//!
//! Always: no more is read than was allowed, so what h2 holds in its buffers is bounded by what
//! its visit has memory for.
//!
//! Not here: what the frames mean (`http2`).

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use ports::Clock;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;
use types::Timestamp;

use crate::record::Ending;

/// The measures of one exchange.
pub(crate) struct Meter {
    clock: Arc<dyn Clock>,
    /// Bytes that may still be read.
    allowed: usize,
    /// Bytes that were read.
    pub(crate) received: usize,
    /// Something was to be read, and not allowed.
    full: bool,
    /// When something was last read, the end included.
    pub(crate) last_read_at: Option<Timestamp>,
    pub(crate) last_read: Option<Instant>,
    /// At the last look there was nothing to read, not even in the kernel.
    quiet: bool,
    way: Way,
    pub(crate) ended: Option<Ending>,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// There is none.
    None,
    /// Given to h2.
    Given,
    /// Something was written since.
    Begun,
    /// And all of that is the kernel's.
    Left,
    /// Left, and told.
    Told,
}

impl Meter {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            allowed: 0,
            received: 0,
            full: false,
            last_read_at: None,
            last_read: None,
            quiet: false,
            way: Way::None,
            ended: None,
        }
    }

    /// Makes ready for an exchange.
    pub(crate) fn begin(&mut self) {
        self.received = 0;
        self.last_read_at = None;
        self.last_read = None;
        self.way = Way::None;
    }

    /// How much may be read from now on.
    pub(crate) fn allow(&mut self, bytes: usize) {
        self.allowed = bytes;
        self.full = false;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// A request is on its way from now on.
    pub(crate) fn request(&mut self) {
        self.way = Way::Given;
    }

    /// Whether some of it may have left.
    pub(crate) fn has_begun(&self) -> bool {
        matches!(self.way, Way::Begun | Way::Left | Way::Told)
    }

    /// Whether all of it has left, said once.
    pub(crate) fn has_left(&mut self) -> bool {
        let left = self.way == Way::Left;
        if left {
            self.way = Way::Told;
        }
        left
    }

    /// Whether some of it may have left without anybody having been told, said once.
    pub(crate) fn is_untold(&mut self) -> bool {
        let untold = matches!(self.way, Way::Begun | Way::Left);
        if untold {
            self.way = Way::Told;
        }
        untold
    }

    fn note(&mut self, result: &io::Result<usize>) {
        self.last_read_at = Some(self.clock.now());
        self.last_read = Some(Instant::now());
        match result {
            Ok(0) => self.ended = Some(Ending::Closed),
            Ok(bytes) => {
                self.received += bytes;
                self.allowed -= bytes;
            }
            Err(error) => self.ended = Some(Ending::Broken(error.kind())),
        }
    }
}

/// The meter, shared by the stream inside h2's connection and whoever drives it. Both are in one
/// task, so the lock is never waited for.
#[derive(Clone)]
pub(crate) struct SharedMeter(Arc<Mutex<Meter>>);

impl SharedMeter {
    pub(crate) fn new(meter: Meter) -> Self {
        Self(Arc::new(Mutex::new(meter)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Meter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stream as h2 sees it.
pub(crate) struct Metered {
    stream: Box<TlsStream<TcpStream>>,
    meter: SharedMeter,
}

impl Metered {
    pub(crate) fn new(stream: Box<TlsStream<TcpStream>>, meter: SharedMeter) -> Self {
        Self { stream, meter }
    }

    /// Whether the kernel has nothing for us. tokio would answer from its last look.
    fn is_silent(&self) -> bool {
        let peeked = SockRef::from(self.stream.get_ref().0).peek(&mut [MaybeUninit::uninit()]);
        matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let allowed = this.meter.lock().allowed;
        if allowed == 0 {
            this.meter.lock().full = true;
            // No one is told to wake us: whoever drives the exchange asks `is_full`.
            return Poll::Pending;
        }
        let room = buffer.remaining().min(allowed);
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
        let polled = Pin::new(&mut this.stream).poll_read(cx, &mut part);
        let bytes = part.filled().len();
        let Poll::Ready(result) = polled else {
            let quiet = this.is_silent();
            this.meter.lock().quiet = quiet;
            return Poll::Pending;
        };
        buffer.advance(bytes);
        let result = result.map(|()| bytes);
        this.meter.lock().note(&result);
        Poll::Ready(result.map(|_| ()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        let mut meter = self.meter.lock();
        if matches!(meter.way, Way::Given | Way::Left) {
            meter.way = Way::Begun;
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        let mut meter = self.meter.lock();
        if meter.way == Way::Begun {
            meter.way = Way::Left;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
