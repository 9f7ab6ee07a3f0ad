//! What does the shipped model find, and what does a page cost?
//!
//! The whole of [`lycosa_page::extract`], on one thread, timed by the CPU the thread has used: wall
//! time on a shared machine says little. Scores are of pages the model has learnt from; those on
//! pages it has not seen come from `cross`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use lycosa_page::{Input, Limits, extract};

use crate::pages::{Known, f1};

pub fn score(folder: &Path) {
    let mut times = Vec::new();
    let (mut sum, mut pages, mut bytes) = (0.0, 0, 0);
    let (mut titles, mut titled, mut dates, mut dated) = (0, 0, 0, 0);
    let (mut authors, mut authored) = (0, 0);
    for known in Known::all(folder) {
        let body = known.bytes();
        let limits = Limits { body_bytes_max: 16 << 20, ..Limits::default() };
        let input =
            Input { content_type: Some("text/html"), limits, ..Input::new(&known.url, &body) };
        let started = CpuClock::now();
        let (_, content) = extract(input);
        times.push(started.elapsed());
        bytes += body.len();
        let Some(content) = content else { continue };
        if !known.truth.trim().is_empty() {
            sum += f1(&content.text, &known.truth);
            pages += 1;
        }
        let same = |a: &str, b: &str| a.trim().eq_ignore_ascii_case(b.trim());
        if let Some(title) = &known.title {
            titled += 1;
            titles += usize::from(content.metadata.title.is_some_and(|found| same(&found, title)));
        }
        if let Some(author) = &known.author {
            authored += 1;
            authors +=
                usize::from(content.metadata.author.is_some_and(|found| same(&found, author)));
        }
        if let Some(date) = &known.published {
            dated += 1;
            let day = date.get(..10).unwrap_or(date);
            let found = content.metadata.published;
            dates += usize::from(found.is_some_and(|found| found.starts_with(day)));
        }
    }
    times.sort();
    let all: Duration = times.iter().sum();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "pages                   {} of {:.0} KB",
        times.len(),
        bytes as f64 / 1e3 / times.len() as f64
    );
    println!("pages per CPU-second    {:.0}", times.len() as f64 / all.as_secs_f64());
    println!(
        "CPU of a page           median {:.1?}, p99 {:.1?}, most {:.1?}",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    println!("F1 (pages learnt from)  {:.4}", sum / f64::from(pages));
    println!("title as reviewed       {titles} of {titled}");
    println!("author as reviewed      {authors} of {authored}");
    println!("day as reviewed         {dates} of {dated}");
}

/// The CPU time of this thread where the system tells it, else time.
enum CpuClock {
    Cpu(Duration),
    Wall(Instant),
}

impl CpuClock {
    fn now() -> Self {
        cpu_time().map_or_else(|| Self::Wall(Instant::now()), Self::Cpu)
    }

    fn elapsed(&self) -> Duration {
        match self {
            Self::Cpu(then) => cpu_time().map_or(Duration::ZERO, |now| now.saturating_sub(*then)),
            Self::Wall(then) => then.elapsed(),
        }
    }
}

fn cpu_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
}
