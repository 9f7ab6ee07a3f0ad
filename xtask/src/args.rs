//! What was typed after the chore's name?
//!
//! Options are taken out one by one; whatever is left at the end was a mistake, and
//! [`Args::end`] says so.

use std::collections::VecDeque;
use std::fmt;

#[derive(Debug)]
pub struct Args(VecDeque<String>);

/// A mistake of whoever typed the command.
#[derive(Debug)]
pub struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

pub fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

impl Args {
    pub fn new(words: impl Iterator<Item = String>) -> Self {
        Self(words.collect())
    }

    /// The next word that is not an option.
    pub fn word(&mut self) -> Option<String> {
        let at = self.0.iter().position(|word| !word.starts_with("--"))?;
        self.0.remove(at)
    }

    /// Whether this option is there.
    pub fn flag(&mut self, name: &str) -> bool {
        let at = self.0.iter().position(|word| word == name);
        at.is_some_and(|at| self.0.remove(at).is_some())
    }

    /// The number after this option, decimal or `0x…`.
    pub fn number(&mut self, name: &str) -> anyhow::Result<Option<u64>> {
        let Some(at) = self.0.iter().position(|word| word == name) else { return Ok(None) };
        self.0.remove(at);
        let text = self.0.remove(at).unwrap_or_default();
        match parse_number(&text) {
            Some(number) => Ok(Some(number)),
            None => Err(usage(format!("{name} wants a number, such as {name} 100"))),
        }
    }

    /// The word after this option.
    pub fn text(&mut self, name: &str) -> anyhow::Result<Option<String>> {
        let Some(at) = self.0.iter().position(|word| word == name) else { return Ok(None) };
        self.0.remove(at);
        match self.0.remove(at) {
            Some(text) => Ok(Some(text)),
            None => Err(usage(format!("{name} wants a word behind it"))),
        }
    }

    /// Nothing may be left.
    pub fn end(self) -> anyhow::Result<()> {
        match self.0.front() {
            Some(word) => Err(usage(format!("what is `{word}`?"))),
            None => Ok(()),
        }
    }
}

pub fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::new(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_and_words_may_come_in_any_order() {
        let mut args = args("--seeds 5 name --target robots --list --from 0x10");
        assert_eq!(args.text("--target").unwrap().as_deref(), Some("robots"));
        assert_eq!(args.number("--seeds").unwrap(), Some(5));
        assert_eq!(args.number("--from").unwrap(), Some(16));
        assert!(args.flag("--list") && !args.flag("--list"));
        assert_eq!(args.word().as_deref(), Some("name"));
        args.end().unwrap();
    }

    #[test]
    fn what_nobody_asked_for_is_a_mistake() {
        assert!(args("--sedes 5").end().unwrap_err().is::<Usage>());
        assert!(args("--seeds many").number("--seeds").unwrap_err().is::<Usage>());
        assert!(args("--seeds").number("--seeds").unwrap_err().is::<Usage>());
        assert!(args("--target").text("--target").unwrap_err().is::<Usage>());
    }
}
