//! How does one request become one answer over HTTP/1.1?
//!
//! hyper's connection is not a task of its own here: it is polled by the visit that uses it. So a
//! visit that is dropped closes its connection at once, a connection that waits costs nothing,
//! and between any two bytes the visit decides whether to go on: how much memory it has, how much
//! time is left.
//!
//! Always: the request is written at most once. A connection that was found closed before the
//! first byte left says so ([`Driven::Stale`]); after that byte nothing is ever sent again.
//!
//! Not here: where connections come from and go to (`http`), what is in the body (`body`).

use std::future::poll_fn;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{StatusCode, Version};
use http_body_util::Empty;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use ports::{Clock, Protocol, Purpose, Spool};
use tokio::time::{Instant, Sleep, sleep_until};
use types::outcome::Truncated;
use types::{Fault, Timestamp};

use crate::budget::Hold;
use crate::head::{self, HeadScan};
use crate::limits::{self, BodyLimits, ByteLimits, Limit, Pace};
use crate::overflow::{Overflow, Share};
use crate::record::{Ending, Recorder, SharedTape, Stream, Tape};

/// Frames of a body before others have their turn.
pub(crate) const FRAMES_A_TURN: usize = 256;
/// Most that the room for an answer grows at once.
const GROWTH_BYTES_MAX: usize = 1 << 20;

/// An open connection and all that hyper knows of it.
pub(crate) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    /// Gone once hyper has nothing more to do.
    driver: Option<http1::Connection<Recorder, Empty<Bytes>>>,
    /// What hyper had read but not used when it ended.
    left_over: usize,
    tape: SharedTape,
    overflow: Option<Overflow>,
    clock: Arc<dyn Clock>,
    pub(crate) tls: Option<&'static str>,
}

/// What one exchange may cost.
pub(crate) struct Terms<'a> {
    pub(crate) pace: Pace<'a>,
    pub(crate) bytes: &'a ByteLimits,
    pub(crate) purpose: Purpose,
    /// For what is beyond memory.
    pub(crate) spool: &'a Arc<dyn Spool>,
}

/// How long an answer may get.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// If it says so.
    pub(crate) whole: Option<usize>,
    pub(crate) wire_max: usize,
    pub(crate) share: Share,
}

/// What came of it.
pub(crate) enum Driven {
    Answered(Answer),
    /// No head of an answer came.
    Broken(Fault),
    /// The connection had been closed before anything left.
    Stale,
}

/// The facts of an answer; its bytes are on the tape.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) protocol: Protocol,
    /// Where its head lies on the tape.
    pub(crate) head: Range<usize>,
    /// Where it ends on the tape.
    pub(crate) end: usize,
    pub(crate) chunked: bool,
    pub(crate) limits: BodyLimits,
    pub(crate) truncated: Option<Truncated>,
    /// For how long the server keeps the connection, if the connection can serve again.
    pub(crate) reusable: Option<Option<Duration>>,
}

/// What was recorded.
#[derive(Default)]
pub(crate) struct Recorded {
    pub(crate) sent: Vec<u8>,
    pub(crate) received: Vec<u8>,
    /// What came before `received`, if that is not all.
    pub(crate) overflow: Option<Overflow>,
    pub(crate) first_byte_at: Option<Timestamp>,
    pub(crate) last_read_at: Option<Timestamp>,
}

impl Recorded {
    /// How much came in all.
    pub(crate) fn bytes(&self) -> usize {
        self.overflow.as_ref().map_or(0, Overflow::bytes) + self.received.len()
    }
}

/// What a driven connection has to say.
pub(crate) enum Event<T> {
    Item(T),
    /// The protocol has come to its end, and no item is to be had.
    Over,
    /// More may be read only when there is room for it.
    Full,
    Late(Limit),
}

