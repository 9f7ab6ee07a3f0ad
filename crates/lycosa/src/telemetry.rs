//! Where do log lines go?
//!
//! For people to stderr, around the progress bar if there is one; for machines to `logs/*.jsonl`
//! in the crawl's directory. `LYCOSA_LOG` sets what is logged (`debug`, `engine=debug,info`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use indicatif::ProgressBar;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, reload};
use types::Timestamp;

use crate::settings::layers::SettingsError;

/// stderr, shared with a progress bar.
#[derive(Debug, Clone, Default)]
pub struct Stderr {
    bar: Arc<Mutex<Option<ProgressBar>>>,
}

impl Stderr {
    /// From now on lines are written around this bar.
    pub fn around(&self, bar: ProgressBar) {
        *self.bar.lock().expect("no panic while locked") = Some(bar);
    }

    /// Writes one line.
    pub fn say(&self, line: &str) {
        // There is nobody left to tell that stderr is gone.
        let _ = writeln!(self.clone(), "{line}");
    }
}

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &*self.bar.lock().expect("no panic while locked") {
            Some(bar) => bar.suspend(|| io::stderr().write(bytes)),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl<'a> MakeWriter<'a> for Stderr {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// How much people want to read.
#[derive(Debug, Clone, Copy)]
pub struct Loudness {
    pub quiet: bool,
    /// How often `-v` was given.
    pub verbose: u8,
}

/// How much is logged, changed while the process runs.
#[derive(Clone)]
pub struct Levels {
    /// For people, and for machines: what was asked at the start, and how to ask for something else.
    filters: Arc<[(String, Change)]>,
    /// What was asked since.
    asked: Arc<Mutex<BTreeMap<String, String>>>,
}

type Change = Box<dyn Fn(EnvFilter) + Send + Sync>;

impl Levels {
    /// From now on this part is logged from this level on; all of ours if it is none of them.
    pub fn set(&self, part: &str, level: &str) {
        let parts: Vec<&str> = match CRATES.contains(&part.trim_start_matches("lycosa_")) {
            true => vec![part.trim_start_matches("lycosa_")],
            false => CRATES.to_vec(),
        };
        let mut asked = self.asked.lock().expect("no panic while locked");
        for part in parts {
            asked.insert(format!("lycosa_{part}"), level.to_owned());
        }
        let asked: String = asked.iter().map(|(part, level)| format!(",{part}={level}")).collect();
        for (first, change) in &*self.filters {
            change(EnvFilter::new(format!("{first}{asked}")));
        }
    }
}

/// Starts logging; `logs` is the folder for machines' lines. Called once.
pub fn start(loudness: Loudness, logs: Option<&Path>, stderr: &Stderr) -> anyhow::Result<Levels> {
    let level = match loudness {
        Loudness { quiet: true, .. } => "error",
        Loudness { verbose: 0, .. } => "warn",
        Loudness { verbose: 1, .. } => "info",
        Loudness { .. } => "debug",
    };
    // Dependencies are heard from `warn` on, whatever is asked of ours.
    let ours = |level: &str| {
        format!(
            "warn,lycosa={level},lycosa_engine={level},lycosa_fetch={level},lycosa_local={level},\
             lycosa_frontier={level},lycosa_service={level}"
        )
    };
    let mut filters: Vec<(String, Change)> = Vec::new();
    let mut filter = |default: String| {
        let asked = match std::env::var("LYCOSA_LOG") {
            Ok(text) => full_names(&text),
            Err(_) => default,
        };
        let filter = EnvFilter::try_new(&asked).map_err(|error| {
            SettingsError(format!("LYCOSA_LOG={asked}: {error}; write info or engine=debug,info"))
        })?;
        let (filter, handle) = reload::Layer::new(filter);
        // What cannot be changed any more belongs to a process that is ending.
        let change = move |filter| drop(handle.reload(filter));
        filters.push((asked, Box::new(change)));
        Ok::<_, SettingsError>(filter)
    };
    let quiet = if loudness.quiet { "error".to_owned() } else { ours(level) };
    let human = tracing_subscriber::fmt::layer()
        .with_writer(stderr.clone())
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        .with_target(false);
    let mut layers = vec![human.with_filter(filter(quiet)?).boxed()];
    if let Some(folder) = logs {
        std::fs::create_dir_all(folder).context("make the log folder")?;
        let now = Timestamp::from(std::time::SystemTime::now());
        let path = folder.join(format!("lycosa-{}.jsonl", now.digits14()));
        let file = File::options().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("open {}", path.display()))?;
        let layer = tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_writer(Mutex::new(file));
        let level = if loudness.verbose > 1 { "debug" } else { "info" };
        layers.push(layer.with_filter(filter(ours(level))?).boxed());
    }
    tracing_subscriber::registry().with(layers).init();
    Ok(Levels { filters: filters.into(), asked: Arc::default() })
}

/// Our crates by the names they have in the tree.
const CRATES: [&str; 11] = [
    "engine", "fetch", "frontier", "local", "page", "ports", "robots", "service", "simweb",
    "types", "warc",
];

/// `engine=debug` as people write it becomes `lycosa_engine=debug`, as the lines are marked.
fn full_names(text: &str) -> String {
    let mut out = String::new();
    let mut depth = 0_u32;
    // Commas part directives, but not those between the fields of a span: `a[b{c=1,d=2}]=debug`.
    let directives = text.split(|c| {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    for (n, directive) in directives.enumerate() {
        let directive = directive.trim();
        let end = directive.find([':', '=', '[']).unwrap_or(directive.len());
        let comma = if n > 0 { "," } else { "" };
        let prefix = if CRATES.contains(&&directive[..end]) { "lycosa_" } else { "" };
        out.push_str(comma);
        out.push_str(prefix);
        out.push_str(directive);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_crates_may_be_called_by_their_short_names() {
        for (text, want) in [
            ("debug", "debug"),
            ("engine=debug,info", "lycosa_engine=debug,info"),
            ("info, engine::life=trace", "info,lycosa_engine::life=trace"),
            ("frontier", "lycosa_frontier"),
            ("lycosa_engine=debug,hyper=info", "lycosa_engine=debug,hyper=info"),
            ("fetch[x{a=1,local=2}]=debug,off", "lycosa_fetch[x{a=1,local=2}]=debug,off"),
            ("", ""),
        ] {
            assert_eq!(full_names(text), want, "{text}");
        }
    }
}
