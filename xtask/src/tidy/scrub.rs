//! What does a source file say, apart from its comments and strings?
//!
//! A rule that looks for a word must not stumble over the word in a text. Everything inside
//! strings, characters and comments becomes blanks; lines stay where they are.

/// One line: its code, and whether a comment stands on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    pub code: String,
    pub comment: bool,
}

pub fn lines(text: &str) -> Vec<Line> {
    let mut scrub = Scrub { chars: text.chars().collect(), at: 0, lines: vec![Line::default()] };
    scrub.run();
    scrub.lines
}

struct Scrub {
    chars: Vec<char>,
    at: usize,
    lines: Vec<Line>,
}

impl Scrub {
    fn run(&mut self) {
        let mut before = ' ';
        while let Some(here) = self.peek(0) {
            let word_goes_on = before.is_alphanumeric() || before == '_';
            match (here, self.peek(1)) {
                ('/', Some('/')) => self.line_comment(),
                ('/', Some('*')) => self.block_comment(),
                ('"', _) => self.string(),
                ('r', Some('"' | '#')) if !word_goes_on && self.raw_string() => {}
                ('b' | 'c', Some('r')) if !word_goes_on && self.raw_after_prefix() => {}
                ('\'', _) if self.is_character() => self.character(),
                _ => self.keep(),
            }
            before = here;
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn line(&mut self) -> &mut Line {
        self.lines.last_mut().expect("there is always a line")
    }

    /// Takes one character as it is.
    fn keep(&mut self) {
        match self.chars[self.at] {
            '\n' => self.lines.push(Line::default()),
            other => self.line().code.push(other),
        }
        self.at += 1;
    }

    /// Takes one character as a blank.
    fn blank(&mut self) {
        if self.peek(0) == Some('\n') {
            self.lines.push(Line::default());
        } else {
            self.line().code.push(' ');
        }
        self.at += 1;
    }

    fn line_comment(&mut self) {
        self.line().comment = true;
        while self.peek(0).is_some_and(|next| next != '\n') {
            self.blank();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while let Some(here) = self.peek(0) {
            self.line().comment = true;
            match (here, self.peek(1)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => {
                    self.blank();
                    continue;
                }
            }
            self.blank();
            self.blank();
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.keep();
        while let Some(here) = self.peek(0) {
            match here {
                '\\' => {
                    self.blank();
                    if self.peek(0).is_some() {
                        self.blank();
                    }
                }
                '"' => return self.keep(),
                _ => self.blank(),
            }
        }
    }

    /// `r"…"` or `r#"…"#`; false, and nothing taken, if it is a raw identifier.
    fn raw_string(&mut self) -> bool {
        let hashes = (1..).take_while(|&ahead| self.peek(ahead) == Some('#')).count();
        if self.peek(1 + hashes) != Some('"') {
            return false;
        }
        (0..hashes + 2).for_each(|_| self.keep());
        while self.peek(0).is_some() {
            let closes = self.peek(0) == Some('"')
                && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            if closes {
                (0..=hashes).for_each(|_| self.keep());
                return true;
            }
            self.blank();
        }
        true
    }

    fn raw_after_prefix(&mut self) -> bool {
        self.at += 1;
        let raw = self.raw_string();
        if !raw {
            self.at -= 1;
        }
        raw
    }

    /// A quote opens a character, unless it is a lifetime's.
    fn is_character(&self) -> bool {
        self.peek(1) == Some('\\') || self.peek(2) == Some('\'')
    }

    fn character(&mut self) {
        self.keep();
        if self.peek(0) == Some('\\') {
            self.blank();
        }
        self.blank();
        while self.peek(0).is_some_and(|next| next != '\'' && next != '\n') {
            self.blank();
        }
        if self.peek(0) == Some('\'') {
            self.keep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let lines: Vec<_> = lines(text).into_iter().map(|line| line.code).collect();
        lines.join("\n").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn texts_and_comments_are_blanked_and_code_stays() {
        assert_eq!(code(r#"a("x // y"); // todo!()"#), r#"a(" ");"#);
        assert_eq!(code("a /* b /* c */ d */ e"), "a e");
        assert_eq!(code(r##"let s = r#"one " two"#; f()"##), r##"let s = r#" "#; f()"##);
        assert_eq!(code(r#"br"x" c"y" r"#), r#"r" " c" " r"#);
        assert_eq!(code(r#"'"' 'a' '\'' '\u{1}' &'a str "#), "' ' ' ' ' ' ' ' &'a str");
        assert_eq!(code("r#type + \"a\\\"b\" + c"), "r#type + \" \" + c");
    }

    #[test]
    fn lines_stay_where_they_are() {
        let lines = lines("one // why\n\"two\nlines\"\nend");
        assert_eq!(lines.len(), 4);
        assert!(lines[0].comment && !lines[1].comment);
        assert_eq!(lines[3].code, "end");
    }
}
