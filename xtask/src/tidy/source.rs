//! What must a source file say, and what must it not?

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::Finding;
use crate::tidy::scrub::{self, Line};

/// A file beyond this is asked whether it is one thing or two.
const LINES_MAX: usize = 700;

/// Files that may be longer, each with its reason.
pub const LONG_FILES: &str = "xtask/long-files.txt";

/// Words that must not stand in code, and what to do instead.
const FORBIDDEN: &[(&str, &str)] = &[
    ("#[ignore", "a test that does not run; make it run, or take it out"),
    ("todo!(", "left open"),
    ("unimplemented!(", "left open"),
    ("#[allow(", "use #[expect(lint, reason = \"…\")]"),
    ("#![allow(", "use #![expect(lint, reason = \"…\")]"),
    ("unbounded_channel(", "a queue without a bound"),
    ("channel::unbounded(", "a queue without a bound"),
];

/// Words that need a comment on their line or right above, and what it must say.
const EXPLAINED: &[(&str, &str)] = &[
    (".ok();", "a result is dropped: say why beside it"),
    ("let _ =", "a result is dropped: say why beside it"),
    ("thread::sleep(", "work is scheduled, not slept for: say why beside it"),
];

pub fn check(path: &str, text: &str, long: &BTreeMap<String, String>) -> Vec<Finding> {
    let lines = scrub::lines(text);
    let mut findings = Vec::new();
    if path.contains("/src/") && !text.starts_with("//!") {
        let what = "begins without a head: say in `//!` which question the file answers";
        findings.push(Finding::new(path, 1, what));
    }
    let count = text.lines().count();
    if count > LINES_MAX && !long.contains_key(path) {
        let what = format!(
            "has {count} lines, more than {LINES_MAX}: one thing, or two? Split it, or give the \
             reason in {LONG_FILES}"
        );
        findings.push(Finding::new(path, 0, what));
    }
    let builds_text = text.contains("fmt::Write") && !text.contains("io::Write");
    for (n, line) in lines.iter().enumerate() {
        let mut find = |what: &str| findings.push(Finding::new(path, n + 1, what));
        for (word, what) in FORBIDDEN {
            if line.code.contains(word) {
                find(&format!("`{word}`: {what}"));
            }
        }
        if is_endless_channel(&line.code) {
            find("`channel()`: a queue without a bound");
        }
        for (word, what) in EXPLAINED {
            let harmless = is_kept(&lines, n, word) || builds_text && writes_text(&line.code);
            if line.code.contains(word) && !harmless && !is_explained(&lines, n) {
                find(&format!("`{word}`: {what}"));
            }
        }
    }
    findings
}

/// The standard library's channel has no bound; others take one as their argument.
fn is_endless_channel(code: &str) -> bool {
    let Some(at) = code.find("mpsc::channel") else { return false };
    let rest = &code[at + "mpsc::channel".len()..];
    let rest = match rest.strip_prefix("::<") {
        Some(generic) => generic.split_once(">(").map_or("", |(_, rest)| rest),
        None => rest.strip_prefix('(').unwrap_or_default(),
    };
    rest.starts_with(')')
}

/// The line on which the statement begins that ends here; good enough for formatted code.
fn statement(lines: &[Line], at: usize) -> usize {
    let mut first = at;
    while first > 0 && lines[first].code.trim_start().starts_with(['.', ')', '}']) {
        first -= 1;
    }
    first
}

/// `let value = text.parse().ok();` and `return text.parse().ok();` drop nothing.
fn is_kept(lines: &[Line], at: usize, word: &str) -> bool {
    let begin = &lines[statement(lines, at)].code;
    word == ".ok();" && (begin.contains(" = ") || begin.contains("return "))
}

/// Writing into a `String` cannot fail, and in a file that writes to nothing else needs no words.
fn writes_text(code: &str) -> bool {
    ["let _ = write!(", "let _ = writeln!("].iter().any(|word| code.contains(word))
}

/// A comment on the line, or right above the statement that it ends, or above the line that
/// opens the block in which it is the first.
fn is_explained(lines: &[Line], at: usize) -> bool {
    let first = statement(lines, at);
    let is_comment = |line: &Line| line.comment && line.code.trim().is_empty();
    let mut above = lines[..first].iter().rev();
    let explained = match above.next() {
        Some(line) if line.code.trim_end().ends_with('{') => {
            line.comment || above.next().is_some_and(is_comment)
        }
        Some(line) => is_comment(line),
        None => false,
    };
    explained || lines[first..=at].iter().any(|line| line.comment)
}

