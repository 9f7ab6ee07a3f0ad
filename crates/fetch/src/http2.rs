//! How does one request become one answer over HTTP/2?
//!
//! One request at a time, as over HTTP/1.1: politeness leaves nothing to share a connection for.
//! h2's connection is polled by the visit that uses it, so what holds there holds here: a visit
//! that is dropped closes its connection, one that waits costs nothing, and between any two
//! frames the visit decides whether to go on.
//!
//! Frames and compressed fields cannot be kept as they came and be read by anyone in twenty years.
//! Request and answer are written down in the shape of HTTP/1.1, fields in the order they came,
//! the body without frames; the archive says so (`WARC-Protocol: h2`).
//!
//! Always: the request is written at most once. A connection that has closed or gone away
//! (GOAWAY) before is found out before anything is sent; a server that refuses a request after it
//! was sent is asked again by a later visit, not by this one.
//!
//! Not here: who speaks HTTP/2 at all (`connect`).

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::uri::{Authority, Scheme};
use http::{Request, StatusCode, Uri, Version};
use http_body_util::Empty;
use ports::{Clock, Protocol};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_rustls::client::TlsStream;
use types::outcome::Truncated;
use types::{Fault, Timestamp};

use crate::budget::Hold;
use crate::exchange::{
    Answer, Driven, Event, Extent, FRAMES_A_TURN, Recorded, Terms, room_after, too_large,
};
use crate::head;
use crate::limits::{self, Pace};
use crate::meter::{Meter, Metered, SharedMeter};
use crate::overflow::{Overflow, Share};
use crate::record::Ending;

/// How much a server may send ahead of us. More than we have memory for is not read off the
/// socket, so a large window costs nothing and spares round trips.
const WINDOW_BYTES: u32 = 1 << 20;
/// What may come unasked on a connection that waits: settings, a ping, a farewell.
const UNASKED_BYTES_MAX: usize = 16 << 10;
/// Beyond the room for a body: the frames around it.
const FRAMING_BYTES: usize = 64;
/// Most bytes between two looks at what came. Frames may be tiny, and h2 keeps a note of each.
const READ_BYTES_MAX: usize = 64 << 10;
/// What those notes may cost, as h2 counts it (256 bytes a frame, less what is in it): enough for
/// whatever can come between two looks, in frames of one byte.
const NOTES_BYTES_MAX: usize = 4 << 20;

/// An open connection and all that h2 knows of it.
pub(crate) struct Connection {
    sender: SendRequest<Bytes>,
    /// Gone once h2 has nothing more to do.
    driver: Option<h2::client::Connection<Metered, Bytes>>,
    meter: SharedMeter,
    clock: Arc<dyn Clock>,
    record: Recorded,
    /// It has served before.
    reused: bool,
    wants_http1: bool,
    pub(crate) tls: Option<&'static str>,
}

/// Whether we did not read for a while, for reasons of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    None,
    /// For memory or for the disk.
    Ours,
}

