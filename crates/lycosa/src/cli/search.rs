//! `lycosa search`: which pages of a crawl have these words?
//!
//! Asks the index as it was committed last, also while the crawl goes on.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use search::{Answer, Asked, Hit, Question, query};
use serde::Serialize;
use types::CrawlUrl;

use super::look::kept_settings;
use crate::crawl::counted;
use crate::dir::Dir;
use crate::exit::{Exit, Fail, Outcome};

#[derive(Debug, Args)]
#[command(after_help = "\
What a query may say:
  wolf spider            both words, in any form (spiders finds spider)
  \"wolf spider\"          these words, one after the other
  wolf OR fox            one of them; brackets: (wolf OR fox) den
  wolf -fox              without it; also: wolf NOT fox
  title:wolf             in the title; also heading:, text:, url:
  site:example.org       on that host or below it; lang:de: in that language

Put a query with quotes, brackets or a dash in quotes of the shell:
  lycosa search crawl '\"wolf spider\" -fox'")]
pub struct SearchArgs {
    /// The directory of a crawl
    dir: PathBuf,
    /// What to look for
    #[arg(required = true)]
    query: Vec<String>,
    /// Only pages of this host, and of those below it
    #[arg(long, value_name = "HOST")]
    site: Option<String>,
    /// Only pages in this language, such as `de`
    #[arg(long, value_name = "LANGUAGE")]
    lang: Option<String>,
    /// Only pages that were published (or else fetched) at this date or later
    #[arg(long, value_name = "DATE")]
    after: Option<String>,
    /// Only pages from before this date
    #[arg(long, value_name = "DATE")]
    before: Option<String>,
    /// A JSON object a line, a page each
    #[arg(long)]
    json: bool,
    /// So many pages
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Without the best so many
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=90_000))]
    offset: u32,
}

pub fn run(args: &SearchArgs) -> Outcome {
    let question = question(args)?;
    let dir = Dir::new(&args.dir);
    dir.mark()?;
    let Some(asked) = open(&dir)? else { return Err(no_index(&dir)) };
    if asked.is_partial() {
        eprintln!(
            "lycosa: the index begins after the crawl: pages of before are missing in it until they \
             are visited again, such as by: lycosa recrawl {}",
            dir.root().display()
        );
    }
    let answer = asked.ask(&question)?.map_err(Fail::usage)?;
    let mut out = io::stdout().lock();
    for hit in &answer.hits {
        match args.json {
            true => write_json(&mut out, hit)?,
            false => write_text(&mut out, hit, io::stdout().is_terminal())?,
        }
    }
    out.flush()?;
    eprintln!("{}", last_words(&answer, &question, asked.pages()));
    Ok(Exit::Done)
}

fn question(args: &SearchArgs) -> Result<Question, Fail> {
    let understood = |text: &Option<String>, read: fn(&str) -> Result<String, query::BadQuery>| {
        text.as_deref().map(read).transpose().map_err(Fail::usage)
    };
    Ok(Question {
        query: query::parse(&args.query.join(" ")).map_err(Fail::usage)?,
        site: understood(&args.site, query::site)?,
        language: understood(&args.lang, query::language)?,
        after: seconds(args.after.as_deref())?,
        before: seconds(args.before.as_deref())?,
        offset: args.offset as usize,
        limit: args.limit as usize,
    })
}

fn seconds(date: Option<&str>) -> Result<Option<i64>, Fail> {
    let Some(text) = date else { return Ok(None) };
    match page::parse_date(text) {
        Some(moment) => Ok(Some(moment.seconds)),
        None => Err(Fail::usage(format!("`{text}` is no date: write it as 2026-11-18"))),
    }
}

fn open(dir: &Dir) -> Result<Option<Asked>, Fail> {
    Asked::open(&dir.search()).map_err(|error| {
        let folder = dir.search();
        let hint = match error.kind {
            ports::PortErrorKind::Version | ports::PortErrorKind::Corrupt => format!(
                "; take {} away, and the next visits of the crawl begin it anew",
                folder.display()
            ),
            _ => String::new(),
        };
        let fail = Fail::from(error);
        Fail::new(fail.exit, format!("{:#}{hint}", fail.error))
    })
}

