//! `lycosa report`: from the state, or by the process that crawls.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use types::Timestamp;

use super::look::{kept_settings, stores, unexpected};
use crate::crawl::control::{self, Answer, Ask};
use crate::crawl::report::{About, LastRun};
use crate::crawl::{Report, report_at_rest};
use crate::dir::{Dir, write_whole};
use crate::exit::{Exit, Fail, Outcome};

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The directory of a crawl, running or not
    dir: PathBuf,
    /// A page with tables and plots, as it is in DIR/report.html after a run
    #[arg(long, conflicts_with = "json")]
    html: bool,
    /// JSON, as it is in DIR/report.json after a run
    #[arg(long)]
    json: bool,
    /// Write it to a file; what ends in .html or .json needs no flag
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Html,
    Json,
}

impl ReportArgs {
    fn form(&self) -> Result<Form, Fail> {
        if self.html {
            return Ok(Form::Html);
        }
        if self.json {
            return Ok(Form::Json);
        }
        let Some(file) = &self.output else { return Ok(Form::Text) };
        match file.extension().and_then(|end| end.to_str()) {
            Some("html" | "htm") => Ok(Form::Html),
            Some("json") => Ok(Form::Json),
            Some("txt") => Ok(Form::Text),
            _ => {
                let file = file.display();
                Err(Fail::usage(format!(
                    "what is {file} to be? Say --html or --json, or name it {file}.html"
                )))
            }
        }
    }
}

pub fn run(args: &ReportArgs) -> Outcome {
    let form = args.form()?;
    let report = report(&Dir::new(&args.dir))?;
    let text = match form {
        Form::Text => report.text().into_bytes(),
        Form::Html => report.html().into_bytes(),
        Form::Json => report.json()?,
    };
    match &args.output {
        Some(file) => write(file, &text)?,
        None => {
            let mut out = std::io::stdout().lock();
            out.write_all(&text)?;
            out.flush()?;
        }
    }
    Ok(Exit::Done)
}

fn write(file: &Path, text: &[u8]) -> Result<(), Fail> {
    write_whole(file, text).map_err(|error| {
        let sentence =
            format!("cannot write {}: {error}; name another file with -o", file.display());
        Fail::unwritable(&error, sentence)
    })
}

fn report(dir: &Dir) -> Result<Report, Fail> {
    let mark = dir.mark()?;
    let resolved = kept_settings(dir)?;
    let now = Timestamp::from(std::time::SystemTime::now());
    if dir.holder().is_none() {
        let held = dir.hold_to_look()?;
        let about = (dir, &held.mark);
        return Ok(report_at_rest(&mut stores(&held)?, about, &resolved, now)?);
    }
    let (status, urls, seeds) = match control::ask(dir, &Ask::Survey)? {
        Answer::Survey(found) => *found,
        other => return Err(unexpected(&other)),
    };
    let about = About { dir, mark: &mark, resolved: &resolved, seeds, now };
    Ok(Report::new(&about, LastRun::read(dir), &status, Some(urls)))
}
