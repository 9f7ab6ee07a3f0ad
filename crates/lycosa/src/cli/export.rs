//! `lycosa export`: what was crawled, in other forms.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::Args;
use types::Timestamp;

use super::look::kept_settings;
use crate::dir::Dir;
use crate::exit::{Exit, Fail, Outcome};
use crate::export::filter::{self, Filter, HostPattern, StatusRange, TypePattern};
use crate::export::{self, Exported, Format, Wish};

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The directory of a crawl, running or not
    dir: PathBuf,
    #[arg(long, value_enum)]
    format: Format,
    /// Write to this file instead of stdout; packed if the name ends in .gz
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only this host; `*.example.org` for all below it as well
    #[arg(long, value_name = "HOST")]
    host: Vec<HostPattern>,
    /// Only answers with this status: 200, 4xx, 300-399 [default: 2xx, where pages are exported]
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    status: Vec<StatusRange>,
    /// Only this media type: text/html, text/*
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    media_type: Vec<TypePattern>,
    /// Only pages in this language: en, pt-BR
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    language: Vec<String>,
    /// Only what was fetched at this moment or later: 2026-11-18, or with a time
    #[arg(long, value_name = "DATE", value_parser = filter::moment)]
    after: Option<Timestamp>,
    /// Only what was fetched before this moment
    #[arg(long, value_name = "DATE", value_parser = filter::moment)]
    before: Option<Timestamp>,
    /// Only URLs in which this expression is found
    #[arg(long, value_name = "RE")]
    include: Vec<String>,
    /// No URLs in which this expression is found
    #[arg(long, value_name = "RE")]
    exclude: Vec<String>,
    /// Stop after so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Pages that had not changed once more, as of the later date
    #[arg(long)]
    revisits: bool,
    /// With --format jsonl: markdown beside the text
    #[arg(long)]
    markdown: bool,
}

pub fn run(args: &ExportArgs) -> Outcome {
    let dir = Dir::new(&args.dir);
    let mark = dir.mark()?;
    let wish = Wish {
        format: args.format,
        filter: Filter {
            hosts: args.host.clone(),
            statuses: args.status.clone(),
            types: args.media_type.clone(),
            languages: args.language.clone(),
            after: args.after,
            before: args.before,
            include: filter::patterns("--include", &args.include)?,
            exclude: filter::patterns("--exclude", &args.exclude)?,
        },
        limit: args.limit,
        revisits: args.revisits,
        markdown: args.markdown,
        output: args.output.clone(),
    };
    check(&wish)?;
    let settings = kept_settings(&dir)?.settings;
    let Exported { items, damaged } = export::run(&dir, &mark, &settings, &wish)?;
    if let Some(output) = &wish.output {
        let what = match wish.format {
            Format::Jsonl | Format::Markdown | Format::Wet | Format::Links => "pages",
            Format::Parquet | Format::Cdxj | Format::Wacz => "captures",
        };
        eprintln!("{items} {what} in {}", output.display());
    }
    if damaged > 0 {
        return Err(Fail::failure(format!(
            "{} could not be read, all others were exported; `lycosa warc check {}` tells where",
            crate::crawl::counted(damaged, "record"),
            dir.archive().join("*").display()
        )));
    }
    Ok(Exit::Done)
}

/// What does not go together is refused before anything is read.
fn check(wish: &Wish) -> Result<(), Fail> {
    let Wish { format, filter, limit, revisits, markdown, output } = wish;
    let refuse = |sentence: &str| Err(Fail::usage(sentence));
    if *format == Format::Wacz && (!filter.is_empty() || limit.is_some() || *revisits) {
        return refuse("a WACZ holds all of the archive; filters go with the other formats");
    }
    if *format == Format::Cdxj && !filter.languages.is_empty() {
        return refuse(
            "an index knows no languages; leave out --language, or use --format parquet",
        );
    }
    if *format == Format::Wet && *revisits {
        return refuse(
            "a page that had not changed has no record of its own; leave out --revisits",
        );
    }
    if *markdown && *format != Format::Jsonl {
        return refuse("--markdown goes with --format jsonl; --format markdown is markdown alone");
    }
    let binary = matches!(format, Format::Parquet | Format::Links);
    if binary && output.is_none() && std::io::stdout().is_terminal() {
        return refuse("Parquet is not for a terminal: add -o FILE.parquet");
    }
    let is_gz = output.as_deref().is_some_and(|path| path.extension().is_some_and(|it| it == "gz"));
    if is_gz && (binary || *format == Format::Wacz) {
        return refuse("this format is packed by itself; choose a name that does not end in .gz");
    }
    let folder = output.as_deref().is_some_and(export::is_folder);
    if folder && *format != Format::Markdown {
        return refuse("-o names a folder; only --format markdown writes a file a page");
    }
    Ok(())
}
