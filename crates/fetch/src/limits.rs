//! When has a server had time enough, and bytes enough?
//!
//! Four clocks run over an exchange: first byte, silence, rate and total. [`Pace`] is told what
//! came when, and says at which moment somebody must look again and which limit is then reached.
//! It never asks for the time itself, so that its rules are tested without waiting.
//!
//! Not here: the connect limit, which is one timeout around one call (`connect`).

use std::time::Duration;

use ports::Purpose;
use tokio::time::Instant;

use crate::settings::{FetchSettings, NetworkSettings};

/// The limits in time.
#[derive(Debug, Clone)]
pub(crate) struct TimeLimits {
    pub(crate) connect: Duration,
    first_byte: Duration,
    idle: Duration,
    total: Duration,
    total_large: Duration,
    /// Fewest bytes in a window; zero takes any rate.
    window_bytes_min: usize,
    window: Duration,
}

/// The limits in bytes.
#[derive(Debug, Clone)]
pub(crate) struct ByteLimits {
    pub(crate) head: usize,
    /// Fields of a head, for whoever does not count them himself.
    pub(crate) fields: usize,
    held: usize,
    html: usize,
    stored: usize,
    pdf: usize,
    robots: usize,
}

/// How much of one answer is kept and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyLimits {
    /// Bytes of the body as they came.
    pub(crate) wire: usize,
    /// Those that are held in memory. Nothing else can be read.
    pub(crate) held: usize,
    /// Bytes after decoding.
    pub(crate) decoded: usize,
}

/// A robots.txt is read to one byte beyond its limit, to see that there is more: a rule that is cut
/// in two is no rule. On the wire it may take several times that: a chunk of one byte takes six.
const ROBOTS_FRAMING: usize = 8;
const ROBOTS_SLACK: usize = 4 << 10;

/// Pieces that any body may come in, chunks or frames, however small they are.
const PIECES_FREE: usize = 128 << 10;
/// Bytes that each further piece must have, on average.
const PIECE_BYTES_MIN: usize = 32;

/// Whether a body comes in so many and so small pieces that it costs far more than its bytes: each of
/// them goes through hyper and our hands alone, whatever its size.
pub(crate) const fn is_crumbled(pieces: usize, bytes: usize) -> bool {
    pieces > PIECES_FREE + bytes / PIECE_BYTES_MIN
}

impl TimeLimits {
    pub(crate) fn new(settings: &NetworkSettings) -> Self {
        // A window without length would never be over.
        let window = settings.rate_window.get().max(Duration::from_millis(1));
        let bytes = settings.rate_min.0 as f64 * window.as_secs_f64();
        Self {
            connect: settings.timeout_connect.get(),
            first_byte: settings.timeout_first_byte.get(),
            idle: settings.timeout_idle.get(),
            total: settings.timeout_total.get(),
            total_large: settings.timeout_total_large.get(),
            window_bytes_min: bytes as usize,
            window,
        }
    }
}

impl ByteLimits {
    pub(crate) fn new(settings: &FetchSettings, robots_bytes_max: usize) -> Self {
        Self {
            head: settings.header_bytes_max.as_len().max(1024),
            fields: settings.headers_max,
            held: settings.held_bytes_max.as_len(),
            html: settings.html_bytes_max.as_len(),
            stored: settings.stored_bytes_max.as_len(),
            pdf: settings.pdf_bytes_max.as_len(),
            robots: robots_bytes_max,
        }
    }

    /// What may be taken of an answer of this type. Only HTML has a limit of its own for reading: a
    /// document of another kind is useless in part.
    pub(crate) fn of(&self, purpose: Purpose, media_type: &str) -> BodyLimits {
        let held = self.held;
        match (purpose, media_type) {
            (Purpose::Robots, _) => {
                let wire = self.robots.saturating_mul(ROBOTS_FRAMING).saturating_add(ROBOTS_SLACK);
                BodyLimits { wire, held: wire, decoded: self.robots.saturating_add(1) }
            }
            (Purpose::Page, "application/pdf") => {
                BodyLimits { wire: self.pdf, held, decoded: self.pdf }
            }
            // All that may be read of a page is held, whatever the setting says.
            (Purpose::Page, "" | "text/html" | "application/xhtml+xml") => {
                BodyLimits { wire: self.stored, held: held.max(self.html), decoded: self.html }
            }
            (Purpose::Page, _) => BodyLimits { wire: self.stored, held, decoded: self.stored },
        }
    }
}

