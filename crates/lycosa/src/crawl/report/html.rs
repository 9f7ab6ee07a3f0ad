//! How does a crawl look to people?
//!
//! One page that needs nothing else: no script, no font, no picture from elsewhere, and a rule that forbids
//! them, because names of hosts, media types and errors are what servers made them. Each plot has its table
//! beside it.
//!
//! Always: text comes in as it is and is escaped where it is written ([`Table::html`], `plot`), and nowhere
//! else.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use types::Timestamp;

use super::plot::{self, Bar, cut, escape, grouped};
use super::{LastRun, Report};
use crate::crawl::measures::{Common, Durations, Timeline};
use crate::crawl::survey::{HostReport, SKIPPED_LINES_MAX, Survey};
use crate::status::size;

const STYLE: &str = include_str!("style.css");
/// Rows of a table at most; `report.json` has more hosts.
const ROWS_MAX: usize = 200;
/// Columns of a table that has room beside its plot.
const COLUMNS_BESIDE_MAX: usize = 5;
/// Letters of a cell at most.
const CELL_CHARS_MAX: usize = 300;

pub fn page(report: &Report) -> String {
    let sections = sections(report);
    let directory = escape(&report.directory);
    let mut links = String::new();
    let mut body = String::new();
    for Section { id, heading, note, plot, table } in &sections {
        let _ = writeln!(links, "<a href=\"#{id}\">{heading}</a>");
        let note = escape(note);
        let figure =
            plot.as_ref().map_or_else(String::new, |plot| format!("<figure>{plot}</figure>\n"));
        // A table of many columns needs all the room there is.
        let is_wide = plot.is_none() || table.head.len() > COLUMNS_BESIDE_MAX;
        let wide = if is_wide { " wide" } else { "" };
        let _ = write!(
            body,
            "<section id=\"{id}\" aria-labelledby=\"{id}-name\">\n<h2 id=\"{id}-name\">{heading}</h2>\n\
             <p class=\"soft\">{note}</p>\n<div class=\"pair{wide}\">\n{figure}{}</div>\n</section>\n",
            table.html(heading)
        );
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'\">\n<title>Crawl report: {directory}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<header>\n<h1>Crawl report: <bdi>{directory}</bdi></h1>\n{}\n\
         <nav aria-label=\"Parts of this page\">{links}</nav>\n</header>\n<main>\n{}{body}</main>\n\
         <footer>\n<p>Made {} by lycosa {}; crawl {}. The same in numbers: report.json.</p>\n</footer>\n\
         </body>\n</html>\n",
        ending(report),
        cards(report),
        escape(&report.made),
        escape(report.lycosa),
        escape(&report.crawl),
    )
}

fn ending(report: &Report) -> String {
    let told = match &report.last {
        Some(LastRun { ending, started, ended, run, .. }) => format!(
            "The last run ended as “{ending}”. It began {started}, ended {ended}, and fetched {} pages in \
             {:.1} s: {:.1} pages/s.",
            grouped(run.pages),
            run.seconds,
            run.pages_per_second
        ),
        None => "No run has ended yet.".to_owned(),
    };
    let partial = match &report.urls {
        None => " URLs were not looked at: the run was abandoned.".to_owned(),
        Some(urls) if !urls.complete => format!(
            " The crawl is so large that only {} of its {} URLs were looked at for what follows, except for \
             totals, statuses, errors and links that were not taken.",
            grouped(urls.records),
            grouped(report.totals.known)
        ),
        Some(_) => String::new(),
    };
    format!("<p>{}</p>", escape(&(told + &partial)))
}

