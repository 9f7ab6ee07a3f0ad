//! What is a moment, and how does a person write a duration?
//!
//! A [`Timestamp`] counts microseconds since 1970 in UTC. Finer than milliseconds on purpose: a
//! pause of one second must not shrink to 0.9995 s by rounding. Nothing here asks a clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A moment: microseconds since 1970-01-01T00:00:00Z.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Timestamp(pub u64);

impl Timestamp {
    pub const ZERO: Self = Self(0);
    /// Later than everything; used for "never".
    pub const MAX: Self = Self(u64::MAX);

    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    pub const fn micros(self) -> u64 {
        self.0
    }

    pub const fn millis(self) -> u64 {
        self.0 / 1_000
    }

    pub const fn secs(self) -> u64 {
        self.0 / 1_000_000
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// `2026-11-15T20:19:00Z`, as WARC and logs write it.
    pub fn rfc3339(self) -> String {
        let c = Civil::of(self);
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
            c.year, c.month, c.day, c.hour, c.minute, c.second
        )
    }

    /// With milliseconds, for logs and journals.
    pub fn rfc3339_millis(self) -> String {
        let mut text = self.rfc3339();
        text.truncate(text.len() - 1);
        format!("{text}.{:03}Z", self.millis() % 1_000)
    }

    /// `20261115201900`, as CDX and file names write it.
    pub fn digits14(self) -> String {
        let c = Civil::of(self);
        format!(
            "{:04}{:02}{:02}{:02}{:02}{:02}",
            c.year, c.month, c.day, c.hour, c.minute, c.second
        )
    }

    /// An HTTP date (`Retry-After`, `Last-Modified`), in any of its three forms.
    pub fn from_http_date(text: &str) -> Option<Self> {
        let at = httpdate::parse_http_date(text.trim()).ok()?;
        Some(Self::from(at))
    }
}

impl From<SystemTime> for Timestamp {
    /// Moments before 1970 become 1970: nothing we date is older.
    fn from(at: SystemTime) -> Self {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

/// A calendar date and time of day in UTC.
struct Civil {
    year: i64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl Civil {
    /// Days to date by counting from 1 March of year 0, so that the leap day comes last.
    fn of(at: Timestamp) -> Self {
        let secs = at.secs();
        let days = i64::try_from(secs / 86_400).expect("u64 seconds / 86400 fits an i64");
        let rest = secs % 86_400;
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097).unsigned_abs();
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year =
            i64::try_from(year_of_era).expect("below 400") + era * 400 + i64::from(month <= 2);
        Self { year, month, day, hour: rest / 3_600, minute: rest / 60 % 60, second: rest % 60 }
    }
}

/// A duration as people write it: `500ms`, `1s`, `5m`, `24h`, `30d`, `1h30m`; a bare `0` too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HumanDuration(pub Duration);

impl HumanDuration {
    pub const fn from_secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    pub const fn get(self) -> Duration {
        self.0
    }
}

const DURATION_UNITS: [(&str, u64); 6] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

impl FromStr for HumanDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hint = || {
            format!(
                "`{text}` is not a duration: write a number with a unit, such as 500ms, 1s, 5m, 24h or 30d"
            )
        };
        let mut rest = text.trim();
        if rest == "0" {
            return Ok(Self::default());
        }
        let mut micros = 0_f64;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(hint)?;
            let number: f64 = rest[..digits].parse().map_err(|_| hint())?;
            rest = rest[digits..].trim_start();
            let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            let unit = &rest[..letters];
            let (_, size) =
                DURATION_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(hint)?;
            micros += number * *size as f64;
            rest = rest[letters..].trim_start();
        }
        if text.trim().is_empty() || micros > 1e18 {
            return Err(hint());
        }
        Ok(Self(Duration::from_micros(micros.round() as u64)))
    }
}

impl fmt::Display for HumanDuration {
    /// The largest unit that needs no fraction, so that what is printed reads back the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX);
        if micros == 0 {
            return f.write_str("0s");
        }
        let (unit, size) = DURATION_UNITS
            .iter()
            .rev()
            .find(|(_, size)| micros.is_multiple_of(*size))
            .expect("every number is a multiple of one microsecond");
        write!(f, "{}{unit}", micros / size)
    }
}

impl fmt::Debug for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for HumanDuration {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<HumanDuration> for String {
    fn from(span: HumanDuration) -> Self {
        span.to_string()
    }
}

impl JsonSchema for HumanDuration {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "duration".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "duration" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_reads_back_as_it_was_written() {
        for text in ["0s", "1us", "500ms", "1s", "90s", "5m", "24h", "30d", "1500ms"] {
            let span: HumanDuration = text.parse().unwrap();
            assert_eq!(span.to_string().parse::<HumanDuration>().unwrap(), span, "{text}");
        }
        assert_eq!("1h30m".parse::<HumanDuration>().unwrap().get(), Duration::from_secs(5_400));
        assert_eq!("1.5s".parse::<HumanDuration>().unwrap().get(), Duration::from_millis(1_500));
        assert_eq!("0".parse::<HumanDuration>().unwrap().get(), Duration::ZERO);
    }

    #[test]
    fn a_number_without_a_unit_is_refused_with_a_hint() {
        for text in ["", "5", "s", "1x", "-1s", "1 s x", "..s", "9999999999999999999d"] {
            let error = text.parse::<HumanDuration>().unwrap_err();
            assert!(error.contains("500ms"), "{text}: {error}");
        }
    }

    #[test]
    fn dates_come_out_right_around_leap_days_and_centuries() {
        let check = |secs: u64, want: &str| {
            assert_eq!(Timestamp::from_secs(secs).rfc3339(), want);
        };
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(951_868_799, "2000-02-29T23:59:59Z");
        check(951_868_800, "2000-03-01T00:00:00Z");
        check(4_107_542_400, "2100-03-01T00:00:00Z");
        check(1_794_774_000, "2026-11-15T20:20:00Z");
        assert_eq!(Timestamp::from_secs(1_794_774_000).digits14(), "20261115202000");
        assert_eq!(
            Timestamp::from_millis(1_794_774_000_042).rfc3339_millis(),
            "2026-11-15T20:20:00.042Z"
        );
    }

    #[test]
    fn an_http_date_is_understood_and_nonsense_is_not() {
        let at = Timestamp::from_http_date("Sun, 15 Nov 2026 20:20:00 GMT");
        assert_eq!(at, Some(Timestamp::from_secs(1_794_774_000)));
        assert_eq!(Timestamp::from_http_date("soon"), None);
    }
}
