//! What does a person ask for?
//!
//! ```text
//! wolf spider             both words, anywhere
//! "wolf spider"           these words, one after the other
//! wolf OR fox             one of them
//! wolf -fox, NOT fox      without it
//! (wolf OR fox) den       brackets
//! title:wolf              in the title; also heading:, text:, url:
//! site:example.org        on that host, or below it
//! lang:de                 in that language
//! ```
//!
//! `OR` and `NOT` are words of the language in capitals only; `AND` may be said. A mistake is answered
//! with what to type instead, never guessed away.
//!
//! Always: any text is read in time that grows with its length, and a tree is not deeper than
//! [`DEPTH_MAX`].

use std::fmt;

use types::CrawlUrl;

/// Nobody types more; a pasted page is no question.
pub const BYTES_MAX: usize = 4_096;
/// Words and phrases of one question.
pub const TERMS_MAX: usize = 64;
/// Brackets within brackets.
pub const DEPTH_MAX: usize = 16;

/// A question that cannot be understood, as a sentence with what to type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadQuery(String);

impl BadQuery {
    /// Of a question that has punctuation only.
    pub(crate) fn no_words() -> Self {
        Self(
            "the query holds no word, only signs that are not indexed: type a word with it"
                .to_owned(),
        )
    }
}

impl fmt::Display for BadQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadQuery {}

fn bad<T>(why: impl Into<String>) -> Result<T, BadQuery> {
    Err(BadQuery(why.into()))
}

/// Where a word is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Title,
    Heading,
    Text,
    Url,
}

/// A question, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A word, or a phrase. Anywhere, or in one part of a page.
    Words {
        text: String,
        phrase: bool,
        part: Option<Part>,
    },
    Site(String),
    Language(String),
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
}

/// Understands a question.
pub fn parse(text: &str) -> Result<Node, BadQuery> {
    if text.len() > BYTES_MAX {
        return bad(format!(
            "a query of {} bytes is too long: up to {BYTES_MAX} are read; leave words out",
            text.len()
        ));
    }
    let mut parser = Parser { tokens: tokens(text)?, at: 0, terms: 0 };
    if parser.tokens.is_empty() {
        return bad(
            "the query is empty: type one or more words, such as lycosa search DIR \"wolf spider\"",
        );
    }
    let node = parser.any(0)?;
    if parser.at < parser.tokens.len() {
        return bad("a `)` has no `(` before it: take it away, or put it in quotes: \")\"");
    }
    wants_something(&node)?;
    Ok(node)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Open,
    Close,
    Or,
    And,
    Not,
    Term(Node),
}

/// A host as it is indexed.
pub fn site(text: &str) -> Result<String, BadQuery> {
    let host = text.trim_start_matches("*.").trim_matches('.');
    let url = if host.contains("://") { host.to_owned() } else { format!("http://{host}/") };
    match CrawlUrl::parse(&url) {
        Ok(url) if !host.is_empty() => Ok(url.host().to_owned()),
        _ => bad(format!("`{text}` is no host: write site:example.org")),
    }
}