fn cards(report: &Report) -> String {
    let totals = &report.totals;
    let mut out = String::from("<div class=\"cards\">\n");
    let mut card = |value: String, name: &str| {
        let value = escape(&value);
        let _ = writeln!(out, "<div class=\"card\"><b>{value}</b><span>{name}</span></div>");
    };
    card(grouped(totals.pages), "pages");
    card(grouped(totals.known), "known URLs");
    card(grouped(totals.queued + totals.scheduled), "URLs that wait");
    if let Some(urls) = &report.urls {
        card(grouped(urls.hosts_total), "hosts");
    }
    card(size(totals.body_bytes), "of pages");
    card(size(totals.archive_bytes), "in the archive");
    if let Some(copies) = report.duplicates.filter(|counts| counts.pages > 0) {
        let share = 100.0 * copies.copies() as f64 / copies.pages as f64;
        card(format!("{share:.1} %"), "of texts are copies");
    }
    if totals.unchanged > 0 {
        card(grouped(totals.unchanged), "visits without news");
    }
    card(grouped(report.failures.values().sum()), "failed visits");
    card(grouped(totals.robots_requests), "requests for robots.txt");
    out.push_str("</div>\n");
    out
}

struct Section {
    id: &'static str,
    heading: &'static str,
    note: String,
    plot: Option<String>,
    table: Table,
}

/// Rows of text; the columns of numbers stand to the right.
#[derive(Debug, Default)]
struct Table {
    head: Vec<&'static str>,
    numbers: Vec<bool>,
    rows: Vec<Vec<String>>,
    /// Rows that there was no room for.
    more: u64,
}

impl Table {
    /// A `#` before the name of a column of numbers.
    fn new(head: &[&'static str]) -> Self {
        Self {
            head: head.iter().map(|name| name.trim_start_matches('#')).collect(),
            numbers: head.iter().map(|name| name.starts_with('#')).collect(),
            ..Self::default()
        }
    }

    fn row(&mut self, cells: Vec<String>) {
        if self.rows.len() < ROWS_MAX { self.rows.push(cells) } else { self.more += 1 }
    }

    fn html(&self, name: &str) -> String {
        if self.rows.is_empty() {
            return "<p>None.</p>\n".to_owned();
        }
        let class = |column: usize| match self.numbers.get(column) {
            Some(true) => " class=\"n\"",
            _ => "",
        };
        let mut out = format!(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{name}\">\n<table>\n"
        );
        if self.more > 0 {
            let (shown, more) = (self.rows.len(), grouped(self.more));
            out += &format!("<caption>The first {shown}; {more} more are not shown.</caption>\n");
        }
        out.push_str("<thead><tr>");
        for (column, name) in self.head.iter().enumerate() {
            let _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(column), escape(name));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let text = escape(&cut(cell, CELL_CHARS_MAX));
                let _ = write!(out, "<td{}><bdi>{text}</bdi></td>", class(column));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table>\n</div>\n");
        out
    }
}

fn sections(report: &Report) -> Vec<Section> {
    let mut all = Vec::new();
    if let Some(urls) = &report.urls {
        all.push(over_time(&urls.answers_over_time));
    }
    all.push(statuses(&report.statuses));
    if let Some(urls) = &report.urls {
        all.push(common(
            "types",
            "Content types",
            "Pages by media type, as servers say it.",
            &urls.types,
        ));
        all.push(common(
            "languages",
            "Languages",
            "Pages by the language of their text, where that was read.",
            &urls.languages,
        ));
    }
    all.push(duplicates(report));
    if let Some(urls) = &report.urls {
        all.push(took(&urls.took));
        all.push(hosts(urls));
        all.push(slowest(urls));
        all.push(forbidding(urls));
    }
    all.push(reasons(report));
    all.push(errors(report));
    all.push(files(report));
    all
}

fn over_time(times: &Timeline) -> Section {
    let mut table = Table::new(&["From (UTC)", "#Answers"]);
    let all: Vec<Bar> = times
        .all()
        .into_iter()
        .map(|(second, count)| Bar::new(moment(second, times.step_seconds), count))
        .collect();
    for bar in &all {
        table.row(vec![bar.label.clone(), bar.shown.clone()]);
    }
    Section {
        id: "time",
        heading: "Pages over time",
        note: format!("The latest answer of each URL, in steps of {}.", span(times.step_seconds)),
        plot: Some(plot::columns("Answers over time", &all)),
        table,
    }
}

/// `2026-11-18 20:07`, with seconds where steps are short.
fn moment(second: u64, step: u64) -> String {
    let text = Timestamp::from_secs(second).rfc3339().replace('T', " ");
    let letters = match step {
        0..60 => 19,
        60..86_400 => 16,
        _ => 10,
    };
    text.chars().take(letters).collect()
}

fn span(seconds: u64) -> String {
    let (count, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    crate::crawl::counted(count, unit)
}

fn statuses(statuses: &BTreeMap<String, u64>) -> Section {
    const CLASSES: [(&str, &str, &str); 5] = [
        ("1", "1xx, not an answer yet", "calm"),
        ("2", "2xx, a page", "good"),
        ("3", "3xx, elsewhere or as it was", "calm"),
        ("4", "4xx, nothing for us", "warn"),
        ("5", "5xx, the server is unwell", "bad"),
    ];
    let mut table = Table::new(&["Status", "#Answers", "#Share"]);
    let total: u64 = statuses.values().sum();
    let mut sums = [0; CLASSES.len()];
    let mut others = 0;
    for (status, count) in statuses {
        match CLASSES.iter().position(|(digit, ..)| status.starts_with(digit)) {
            Some(class) => sums[class] += count,
            None => others += count,
        }
        table.row(vec![status.clone(), grouped(*count), share(*count, total)]);
    }
    let classes = CLASSES.iter().zip(sums);
    let classes = classes.map(|((_, name, tone), sum)| Bar { tone, ..Bar::new(*name, sum) });
    let others = Bar { tone: "calm", ..Bar::new("others", others) };
    let bars: Vec<Bar> = classes.chain([others]).filter(|bar| bar.value > 0).collect();
    Section {
        id: "statuses",
        heading: "Statuses",
        note: "Every answer of the crawl's life, failed attempts and revisits included.".to_owned(),
        plot: Some(plot::bars("Answers by class of status", &bars)),
        table,
    }
}

fn common(id: &'static str, heading: &'static str, note: &str, counts: &Common) -> Section {
    let mut table = Table::new(&["Name", "#Pages", "#Share"]);
    let total = counts.total();
    let mut bars: Vec<Bar> = counts.counts.iter().map(|(name, n)| Bar::new(name, *n)).collect();
    bars.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.label.cmp(&b.label)));
    for bar in &bars {
        table.row(vec![bar.label.clone(), bar.shown.clone(), share(bar.value, total)]);
    }
    let mut note = note.to_owned();
    if counts.others > 0 {
        let _ = write!(note, " {} pages of rare kinds are left out.", grouped(counts.others));
    }
    Section { id, heading, note, plot: Some(plot::bars(heading, &bars)), table }
}