impl Connection {
    pub(crate) async fn new(
        stream: Stream,
        tls: Option<&'static str>,
        builder: &http1::Builder,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, Fault> {
        let tape = SharedTape::new(Tape::new(Arc::clone(clock)));
        let recorder = Recorder::new(stream, tape.clone());
        let handshake = builder.handshake(recorder).await;
        let (sender, driver) = handshake.map_err(|error| Fault::Reset(error.to_string().into()))?;
        let clock = Arc::clone(clock);
        let driver = Some(driver);
        Ok(Self { sender, driver, left_over: 0, tape, overflow: None, clock, tls })
    }

    /// Sends the request and takes the answer, as far as the terms go.
    pub(crate) async fn exchange(
        &mut self,
        request: http::Request<Empty<Bytes>>,
        terms: &mut Terms<'_>,
        hold: &mut Hold,
        sent: &mut (dyn FnMut(Timestamp) + Send),
    ) -> Driven {
        self.tape.lock().begin(hold.bytes());
        self.overflow = None;
        let mut timer = pin!(sleep_until(terms.pace.next_look(None)));
        let head = self.take_head(request, terms, hold, timer.as_mut(), sent).await;
        if self.tape.lock().is_untold() {
            // It broke on its way out; some of it may have arrived.
            sent(self.clock.now());
        }
        let (response, head) = match head {
            Ok(head) => head,
            Err(driven) => return driven,
        };
        let (parts, body) = response.into_parts();
        let media_type = parts.headers.get(http::header::CONTENT_TYPE);
        let media_type =
            media_type.map_or(String::new(), |value| head::media_type(value.as_bytes()));
        terms.pace.allow_for(&media_type);
        let limits = terms.bytes.of(terms.purpose, &media_type);
        let chunked = body.size_hint().exact().is_none() && head::is_chunked(&parts.headers);
        let wire_max = head.end.saturating_add(limits.wire);
        let share = Share::new(head.end.saturating_add(limits.held), hold);
        let length = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
        let whole = length.map(|length| head.end.saturating_add(length));
        let extent = Extent { whole, wire_max, share };

        let truncated = self.take_body(body, extent, terms, hold, timer).await;
        let (end, truncated) = match truncated {
            None => match self.settle().await {
                // It came whole in the room that every answer has, and is too large all the same.
                end if end > wire_max => (wire_max, Some(Truncated::Length)),
                end => (end, None),
            },
            Some(_) => (self.tape.lock().len().min(wire_max), truncated),
        };
        let protocol = match parts.version {
            Version::HTTP_10 => Protocol::Http10,
            _ => Protocol::Http11,
        };
        let clean =
            self.driver.is_some() && self.sender.is_ready() && self.tape.lock().unread() == 0;
        // An HTTP/1.0 connection would make hyper speak HTTP/1.0 from now on.
        let reusable = clean && truncated.is_none() && protocol == Protocol::Http11;
        let reusable = reusable.then(|| head::keep_alive(&parts.headers));
        let status = parts.status;
        Driven::Answered(Answer {
            status,
            protocol,
            head,
            end,
            chunked,
            limits,
            truncated,
            reusable,
        })
    }

    /// What the tape holds; the connection may serve again afterwards.
    pub(crate) fn take_record(&mut self) -> Recorded {
        let mut tape = self.tape.lock();
        tape.rest();
        Recorded {
            sent: std::mem::take(&mut tape.sent),
            received: std::mem::take(&mut tape.received),
            overflow: self.overflow.take(),
            first_byte_at: tape.first_byte_at,
            last_read_at: tape.last_read_at,
        }
    }

    async fn take_head(
        &mut self,
        request: http::Request<Empty<Bytes>>,
        terms: &mut Terms<'_>,
        hold: &mut Hold,
        mut timer: Pin<&mut Sleep>,
        sent: &mut (dyn FnMut(Timestamp) + Send),
    ) -> Result<(http::Response<Incoming>, Range<usize>), Driven> {
        let mut response = pin!(self.sender.send_request(request));
        // Informational answers may come before; together they get as much as one head.
        let head_max = terms.bytes.head.saturating_mul(2);
        let result = loop {
            let item = |cx: &mut Context<'_>| response.as_mut().poll(cx);
            match self.next(item, &mut terms.pace, timer.as_mut(), sent).await {
                Event::Item(result) => break result.map_err(Some),
                Event::Over => break Err(None),
                Event::Late(limit) => {
                    return Err(Driven::Broken(Fault::Timeout(limit.name().into())));
                }
                Event::Full => {
                    let room = self.tape.lock().room();
                    if room >= head_max {
                        return Err(Driven::Broken(too_large()));
                    }
                    let room = room.saturating_mul(2).min(head_max);
                    if !self.widen(room, terms, hold, timer.as_mut()).await {
                        return Err(Driven::Broken(Fault::Timeout("memory".into())));
                    }
                }
            }
        };
        let response = match result {
            Ok(response) => response,
            // Not a byte has left, so no one can have seen the request.
            Err(_) if !self.tape.lock().is_gate_open() => return Err(Driven::Stale),
            Err(error) => return Err(Driven::Broken(self.fault(error.as_ref()))),
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let why = "switches protocols, which was not asked for";
            return Err(Driven::Broken(Fault::BadHttp(why.into())));
        }
        let head = HeadScan::default().find(&self.tape.lock().received);
        let unclear = || Driven::Broken(Fault::BadHttp("the end of its head is unclear".into()));
        Ok((response, head.ok_or_else(unclear)?))
    }

    /// Takes the body; why it is not the whole, if it is not.
    async fn take_body(
        &mut self,
        mut body: Incoming,
        extent: Extent,
        terms: &mut Terms<'_>,
        hold: &mut Hold,
        mut timer: Pin<&mut Sleep>,
    ) -> Option<Truncated> {
        let Extent { whole, wire_max, share } = extent;
        // One byte more than is kept shows that there was more.
        let room_max = wire_max.saturating_add(1);
        let mut frames = 0_usize;
        loop {
            // A body in tiny chunks is a lot of work for few bytes: others have their turn too.
            frames += 1;
            if frames.is_multiple_of(FRAMES_A_TURN) {
                tokio::task::yield_now().await;
                if limits::is_crumbled(frames, self.tape.lock().len()) {
                    return Some(Truncated::Length);
                }
            }
            let item = |cx: &mut Context<'_>| Pin::new(&mut body).poll_frame(cx);
            match self.next(item, &mut terms.pace, timer.as_mut(), &mut |_| ()).await {
                // The tape has the bytes; hyper's copy only tells where the message ends.
                Event::Item(Some(Ok(_))) => {}
                Event::Item(None) => return None,
                Event::Item(Some(Err(_))) => {
                    let gone = self.tape.lock().ended.is_some();
                    return Some(if gone { Truncated::Disconnect } else { Truncated::Unspecified });
                }
                Event::Over => return Some(Truncated::Disconnect),
                Event::Late(_) => return Some(Truncated::Time),
                Event::Full => {
                    let (room, came) = {
                        let tape = self.tape.lock();
                        (tape.room(), tape.len())
                    };
                    if came >= room_max {
                        return Some(Truncated::Length);
                    }
                    let start = share.start(hold);
                    if self.overflow.is_some() || room >= start {
                        let window = share.window.min(room_max - came);
                        match self.spill(window, terms, hold, timer.as_mut()).await {
                            Ok(()) => continue,
                            Err(why) => return Some(why),
                        }
                    }
                    let grown = room_after(room, whole).min(room_max).min(start);
                    if !self.widen(grown, terms, hold, timer.as_mut()).await {
                        return Some(Truncated::Time);
                    }
                }
            }
        }
    }

    /// Takes what came off the tape: the first time it is the start of the answer, which stays in
    /// memory, then window after window, which do not.
    async fn spill(
        &mut self,
        room: usize,
        terms: &mut Terms<'_>,
        hold: &mut Hold,
        timer: Pin<&mut Sleep>,
    ) -> Result<(), Truncated> {
        let before = Instant::now();
        let empty = match &mut self.overflow {
            None => {
                let start = self.tape.lock().len();
                if !hold.grow_to(start + room, terms.pace.patience(before)).await {
                    return Err(Truncated::Time);
                }
                let start = self.tape.lock().change(Vec::new(), room);
                self.overflow = Some(Overflow::new(terms.spool, start));
                Vec::new()
            }
            Some(overflow) => {
                let window = self.tape.lock().change(Vec::new(), room);
                overflow.write(window).await.ok_or(Truncated::Unspecified)?
            }
        };
        let mut tape = self.tape.lock();
        tape.received = empty;
        let (received, last_read) = tape.progress();
        terms.pace.resume(Instant::now(), received);
        timer.reset(terms.pace.next_look(last_read));
        Ok(())
    }

    /// Makes room for more, once there is memory for it.
    async fn widen(
        &mut self,
        room: usize,
        terms: &mut Terms<'_>,
        hold: &mut Hold,
        timer: Pin<&mut Sleep>,
    ) -> bool {
        let before = Instant::now();
        if !hold.grow_to(room, terms.pace.patience(before)).await {
            return false;
        }
        let mut tape = self.tape.lock();
        let now = Instant::now();
        if now > before {
            let (received, last_read) = tape.progress();
            terms.pace.resume(now, received);
            timer.reset(terms.pace.next_look(last_read));
        }
        tape.widen(room);
        true
    }

    /// After a whole answer: lets hyper look once whether anything follows it, and says where on
    /// the tape the answer ends.
    async fn settle(&mut self) -> usize {
        poll_fn(|cx| {
            self.drive(cx);
            Poll::Ready(())
        })
        .await;
        let tape = self.tape.lock();
        tape.len() - tape.unread() - self.left_over
    }

    async fn next<T>(
        &mut self,
        mut item: impl FnMut(&mut Context<'_>) -> Poll<T>,
        pace: &mut Pace<'_>,
        mut timer: Pin<&mut Sleep>,
        sent: &mut (dyn FnMut(Timestamp) + Send),
    ) -> Event<T> {
        poll_fn(|cx| self.poll_next(cx, &mut item, pace, timer.as_mut(), sent)).await
    }

    fn poll_next<T>(
        &mut self,
        cx: &mut Context<'_>,
        item: &mut dyn FnMut(&mut Context<'_>) -> Poll<T>,
        pace: &mut Pace<'_>,
        mut timer: Pin<&mut Sleep>,
        sent: &mut (dyn FnMut(Timestamp) + Send),
    ) -> Poll<Event<T>> {
        loop {
            self.drive(cx);
            if let Poll::Ready(item) = item(cx) {
                return Poll::Ready(Event::Item(item));
            }
            if self.driver.is_none() {
                return Poll::Ready(Event::Over);
            }
            let mut tape = self.tape.lock();
            if tape.open_gate() {
                continue;
            }
            if tape.has_passed() {
                // The time is taken when all of it has left: if we are put aside before, the next
                // request to this address waits the longer.
                sent(self.clock.now());
            }
            if tape.is_full() {
                return Poll::Ready(Event::Full);
            }
            let (received, last_read) = tape.progress();
            drop(tape);
            if let Some(first) = last_read
                && pace.is_waiting()
            {
                pace.begin_reading(first);
                timer.as_mut().reset(pace.next_look(last_read));
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if let Err(limit) = pace.judge(Instant::now(), received, last_read) {
                return Poll::Ready(Event::Late(limit));
            }
            timer.as_mut().reset(pace.next_look(last_read));
        }
    }

    /// Lets hyper do what it can. An error of it reaches whoever waits for the answer or body.
    fn drive(&mut self, cx: &mut Context<'_>) {
        let Some(driver) = &mut self.driver else { return };
        if driver.poll_without_shutdown(cx).is_ready() {
            let driver = self.driver.take().expect("it was just polled");
            self.left_over = driver.into_parts().read_buf.len();
        }
    }

    /// Why no answer came.
    fn fault(&self, error: Option<&hyper::Error>) -> Fault {
        let tape = self.tape.lock();
        match (error, tape.ended) {
            // hyper tells these apart in its words alone.
            (Some(error), _) if error.to_string().contains("too large") => too_large(),
            (Some(error), _) if error.is_parse() => Fault::BadHttp(with_cause(error).into()),
            (_, Some(Ending::Broken(kind))) => Fault::Reset(kind.to_string().into()),
            (_, Some(Ending::Closed)) if tape.received.is_empty() => {
                Fault::Reset("closed without an answer".into())
            }
            (_, Some(Ending::Closed)) => Fault::Reset("closed in the middle of the head".into()),
            (Some(error), None) => Fault::Reset(with_cause(error).into()),
            (None, None) => Fault::Reset("closed".into()),
        }
    }
}

/// How much room comes after `room`, for an answer that is `whole` bytes long, if that is known.
pub(crate) fn room_after(room: usize, whole: Option<usize>) -> usize {
    match whole.filter(|&whole| whole > room) {
        Some(whole) => whole.min(room + GROWTH_BYTES_MAX),
        None => room + room.min(GROWTH_BYTES_MAX),
    }
}

pub(crate) fn too_large() -> Fault {
    Fault::BadHttp("its head is larger than fetch.header_bytes_max, or has too many fields".into())
}

fn with_cause(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