impl Connection {
    pub(crate) async fn new(
        stream: Box<TlsStream<TcpStream>>,
        tls: Option<&'static str>,
        head_bytes_max: usize,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, Fault> {
        let meter = SharedMeter::new(Meter::new(Arc::clone(clock)));
        let (sender, driver) = Builder::new()
            .enable_push(false)
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .data_frame_budget(NOTES_BYTES_MAX)
            .max_header_list_size(u32::try_from(head_bytes_max).unwrap_or(u32::MAX))
            .handshake(Metered::new(stream, meter.clone()))
            .await
            .map_err(|error| Fault::Reset(error.to_string().into()))?;
        Ok(Self {
            sender,
            driver: Some(driver),
            meter,
            clock: Arc::clone(clock),
            record: Recorded::default(),
            reused: false,
            wants_http1: false,
            tls,
        })
    }

    /// Whether this host is better asked in HTTP/1.1 from now on: it says so, or its HTTP/2 is
    /// broken.
    pub(crate) fn wants_http1(&self) -> bool {
        self.wants_http1
    }

    /// Sends the request and takes the answer, as far as the terms go.
    pub(crate) async fn exchange(
        &mut self,
        request: Request<Empty<Bytes>>,
        terms: &mut Terms<'_>,
        hold: &mut Hold,
        sent: &mut (dyn FnMut(Timestamp) + Send),
    ) -> Driven {
        self.record = Recorded::default();
        self.meter.lock().begin();
        let mut timer = pin!(sleep_until(terms.pace.next_look(None)));
        if self.reused && !self.is_alive(timer.as_mut()).await {
            return Driven::Stale;
        }
        self.reused = true;
        let Some((message, written)) = shaped(request) else {
            return Driven::Broken(Fault::Ours("its URL makes no request".into()));
        };
        let Ok((response, _)) = self.sender.send_request(message, true) else {
            // It has gone away since.
            return Driven::Stale;
        };
        self.meter.lock().request();
        let response = self.take_head(response, terms, hold, timer.as_mut(), sent).await;
        if self.meter.lock().is_untold() {
            // It broke on its way out; some of it may have arrived.
            sent(self.clock.now());
        }
        if self.meter.lock().has_begun() {
            self.record.sent = written;
        }
        match response {
            Ok((status, fields, body)) => {
                self.answer(status, &fields, body, terms, hold, timer).await
            }
            Err(driven) => driven,
        }
    }

    /// What was recorded; the connection may serve again afterwards.
    pub(crate) fn take_record(&mut self) -> Recorded {
        self.record.last_read_at = self.meter.lock().last_read_at;
        std::mem::take(&mut self.record)
    }

    /// Takes the body behind a head.
    async fn answer(
        &mut self,
        status: StatusCode,
        fields: &http::HeaderMap,
        body: RecvStream,
        terms: &mut Terms<'_>,
        hold: &mut Hold,
        timer: Pin<&mut Sleep>,
    ) -> Driven {
        let media_type = fields.get(CONTENT_TYPE);
        let media_type =
            media_type.map_or(String::new(), |value| head::media_type(value.as_bytes()));
        terms.pace.allow_for(&media_type);
        let limits = terms.bytes.of(terms.purpose, &media_type);
        if fields.len() > terms.bytes.fields {
            return Driven::Broken(too_large());
        }
        head::write(&mut self.record.received, status, fields);
        let head_end = self.record.received.len();
        // Fields that were sent before take a byte on the wire and many here.
        if !hold.grow_to(head_end, terms.pace.patience(Instant::now())).await {
            return Driven::Broken(Fault::Timeout("memory".into()));
        }
        let wire_max = head_end.saturating_add(limits.wire);
        let length = fields.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let whole = length.map(|length: usize| head_end.saturating_add(length));
        let share = Share::new(head_end.saturating_add(limits.held), hold);
        let extent = Extent { whole, wire_max, share };
        let truncated = self.take_body(body, extent, terms, hold, timer).await;
        let end = self.record.bytes().min(wire_max);
        // A request that reached the wrong server: another connection may lead to the right one.
        self.wants_http1 |= status == StatusCode::MISDIRECTED_REQUEST;
        let again = self.driver.is_some() && truncated.is_none() && !self.wants_http1;
        Driven::Answered(Answer {
            status,
            protocol: Protocol::Http2,
            head: 0..head_end,
            end,
            chunked: false,
            limits,
            truncated,
            reusable: again.then_some(None),
        })
    }

    async fn take_head(
        &mut self,
        mut response: ResponseFuture,
        terms: &mut Terms<'_>,
        hold: &mut Hold,
        mut timer: Pin<&mut Sleep>,
        sent: &mut (dyn FnMut(Timestamp) + Send),
    ) -> Result<(StatusCode, http::HeaderMap, RecvStream), Driven> {
        // Settings and informational answers may come before; all get as much as one head.
        let head_max = terms.bytes.head.saturating_mul(2);
        let mut room = hold.bytes().min(head_max);
        self.meter.lock().allow(room);
        loop {
            let item = |cx: &mut Context<'_>| Pin::new(&mut response).poll(cx);
            match self.next(item, &mut terms.pace, timer.as_mut(), sent).await {
                Event::Item(Ok(response)) => {
                    let (parts, body) = response.into_parts();
                    // Silence and rate are measured from here: what came before may have been
                    // settings, long before anybody had an answer.
                    let (received, at) = {
                        let meter = self.meter.lock();
                        (meter.received, meter.last_read_at)
                    };
                    terms.pace.resume(Instant::now(), received);
                    self.record.first_byte_at = at;
                    return Ok((parts.status, parts.headers, body));
                }
                Event::Item(Err(error)) => return Err(self.broken(&error)),
                Event::Over if !self.meter.lock().has_begun() => return Err(Driven::Stale),
                Event::Over => return Err(Driven::Broken(Fault::Reset("closed".into()))),
                Event::Late(limit) => {
                    return Err(Driven::Broken(Fault::Timeout(limit.name().into())));
                }
                Event::Full if room >= head_max => return Err(Driven::Broken(too_large())),
                Event::Full => {
                    let more = room.min(head_max - room);
                    if !hold.grow_to(room + more, terms.pace.patience(Instant::now())).await {
                        return Err(Driven::Broken(Fault::Timeout("memory".into())));
                    }
                    room += more;
                    self.meter.lock().allow(more);
                }
            }
        }
    }

    /// Takes the body; why it is not the whole, if it is not.
    async fn take_body(
        &mut self,
        mut body: RecvStream,
        extent: Extent,
        terms: &mut Terms<'_>,
        hold: &mut Hold,
        mut timer: Pin<&mut Sleep>,
    ) -> Option<Truncated> {
        // One byte more than is kept shows that there was more.
        let room_max = extent.wire_max.saturating_add(1);
        let mut frames = 0_usize;
        timer.as_mut().reset(terms.pace.next_look(self.meter.lock().last_read));
        loop {
            // Frames without a byte are a lot of work for nothing: others have their turn, and
            // the clocks are looked at, whatever else there is to do.
            frames += 1;
            if frames.is_multiple_of(FRAMES_A_TURN) {
                tokio::task::yield_now().await;
                let (received, last_read) = self.progress();
                if terms.pace.judge(Instant::now(), received, last_read).is_err() {
                    return Some(Truncated::Time);
                }
                if limits::is_crumbled(frames, received) {
                    return Some(Truncated::Length);
                }
            }
            let left = hold.bytes().saturating_sub(self.record.received.len());
            self.meter.lock().allow((left + FRAMING_BYTES).min(READ_BYTES_MAX));
            let item = |cx: &mut Context<'_>| body.poll_data(cx);
            let data = match self.next(item, &mut terms.pace, timer.as_mut(), &mut |_| ()).await {
                Event::Item(Some(Ok(data))) => data,
                Event::Item(None) => return None,
                Event::Item(Some(Err(error))) => {
                    self.broken(&error);
                    let gone = self.meter.lock().ended.is_some() || error.is_remote();
                    return Some(if gone { Truncated::Disconnect } else { Truncated::Unspecified });
                }
                Event::Over => return Some(Truncated::Disconnect),
                Event::Late(_) => return Some(Truncated::Time),
                // What was allowed for one look is used up.
                Event::Full => continue,
            };
            let take = data.len().min(room_max.saturating_sub(self.record.bytes()));
            match self.keep(&data[..take], &extent, terms, hold).await {
                Ok(Pause::None) => {}
                Ok(Pause::Ours) => {
                    let (received, last_read) = self.progress();
                    terms.pace.resume(Instant::now(), received);
                    timer.as_mut().reset(terms.pace.next_look(last_read));
                }
                Err(why) => return Some(why),
            }
            if self.record.bytes() > extent.wire_max {
                return Some(Truncated::Length);
            }
            // An error means that the stream is over, which the next look tells.
            let _ = body.flow_control().release_capacity(data.len());
        }
    }

    /// Puts bytes of the body to the others, in memory or beyond it.
    async fn keep(
        &mut self,
        mut data: &[u8],
        extent: &Extent,
        terms: &Terms<'_>,
        hold: &mut Hold,
    ) -> Result<Pause, Truncated> {
        let window = extent.share.window;
        let mut pause = Pause::None;
        while !data.is_empty() {
            let record = &mut self.record;
            let room = match record.overflow {
                Some(_) => window,
                // What was taken is not given back, also where it has become crowded meanwhile.
                None => extent.share.start(hold).max(record.received.len()),
            };
            let fits = data.len().min(room.saturating_sub(record.received.len()));
            let want = record.received.len() + fits;
            if record.overflow.is_none() && hold.bytes() < want {
                let mut grown = hold.bytes();
                while grown < want {
                    grown = room_after(grown, extent.whole).min(room);
                }
                if !hold.grow_to(grown, terms.pace.patience(Instant::now())).await {
                    return Err(Truncated::Time);
                }
                pause = Pause::Ours;
            }
            // All of the room at once: it was granted for this, and it grows in large steps.
            let granted = if record.overflow.is_some() { window } else { hold.bytes().min(room) };
            record.received.reserve_exact(granted.saturating_sub(record.received.len()));
            record.received.extend_from_slice(&data[..fits]);
            data = &data[fits..];
            if data.is_empty() {
                break;
            }
            pause = Pause::Ours;
            let full = std::mem::take(&mut record.received);
            match &mut record.overflow {
                None => {
                    let held = full.len() + window;
                    if !hold.grow_to(held, terms.pace.patience(Instant::now())).await {
                        record.received = full;
                        return Err(Truncated::Time);
                    }
                    record.overflow = Some(Overflow::new(terms.spool, full));
                }
                Some(overflow) => {
                    record.received = overflow.write(full).await.ok_or(Truncated::Unspecified)?;
                }
            }
        }
        Ok(pause)
    }

    fn progress(&self) -> (usize, Option<Instant>) {
        let meter = self.meter.lock();
        (meter.received, meter.last_read)
    }

    /// Whether a connection that has waited can still be used: h2 reads what has come meanwhile,
    /// until there is nothing more, not even in the kernel.
    async fn is_alive(&mut self, mut timer: Pin<&mut Sleep>) -> bool {
        self.meter.lock().allow(UNASKED_BYTES_MAX);
        poll_fn(|cx| {
            self.drive(cx);
            if self.driver.is_none() || self.meter.lock().is_full() {
                return Poll::Ready(false);
            }
            if self.meter.lock().is_quiet() {
                return Poll::Ready(true);
            }
            timer.as_mut().poll(cx).map(|()| false)
        })
        .await
            && poll_fn(|cx| self.sender.poll_ready(cx)).await.is_ok()
    }

    async fn next<T>(
        &mut self,
        mut item: impl FnMut(&mut Context<'_>) -> Poll<T>,
        pace: &mut Pace<'_>,
        mut timer: Pin<&mut Sleep>,
        sent: &mut (dyn FnMut(Timestamp) + Send),
    ) -> Event<T> {
        poll_fn(|cx| {
            loop {
                self.drive(cx);
                if self.meter.lock().has_left() {
                    sent(self.clock.now());
                }
                if let Poll::Ready(item) = item(cx) {
                    return Poll::Ready(Event::Item(item));
                }
                if self.driver.is_none() {
                    return Poll::Ready(Event::Over);
                }
                if self.meter.lock().is_full() {
                    return Poll::Ready(Event::Full);
                }
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                let (received, last_read) = self.progress();
                if let Err(limit) = pace.judge(Instant::now(), received, last_read) {
                    return Poll::Ready(Event::Late(limit));
                }
                timer.as_mut().reset(pace.next_look(last_read));
            }
        })
        .await
    }

    /// Lets h2 do what it can. An error of it reaches whoever waits for the answer or body.
    fn drive(&mut self, cx: &mut Context<'_>) {
        let Some(driver) = &mut self.driver else { return };
        if Pin::new(driver).poll(cx).is_ready() {
            self.driver = None;
        }
    }

    /// Why no answer came.
    fn broken(&mut self, error: &h2::Error) -> Driven {
        let meter = self.meter.lock();
        if !meter.has_begun() {
            return Driven::Stale;
        }
        // We could not make sense of it, or it does not want to be spoken to so: HTTP/1.1 may do.
        let ours = error.is_library() && !error.is_io();
        self.wants_http1 |= ours || error.reason() == Some(Reason::HTTP_1_1_REQUIRED);
        Driven::Broken(match (error.get_io(), meter.ended) {
            (_, Some(Ending::Broken(kind))) => Fault::Reset(kind.to_string().into()),
            (Some(error), _) => Fault::Reset(error.kind().to_string().into()),
            (None, _) if ours => Fault::BadHttp(format!("HTTP/2: {error}").into()),
            (None, _) => Fault::Reset(format!("HTTP/2: {error}").into()),
        })
    }
}

/// The request as h2 takes it, and as it is written down.
fn shaped(request: Request<Empty<Bytes>>) -> Option<(Request<()>, Vec<u8>)> {
    let (mut parts, _) = request.into_parts();
    let mut written = Vec::with_capacity(512);
    head::write_request(&mut written, &parts);
    let authority = parts.headers.remove(HOST)?;
    let mut uri = parts.uri.into_parts();
    uri.scheme = Some(Scheme::HTTPS);
    uri.authority = Some(Authority::try_from(authority.as_bytes()).ok()?);
    parts.uri = Uri::from_parts(uri).ok()?;
    parts.version = Version::HTTP_2;
    Some((Request::from_parts(parts, ()), written))
}