fn duplicates(report: &Report) -> Section {
    let mut table = Table::new(&["What", "#Pages", "#Share"]);
    let mut bars = Vec::new();
    if let Some(counts) = report.duplicates {
        let total = counts.pages;
        for (name, count, tone) in
            [("originals", counts.originals, "good"), ("copies", counts.copies(), "calm")]
        {
            bars.push(Bar { tone, ..Bar::new(name, count) });
            table.row(vec![name.to_owned(), grouped(count), share(count, total)]);
        }
        for (name, count) in [
            ("verdicts: the same text as another", counts.exact),
            ("verdicts: nearly the same text", counts.near),
            ("verdicts in all", counts.judged),
        ] {
            table.row(vec![name.to_owned(), grouped(count), String::new()]);
        }
    }
    let note = match report.duplicates {
        Some(_) => "Pages with a text. A page whose text changes is judged again.",
        None => "Pages were not compared (duplicates.enabled, read.content).",
    };
    let plot = (!bars.is_empty()).then(|| plot::bars("Originals and copies", &bars));
    Section { id: "duplicates", heading: "Duplicates", note: note.to_owned(), plot, table }
}

fn took(took: &Durations) -> Section {
    let mut table = Table::new(&["Up to", "#Answers", "#Share"]);
    let total = took.total();
    let mut bars = Vec::new();
    for (class, count) in took.counts.iter().enumerate() {
        let (label, name) = match took.up_to_ms.get(class) {
            // Without the blank, so that each has room below its column.
            Some(ms) => (short(*ms).replace(' ', ""), short(*ms)),
            None => ("more".to_owned(), "more".to_owned()),
        };
        bars.push(Bar::new(label, *count));
        table.row(vec![name, grouped(*count), share(*count, total)]);
    }
    let within = |share| took.share_within_ms(share).map_or_else(|| "no limit".to_owned(), short);
    let note = match took.mean_ms() {
        Some(mean) => format!(
            "From the first byte of the request to the last of the answer: {mean} ms on average, half within \
             {}, 95 % within {}.",
            within(0.5),
            within(0.95)
        ),
        None => "No answer yet.".to_owned(),
    };
    Section {
        id: "took",
        heading: "Fetch times",
        note,
        plot: Some(plot::columns("Answers by the time they took", &bars)),
        table,
    }
}

