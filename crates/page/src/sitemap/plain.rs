//! Is a text a list of URLs?
//!
//! One absolute URL a line. Lines that begin with `#` are comments, by habit if not by the protocol.

use std::borrow::Cow;

use url::Url;

use super::{ENTRIES_MAX, SitemapEntry, address};
use crate::complaints::{Complaints, quoted};
use crate::records::FIELD_BYTES_MAX;

/// Lines that are looked at before a text is taken for a list, or not.
const LINES_LOOKED_AT: usize = 100;

/// The entries, if most of its first lines are URLs; with a hint, if any of them is one.
pub(super) fn read(
    text: &str,
    hint: bool,
    complaints: &mut Complaints,
) -> Option<Vec<SitemapEntry>> {
    // A bare carriage return ends a line too; without any, as nearly always, nothing is copied.
    let text = match text.contains('\r') {
        true => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
        false => Cow::Borrowed(text),
    };
    let lines = || {
        let all = text.lines().map(str::trim).enumerate();
        all.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
    };
    let looked_at = lines().take(LINES_LOOKED_AT).count();
    let urls = lines().take(LINES_LOOKED_AT).filter(|(_, line)| url(line).is_some()).count();
    if urls == 0 || !hint && urls * 2 < looked_at {
        return None;
    }
    let mut entries = Vec::new();
    for (n, line) in lines() {
        if entries.len() == ENTRIES_MAX {
            complaints.add(format!("more than {ENTRIES_MAX} entries: the rest is not read"));
            break;
        }
        match url(line) {
            Some(loc) => entries.push(SitemapEntry::new(loc, None)),
            None => complaints.add(format!("line {}: {} is no URL", n + 1, quoted(line))),
        }
    }
    Some(entries)
}

pub(super) fn begins_with_url(text: &str) -> bool {
    let start = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    start.starts_with("http://") || start.starts_with("https://")
}

fn url(line: &str) -> Option<Url> {
    let plausible = line.len() <= FIELD_BYTES_MAX && begins_with_url(line);
    // A URL has no white space; a sentence that begins with one has.
    if plausible && !line.contains(char::is_whitespace) { address(line, None) } else { None }
}
