//! Which moment does a date mean, in whatever form it is written?
//!
//! Sitemaps ask for W3C dates, feeds for RFC 822 ones, and people write what they like. Three
//! shapes cover nearly all: numbers that begin with a year (`2024-1-5T10:00Z`, `20240105`), a count
//! of seconds since 1970, and words with the name of a month (RFC 822, RFC 850, asctime,
//! JavaScript). A date that could mean two days (`05/01/2024`) is none.
//!
//! The text that comes out: a valid W3C date as it was; any other rewritten as one, with its own
//! precision and its own zone. A time without a zone is taken for UTC.
//!
//! Not here: what now is; a date in the future is a date.

use std::fmt::Write as _;

/// A date as it was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// ISO 8601: `2024`, `2024-01`, `2024-01-05`, `2024-01-05T10:00:00Z`, `…+02:00`.
    pub text: String,
    /// Seconds since 1970 in UTC, of the first moment that it may mean.
    pub seconds: i64,
}

/// Zero dates of databases (year 0, year 1) mean "never"; nothing on the web is older than this.
const YEARS: std::ops::RangeInclusive<i64> = 1900..=2999;

/// Longest text that is looked at.
const BYTES_MAX: usize = 100;

/// Reads a date in any common form.
pub fn parse(text: &str) -> Option<Moment> {
    let text = text.trim();
    if text.is_empty() || text.len() > BYTES_MAX || !text.is_ascii() {
        return None;
    }
    digits(text).or_else(|| year_first(text)).or_else(|| words(text))?.moment(text)
}

#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    year: i64,
    month: Option<i64>,
    day: Option<i64>,
    time: Option<Time>,
    /// Minutes east of Greenwich.
    zone: Option<i64>,
    /// The text is a W3C date already.
    is_w3c: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Time {
    hour: i64,
    minute: i64,
    second: Option<i64>,
}

impl Parts {
    fn moment(self, written: &str) -> Option<Moment> {
        let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
        let time = self.time.unwrap_or_default();
        let second = time.second.unwrap_or(0);
        let valid = YEARS.contains(&self.year)
            && (1..=12).contains(&month)
            && (1..=days_in(self.year, month)).contains(&day)
            && (0..24).contains(&time.hour)
            && (0..60).contains(&time.minute)
            // A leap second is written as 60.
            && (0..=60).contains(&second)
            && self.zone.is_none_or(|zone| zone.abs() <= 14 * 60);
        if !valid {
            return None;
        }
        let seconds = days_before(self.year, month, day) * 86_400
            + time.hour * 3_600
            + time.minute * 60
            + second.min(59)
            - self.zone.unwrap_or(0) * 60;
        let text = if self.is_w3c { written.to_owned() } else { self.text() };
        Some(Moment { text, seconds })
    }

    fn text(&self) -> String {
        let mut text = format!("{:04}", self.year);
        for part in [self.month, self.day].into_iter().flatten() {
            let _ = write!(text, "-{part:02}");
        }
        let Some(time) = self.time else { return text };
        let second = time.second.unwrap_or(0);
        let _ = write!(text, "T{:02}:{:02}:{second:02}", time.hour, time.minute);
        match self.zone.unwrap_or(0) {
            0 => text.push('Z'),
            zone => {
                let sign = if zone < 0 { '-' } else { '+' };
                let _ = write!(text, "{sign}{:02}:{:02}", zone.abs() / 60, zone.abs() % 60);
            }
        }
        text
    }

    fn from_seconds(seconds: i64) -> Self {
        let (year, month, day) = date_of(seconds.div_euclid(86_400));
        let rest = seconds.rem_euclid(86_400);
        let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, Some(rest % 60));
        let time = Some(Time { hour, minute, second });
        Self { year, month: Some(month), day: Some(day), time, zone: Some(0), is_w3c: false }
    }
}

/// Nothing but digits: by how many there are.
fn digits(text: &str) -> Option<Parts> {
    // `1704448800.25`, as some languages print their clock.
    let whole = text.split_once('.').map_or(text, |(whole, part)| match number(part) {
        Some(_) if whole.len() >= 9 => whole,
        _ => text,
    });
    let value = number(whole)?;
    let calendar = |digits: i64| Parts {
        year: digits / 10_000,
        month: Some(digits / 100 % 100),
        day: Some(digits % 100),
        ..Parts::default()
    };
    match whole.len() {
        4 => Some(Parts { year: value, is_w3c: true, ..Parts::default() }),
        6 => Some(Parts { year: value / 100, month: Some(value % 100), ..Parts::default() }),
        8 => Some(calendar(value)),
        12 => {
            let time = Time { hour: value / 100 % 100, minute: value % 100, second: None };
            Some(Parts { time: Some(time), ..calendar(value / 10_000) })
        }
        14 => {
            let (hour, minute) = (value / 10_000 % 100, value / 100 % 100);
            let time = Time { hour, minute, second: Some(value % 100) };
            Some(Parts { time: Some(time), ..calendar(value / 1_000_000) })
        }
        9 | 10 => Some(Parts::from_seconds(value)),
        13 => Some(Parts::from_seconds(value / 1_000)),
        _ => None,
    }
}

