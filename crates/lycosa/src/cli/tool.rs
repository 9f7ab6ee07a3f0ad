//! `lycosa tool`: the parts as filters.
//!
//! JSON lines in, JSON lines out, in the same order, one for one. A line that cannot be used gives
//! `{"error": …}` and the next one is taken; an input's `id` is echoed. Nothing is held but the
//! line at hand, which has a limit.

mod extract;
mod neardup;
mod parallel;
mod simhash;
mod sitemap;

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use base64::Engine as _;
use clap::Subcommand;
use robots::Robots;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use types::{Base, Canon, CrawlUrl, UrlError};

use crate::exit::{Exit, Outcome};

#[derive(Debug, Subcommand)]
pub enum ToolCommand {
    /// {"url", "base"?} → {"url", "host", "domain", "error"?}
    Canonicalize,
    /// {"robots" or "robots_base64", "agent", "url"} → {"allowed", "rule", "crawl_delay", "sitemaps"}
    Robots,
    /// {"url", "html" or "html_base64", "content_type"?} → {"title", "text", "markdown",
    /// "description", "author", "published", "language", "encoding", "page_type", "canonical",
    /// "robots", "links", "structured_data", "word_count", "modified", "site_name", "favicon",
    /// "hreflang", "headings", "images"}
    Extract,
    /// {"url", "body_base64", "content_type"?} → {"kind", "error"?, "urls", "errors"}
    Sitemap,
    /// {"text"} → {"simhash", "text_sha256"}
    Simhash,
    /// {"id", "text"} → {"id", "duplicate_of", "kind", "distance"}
    Neardup,
}

pub fn run(command: &ToolCommand) -> Outcome {
    match command {
        ToolCommand::Canonicalize => {
            let canon = Canon::default();
            filter(io::stdin(), io::stdout().lock(), |line| canonicalize(&canon, line))?;
        }
        ToolCommand::Robots => filter(io::stdin(), io::stdout().lock(), judge)?,
        ToolCommand::Sitemap => sitemap::run()?,
        ToolCommand::Simhash => simhash::run()?,
        ToolCommand::Neardup => neardup::run()?,
        ToolCommand::Extract => extract::run()?,
    }
    Ok(Exit::Done)
}

/// Longest line that is read. A sitemap of 50 MiB takes 70 MB in base64, and one beyond that limit
/// must be told that it is.
const LINE_BYTES_MAX: u64 = 128 << 20;

/// An input with what every tool echoes.
#[derive(Deserialize)]
struct Line<T> {
    #[serde(default, deserialize_with = "given")]
    id: Option<Json>,
    #[serde(flatten)]
    ask: T,
}

/// An id that is there, also when it is `null`: whoever sends one gets it back.
fn given<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(input).map(Some)
}

#[derive(Serialize)]
struct Answer<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Json>,
    #[serde(flatten)]
    answer: T,
}

#[derive(Serialize)]
struct Refused {
    error: String,
}

fn filter<Ask, Reply>(
    input: impl Read,
    output: impl Write,
    answer: impl Fn(&Ask) -> Result<Reply, String>,
) -> io::Result<()>
where
    Ask: for<'de> Deserialize<'de>,
    Reply: Serialize,
{
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut output = BufWriter::with_capacity(1 << 16, output);
    let mut line = Vec::new();
    while next_line(&mut input, &mut line)? {
        output.write_all(&answered(&line, &answer))?;
        // Whoever asks line by line wants the answer before the next question.
        if input.buffer().is_empty() {
            output.flush()?;
        }
    }
    output.flush()
}

/// The line that answers a line, whatever that holds.
fn answered<Ask, Reply>(line: &[u8], answer: impl Fn(&Ask) -> Result<Reply, String>) -> Vec<u8>
where
    Ask: for<'de> Deserialize<'de>,
    Reply: Serialize,
{
    match read_line::<Ask>(line) {
        Ok(Line { id, ask }) => written(id, answer(&ask)),
        Err((id, error)) => written(id, Err::<Reply, _>(error)),
    }
}

fn written<Reply: Serialize>(id: Option<Json>, result: Result<Reply, String>) -> Vec<u8> {
    let text = match result {
        Ok(answer) => serde_json::to_vec(&Answer { id, answer }),
        Err(error) => serde_json::to_vec(&Answer { id, answer: Refused { error } }),
    };
    let mut text = text.expect("answers are structs of texts and numbers");
    text.push(b'\n');
    text
}

/// Reads the next line; one beyond the limit is cut there and its rest passed over.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', line)?;
    if read as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
        input.skip_until(b'\n')?;
    }
    Ok(read > 0)
}

fn read_line<T: for<'de> Deserialize<'de>>(line: &[u8]) -> Result<Line<T>, (Option<Json>, String)> {
    if line.len() as u64 >= LINE_BYTES_MAX {
        return Err((None, format!("the line is longer than {LINE_BYTES_MAX} bytes")));
    }
    let value: Json =
        serde_json::from_slice(line).map_err(|error| (None, format!("not JSON: {error}")))?;
    if !value.is_object() {
        return Err((None, "not a JSON object".to_owned()));
    }
    let id = value.get("id").cloned();
    serde_json::from_value(value).map_err(|error| (id, error.to_string()))
}

#[derive(Deserialize)]
struct CanonicalizeAsk {
    url: String,
    base: Option<String>,
}