/// A language as it is indexed: its tag, in lower case.
pub fn language(text: &str) -> Result<String, BadQuery> {
    let tag = text.to_ascii_lowercase().replace('_', "-");
    let is_tag = tag.split('-').all(|part| {
        (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let primary = tag.split('-').next().unwrap_or_default();
    match is_tag && (2..=3).contains(&primary.len()) {
        true => Ok(tag),
        false => bad(format!("`{text}` is no language: write two letters, such as lang:de")),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, BadQuery> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            '(' => (Some(Token::Open), &rest[1..]),
            ')' => (Some(Token::Close), &rest[1..]),
            // A dash between words is punctuation.
            '-' if rest[1..].starts_with(char::is_whitespace) || rest.len() == 1 => {
                (None, &rest[1..])
            }
            '-' => (Some(Token::Not), &rest[1..]),
            '+' => (None, &rest[1..]),
            _ => {
                let (token, after) = term(rest)?;
                (Some(token), after)
            }
        };
        tokens.extend(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

/// The closing quotes that belong to opening ones, as keyboards and word processors make them.
const QUOTES: [(char, char); 4] = [('"', '"'), ('“', '”'), ('„', '“'), ('«', '»')];

/// A phrase if there is one here, and what follows.
fn quoted(text: &str) -> Result<Option<(&str, &str)>, BadQuery> {
    let Some((_, close)) = QUOTES.into_iter().find(|(open, _)| text.starts_with(*open)) else {
        return Ok(None);
    };
    let inner = &text[text.chars().next().map_or(0, char::len_utf8)..];
    let Some(end) = inner.find([close, '"']) else {
        return bad(format!(
            "a phrase has no end: write \"{}\" with a quote on both sides",
            inner.trim().trim_end_matches(')')
        ));
    };
    let after = &inner[end..];
    let quote = after.chars().next().map_or(0, char::len_utf8);
    Ok(Some((&inner[..end], &after[quote..])))
}

fn term(text: &str) -> Result<(Token, &str), BadQuery> {
    if let Some((phrase, after)) = quoted(text)? {
        return Ok((
            Token::Term(Node::Words { text: phrase.to_owned(), phrase: true, part: None }),
            after,
        ));
    }
    let ends = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | '"' | '“' | '„' | '«');
    let end = text.find(ends).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    match word {
        "OR" | "||" | "|" => return Ok((Token::Or, after)),
        "AND" | "&&" | "&" => return Ok((Token::And, after)),
        "NOT" | "!" => return Ok((Token::Not, after)),
        _ => {}
    }
    let is_name =
        |name: &str| name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    let field =
        word.split_once(':').filter(|(name, value)| is_name(name) && !value.starts_with("//"));
    let Some((name, value)) = field else {
        // An address that was pasted is a phrase of its parts.
        let phrase = word.contains("://");
        return Ok((Token::Term(Node::Words { text: word.to_owned(), phrase, part: None }), after));
    };
    let (value, phrase, after) = match (value, quoted(after)?) {
        ("", Some((phrase, after))) => (phrase, true, after),
        ("", None) => {
            return bad(format!(
                "`{name}:` is followed by nothing: write the word behind it without a blank, such as {}",
                example(name)
            ));
        }
        (value, _) => (value, false, after),
    };
    Ok((Token::Term(in_field(name, value, phrase)?), after))
}

fn example(name: &str) -> &'static str {
    match name {
        "site" | "host" => "site:example.org",
        "lang" | "language" => "lang:de",
        "heading" | "headings" => "heading:wolf",
        "url" | "inurl" => "url:wolf",
        "text" => "text:wolf",
        _ => "title:wolf",
    }
}

fn in_field(name: &str, value: &str, phrase: bool) -> Result<Node, BadQuery> {
    let part = match name.to_ascii_lowercase().as_str() {
        "site" | "host" => return site(value).map(Node::Site),
        "lang" | "language" => return language(value).map(Node::Language),
        "title" | "intitle" => Part::Title,
        "heading" | "headings" => Part::Heading,
        "text" => Part::Text,
        "url" | "inurl" => Part::Url,
        _ => {
            return bad(format!(
                "`{name}:` is no field: there are title:, heading:, text:, url:, site: and lang:; to \
                 look for the words put them in quotes: \"{name}:{value}\""
            ));
        }
    };
    Ok(Node::Words { text: value.to_owned(), phrase, part: Some(part) })
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    terms: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// `a b OR c d`: an alternative of sequences.
    fn any(&mut self, depth: usize) -> Result<Node, BadQuery> {
        let mut alternatives = vec![self.all(depth)?];
        while self.peek() == Some(&Token::Or) {
            self.at += 1;
            alternatives.push(self.all(depth)?);
        }
        Ok(match alternatives.len() {
            1 => alternatives.swap_remove(0),
            _ => Node::Any(alternatives),
        })
    }

    fn all(&mut self, depth: usize) -> Result<Node, BadQuery> {
        let mut nodes = Vec::new();
        loop {
            match self.peek() {
                Some(Token::And) => {
                    self.at += 1;
                    let goes_on =
                        matches!(self.peek(), Some(Token::Open | Token::Not | Token::Term(_)));
                    if nodes.is_empty() || !goes_on {
                        return bad(
                            "`AND` needs a word on both sides: write wolf AND fox, or only wolf fox; \
                             to look for the word itself write \"and\"",
                        );
                    }
                }
                Some(Token::Or | Token::Close) | None => break,
                Some(_) => nodes.push(self.one(depth)?),
            }
        }
        match nodes.len() {
            0 => bad(match self.peek() {
                Some(Token::Close) => {
                    "a `)` has nothing before it: write (wolf OR fox), or take it away"
                }
                _ => {
                    "`OR` needs a word on both sides: write wolf OR fox; to look for the word itself \
                     write \"or\""
                }
            }),
            1 => Ok(nodes.swap_remove(0)),
            _ => Ok(Node::All(nodes)),
        }
    }

    fn one(&mut self, depth: usize) -> Result<Node, BadQuery> {
        if depth >= DEPTH_MAX {
            return bad(format!(
                "more than {DEPTH_MAX} brackets within each other: take some away"
            ));
        }
        let token = self.tokens[self.at].clone();
        self.at += 1;
        match token {
            Token::Term(node) => {
                self.terms += 1;
                if self.terms > TERMS_MAX {
                    return bad(format!("more than {TERMS_MAX} words: leave some out"));
                }
                Ok(node)
            }
            Token::Not => match self.peek() {
                Some(Token::Term(_) | Token::Open) => Ok(Node::Not(Box::new(self.one(depth + 1)?))),
                _ => bad("`-` or `NOT` needs one word behind it: write wolf -fox"),
            },
            Token::Open => {
                let node = self.any(depth + 1)?;
                if self.peek() != Some(&Token::Close) {
                    return bad("a `(` is not closed: write (wolf OR fox)");
                }
                self.at += 1;
                Ok(node)
            }
            Token::Close | Token::Or | Token::And => unreachable!("seen by the caller"),
        }
    }
}

/// What is only left out says nothing of what is wanted.
fn wants_something(node: &Node) -> Result<(), BadQuery> {
    let wants = match node {
        Node::Not(_) => false,
        Node::All(nodes) => {
            for node in nodes.iter().filter(|node| !matches!(node, Node::Not(_))) {
                wants_something(node)?;
            }
            nodes.iter().any(|node| !matches!(node, Node::Not(_)))
        }
        Node::Any(nodes) => {
            nodes.iter().try_for_each(wants_something)?;
            true
        }
        Node::Words { .. } | Node::Site(_) | Node::Language(_) => true,
    };
    match wants {
        true => Ok(()),
        false => {
            bad("the query says only what to leave out: write also what to find, such as wolf -fox")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Node {
        Node::Words { text: text.to_owned(), phrase: false, part: None }
    }

    fn phrase(text: &str) -> Node {
        Node::Words { text: text.to_owned(), phrase: true, part: None }
    }

    fn not(node: Node) -> Node {
        Node::Not(Box::new(node))
    }

    fn read(text: &str) -> Node {
        parse(text).unwrap_or_else(|why| panic!("{text:?}: {why}"))
    }

    fn why(text: &str) -> String {
        parse(text).expect_err(text).to_string()
    }

    #[test]
    fn words_are_all_wanted_and_or_binds_less() {
        assert_eq!(read("wolf"), word("wolf"));
        assert_eq!(read(" wolf  spider "), Node::All(vec![word("wolf"), word("spider")]));
        assert_eq!(read("wolf AND spider"), read("wolf spider"));
        assert_eq!(
            read("a b OR c"),
            Node::Any(vec![Node::All(vec![word("a"), word("b")]), word("c")])
        );
        assert_eq!(
            read("a (b OR c)"),
            Node::All(vec![word("a"), Node::Any(vec![word("b"), word("c")])])
        );
        assert_eq!(read("or and not"), Node::All(vec![word("or"), word("and"), word("not")]));
    }

    #[test]
    fn phrases_and_what_to_leave_out() {
        assert_eq!(
            read("\"wolf spider\" -fox NOT den"),
            Node::All(vec![phrase("wolf spider"), not(word("fox")), not(word("den"))])
        );
        assert_eq!(read("“wolf spider”"), phrase("wolf spider"));
        assert_eq!(read("wolf - fox"), Node::All(vec![word("wolf"), word("fox")]));
        assert_eq!(
            read("a -(b c)"),
            Node::All(vec![word("a"), not(Node::All(vec![word("b"), word("c")]))])
        );
        assert_eq!(read("well-known"), word("well-known"));
    }

    #[test]
    fn fields_name_a_part_a_host_or_a_language() {
        let titled = |text: &str, phrase| Node::Words {
            text: text.to_owned(),
            phrase,
            part: Some(Part::Title),
        };
        assert_eq!(read("title:wolf"), titled("wolf", false));
        assert_eq!(read("title:\"wolf spider\""), titled("wolf spider", true));
        assert_eq!(read("site:Example.ORG"), Node::Site("example.org".to_owned()));
        assert_eq!(read("site:bücher.example"), Node::Site("xn--bcher-kva.example".to_owned()));
        assert_eq!(read("site:https://example.org/x"), Node::Site("example.org".to_owned()));
        assert_eq!(read("lang:pt-BR"), Node::Language("pt-br".to_owned()));
        assert_eq!(read("http://a.test/x"), phrase("http://a.test/x"));
        assert_eq!(read("12:30"), word("12:30"));
    }

    #[test]
    fn a_mistake_is_answered_with_what_to_type() {
        for (text, hint) in [
            ("", "type one or more words"),
            ("  ", "type one or more words"),
            ("\"wolf", "a quote on both sides"),
            ("title:\"wolf", "a quote on both sides"),
            ("(wolf", "write (wolf OR fox)"),
            ("wolf)", "take it away"),
            ("()", "take it away"),
            ("wolf OR", "write wolf OR fox"),
            ("OR wolf", "write wolf OR fox"),
            ("AND wolf", "write wolf AND fox"),
            ("wolf AND", "write wolf AND fox"),
            ("wolf AND OR fox", "write wolf AND fox"),
            ("-fox", "such as wolf -fox"),
            ("wolf NOT", "write wolf -fox"),
            ("wolf OR -fox", "such as wolf -fox"),
            ("author:me", "\"author:me\""),
            ("title: wolf", "such as title:wolf"),
            ("site:", "site:example.org"),
            ("lang:german-language-please", "lang:de"),
        ] {
            let said = why(text);
            assert!(said.contains(hint), "{text:?}: {said}");
        }
    }

    #[test]
    fn what_is_too_long_or_too_deep_is_refused() {
        assert!(why(&"a".repeat(BYTES_MAX + 1)).contains("too long"));
        assert!(why(&"a ".repeat(TERMS_MAX + 1)).contains("leave some out"));
        assert!(why(&"(".repeat(1_000)).contains("brackets"));
        assert!(why(&format!("a {}b", "-".repeat(1_000))).contains("write wolf -fox"));
    }

    #[test]
    fn no_text_makes_it_panic() {
        let pieces =
            ["(", ")", "\"", "-", "OR", "AND", "NOT", " ", "a", "title:", "é", "“", "site:", "東"];
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..8 {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                text.push_str(pieces[(seed >> 33) as usize % pieces.len()]);
            }
            // Either is right; what is asked is that it ends.
            drop(parse(&text));
        }
    }
}
