//! `lycosa warc`: what is in these files, and are they sound?

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde::Serialize;
use types::CrawlUrl;
use warc::{Dechunker, Header, HttpHead, Reader, Severity};

use crate::exit::{Exit, Fail, Outcome};

#[derive(Debug, Subcommand)]
pub enum WarcCommand {
    /// Read every record to its end and verify it; exit code 1 on damage
    Check {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// One JSON line a file
        #[arg(long)]
        json: bool,
    },
    /// List the records: offset, length, type, date, status, URL
    Ls {
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// JSON lines
        #[arg(long)]
        json: bool,
    },
    /// Print one record, by its offset or by its URL
    Get(GetArgs),
}

#[derive(Debug, Args)]
pub struct GetArgs {
    file: PathBuf,
    /// Where the record starts, or the URL whose first response is wanted
    #[arg(value_name = "OFFSET|URL")]
    which: String,
    /// Only the body of the HTTP message, without chunk framing
    #[arg(long)]
    payload: bool,
}

pub fn run(command: WarcCommand) -> Outcome {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let exit = match command {
        WarcCommand::Check { files, json } => check_all(&files, json, &mut out)?,
        WarcCommand::Ls { files, json } => list_all(&files, json, &mut out)?,
        WarcCommand::Get(args) => get(&args, &mut out)?,
    };
    out.flush()?;
    Ok(exit)
}

fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(BufReader::with_capacity(1 << 17, file))
}

#[derive(Serialize)]
struct Checked {
    file: String,
    ok: bool,
    records: u64,
    digests_verified: u64,
    damage: u64,
    problems: Vec<CheckedProblem>,
    problems_unlisted: u64,
}

#[derive(Serialize)]
struct CheckedProblem {
    offset: u64,
    damage: bool,
    what: String,
}

fn check_all(files: &[PathBuf], json: bool, out: &mut impl Write) -> Outcome {
    let mut exit = Exit::Done;
    for path in files {
        let report =
            warc::check(open(path)?).with_context(|| format!("read {}", path.display()))?;
        let problems = report.problems.iter().map(|problem| CheckedProblem {
            offset: problem.offset,
            damage: problem.what.severity() == Severity::Damage,
            what: problem.what.to_string(),
        });
        let checked = Checked {
            file: path.display().to_string(),
            ok: report.damage == 0,
            records: report.records,
            digests_verified: report.digests_verified,
            damage: report.damage,
            problems: problems.collect(),
            problems_unlisted: report.problems_unlisted,
        };
        if !checked.ok {
            exit = Exit::Failure;
        }
        if json {
            serde_json::to_writer(&mut *out, &checked)?;
            writeln!(out)?;
        } else {
            say_checked(&checked, out)?;
        }
    }
    Ok(exit)
}

fn say_checked(checked: &Checked, out: &mut impl Write) -> std::io::Result<()> {
    let Checked { file, records, digests_verified, damage, .. } = checked;
    for problem in &checked.problems {
        let kind = if problem.damage { "damage" } else { "form" };
        writeln!(out, "{file}: {kind} at offset {}: {}", problem.offset, problem.what)?;
    }
    if checked.problems_unlisted > 0 {
        writeln!(out, "{file}: and {} more", checked.problems_unlisted)?;
    }
    let verdict = if checked.ok { "ok".to_owned() } else { format!("DAMAGED in {damage} places") };
    writeln!(out, "{file}: {verdict}, {records} records, {digests_verified} digests verified")
}

#[derive(Serialize)]
struct Listed<'a> {
    file: &'a str,
    offset: u64,
    length: Option<u64>,
    r#type: &'a str,
    date: &'a str,
    status: Option<&'a str>,
    url: &'a str,
}