/// `2024-01-05T10:00:00.25+02:00` and all that looks like it.
fn year_first(text: &str) -> Option<Parts> {
    let (date, rest) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some(text[at + 1..].trim_start())),
        None => (text, None),
    };
    let mut parts = if date.len() == 8 && number(date).is_some() {
        digits(date)?
    } else {
        let mut pieces = date.split(['-', '/', '.']);
        let year = pieces.next().filter(|year| year.len() == 4).and_then(number)?;
        let month = Some(pieces.next().and_then(number)?);
        let day = match pieces.next() {
            Some(day) => Some(number(day)?),
            None => None,
        };
        if pieces.next().is_some() {
            return None;
        }
        Parts { year, month, day, ..Parts::default() }
    };
    if let Some(rest) = rest {
        let (time, zone) = time(rest)?;
        parts.day?;
        (parts.time, parts.zone) = (Some(time), zone);
    }
    parts.is_w3c = is_w3c(text);
    Some(parts)
}

/// `10:00`, `10:00:00.25`, `101112`, each with am or pm and a zone or without.
fn time(text: &str) -> Option<(Time, Option<i64>)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && !".:,".contains(c));
    let (clock, rest) = text.split_at(end.unwrap_or(text.len()));
    let mut time = clock_time(clock)?;
    let mut rest = rest.trim_start();
    for (word, afternoon) in [("am", false), ("pm", true), ("a.m.", false), ("p.m.", true)] {
        let Some(start) = rest.get(..word.len()) else { continue };
        if start.eq_ignore_ascii_case(word) {
            time.hour = time.hour % 12 + if afternoon { 12 } else { 0 };
            rest = rest[word.len()..].trim_start();
            break;
        }
    }
    let zone = match rest {
        "" => None,
        rest => Some(zone(rest)?),
    };
    Some((time, zone))
}

fn clock_time(clock: &str) -> Option<Time> {
    if !clock.contains(':') {
        // `101112` of the basic form.
        let value = number(clock)?;
        return match clock.len() {
            4 => Some(Time { hour: value / 100, minute: value % 100, second: None }),
            6 => {
                let (hour, minute) = (value / 10_000, value / 100 % 100);
                Some(Time { hour, minute, second: Some(value % 100) })
            }
            _ => None,
        };
    }
    let mut pieces = clock.split(':');
    let (hour, minute) = (number(pieces.next()?)?, number(pieces.next()?)?);
    let second = match pieces.next() {
        Some(second) => {
            let (whole, fraction) = second.split_once(['.', ',']).unwrap_or((second, "0"));
            number(fraction)?;
            Some(number(whole)?)
        }
        None => None,
    };
    pieces.next().is_none().then_some(Time { hour, minute, second })
}

/// Minutes east of Greenwich; what stands in brackets behind says the same again.
fn zone(text: &str) -> Option<i64> {
    let text = text.split(['(', '[']).next().unwrap_or(text).trim();
    if let Some(at) = text.find(['+', '-']) {
        let (name, offset) = text.split_at(at);
        if !["", "gmt", "utc", "z"].contains(&name.trim().to_ascii_lowercase().as_str()) {
            return None;
        }
        let sign = if offset.starts_with('-') { -1 } else { 1 };
        let digits = &offset[1..];
        let (hours, minutes) = match digits.split_once(':') {
            Some((hours, minutes)) => (number(hours)?, number(minutes)?),
            None if digits.len() > 2 => (number(digits)? / 100, number(digits)? % 100),
            None => (number(digits)?, 0),
        };
        return (minutes < 60).then_some(sign * (hours * 60 + minutes));
    }
    // The names of RFC 822, and what is common beside them.
    #[rustfmt::skip]
    const NAMES: [(&str, i64); 23] = [
        ("z", 0), ("ut", 0), ("utc", 0), ("gmt", 0), ("wet", 0), ("bst", 60), ("west", 60),
        ("cet", 60), ("met", 60), ("cest", 120), ("mest", 120), ("eet", 120), ("eest", 180),
        ("msk", 180), ("jst", 540), ("est", -300), ("edt", -240), ("cst", -360), ("cdt", -300),
        ("mst", -420), ("mdt", -360), ("pst", -480), ("pdt", -420),
    ];
    let found = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, minutes)| *minutes)
}