fn short(ms: u32) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { format!("{} s", ms / 1_000) }
}

fn hosts(urls: &Survey) -> Section {
    let mut table = Table::new(&[
        "Host",
        "#Answers",
        "#Requests",
        "#Known",
        "#Waiting",
        "#Refused",
        "#Given up",
        "#Least pause",
    ]);
    for host in &urls.hosts {
        let pause = host.gap_min_ms.map_or_else(String::new, |ms| format!("{} ms", grouped(ms)));
        let numbers =
            [host.pages, host.requests, host.known, host.waiting, host.refused, host.dead_letters];
        let cells = [host.host.clone()].into_iter().chain(numbers.map(grouped)).chain([pause]);
        table.row(cells.collect());
    }
    let unlisted = urls.hosts_total.saturating_sub(table.rows.len() as u64);
    table.more = if table.rows.is_empty() { 0 } else { unlisted };
    let plotted = urls.hosts.iter().filter(|host| host.pages > 0);
    let bars: Vec<Bar> = plotted.map(|host| Bar::new(&host.host, host.pages)).collect();
    Section {
        id: "hosts",
        heading: "Top hosts",
        note: "Hosts by the answers they gave.".to_owned(),
        plot: Some(plot::bars("Hosts with most answers", &bars)),
        table,
    }
}

fn slowest(urls: &Survey) -> Section {
    let mut table = Table::new(&["Host", "#Mean", "#Longest", "#Bytes", "#Known"]);
    let mut bars = Vec::new();
    for host in &urls.slowest {
        let HostReport { host, took_ms_mean, took_ms_max, body_bytes, known, .. } = host;
        let mean = took_ms_mean.unwrap_or(0);
        let shown = format!("{} ms", grouped(mean));
        let longest = format!("{} ms", grouped(u64::from(took_ms_max.unwrap_or(0))));
        table.row(vec![host.clone(), shown.clone(), longest, size(*body_bytes), grouped(*known)]);
        bars.push(Bar { shown, ..Bar::new(host, mean) });
    }
    Section {
        id: "slowest",
        heading: "Slowest hosts",
        note: "Hosts by the mean time of the latest answers of their URLs.".to_owned(),
        plot: Some(plot::bars("Hosts by mean fetch time", &bars)),
        table,
    }
}

fn forbidding(urls: &Survey) -> Section {
    let mut table = Table::new(&["Host", "#Forbidden", "#Known"]);
    let mut bars = Vec::new();
    for HostReport { host, forbidden, known, .. } in &urls.forbidding {
        table.row(vec![host.clone(), grouped(*forbidden), grouped(*known)]);
        bars.push(Bar { tone: "warn", ..Bar::new(host, *forbidden) });
    }
    let total = urls.refused.get("robots").copied().unwrap_or(0);
    let plot =
        (!bars.is_empty()).then(|| plot::bars("Hosts by URLs that robots.txt forbids", &bars));
    Section {
        id: "robots",
        heading: "Refused by robots.txt",
        note: format!("{} that robots.txt forbids, by host.", crate::crawl::counted(total, "URL")),
        plot,
        table,
    }
}

