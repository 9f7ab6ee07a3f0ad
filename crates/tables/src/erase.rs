//! How does a row leave the table for good?
//!
//! A Parquet file cannot lose a row, so a part that holds one is written anew without it, under a
//! temporary name until it is whole. All other rows stay as they are, or say that their record lies
//! elsewhere now. A part whose rows all go is removed.
//!
//! Always: a death on the way leaves the old part or the new one; the same call again does the rest.
//!
//! Not here: rows that wait in a side file, which are lines.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use ports::{PortResult, failpoint};

use crate::sheet::{Cell, Error, Sheet};
use crate::sink::{draft_of, failed, kind_of, sync_folder};
use crate::url_table::part_schema;

/// What becomes of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowFate {
    Stays,
    Goes,
    /// Its record lies there now, and is of that type.
    Moved {
        offset: u64,
        length: u64,
        mime: Option<String>,
    },
}

/// Where the record of a row lies.
#[derive(Debug, Clone, Copy)]
pub struct RowPlace<'a> {
    pub url: &'a str,
    /// Below the crawl's directory.
    pub filename: &'a str,
    pub offset: u64,
}

/// Says what becomes of a row.
pub type Judge<'a> = dyn FnMut(RowPlace<'_>) -> RowFate + 'a;

const URL: &str = "url";
const MIME: &str = "content_mime_type";
const FILE: &str = "warc_filename";
const OFFSET: &str = "warc_record_offset";
const LENGTH: &str = "warc_record_length";

/// Judges the rows of all parts below the folder `table` of a crawl at rest; answers how many go or become
/// others. `keep` false only counts.
pub fn erase(table: &Path, judge: &mut Judge<'_>, keep: bool) -> PortResult<u64> {
    let mut changed = 0;
    for crawl in entries(table)? {
        for subset in entries(&crawl)? {
            let is_draft = |path: &PathBuf| path.extension().is_some_and(|end| end == "tmp");
            let (drafts, parts): (Vec<_>, Vec<_>) =
                entries(&subset)?.into_iter().partition(is_draft);
            for draft in drafts.iter().filter(|_| keep) {
                fs::remove_file(draft).map_err(|error| failed("remove", draft, &error))?;
            }
            for part in parts {
                if part.extension().is_some_and(|end| end == "parquet") {
                    changed += erase_part(&part, judge, keep)?;
                }
            }
        }
    }
    Ok(changed)
}

/// What a folder holds, in order; nothing if it is none.
fn entries(folder: &Path) -> PortResult<Vec<PathBuf>> {
    let say = |error: io::Error| failed("list", folder, &error);
    let read = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        read => read.map_err(say)?,
    };
    let mut paths = Vec::new();
    for entry in read {
        paths.push(entry.map_err(say)?.path());
    }
    paths.sort_unstable();
    Ok(paths)
}

fn erase_part(path: &Path, judge: &mut Judge<'_>, keep: bool) -> PortResult<u64> {
    let wrong = |doing: &'static str| {
        move |error: Error| {
            ports::PortError::new(kind_of(&error), format!("{doing} {}", path.display()), &error)
        }
    };
    let open = || -> Result<SerializedFileReader<File>, Error> {
        SerializedFileReader::new(File::open(path)?)
    };
    let (rows, changed, goes) = survey(&open, judge).map_err(wrong("read"))?;
    if changed == 0 || !keep {
        return Ok(changed);
    }
    if goes == rows {
        fs::remove_file(path).map_err(|error| failed("remove", path, &error))?;
    } else {
        let draft = draft_of(path);
        write(&open, &draft, judge).map_err(wrong("write anew"))?;
        fs::rename(&draft, path).map_err(|error| failed("replace", path, &error))?;
    }
    path.parent().map_or(Ok(()), sync_folder)?;
    failpoint("forget_part");
    Ok(changed)
}

/// How many rows there are, how many of them change, and how many of these go. Reads what is judged only.
fn survey(
    open: &dyn Fn() -> Result<SerializedFileReader<File>, Error>,
    judge: &mut Judge<'_>,
) -> Result<(u64, u64, u64), Error> {
    let reader = open()?;
    let schema = reader.metadata().file_metadata().schema();
    let fields = schema.get_fields().iter();
    let wanted = fields.filter(|field| [URL, FILE, OFFSET].contains(&field.name())).cloned();
    let schema = Type::group_type_builder(schema.name()).with_fields(wanted.collect()).build()?;
    let (mut rows, mut changed, mut goes) = (0, 0, 0);
    for row in reader.get_row_iter(Some(schema))? {
        let fate = judge(place(&row?)?);
        rows += 1;
        changed += u64::from(fate != RowFate::Stays);
        goes += u64::from(fate == RowFate::Goes);
    }
    Ok((rows, changed, goes))
}

/// A part like this one, of the rows that stay.
fn write(
    open: &dyn Fn() -> Result<SerializedFileReader<File>, Error>,
    draft: &Path,
    judge: &mut Judge<'_>,
) -> Result<(), Error> {
    let mut sheet = Sheet::new(BufWriter::new(File::create(draft)?), &part_schema())?;
    for row in open()?.get_row_iter(None)? {
        let row = row?;
        let fate = judge(place(&row)?);
        if fate == RowFate::Goes {
            continue;
        }
        let mut cells = Vec::new();
        for (name, field) in row.get_column_iter() {
            cells.push(match &fate {
                RowFate::Moved { offset, .. } if name == OFFSET => int(*offset)?,
                RowFate::Moved { length, .. } if name == LENGTH => int(*length)?,
                RowFate::Moved { mime, .. } if name == MIME => Cell::Text(mime.as_deref()),
                _ => cell(name, field)?,
            });
        }
        sheet.push(&cells)?;
    }
    let file = sheet.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(file.sync_all()?)
}