/// Why there is nothing to search, and what to type.
fn no_index(dir: &Dir) -> Fail {
    let root = dir.root().display();
    let settings = kept_settings(dir).map(|resolved| resolved.settings);
    let off = |key: &str, value: &str| {
        format!(
            "{root} has no full-text index, because its crawl ran with {key} = {value}; to have one of \
             all pages, visit them again with: lycosa recrawl {root} -s {key}=true"
        )
    };
    Fail::failure(match settings {
        Ok(settings) if !settings.search.enabled => off("search.enabled", "false"),
        Ok(settings) if !settings.read.content => off("read.content", "false"),
        _ => format!(
            "{root} has no full-text index: it is made by `lycosa crawl`, not by `lycosa frontier`, whose \
             pages are with its workers; go on with this crawl by: lycosa resume {root}"
        ),
    })
}

/// A line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    rank: usize,
    score: f32,
    url: &'a str,
    host: Option<String>,
    title: Option<&'a str>,
    snippet: &'a str,
    /// Where in the snippet the words stand: from and to, counted in characters.
    highlights: Vec<[usize; 2]>,
    language: Option<&'a str>,
    date: &'a str,
}

fn write_json(out: &mut impl io::Write, hit: &Hit) -> anyhow::Result<()> {
    let snippet = &hit.snippet.text;
    let characters = |bytes: usize| snippet[..bytes].chars().count();
    let highlights = hit.snippet.highlights.iter();
    let line = Line {
        rank: hit.rank,
        score: hit.score,
        url: &hit.url,
        host: CrawlUrl::parse(&hit.url).ok().map(|url| url.host().to_owned()),
        title: hit.title.as_deref(),
        snippet,
        highlights: highlights
            .map(|range| [characters(range.start), characters(range.end)])
            .collect(),
        language: hit.language.as_deref(),
        date: &hit.date,
    };
    serde_json::to_writer(&mut *out, &line)?;
    writeln!(out)?;
    Ok(())
}

fn write_text(out: &mut impl io::Write, hit: &Hit, bold: bool) -> io::Result<()> {
    let title = hit.title.as_deref().map(in_one_line).filter(|title| !title.is_empty());
    writeln!(out, "{}. {}", hit.rank, title.as_deref().unwrap_or("(without a title)"))?;
    writeln!(out, "   {}", hit.url)?;
    let snippet = &hit.snippet;
    if !snippet.text.is_empty() {
        let mut shown = String::new();
        let mut done = 0;
        for range in snippet.highlights.iter().filter(|_| bold) {
            shown.push_str(&snippet.text[done..range.start]);
            shown.push_str("\u{1b}[1m");
            shown.push_str(&snippet.text[range.clone()]);
            shown.push_str("\u{1b}[0m");
            done = range.end;
        }
        shown.push_str(&snippet.text[done..]);
        writeln!(out, "   {shown}")?;
    }
    let language = hit.language.as_deref().map(|language| format!(", {language}"));
    writeln!(out, "   {}{}\n", hit.date, language.unwrap_or_default())
}

/// A title without what could disturb a terminal.
fn in_one_line(title: &str) -> String {
    let visible = title.chars().filter(|c| !search::is_direction(*c));
    let plain: String = visible.map(|c| if c.is_control() { ' ' } else { c }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn last_words(answer: &Answer, question: &Question, pages: u64) -> String {
    let total = answer.total;
    if total == 0 {
        let pages = counted(pages, "page");
        return format!(
            "lycosa: no page has that ({pages} searched); try fewer words, or OR between them"
        );
    }
    let shown = question.offset + answer.hits.len();
    let found = counted(total as u64, "page");
    match shown < total {
        true if answer.hits.is_empty() => format!("lycosa: {found}; none after --offset {shown}"),
        true => format!("lycosa: {found}; the next: --offset {shown}"),
        false => format!("lycosa: {found}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_cannot_disturb_a_terminal() {
        assert_eq!(in_one_line(" a\u{1b}[31m\n\u{202e}b\t c "), "a [31m b c");
    }

    #[test]
    fn what_was_found_is_told_with_how_to_see_more() {
        let query = query::parse("x").unwrap();
        let (site, language, after, before) = (None, None, None, None);
        let question = Question { query, site, language, after, before, offset: 0, limit: 10 };
        let mut answer = Answer::default();
        assert!(last_words(&answer, &question, 3).contains("no page has that (3 pages searched)"));
        answer.total = 12;
        answer.hits = vec![
            Hit {
                rank: 1,
                score: 1.0,
                url: String::new(),
                title: None,
                snippet: search::Snippet::default(),
                language: None,
                date: String::new()
            };
            10
        ];
        assert_eq!(last_words(&answer, &question, 3), "lycosa: 12 pages; the next: --offset 10");
        answer.total = 10;
        assert_eq!(last_words(&answer, &question, 3), "lycosa: 10 pages");
    }
}