/// Every reason that is counted.
fn reasons(report: &Report) -> Section {
    let mut all: Vec<(&str, String, u64)> = Vec::new();
    let mut take = |what: &'static str, counts: &BTreeMap<String, u64>| {
        all.extend(counts.iter().map(|(name, n)| (what, name.clone(), *n)));
    };
    if let Some(urls) = &report.urls {
        take("URL refused", &urls.refused);
        take("URL waits", &urls.deferred);
        take("URL given up", &urls.dead_letters);
        take("page cut", &urls.truncated);
    }
    take("link not taken", &report.links_skipped);
    if let Some(urls) = report.urls.as_ref().filter(|urls| urls.dropped > 0) {
        all.push(("URL dropped", "by hand".to_owned(), urls.dropped));
    }
    all.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| (a.0, &a.1).cmp(&(b.0, &b.1))));
    let mut table = Table::new(&["What", "Reason", "#Count"]);
    let mut bars = Vec::new();
    for (what, reason, count) in all {
        bars.push(Bar { tone: "calm", ..Bar::new(format!("{what}: {reason}"), count) });
        table.row(vec![what.to_owned(), reason, grouped(count)]);
    }
    let plot = (!bars.is_empty()).then(|| plot::bars("Skipped, by reason", &bars));
    let capped = match &report.urls {
        Some(urls) if urls.skipped_total > SKIPPED_LINES_MAX => ", up to its limit",
        _ => "",
    };
    Section {
        id: "skipped",
        heading: "Skipped, and why",
        note: format!(
            "Every reason for which something was not fetched or not kept whole. URLs are listed in \
             reports/skipped.jsonl{capped}; `lycosa explain` tells the rule and the value that decided."
        ),
        plot,
        table,
    }
}

fn errors(report: &Report) -> Section {
    let mut table = Table::new(&["Fault", "#Failed visits", "#URLs given up"]);
    let given_up = report.urls.as_ref().map(|urls| &urls.dead_letters);
    let mut bars = Vec::new();
    for (fault, count) in &report.failures {
        let dead = given_up.and_then(|dead| dead.get(fault)).copied().unwrap_or(0);
        table.row(vec![fault.clone(), grouped(*count), grouped(dead)]);
        bars.push(Bar { tone: "bad", ..Bar::new(fault, *count) });
    }
    bars.sort_by_key(|bar| std::cmp::Reverse(bar.value));
    let plot = (!bars.is_empty()).then(|| plot::bars("Failed visits by fault", &bars));
    Section {
        id: "errors",
        heading: "Errors",
        note: "Failed visits of the crawl's life, by fault; a URL may have several.".to_owned(),
        plot,
        table,
    }
}

fn files(report: &Report) -> Section {
    let mut table = Table::new(&["File", "#Size"]);
    for file in &report.archive {
        table.row(vec![format!("archive/{}", file.file), size(file.bytes)]);
    }
    for (key, value) in &report.settings {
        table.row(vec![format!("setting {key}"), value.to_string()]);
    }
    Section {
        id: "files",
        heading: "Archive and settings",
        note: format!(
            "The archive's files, and the settings that are not at their defaults. {} given.",
            crate::crawl::counted(report.seeds, "seed")
        ),
        plot: None,
        table,
    }
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_escapes_every_cell_and_says_what_it_leaves_out() {
        let mut table = Table::new(&["Host", "#Count"]);
        for n in 0..=ROWS_MAX {
            table.row(vec!["<img src=x onerror=alert(1)>".to_owned(), n.to_string()]);
        }
        let html = table.html("Hosts");
        assert!(!html.contains("<img") && html.contains("&lt;img src=x onerror=alert(1)&gt;"));
        assert!(html.contains("The first 200; 1 more are not shown."), "{html}");
        assert_eq!(html.matches("<td class=\"n\">").count(), ROWS_MAX);
    }

    #[test]
    fn moments_and_spans_are_as_exact_as_their_steps() {
        let at = |step| moment(1_794_774_027, step);
        assert_eq!(at(1).len(), 19);
        assert_eq!((at(60).len(), at(86_400).len()), (16, 10));
        assert_eq!(
            (span(1), span(120), span(7_200)),
            ("1 second".into(), "2 minutes".into(), "2 hours".into())
        );
        assert_eq!(span(172_800), "2 days");
    }
}
