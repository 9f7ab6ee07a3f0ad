//! Which day, or moment, does a text name?
//!
//! ISO 8601 and its neighbours, the dates of mail and HTTP, and days as people write them in
//! English: `May 1, 2024`, `1st May 2024`. What comes out is ISO 8601: a day, or a moment with the
//! zone it was given with. Days like `3/4/2024`, which two countries read differently, are refused.

/// The date in a text that is one, or that begins with one.
pub(crate) fn parse(text: &str) -> Option<String> {
    let text = text.trim();
    numeric(text).or_else(|| worded(text))
}

/// The first date that stands within a short text, such as a byline.
pub(crate) fn find(text: &str) -> Option<String> {
    let mut rest = text;
    // A byline is short; this bounds the look at one that is not.
    for _ in 0..40 {
        if let Some(date) = parse(rest).filter(|date| date.len() >= 10) {
            return Some(date);
        }
        let next = rest.find(|c: char| c.is_whitespace() || matches!(c, '(' | '|' | '•' | ':'))?;
        let step = rest[next..].chars().next().map_or(1, char::len_utf8);
        rest = rest[next + step..].trim_start();
        if rest.is_empty() {
            return None;
        }
    }
    None
}

/// `2024-05-01T12:00:00+02:00`, `2024/5/1`, `20240501`.
fn numeric(text: &str) -> Option<String> {
    let (year, rest) = digits(text, 4, 4)?;
    let (month, day, rest) = match rest.bytes().next() {
        Some(separator @ (b'-' | b'/' | b'.')) => {
            let (month, rest) = digits(&rest[1..], 1, 2)?;
            let rest = rest.strip_prefix(separator as char)?;
            let (day, rest) = digits(rest, 1, 2)?;
            (month, day, rest)
        }
        Some(b'0'..=b'9') => {
            let (month, rest) = digits(rest, 2, 2)?;
            let (day, rest) = digits(rest, 2, 2)?;
            (month, day, rest)
        }
        _ => return None,
    };
    let date = day_of(year, month, day)?;
    let rest = rest.strip_prefix(['T', 't']).unwrap_or(rest.trim_start());
    Some(with_time(date, rest))
}

/// `Wed, 1 May 2024 12:00:00 GMT`, `May 1st, 2024`, `1 May 2024`.
fn worded(text: &str) -> Option<String> {
    let mut numbers: Vec<u32> = Vec::new();
    let mut month = None;
    let mut rest = text;
    for _ in 0..5 {
        rest = rest.trim_start_matches([' ', ',', '.', '-', '/', '\u{a0}']);
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            let (number, behind) = digits(rest, 1, 4)?;
            rest = ["st", "nd", "rd", "th"]
                .iter()
                .find_map(|suffix| behind.strip_prefix(suffix))
                .unwrap_or(behind);
            numbers.push(number);
        } else {
            let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            let word = &rest[..end];
            if let Some(found) = month_of(word).filter(|_| month.is_none()) {
                month = Some(found);
            } else if !(word.eq_ignore_ascii_case("of") || is_weekday(word) && numbers.is_empty()) {
                return None;
            }
            rest = &rest[end..];
        }
        if let (Some(month), [one, other]) = (month, numbers.as_slice()) {
            let (day, year) = (*one.min(other), *one.max(other));
            return Some(with_time(day_of(year, month, day)?, rest.trim_start_matches([' ', ','])));
        }
    }
    None
}

fn digits(text: &str, min: usize, max: usize) -> Option<(u32, &str)> {
    let count = text.bytes().take_while(u8::is_ascii_digit).take(max).count();
    if count < min {
        return None;
    }
    Some((text[..count].parse().ok()?, &text[count..]))
}

/// A day that exists, in the time of the web and of what is on it.
fn day_of(year: u32, month: u32, day: u32) -> Option<String> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    ((1900..2100).contains(&year) && (1..=days).contains(&day))
        .then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// Adds the time of day, if one follows and makes sense.
fn with_time(date: String, rest: &str) -> String {
    match time(rest) {
        Some(time) => format!("{date}T{time}"),
        None => date,
    }
}

fn time(text: &str) -> Option<String> {
    let (hour, rest) = digits(text, 2, 2)?;
    let (minute, mut rest) = digits(rest.strip_prefix(':')?, 2, 2)?;
    let mut second = 0;
    if let Some((found, behind)) = rest.strip_prefix(':').and_then(|rest| digits(rest, 2, 2)) {
        second = found;
        rest = behind;
    }
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    if hour > 23
        || minute > 59
        || second > 60
        || rest.trim_start().starts_with(['a', 'p', 'A', 'P'])
    {
        return None;
    }
    let zone = zone(rest.trim_start()).unwrap_or_default();
    Some(format!("{hour:02}:{minute:02}:{second:02}{zone}"))
}

fn zone(text: &str) -> Option<String> {
    if text.starts_with(['Z', 'z']) || text.starts_with("GMT") || text.starts_with("UTC") {
        return Some("Z".to_owned());
    }
    let sign = text.chars().next().filter(|sign| matches!(sign, '+' | '-'))?;
    let (hours, rest) = digits(&text[1..], 2, 2)?;
    let (minutes, _) = digits(rest.strip_prefix(':').unwrap_or(rest), 2, 2).unwrap_or((0, ""));
    (hours < 15 && minutes < 60).then(|| format!("{sign}{hours:02}:{minutes:02}"))
}

fn month_of(word: &str) -> Option<u32> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let word = word.to_ascii_lowercase();
    let word = if word == "sept" { "sep" } else { word.as_str() };
    if word.len() < 3 {
        return None;
    }
    let place = MONTHS
        .iter()
        .position(|month| *month == word || word.len() == 3 && month.starts_with(word))?;
    Some(place as u32 + 1)
}

fn is_weekday(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["mon", "tue", "wed", "thu", "fri", "sat", "sun"].iter().any(|day| word.starts_with(day))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_as_pages_write_them_become_iso() {
        for (text, expected) in [
            ("2024-05-01", "2024-05-01"),
            ("2024-05-01T12:30:00Z", "2024-05-01T12:30:00Z"),
            ("2024-05-01T12:30:00.123+0200", "2024-05-01T12:30:00+02:00"),
            ("2024-05-01 12:30", "2024-05-01T12:30:00"),
            ("2024/5/1", "2024-05-01"),
            ("20240501", "2024-05-01"),
            ("Wed, 01 May 2024 12:30:00 GMT", "2024-05-01T12:30:00Z"),
            ("May 1st, 2024", "2024-05-01"),
            ("1 Sept. 2024", "2024-09-01"),
            ("Wednesday, May 1, 2024 at noon", "2024-05-01"),
        ] {
            assert_eq!(parse(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_day_is_refused() {
        for text in
            ["", "yesterday", "3/4/2024", "2024-13-01", "2023-02-29", "1 2 3", "May 2024", "12"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_date_is_found_in_a_byline() {
        assert_eq!(find("Published: May 1, 2024 by Ann").as_deref(), Some("2024-05-01"));
        assert_eq!(find("By Ann | 2 min read"), None);
        find(&"x ".repeat(100_000));
    }
}
