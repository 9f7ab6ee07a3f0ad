//! Where do log lines go?
//!
//! For people to stderr, around the progress bar if there is one; for machines to `logs/*.jsonl`
//! in the crawl's directory. `LYCOSA_LOG` sets what is logged (`debug`, `engine=debug,info`).

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
use types::Timestamp;

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

/// Starts logging; `logs` is the folder for machines' lines. Called once.
pub fn start(loudness: Loudness, logs: Option<&Path>, stderr: &Stderr) -> anyhow::Result<()> {
    let level = match loudness {
        Loudness { quiet: true, .. } => "error",
        Loudness { verbose: 0, .. } => "warn",
        Loudness { verbose: 1, .. } => "info",
        Loudness { .. } => "debug",
    };
    // Dependencies are heard from `warn` on, whatever is asked of ours.
    let ours = |level: &str| {
        format!(
            "warn,lycosa={level},lycosa_engine={level},lycosa_fetch={level},lycosa_local={level},lycosa_frontier={level}"
        )
    };
    let filter = |default: &str| match std::env::var("LYCOSA_LOG") {
        Ok(text) => EnvFilter::try_new(&text)
            .with_context(|| format!("LYCOSA_LOG={text}: write it as info or engine=debug,info")),
        Err(_) => Ok(EnvFilter::new(default)),
    };
    let quiet = if loudness.quiet { "error".to_owned() } else { ours(level) };
    let human = tracing_subscriber::fmt::layer()
        .with_writer(stderr.clone())
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        .with_target(false);
    let human = tracing_subscriber::Layer::with_filter(human, filter(&quiet)?);
    let machine = match logs {
        None => None,
        Some(folder) => {
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
            Some(tracing_subscriber::Layer::with_filter(layer, filter(&ours(level))?))
        }
    };
    tracing_subscriber::registry().with(human).with(machine).init();
    Ok(())
}
