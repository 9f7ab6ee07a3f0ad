//! How is a moment written in a record and in an index line?
//!
//! As whole seconds, UTC: `2026-11-05T08:30:00Z`, and `20261105083000` in CDXJ. WARC 1.1 allows
//! up to nine digits of fraction, and warcio, pywb and jwarc read them; but webarchive-commons,
//! on which OpenWayback and many Hadoop jobs stand, parses exactly fourteen digits and drops any
//! other date, and the index keys have whole seconds anyway. Nothing is lost by it: politeness
//! keeps two visits to one URL more than a second apart, and durations go to the metadata record.
//!
//! Always: what we write sorts as text in the order of time.

use std::fmt;

/// A moment of capture, in whole seconds from 1970 to the year 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WarcDate(u64);

/// 9999-12-31T23:59:59Z: later moments do not fit four digits of year.
const SECONDS_MAX: u64 = 253_402_300_799;
const DAY: u64 = 86_400;

impl WarcDate {
    /// Seconds since 1970; what lies outside four-digit years is clamped.
    #[must_use]
    pub fn from_unix_seconds(seconds: i64) -> Self {
        Self(u64::try_from(seconds).unwrap_or(0).min(SECONDS_MAX))
    }

    /// Seconds since 1970.
    #[must_use]
    pub fn unix_seconds(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }

    /// `YYYYMMDDhhmmss`, as index keys have it.
    #[must_use]
    pub fn digits14(self) -> String {
        let [year, month, day, hour, minute, second] = self.parts();
        format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
    }

    /// Reads a WARC-Date of any precision the standard allows (year, month, day, minute, second,
    /// or up to nine digits of fraction). The fraction is dropped.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (date, time) = match text.split_once('T') {
            Some((date, time)) => (date, Some(time)),
            None => (text, None),
        };
        let mut parts = date.split('-');
        let year = number(parts.next()?, 4)?;
        let month = parts.next().map_or(Some(1), |month| number(month, 2))?;
        let day = parts.next().map_or(Some(1), |day| number(day, 2))?;
        let (hour, minute, second) = match time {
            None => (0, 0, 0),
            Some(time) => clock(time)?,
        };
        let plausible = parts.next().is_none()
            && (1970..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second <= 60;
        let seconds = hour * 3600 + minute * 60 + second.min(59);
        plausible.then(|| Self(days_from_civil(year, month, day) * DAY + seconds))
    }

    fn parts(self) -> [u64; 6] {
        let (year, month, day) = civil_from_days(self.0 / DAY);
        let second = self.0 % DAY;
        [year, month, day, second / 3600, second / 60 % 60, second % 60]
    }
}

impl fmt::Display for WarcDate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [year, month, day, hour, minute, second] = self.parts();
        write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

fn clock(text: &str) -> Option<(u64, u64, u64)> {
    let text = text.strip_suffix('Z')?;
    let mut parts = text.split(':');
    let hour = number(parts.next()?, 2)?;
    let minute = number(parts.next()?, 2)?;
    let second = match parts.next() {
        None => 0,
        Some(second) => {
            let (whole, fraction) = second.split_once('.').unwrap_or((second, "0"));
            let digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
            if !digits || fraction.is_empty() || fraction.len() > 9 {
                return None;
            }
            number(whole, 2)?
        }
    };
    parts.next().is_none().then_some((hour, minute, second))
}

fn number(text: &str, digits: usize) -> Option<u64> {
    let all_digits = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits { text.parse().ok() } else { None }
}

fn days_in(year: u64, month: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

// Years are counted from March, so that the leap day is the last of its year; 719,468 days lie
// between 0000-03-01 and 1970-01-01, and 146,097 in a cycle of 400 years.

fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year_of_cycle = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let month = (month_from_march + 2) % 12 + 1;
    let year = cycle * 400 + year_of_cycle + u64::from(month <= 2);
    (year, month, day_of_year - (153 * month_from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_written_as_calendars_have_them() {
        for (seconds, iso) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_793_867_400, "2026-11-05T08:30:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(WarcDate::from_unix_seconds(seconds).to_string(), iso);
            assert_eq!(WarcDate::parse(iso), Some(WarcDate::from_unix_seconds(seconds)));
        }
        assert_eq!(WarcDate::from_unix_seconds(1_793_867_400).digits14(), "20261105083000");
        assert_eq!(WarcDate::from_unix_seconds(-1).to_string(), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn every_day_of_two_centuries_comes_back() {
        for day in 0..73_000 {
            let date = WarcDate::from_unix_seconds(day * 86_400 + 3_661);
            assert_eq!(WarcDate::parse(&date.to_string()), Some(date));
        }
    }

    #[test]
    fn every_precision_of_the_standard_is_read_and_nothing_else() {
        let second = WarcDate::parse("2016-01-11T23:24:25Z");
        assert!(second.is_some());
        assert_eq!(WarcDate::parse("2016-01-11T23:24:25.1Z"), second);
        assert_eq!(WarcDate::parse("2016-01-11T23:24:25.412030123Z"), second);
        for good in ["2016", "2016-01", "2016-01-11", "2016-01-11T23:24Z"] {
            assert!(WarcDate::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "16",
            "2016-13",
            "2016-02-30",
            "2016-01-11T23:24:25",
            "2016-01-11T23:24:25+01:00",
            "2016-01-11T23:24:25.Z",
            "2016-01-11T23:24:25.0123456789Z",
            "2016-01-11 23:24:25Z",
            "20160111232425",
            "2016-01-11T24:00:00Z",
        ] {
            assert_eq!(WarcDate::parse(bad), None, "{bad}");
        }
    }
}