/// Whether documents of this type are large by nature and get the longer time.
fn is_large(media_type: &str) -> bool {
    let text = media_type.is_empty()
        || media_type.starts_with("text/")
        || media_type.ends_with("xml")
        || media_type.ends_with("json")
        || media_type.ends_with("javascript");
    !text
}

/// A limit in time that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Connect,
    FirstByte,
    Idle,
    Rate,
    Total,
}

impl Limit {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::FirstByte => "first byte",
            Self::Idle => "idle",
            Self::Rate => "rate",
            Self::Total => "total",
        }
    }
}

/// The clocks of one exchange.
#[derive(Debug)]
pub(crate) struct Pace<'a> {
    limits: &'a TimeLimits,
    started: Instant,
    total: Duration,
    /// When we began to wait for the first byte.
    asked: Instant,
    /// Start of the rate window, and what had come before; none until the first byte.
    window: Option<(Instant, usize)>,
    /// When we last went on reading after a pause of our own.
    resumed: Instant,
}

impl<'a> Pace<'a> {
    /// `started` is when the visit began, `asked` when the request was ready to leave.
    pub(crate) fn new(limits: &'a TimeLimits, started: Instant, asked: Instant) -> Self {
        Self { limits, started, total: limits.total, asked, window: None, resumed: asked }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.window.is_none()
    }

    /// The first byte came: silence and rate are measured from now on.
    pub(crate) fn begin_reading(&mut self, now: Instant) {
        self.window = Some((now, 0));
    }

    /// The head is there: the type decides the total time.
    pub(crate) fn allow_for(&mut self, media_type: &str) {
        if is_large(media_type) {
            self.total = self.limits.total_large;
        }
    }

    /// The moment at which the whole visit is over.
    pub(crate) fn deadline(&self) -> Instant {
        self.started + self.total
    }

    /// How long a body may wait for memory from now on: as long as we would wait for the server,
    /// and not beyond the end of the visit.
    pub(crate) fn patience(&self, now: Instant) -> Instant {
        self.deadline().min(now + self.limits.idle)
    }

    /// A time in which we did not read by our own choice counts neither as silence nor as a
    /// slow rate.
    pub(crate) fn resume(&mut self, now: Instant, received: usize) {
        self.window = Some((now, received));
        self.resumed = now;
    }

    /// Until when nobody needs to look, given when something last came.
    pub(crate) fn next_look(&self, last_read: Option<Instant>) -> Instant {
        let phase = match self.window {
            Some((start, _)) => self.silence_end(last_read).min(start + self.limits.window),
            None => self.asked + self.limits.first_byte,
        };
        phase.min(self.deadline())
    }

    /// Which limit is reached at `now`, if one is.
    pub(crate) fn judge(
        &mut self,
        now: Instant,
        received: usize,
        last_read: Option<Instant>,
    ) -> Result<(), Limit> {
        if now >= self.deadline() {
            return Err(Limit::Total);
        }
        let Some((start, before)) = self.window else {
            let late = now >= self.asked + self.limits.first_byte;
            return if late { Err(Limit::FirstByte) } else { Ok(()) };
        };
        if now >= self.silence_end(last_read) {
            return Err(Limit::Idle);
        }
        if now >= start + self.limits.window {
            if received - before < self.limits.window_bytes_min {
                return Err(Limit::Rate);
            }
            self.window = Some((now, received));
        }
        Ok(())
    }

    fn silence_end(&self, last_read: Option<Instant>) -> Instant {
        last_read.map_or(self.resumed, |last| last.max(self.resumed)) + self.limits.idle
    }
}

#[cfg(test)]
mod tests {
    use types::{ByteRate, ByteSize, HumanDuration};

    use super::*;

