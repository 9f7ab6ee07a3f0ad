//! What do people see while a crawl runs?
//!
//! On a terminal a line that moves; elsewhere one plain line now and then; with `--json` JSON
//! lines on stdout. `--quiet` leaves nothing for people.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::Live;
use crate::cli::flags::OutputFlags;
use crate::status::{Status, size};
use crate::telemetry::Stderr;

/// How often the line on a terminal moves, and how often a plain one is written.
const MOVING: Duration = Duration::from_millis(500);
const PLAIN: Duration = Duration::from_secs(10);

/// Which of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Bar,
    Plain,
    Json,
    Silent,
}

#[derive(Debug, Clone)]
pub struct Progress {
    form: Form,
    quiet: bool,
    bar: Option<ProgressBar>,
    stderr: Stderr,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    event: &'a str,
    seconds: f64,
    pages: u64,
    pages_per_second: f64,
    queued: u64,
    scheduled: u64,
    known: u64,
    in_flight: u64,
    archive_bytes: u64,
}

impl Progress {
    pub fn new(flags: OutputFlags, stderr: &Stderr) -> Self {
        let form = match flags {
            OutputFlags { json: true, .. } => Form::Json,
            OutputFlags { quiet: true, .. } => Form::Silent,
            _ if std::io::stderr().is_terminal() => Form::Bar,
            _ => Form::Plain,
        };
        let bar = (form == Form::Bar).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
            bar.set_style(style.expect("the template is a constant"));
            stderr.around(bar.clone());
            bar
        });
        Self { form, quiet: flags.quiet, bar, stderr: stderr.clone() }
    }

    /// Tells how things stand until the task is ended.
    pub fn start(&self, live: Arc<Live>) -> tokio::task::JoinHandle<()> {
        let progress = self.clone();
        let every = if self.form == Form::Bar { MOVING } else { PLAIN };
        tokio::spawn(async move {
            if progress.form == Form::Silent {
                return;
            }
            let mut tick = tokio::time::interval(every);
            tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            // The first tick is at once, when there is nothing to tell yet.
            tick.tick().await;
            let mut before = (0, 0.0);
            loop {
                tick.tick().await;
                let status = live.standing(false).await;
                let now = (status.run_pages.unwrap_or(0), status.run_seconds.unwrap_or(0.0));
                let rate = (now.0.saturating_sub(before.0)) as f64 / (now.1 - before.1).max(1e-3);
                before = now;
                progress.show(&status, rate);
            }
        })
    }

    fn show(&self, status: &Status, rate: f64) {
        match self.form {
            Form::Bar => {
                if let Some(bar) = &self.bar {
                    bar.set_message(sentence(status, rate));
                    bar.tick();
                }
            }
            Form::Plain => self.stderr.say(&sentence(status, rate)),
            Form::Json => self.print(&Line {
                event: "progress",
                seconds: status.run_seconds.unwrap_or(0.0),
                pages: status.pages,
                pages_per_second: rate,
                queued: status.queued,
                scheduled: status.scheduled,
                known: status.known,
                in_flight: status.in_flight,
                archive_bytes: status.archive_bytes,
            }),
            Form::Silent => {}
        }
    }

    /// A JSON line on stdout, when those are wanted.
    pub fn print(&self, line: &impl Serialize) {
        if self.form != Form::Json {
            return;
        }
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        let mut stdout = std::io::stdout().lock();
        // Nobody reads any more: the crawl itself goes on.
        let _ = stdout.write_all(&text).and_then(|()| stdout.flush());
    }

    /// A line for people.
    pub fn say(&self, line: &str) {
        if !self.quiet {
            self.stderr.say(line);
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn sentence(status: &Status, rate: f64) -> String {
    let paused = if status.paused { "  PAUSED: the disk is nearly full" } else { "" };
    format!(
        "{} pages  {rate:.1}/s  {} queued  {} in flight  {} archived{paused}",
        status.pages,
        status.queued + status.scheduled,
        status.in_flight,
        size(status.archive_bytes)
    )
}
