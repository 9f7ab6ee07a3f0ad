//! What does one line of a robots.txt say?
//!
//! A record: a key, a colon, a value. Whatever does not read as one of the five that we know is
//! skipped, so a file that is half rubbish still gives the records of its other half. Of a line
//! only the start counts, which bounds all that is made of it.
//!
//! Not here: what the records mean together (`parse`).

use std::borrow::Cow;

use memchr::{memchr, memchr2, memchr3, memrchr2};

/// Bytes of a line that count. Google's number: eight times the longest URL that browsers took
/// (2083), less one for its end mark.
pub const LINE_BYTES_MAX: usize = 2083 * 8 - 1;

/// The records of a file, in order.
pub(crate) struct Lines<'a> {
    rest: &'a [u8],
    line: u32,
}

/// A line that says something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    /// Its number in the file, from 1.
    pub(crate) line: u32,
    /// The line without comment and outer blanks.
    pub(crate) content: &'a [u8],
    pub(crate) key: Key,
    /// The end of `content`.
    pub(crate) value: &'a [u8],
}

impl<'a> Lines<'a> {
    pub(crate) fn of(text: &'a [u8]) -> Lines<'a> {
        Lines { rest: text, line: 0 }
    }

    /// The next line without its comment, ended by CR, LF or CRLF.
    fn next_line(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let found = memchr3(b'\r', b'\n', b'#', self.rest).unwrap_or(self.rest.len());
        let mut end = found;
        if self.rest.get(found) == Some(&b'#') {
            let comment = memchr2(b'\r', b'\n', &self.rest[found..]);
            end = comment.map_or(self.rest.len(), |at| found + at);
        }
        let (line, rest) = (&self.rest[..found], &self.rest[end..]);
        let mark = if rest.starts_with(b"\r\n") { 2 } else { rest.len().min(1) };
        self.rest = &rest[mark..];
        self.line += 1;
        Some(line)
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        loop {
            let content = content(self.next_line()?);
            if let Some((key, value)) = read_record(content) {
                return Some(Record { line: self.line, content, key, value });
            }
        }
    }
}

/// The five records that mean something to us.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key {
    UserAgent,
    Allow,
    Disallow,
    CrawlDelay,
    Sitemap,
}

impl Key {
    /// Whole keys only, in any case, with the typos that Google's parser knows. That one also
    /// takes a key by its start (`allowfoo`); to the RFC this is an unknown record, so to us.
    fn read(key: &[u8]) -> Option<Key> {
        const KEYS: [(&str, Key); 15] = [
            ("disallow", Key::Disallow),
            ("allow", Key::Allow),
            ("user-agent", Key::UserAgent),
            ("sitemap", Key::Sitemap),
            ("crawl-delay", Key::CrawlDelay),
            ("useragent", Key::UserAgent),
            ("user agent", Key::UserAgent),
            ("dissallow", Key::Disallow),
            ("dissalow", Key::Disallow),
            ("disalow", Key::Disallow),
            ("diasllow", Key::Disallow),
            ("disallaw", Key::Disallow),
            ("site-map", Key::Sitemap),
            ("crawldelay", Key::CrawlDelay),
            ("crawl delay", Key::CrawlDelay),
        ];
        let known = KEYS.iter().find(|(name, _)| key.eq_ignore_ascii_case(name.as_bytes()));
        known.map(|&(_, key)| key)
    }
}

/// `key: value`, or `key value` when a known key has lost its colon and the line has exactly two
/// words.
fn read_record(content: &[u8]) -> Option<(Key, &[u8])> {
    if let Some(colon) = colon(content)
        && let Some(key) = Key::read(trim(&content[..colon]))
    {
        return Some((key, trim(&content[colon + 1..])));
    }
    let (word, value) = content.split_at(memchr2(b' ', b'\t', content)?);
    let value = trim(value);
    let two_words = memchr2(b' ', b'\t', value).is_none();
    Key::read(word).filter(|_| two_words).map(|key| (key, value))
}

/// Where the first colon is. Known keys are short, so it is mostly found before a search has begun.
fn colon(content: &[u8]) -> Option<usize> {
    let near = content.iter().take(KEY_BYTES).position(|&byte| byte == b':');
    near.or_else(|| memchr(b':', content))
}

/// The longest key and its colon.
const KEY_BYTES: usize = 12;

/// The part of a line that counts: not too long, no blanks around it.
fn content(line: &[u8]) -> &[u8] {
    trim(&line[..line.len().min(LINE_BYTES_MAX)])
}

/// Without blanks and control bytes at either end; stray NULs would otherwise hide a rule.
fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [0..=b' ', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., 0..=b' '] = bytes {
        bytes = rest;
    }
    bytes
}

/// Drops the last line, which was cut, unless the cut lies behind the part of it that counts.
pub(crate) fn without_cut_line(text: &[u8]) -> &[u8] {
    let start = memrchr2(b'\r', b'\n', text).map_or(0, |end| end + 1);
    if text.len() - start >= LINE_BYTES_MAX { text } else { &text[..start] }
}

/// The byte order mark of UTF-8 may stand first, also broken off: `EF`, `EF BB`.
pub(crate) fn without_bom(bytes: &[u8]) -> &[u8] {
    let mark = bytes.iter().zip(b"\xEF\xBB\xBF").take_while(|(a, b)| a == b).count();
    &bytes[mark..]
}

/// The RFC wants UTF-8 and lets us bridge other encodings; UTF-16 is the one that says what it
/// is, and some editors of Windows write it.
pub(crate) fn bridge_utf16(bytes: &[u8]) -> Cow<'_, [u8]> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xFF, 0xFE, ..] => u16::from_le_bytes,
        [0xFE, 0xFF, ..] => u16::from_be_bytes,
        _ => return Cow::Borrowed(bytes),
    };
    let (pairs, _) = bytes[2..].as_chunks();
    let units = pairs.iter().map(|&pair| unit(pair));
    let text: String = char::decode_utf16(units).map(|c| c.unwrap_or('\u{FFFD}')).collect();
    Cow::Owned(text.into_bytes())
}