/// A date with the name of a month, in any order that leaves no doubt; or `31.12.2024`.
fn words(text: &str) -> Option<Parts> {
    let mut parts = Parts::default();
    let mut numbers = Vec::new();
    let mut rest = text;
    let mut has_month = false;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_whitespace() || c == ',').unwrap_or(rest.len());
        let word = &rest[..end];
        let behind = rest[end..].trim_start_matches(|c: char| c.is_ascii_whitespace() || c == ',');
        if word.contains(':') && word.starts_with(|c: char| c.is_ascii_digit()) {
            // All behind the clock is its zone, but asctime has the year there.
            let (clock, year) = asctime_year(rest);
            let (time, zone) = time(&clock)?;
            (parts.time, parts.zone) = (Some(time), zone);
            numbers.extend(year);
            break;
        }
        for piece in word.split(['-', '/', '.']).filter(|piece| !piece.is_empty()) {
            if let Some(value) = number(piece.trim_end_matches(|c: char| c.is_ascii_alphabetic())) {
                numbers.push(value);
            } else if let Some(month) = month(piece) {
                (parts.month, has_month) = (Some(month), true);
            } else if !is_filler(piece) {
                return None;
            }
        }
        rest = behind;
    }
    match (has_month, &numbers[..]) {
        // A day has two digits at most; whichever number has more is the year.
        (true, &[day, year]) if year > 31 || day <= 31 => {
            (parts.day, parts.year) = (Some(day), full_year(year));
        }
        (true, &[year, day]) if year > 31 => (parts.day, parts.year) = (Some(day), year),
        (true, &[year]) if year > 31 && parts.time.is_none() => parts.year = year,
        (false, &[one, other, year]) if year >= 1_000 => {
            let dotted = text.contains('.');
            let (day, month) = match (one, other) {
                _ if dotted => (one, other),
                (13.., _) => (one, other),
                (_, 13..) => (other, one),
                _ if one == other => (one, other),
                _ => return None,
            };
            (parts.day, parts.month, parts.year) = (Some(day), Some(month), year);
        }
        _ => return None,
    }
    Some(parts)
}