fn list_all(files: &[PathBuf], json: bool, out: &mut impl Write) -> Outcome {
    for path in files {
        let mut reader = Reader::new(open(path)?);
        let name = path.display().to_string();
        loop {
            let header = reader.next_record().with_context(|| unreadable(path))?;
            let Some(header) = header else { break };
            let head = http_head(&header, &mut reader).with_context(|| unreadable(path))?;
            let extent = reader.finish().with_context(|| unreadable(path))?;
            let field = |name| header.fields.get(name).unwrap_or("-");
            let listed = Listed {
                file: &name,
                offset: header.offset,
                length: extent.and_then(|extent| extent.length),
                r#type: field("WARC-Type"),
                date: field("WARC-Date"),
                status: head.as_ref().map(HttpHead::status),
                url: bare(field("WARC-Target-URI")),
            };
            if json {
                serde_json::to_writer(&mut *out, &listed)?;
                writeln!(out)?;
            } else {
                let length = listed.length.map_or("-".to_owned(), |length| length.to_string());
                let status = listed.status.unwrap_or("-");
                let Listed { offset, r#type, date, url, .. } = listed;
                writeln!(out, "{offset:>10} {length:>8} {type:<9} {date} {status:>3} {url}")?;
            }
        }
    }
    Ok(Exit::Done)
}

fn unreadable(path: &Path) -> String {
    format!("{}; `lycosa warc check` tells more", path.display())
}

/// The first piece of a response's block holds its head, unless it is a very long one.
fn http_head(
    header: &Header,
    reader: &mut Reader<BufReader<File>>,
) -> Result<Option<HttpHead>, warc::Error> {
    if header.fields.get("WARC-Type") != Some("response") {
        return Ok(None);
    }
    Ok(reader.chunk()?.and_then(|piece| HttpHead::parse(&piece[..head_end(piece)])))
}

/// Where the body of an HTTP message starts.
fn head_end(message: &[u8]) -> usize {
    warc::head_len(&[message]).unwrap_or(message.len())
}

/// WARC 1.0 writes URLs in angle brackets.
fn bare(url: &str) -> &str {
    url.strip_prefix('<').and_then(|url| url.strip_suffix('>')).unwrap_or(url)
}

fn get(args: &GetArgs, out: &mut impl Write) -> Outcome {
    let path = &args.file;
    let mut input = open(path)?;
    let mut found = None;
    let mut reader = match args.which.parse::<u64>() {
        Ok(offset) => {
            input.seek(SeekFrom::Start(offset)).with_context(|| unreadable(path))?;
            let mut reader = Reader::at(input, offset);
            found = reader
                .next_record()
                .with_context(|| format!("{}; `lycosa warc ls` lists offsets", path.display()))?;
            reader
        }
        Err(_) => {
            let mut reader = Reader::new(input);
            let canonical = CrawlUrl::parse(&args.which).ok();
            while let Some(header) = reader.next_record().with_context(|| unreadable(path))? {
                let url = bare(header.fields.get("WARC-Target-URI").unwrap_or_default());
                let wanted =
                    url == args.which || canonical.as_ref().is_some_and(|c| c.as_str() == url);
                if wanted && header.fields.get("WARC-Type") == Some("response") {
                    found = Some(header);
                    break;
                }
            }
            reader
        }
    };
    let Some(header) = found else {
        return Err(Fail::failure(format!(
            "{} has no response for {}; `lycosa warc ls` lists what it has",
            path.display(),
            args.which
        )));
    };
    if args.payload {
        write_payload(&mut reader, out).with_context(|| unreadable(path))?;
    } else {
        write!(out, "WARC/{}\r\n", header.version)?;
        for (name, value) in header.fields.iter() {
            write!(out, "{name}: {value}\r\n")?;
        }
        write!(out, "\r\n")?;
        while let Some(piece) = reader.chunk().with_context(|| unreadable(path))? {
            out.write_all(piece)?;
        }
    }
    Ok(Exit::Done)
}

/// A body larger than this is not held to take its framing off.
const PAYLOAD_BYTES_MAX: u64 = 1 << 30;

fn write_payload(reader: &mut Reader<BufReader<File>>, out: &mut impl Write) -> anyhow::Result<()> {
    let block = reader.block(PAYLOAD_BYTES_MAX)?.context("the record is too large")?;
    let (head, body) = block.split_at(head_end(&block));
    let head = HttpHead::parse(head);
    let coding = head.as_ref().and_then(|head| head.get("transfer-encoding"));
    if coding.is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        let mut dechunked = Vec::with_capacity(body.len());
        let mut dechunker = Dechunker::default();
        dechunker.push(body, |piece| dechunked.extend_from_slice(piece));
        if dechunker.is_sound() {
            out.write_all(&dechunked)?;
            return Ok(());
        }
    }
    out.write_all(body)?;
    Ok(())
}