/// `path reason`, one a line; `#` begins a comment.
pub fn parse_long_files(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim);
    let entries = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    entries
        .map(|line| line.split_once(char::is_whitespace).unwrap_or((line, "")))
        .map(|(path, reason)| (path.to_owned(), reason.trim().to_owned()))
        .collect()
}

/// Entries without a reason, or for files that are gone.
pub fn stale_long_files(long: &BTreeMap<String, String>, files: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, reason) in long {
        if !files.contains(path) {
            findings.push(Finding::new(LONG_FILES, 0, format!("`{path}` does not exist")));
        } else if reason.is_empty() {
            findings.push(Finding::new(LONG_FILES, 0, format!("`{path}` has no reason")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(text: &str) -> Vec<String> {
        let findings =
            check("crates/x/src/y.rs", &format!("//! Head.\n\n{text}"), &BTreeMap::new());
        findings.into_iter().map(|finding| finding.what).collect()
    }

    fn finds(text: &str, word: &str) {
        let whats = whats(text);
        assert!(whats.len() == 1 && whats[0].contains(word), "{text}: {whats:?}");
    }

    fn passes(text: &str) {
        assert_eq!(whats(text), Vec::<String>::new(), "{text}");
    }

    #[test]
    fn a_source_file_begins_with_its_head_and_a_test_need_not() {
        let none = BTreeMap::new();
        assert_eq!(check("crates/x/src/y.rs", "use std::fmt;\n", &none).len(), 1);
        assert_eq!(check("crates/x/src/y.rs", "//! Head.\nuse std::fmt;\n", &none).len(), 0);
        assert_eq!(check("crates/x/tests/y.rs", "use std::fmt;\n", &none).len(), 0);
    }

    #[test]
    fn what_is_left_open_or_switched_off_is_found() {
        finds("#[ignore = \"slow\"]\nfn f() {}", "does not run");
        finds("fn f() { todo!() }", "left open");
        finds("#[allow(dead_code)]\nfn f() {}", "expect");
        finds("#![allow(dead_code)]", "expect");
        passes("// todo!() in a comment\nconst TEXT: &str = \"#[ignore]\";");
    }

    #[test]
    fn a_queue_without_a_bound_is_found() {
        finds("let (a, b) = mpsc::unbounded_channel();", "bound");
        finds("let (a, b) = mpsc::channel();", "bound");
        finds("let (a, b) = mpsc::channel::<Vec<u8>>();", "bound");
        finds("let (a, b) = crossbeam::channel::unbounded();", "bound");
        passes("let (a, b) = mpsc::channel(8);");
        passes("let (a, b) = mpsc::channel::<Vec<u8>>(8);");
    }

    #[test]
    fn a_dropped_result_needs_its_reason() {
        finds("sink.flush().ok();", "say why");
        finds("let _ = sink.flush();", "say why");
        finds("// A reason for something else.\nnext();\nsink.flush().ok();", "say why");
        passes("let _ = sink.flush(); // it is only a progress bar");
        passes("// It is only a progress bar.\nsink\n    .flush()\n    .ok();");
        passes(
            "// Nobody may wait any more.\nif let Some(tell) = tell {\n    let _ = tell.send(());\n}",
        );
        passes("use std::fmt::Write as _;\nlet _ = writeln!(text, \"x\");");
        finds("use std::io::Write as _;\nlet _ = writeln!(file, \"x\");", "say why");
        passes("let value = text.parse().ok();\nlet _seat = seats.acquire();");
        passes("return text.parse().ok();");
        passes("let value = text\n    .parse()\n    .ok();");
    }

    #[test]
    fn a_sleep_needs_its_reason() {
        finds("std::thread::sleep(wait);", "scheduled");
        passes("std::thread::sleep(wait); // the server under test is another process");
    }

    #[test]
    fn a_long_file_needs_an_entry_and_the_entry_a_reason() {
        let text = format!("//! Head.\n{}", "\n".repeat(LINES_MAX));
        let path = "crates/x/src/y.rs";
        assert_eq!(check(path, &text, &BTreeMap::new()).len(), 1);
        let long = parse_long_files("# comment\n\ncrates/x/src/y.rs  one table\n");
        assert_eq!(check(path, &text, &long).len(), 0);

        let files = BTreeSet::from([path.to_owned()]);
        assert_eq!(stale_long_files(&long, &files).len(), 0);
        assert_eq!(stale_long_files(&long, &BTreeSet::new()).len(), 1);
        assert_eq!(stale_long_files(&parse_long_files(path), &files).len(), 1);
    }
}