    fn limits() -> TimeLimits {
        TimeLimits::new(&NetworkSettings {
            timeout_first_byte: HumanDuration::from_secs(20),
            timeout_idle: HumanDuration::from_secs(15),
            timeout_total: HumanDuration::from_secs(60),
            timeout_total_large: HumanDuration::from_secs(300),
            rate_min: ByteRate(100),
            rate_window: HumanDuration::from_secs(10),
            ..NetworkSettings::default()
        })
    }

    /// Lets `secs` pass second by second; a byte count in `comes` arrives at that second.
    fn run(media_type: &str, comes: impl Fn(u64) -> usize) -> (u64, Option<Limit>) {
        let limits = limits();
        let start = Instant::now();
        let mut pace = Pace::new(&limits, start, start);
        pace.allow_for(media_type);
        let (mut received, mut last_read) = (0, None);
        for sec in 0..1_000 {
            let now = start + Duration::from_secs(sec);
            let bytes = comes(sec);
            if bytes > 0 {
                if received == 0 {
                    pace.begin_reading(now);
                }
                received += bytes;
                last_read = Some(now);
            }
            // Whoever waits until the next look misses nothing.
            if now >= pace.next_look(last_read)
                && let Err(limit) = pace.judge(now, received, last_read)
            {
                return (sec, Some(limit));
            }
        }
        (1_000, None)
    }

    #[test]
    fn each_limit_is_reached_at_its_own_moment() {
        assert_eq!(run("text/html", |_| 0), (20, Some(Limit::FirstByte)));
        assert_eq!(run("text/html", |sec| 2_000 * usize::from(sec == 3)), (18, Some(Limit::Idle)));
        assert_eq!(run("text/html", |_| 1_000), (60, Some(Limit::Total)));
        assert_eq!(run("application/pdf", |_| 1_000), (300, Some(Limit::Total)));
    }

    #[test]
    fn a_drip_below_the_least_rate_is_cut_after_one_window() {
        assert_eq!(run("text/html", |_| 50), (10, Some(Limit::Rate)));
        assert_eq!(run("text/html", |sec| if sec < 25 { 1_000 } else { 1 }).1, Some(Limit::Rate));
        // A burst, a pause, a burst: 100 bytes a second over each window is enough.
        assert_eq!(run("text/html", |sec| 1_500 * usize::from(sec % 9 == 0)).1, Some(Limit::Total));
    }

    #[test]
    fn a_pause_of_our_own_is_not_the_servers_fault() {
        let limits = limits();
        let start = Instant::now();
        let at = |secs| start + Duration::from_secs(secs);
        let mut pace = Pace::new(&limits, start, start);
        pace.begin_reading(at(1));
        assert_eq!(pace.judge(at(1), 500, Some(at(1))), Ok(()));
        assert_eq!(pace.patience(at(2)), at(17));
        pace.resume(at(17), 500);
        assert_eq!(pace.judge(at(17), 500, Some(at(1))), Ok(()));
        assert_eq!(pace.next_look(Some(at(1))), at(27));
        assert_eq!(pace.judge(at(27), 500, Some(at(1))), Err(Limit::Rate));
        assert_eq!(pace.patience(at(50)), at(60));
    }

    #[test]
    fn each_kind_has_its_own_limits_in_bytes() {
        let settings = FetchSettings::default();
        let limits = ByteLimits::new(&settings, 500 << 10);
        let mib = |n| ByteSize::mib(n).as_len();
        let page = |media_type| {
            let limits = limits.of(Purpose::Page, media_type);
            (limits.wire, limits.decoded)
        };
        assert_eq!(page("text/html"), (mib(15), mib(2)));
        assert_eq!(page(""), (mib(15), mib(2)));
        assert_eq!(page("application/pdf"), (mib(64), mib(64)));
        assert_eq!(page("application/xml"), (mib(15), mib(15)));
        let robots = limits.of(Purpose::Robots, "text/html");
        assert_eq!((robots.wire, robots.decoded), (4_004 << 10, (500 << 10) + 1));
        for small in ["", "text/html", "text/plain", "application/rss+xml", "application/json"] {
            assert!(!is_large(small), "{small}");
        }
        for large in ["application/pdf", "image/png", "application/zip", "application/msword"] {
            assert!(is_large(large), "{large}");
        }
    }
}