/// `10:11:12 2024` and `10:11:12 CET 2024`: the clock with its zone, and the year.
fn asctime_year(text: &str) -> (String, Option<i64>) {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let year = words
        .iter()
        .skip(1)
        .position(|word| word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(at) = year else { return (text.to_owned(), None) };
    let others = words.iter().enumerate().filter(|(n, _)| *n != at + 1).map(|(_, word)| *word);
    (others.collect::<Vec<_>>().join(" "), number(words[at + 1]))
}

fn month(word: &str) -> Option<i64> {
    #[rustfmt::skip]
    const MONTHS: [&str; 12] = [
        "january", "february", "march", "april", "may", "june", "july", "august", "september",
        "october", "november", "december",
    ];
    let word = word.to_ascii_lowercase();
    if word.len() < 3 {
        return None;
    }
    let at = MONTHS
        .iter()
        .position(|month| month.starts_with(&word) || word == "sept" && *month == "september");
    at.and_then(|at| i64::try_from(at + 1).ok())
}

fn is_filler(word: &str) -> bool {
    const DAYS: [&str; 7] =
        ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let word = word.to_ascii_lowercase();
    word == "at" || word == "of" || word.len() >= 3 && DAYS.iter().any(|day| day.starts_with(&word))
}

/// Two digits as RFC 2822 reads them.
fn full_year(year: i64) -> i64 {
    match year {
        0..50 => 2_000 + year,
        50..100 => 1_900 + year,
        year => year,
    }
}

/// Digits and nothing else.
fn number(text: &str) -> Option<i64> {
    let plain = !text.is_empty() && text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Whether this is a W3C date to the letter, as far as its shape goes.
fn is_w3c(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let Some((date, time)) = shape.split_once('T') else {
        return shape == "0000-00" || shape == "0000-00-00";
    };
    let (clock, zone) = match time.find(['Z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => return false,
    };
    let fraction = clock.strip_prefix("00:00:00.");
    let is_clock = clock == "00:00"
        || clock == "00:00:00"
        || fraction.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b == b'0'));
    date == "0000-00-00" && is_clock && (zone == "Z" || zone == "+00:00" || zone == "-00:00")
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to this date, counted from 1 March of year 0 so that a leap day is last.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (month * 153 + 2) / 5
        + day
        - 1
        - 719_468
}

/// The date so many days after 1970-01-01: the other way round.
fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(written: &str, text: &str) {
        let found = parse(written).unwrap_or_else(|| panic!("{written} is no date"));
        assert_eq!(found.text, text, "{written}");
        // What comes out is a date that means the same, and comes out again as it is.
        assert_eq!(parse(text), Some(found), "{text} again");
    }

    #[test]
    fn a_w3c_date_comes_out_as_it_went_in() {
        for text in [
            "2024",
            "2024-01",
            "2024-01-05",
            "2024-01-05T10:11Z",
            "2024-01-05T10:11:12Z",
            "2024-01-05T10:11:12+00:00",
            "2024-01-05T10:11:12.250+02:00",
            "2024-02-29",
        ] {
            check(text, text);
        }
        check(" 2024-01-05\n", "2024-01-05");
    }

    #[test]
    fn what_is_nearly_one_becomes_one() {
        check("2024-1-5", "2024-01-05");
        check("2024/01/05", "2024-01-05");
        check("2024.1.5", "2024-01-05");
        check("20240105", "2024-01-05");
        check("2024-01-05T10:11:12", "2024-01-05T10:11:12Z");
        check("2024-01-05 10:11:12", "2024-01-05T10:11:12Z");
        check("2024-01-05 10:11:12 +0200", "2024-01-05T10:11:12+02:00");
        check("2024-01-05t10:11:12z", "2024-01-05T10:11:12Z");
        check("2024-01-05T10:11:12-0530", "2024-01-05T10:11:12-05:30");
        check("2024-01-05T10:11:12+02", "2024-01-05T10:11:12+02:00");
        check("2024-01-05 10:11:12 UTC", "2024-01-05T10:11:12Z");
        check("2024-01-05 3:11 PM", "2024-01-05T15:11:00Z");
        check("20240105T101112Z", "2024-01-05T10:11:12Z");
        check("20240105101112", "2024-01-05T10:11:12Z");
        check("1704449472", "2024-01-05T10:11:12Z");
        check("1704449472000", "2024-01-05T10:11:12Z");
        check("1704449472.25", "2024-01-05T10:11:12Z");
    }

    #[test]
    fn names_of_months_are_known() {
        check("Fri, 05 Jan 2024 10:11:12 GMT", "2024-01-05T10:11:12Z");
        check("Fri, 5 Jan 2024 10:11:12 +0200", "2024-01-05T10:11:12+02:00");
        check("5 Jan 24 10:11 EST", "2024-01-05T10:11:00-05:00");
        check("Friday, 05-Jan-24 10:11:12 GMT", "2024-01-05T10:11:12Z");
        check("Fri Jan  5 10:11:12 2024", "2024-01-05T10:11:12Z");
        check("Fri Jan 05 10:11:12 CET 2024", "2024-01-05T10:11:12+01:00");
        check("Fri Jan 05 2024 10:11:12 GMT+0100 (CET)", "2024-01-05T10:11:12+01:00");
        check("January 5, 2024", "2024-01-05");
        check("Sept 5th, 2024 at 3:04 pm", "2024-09-05T15:04:00Z");
        check("5 January 2024", "2024-01-05");
        check("2024 Jan 5", "2024-01-05");
        check("31.12.2024", "2024-12-31");
        check("5.1.2024", "2024-01-05");
        check("12/31/2024", "2024-12-31");
        check("31/12/2024 10:00", "2024-12-31T10:00:00Z");
        check("May 2024", "2024-05");
    }

    #[test]
    fn nonsense_zero_dates_and_doubtful_ones_are_no_dates() {
        for text in [
            "",
            "now",
            "0000-00-00",
            "0000-00-00 00:00:00",
            "0001-01-01T00:00:00",
            "-0001-11-30",
            "2024-13-01",
            "2023-02-29",
            "2024-01-32",
            "2024-01-05T25:00:00Z",
            "2024-01-05Tx",
            "2024-01-05T10:11:12+99:00",
            "01/05/2024",
            "5",
            "123456789012345678901234567890",
            "2024-01-05T10:11:12 nowhere",
            "Fri",
            "Jan",
            "yesterday",
            "2024-01-05-07",
            "１２３４",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn seconds_are_those_of_the_calendar() {
        let seconds = |text| parse(text).unwrap().seconds;
        assert_eq!(seconds("1970-01-01"), 0);
        assert_eq!(seconds("2000-02-29T00:00:00Z"), 951_782_400);
        assert_eq!(seconds("2024-01-05T10:11:12Z"), 1_704_449_472);
        assert_eq!(seconds("2024-01-05T12:11:12+02:00"), 1_704_449_472);
        assert_eq!(seconds("1969-12-31T23:59:59Z"), -1);
        for days in (-25_000..25_000).step_by(97) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_before(year, month, day), days);
        }
    }
}