fn place(row: &Row) -> Result<RowPlace<'_>, Error> {
    let mut place = RowPlace { url: "", filename: "", offset: 0 };
    for (name, field) in row.get_column_iter() {
        match (name.as_str(), field) {
            (URL, Field::Str(text)) => place.url = text,
            (FILE, Field::Str(text)) => place.filename = text,
            (OFFSET, Field::Int(number)) => place.offset = u64::try_from(*number).unwrap_or(0),
            _ => {}
        }
    }
    if place.url.is_empty() {
        return Err(Error::General("a row without a URL".to_owned()));
    }
    Ok(place)
}

fn int(number: u64) -> Result<Cell<'static>, Error> {
    let number = i32::try_from(number);
    let number = number.map_err(|_| Error::General("a place beyond 32 bits".to_owned()))?;
    Ok(Cell::Int(Some(number)))
}

fn cell<'a>(name: &str, field: &'a Field) -> Result<Cell<'a>, Error> {
    Ok(match field {
        Field::Str(text) => Cell::text(text),
        Field::Short(number) => Cell::Int(Some(i32::from(*number))),
        Field::Int(number) => Cell::Int(Some(*number)),
        Field::Long(number) | Field::TimestampMillis(number) => Cell::Long(Some(*number)),
        // Numbers that may be missing are all of one type.
        Field::Null if name == "url_port" => Cell::Int(None),
        Field::Null => Cell::Text(None),
        other => {
            let why = format!("{name} holds {other}, which no column of the table does");
            return Err(Error::General(why));
        }
    })
}

#[cfg(test)]
mod tests {
    use parquet::record::RowAccessor as _;
    use types::{CrawlUrl, Timestamp};

    use super::*;
    use crate::url_table::{Subset, UrlTable};

    fn row(url: &str, offset: u64) -> crate::Row {
        let url = CrawlUrl::parse(url).unwrap();
        crate::Row {
            subset: Subset::of(&url, 200, true),
            url,
            at: Timestamp::from_millis(1_793_867_400_123),
            status: 200,
            redirect: None,
            digest: Some("CH7IV3XAD3M7A42JARKRLJ3T5PGGCGXD".to_owned()),
            mime: Some("warc/revisit".to_owned()),
            detected: None,
            charset: Some("UTF-8".to_owned()),
            language: Some("en".to_owned()),
            truncated: None,
            filename: "archive/x.warc.gz".to_owned(),
            offset,
            length: 5,
            segment: "00".to_owned(),
        }
    }

    fn part(folder: &Path, name: &str, urls: &[&str]) -> PathBuf {
        let folder = folder.join("crawl=c1").join("subset=warc");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        let mut table = UrlTable::part(File::create(&path).unwrap()).unwrap();
        for (url, offset) in urls.iter().zip(0..) {
            table.push(&row(url, offset)).unwrap();
        }
        table.finish().unwrap();
        path
    }

    fn rows(path: &Path) -> Vec<String> {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
    }

    fn of_a(place: RowPlace<'_>) -> RowFate {
        match place.url {
            url if url.starts_with("http://a.test/") => RowFate::Goes,
            _ if place.offset == 2 => {
                RowFate::Moved { offset: 700, length: 80, mime: Some("text/html".to_owned()) }
            }
            _ => RowFate::Stays,
        }
    }

    #[test]
    fn rows_go_others_stay_to_the_letter_and_some_follow_their_records() {
        let folder = tempfile::tempdir().unwrap();
        let urls = ["http://b.test:81/?q=1", "http://a.test/", "http://c.test/", "http://a.test/2"];
        let mixed = part(folder.path(), "part-00-1.parquet", &urls);
        let gone = part(folder.path(), "part-00-2.parquet", &["http://a.test/3"]);
        let other = part(folder.path(), "part-00-3.parquet", &["http://d.test/"]);
        let draft = draft_of(&mixed);
        fs::write(&draft, "http://a.test/").unwrap();
        let before = (rows(&mixed), fs::read(&other).unwrap());
        assert_eq!(erase(folder.path(), &mut of_a, false).unwrap(), 4);
        assert_eq!(rows(&mixed), before.0, "nothing was done yet");
        assert_eq!(erase(folder.path(), &mut of_a, true).unwrap(), 4);
        let after = rows(&mixed);
        assert_eq!((after.len(), &after[0]), (2, &before.0[0]));
        assert!(!gone.exists() && !draft.exists(), "no part without a row, no draft");
        assert_eq!(fs::read(&other).unwrap(), before.1);
        let reader = SerializedFileReader::new(File::open(&mixed).unwrap()).unwrap();
        let moved = reader.get_row_iter(None).unwrap().nth(1).unwrap().unwrap();
        assert_eq!((moved.get_int(27).unwrap(), moved.get_int(28).unwrap()), (700, 80));
        assert_eq!(moved.get_string(21).unwrap(), "text/html");
        let schema = reader.metadata().file_metadata().schema();
        assert_eq!(schema.get_fields().len(), 30);
    }

    #[test]
    fn where_there_is_no_table_nothing_goes_and_a_torn_part_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(erase(&folder.path().join("table"), &mut of_a, true).unwrap(), 0);
        let torn = part(folder.path(), "part-00-1.parquet", &["http://a.test/"]);
        fs::write(&torn, "PAR1").unwrap();
        let error = erase(folder.path(), &mut of_a, true).unwrap_err().to_string();
        assert!(error.contains("part-00-1.parquet"), "{error}");
    }
}
