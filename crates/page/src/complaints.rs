//! What was wrong with an input that was read all the same?
//!
//! A sitemap can have fifty thousand bad dates. The first complaints are kept, the others counted.

/// Complaints that are kept: enough to see what is wrong, too few to fill a log.
const KEPT_MAX: usize = 100;

/// Characters of the input that a complaint quotes.
const QUOTED_CHARS_MAX: usize = 80;

#[derive(Debug, Default)]
pub(crate) struct Complaints {
    kept: Vec<String>,
    more: usize,
}

impl Complaints {
    pub fn add(&mut self, what: String) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(what);
        } else {
            self.more += 1;
        }
    }

    pub fn into_texts(self) -> Vec<String> {
        let Self { mut kept, more } = self;
        if more > 0 {
            kept.push(format!("and {more} more"));
        }
        kept
    }
}

/// A piece of the input, as a complaint shows it.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_complaints_are_counted() {
        let mut complaints = Complaints::default();
        for n in 0..KEPT_MAX + 7 {
            complaints.add(n.to_string());
        }
        let texts = complaints.into_texts();
        assert_eq!((texts.len(), texts.last().unwrap().as_str()), (KEPT_MAX + 1, "and 7 more"));
    }

    #[test]
    fn a_quote_ends_between_two_characters() {
        assert_eq!(quoted("ä"), "`ä`");
        assert_eq!(quoted(&"ä".repeat(99)), format!("`{}…`", "ä".repeat(QUOTED_CHARS_MAX)));
    }
}