#[derive(Serialize)]
struct CanonicalizeReply {
    url: Option<CrawlUrl>,
    host: Option<String>,
    domain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn canonicalize(canon: &Canon, ask: &CanonicalizeAsk) -> Result<CanonicalizeReply, String> {
    let url = match &ask.base {
        Some(base) => Base::parse(base).and_then(|base| canon.join(&base, &ask.url)),
        None => canon.parse(&ask.url),
    };
    Ok(match url {
        Ok(url) => CanonicalizeReply {
            host: Some(url.host().to_owned()),
            domain: Some(url.site().as_str().to_owned()),
            url: Some(url),
            error: None,
        },
        Err(error) => refused(&error),
    })
}

fn refused(error: &UrlError) -> CanonicalizeReply {
    CanonicalizeReply { url: None, host: None, domain: None, error: Some(error.to_string()) }
}

#[derive(Deserialize)]
struct RobotsAsk {
    robots: Option<String>,
    robots_base64: Option<String>,
    agent: String,
    url: String,
}

#[derive(Serialize)]
struct RobotsReply {
    allowed: bool,
    rule: Option<String>,
    crawl_delay: Option<serde_json::Number>,
    sitemaps: Vec<String>,
}

fn judge(ask: &RobotsAsk) -> Result<RobotsReply, String> {
    let decoded;
    let text = match (&ask.robots, &ask.robots_base64) {
        (Some(text), _) => text.as_bytes(),
        (None, Some(text)) => {
            decoded = base64::engine::general_purpose::STANDARD
                .decode(text)
                .map_err(|error| format!("robots_base64: {error}"))?;
            &decoded
        }
        (None, None) => return Err("missing field `robots` or `robots_base64`".to_owned()),
    };
    let robots = Robots::parse(text);
    let group = robots.group(&ask.agent);
    let verdict = group.judge(&ask.url);
    Ok(RobotsReply {
        allowed: verdict.allowed,
        rule: verdict.rule.map(|rule| rule.text.to_owned()),
        crawl_delay: group.crawl_delay().and_then(number),
        sitemaps: robots.sitemaps().map(str::to_owned).collect(),
    })
}

/// `2`, not `2.0`: whole seconds are written as people write them.
fn number(seconds: f64) -> Option<serde_json::Number> {
    if seconds.fract() == 0.0 && (0.0..1e15).contains(&seconds) {
        return Some((seconds as u64).into());
    }
    serde_json::Number::from_f64(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonicalized(input: &str) -> String {
        let mut out = Vec::new();
        let canon = Canon::default();
        filter(input.as_bytes(), &mut out, |line| canonicalize(&canon, line)).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn judged(input: &str) -> String {
        let mut out = Vec::new();
        filter(input.as_bytes(), &mut out, judge).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_examples_of_the_contract_hold_to_the_letter() {
        assert_eq!(
            canonicalized(r#"{"url":"HTTP://Example.COM:80/a/../b?z=1&utm_source=x&a=2#f"}"#),
            "{\"url\":\"http://example.com/b?a=2&z=1\",\"host\":\"example.com\",\"domain\":\"example.com\"}\n"
        );
        assert_eq!(
            judged(
                r#"{"robots":"User-agent: *\nDisallow: /p # x\nCrawl-delay: 2","agent":"lycosa","url":"http://a.test/p/1"}"#
            ),
            "{\"allowed\":false,\"rule\":\"Disallow: /p\",\"crawl_delay\":2,\"sitemaps\":[]}\n"
        );
    }

    #[test]
    fn a_bad_line_is_answered_and_the_next_one_taken() {
        let out = canonicalized(
            "nonsense\n[1]\n{\"id\":7}\n{\"id\":\"x\",\"url\":\"ftp://a/\",\"more\":[]}\n\n{\"url\":\"../b\",\"base\":\"http://a.test/x/y\"}",
        );
        let lines: Vec<Json> =
            out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 6, "one out per in, also for an empty line");
        assert!(lines[0]["error"].as_str().unwrap().contains("not JSON"));
        assert!(lines[1]["error"].is_string());
        assert_eq!(lines[2]["id"], 7);
        assert!(lines[2]["error"].as_str().unwrap().contains("url"));
        assert_eq!((&lines[3]["id"], &lines[3]["url"]), (&"x".into(), &Json::Null));
        assert!(lines[3]["error"].as_str().unwrap().contains("ftp"));
        assert_eq!(lines[5]["url"], "http://a.test/b");
    }

    #[test]
    fn an_id_comes_back_whatever_it_is() {
        for id in ["null", "7", "\"x\"", "[1]", "{\"a\":null}"] {
            let out = canonicalized(&format!("{{\"id\":{id},\"url\":\"http://a.test\"}}"));
            assert!(out.starts_with(&format!("{{\"id\":{id},\"url\"")), "{out}");
            let out = canonicalized(&format!("{{\"id\":{id}}}"));
            assert!(out.starts_with(&format!("{{\"id\":{id},\"error\"")), "{out}");
        }
        assert!(!canonicalized("{\"url\":\"http://a.test\"}").contains("id"));
    }

    #[test]
    fn robots_may_come_as_bytes_and_the_agent_as_a_header() {
        let text = base64::engine::general_purpose::STANDARD
            .encode("Sitemap: http://a.test/s.xml\nUser-agent: lycosa\nCrawl-delay: 0.5\nAllow: /");
        let out = judged(&format!(
            r#"{{"id":1,"robots_base64":"{text}","agent":"Mozilla/5.0 (compatible; lycosa/1.0; +http://x)","url":"http://a.test/"}}"#
        ));
        assert_eq!(
            out,
            "{\"id\":1,\"allowed\":true,\"rule\":\"Allow: /\",\"crawl_delay\":0.5,\"sitemaps\":[\"http://a.test/s.xml\"]}\n"
        );
        assert!(judged(r#"{"agent":"a","url":"/"}"#).contains("robots_base64"));
    }
}
