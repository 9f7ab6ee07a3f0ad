//! `lycosa tool neardup`: of which earlier line is this one a copy?
//!
//! Prints are taken on all cores, judged in the order of the lines. The last [`ENTRIES_MAX`] texts
//! that differ are remembered; what is older is forgotten.

use std::io::{self, Read, Write};

use page::fingerprint::{Copy, NearIndex, Prints};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{Line, parallel, read_line, written};

/// Texts that are remembered. Ten million took 773 bytes each, so these are 1.6 GB or so.
const ENTRIES_MAX: usize = 1 << 21;

pub fn run() -> io::Result<()> {
    filter(io::stdin(), io::stdout().lock(), ENTRIES_MAX)
}

fn filter(input: impl Read + Send, output: impl Write, entries_max: usize) -> io::Result<()> {
    let mut seen = Seen { index: NearIndex::new(entries_max), ids: Vec::new(), entries_max };
    parallel::filter(input, output, prepare, |prepared, out| {
        let (id, prints) = prepared;
        let reply = match (&id, prints) {
            (Some(known), Ok(prints)) => Ok(seen.judge(known, &prints)),
            (None, Ok(_)) => Err("missing field `id`".to_owned()),
            (_, Err(error)) => Err(error),
        };
        out.write_all(&written(id, reply))
    })
}

#[derive(Deserialize)]
struct Ask {
    text: String,
}

#[derive(Serialize)]
struct Reply {
    duplicate_of: Option<Json>,
    kind: Option<&'static str>,
    distance: Option<u32>,
}

type Prepared = (Option<Json>, Result<Prints, String>);

fn prepare(line: &[u8]) -> Prepared {
    match read_line::<Ask>(line) {
        Ok(Line { id, ask }) => (id, Ok(Prints::of(&ask.text))),
        Err((id, error)) => (id, Err(error)),
    }
}

struct Seen {
    index: NearIndex,
    /// The ids of the texts in the index, by their number, round and round like those.
    ids: Vec<Json>,
    entries_max: usize,
}

impl Seen {
    fn judge(&mut self, id: &Json, prints: &Prints) -> Reply {
        let (copy, number) = self.index.judge(prints);
        let reply = match copy {
            Some(Copy { of, exact, distance }) => Reply {
                duplicate_of: Some(self.ids[of as usize % self.entries_max].clone()),
                kind: Some(if exact { "exact" } else { "near" }),
                distance: Some(distance),
            },
            None => Reply { duplicate_of: None, kind: None, distance: None },
        };
        match number.map(|number| number as usize % self.entries_max) {
            Some(slot) if slot < self.ids.len() => self.ids[slot] = id.clone(),
            Some(_) => self.ids.push(id.clone()),
            None => {}
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(input: &str, entries_max: usize) -> Vec<String> {
        let mut out = Vec::new();
        filter(input.as_bytes(), &mut out, entries_max).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_earliest_is_named_and_bad_lines_are_not_remembered() {
        let text = "the quick brown fox jumps over the lazy dog and runs far away into the woods";
        let input = format!(
            r#"{{"id":"a","text":"{text}"}}
               {{"id":2,"text":"{}"}}
               {{"text":"{text}"}}
               {{"id":3}}
               {{"id":4,"text":"{text} today"}}
               {{"id":5,"text":"nothing of the kind"}}"#,
            text.to_uppercase()
        );
        assert_eq!(
            filtered(&input, 100),
            [
                r#"{"id":"a","duplicate_of":null,"kind":null,"distance":null}"#,
                r#"{"id":2,"duplicate_of":"a","kind":"exact","distance":0}"#,
                r#"{"error":"missing field `id`"}"#,
                r#"{"id":3,"error":"missing field `text`"}"#,
                r#"{"id":4,"duplicate_of":"a","kind":"near","distance":6}"#,
                r#"{"id":5,"duplicate_of":null,"kind":null,"distance":null}"#,
            ]
        );
    }

    #[test]
    fn ids_are_forgotten_with_their_texts() {
        let line = |n: usize| format!("{{\"id\":{n},\"text\":\"{n}\"}}\n");
        let input: String = [0, 1, 2, 2, 1, 3, 0, 3].map(line).concat();
        let copies =
            filtered(&input, 2).iter().map(|line| line.contains("exact")).collect::<Vec<_>>();
        assert_eq!(copies, [false, false, false, true, true, false, false, true]);
    }
}
