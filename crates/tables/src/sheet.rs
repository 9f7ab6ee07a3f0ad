//! How do rows become a Parquet file?
//!
//! Column by column in memory, and as a row group when enough of them are there. The crate `parquet`
//! does the encoding; of its doors this uses the low one, which needs no Arrow.
//!
//! Always: memory is that of one row group.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// What can go wrong: the file cannot be written.
pub type Error = ParquetError;

/// Rows of a group. Engines read a group at a time, and side by side.
const GROUP_ROWS_MAX: usize = 100_000;
/// Bytes of text of a group, before it is packed.
const GROUP_BYTES_MAX: usize = 32 << 20;

/// A file in the making.
pub(crate) struct Sheet<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

/// What a column holds of the group.
struct Column {
    cells: Cells,
    /// For each row whether it has a value; for a column that always has one, nothing.
    given: Option<Vec<i16>>,
}

enum Cells {
    Text(Vec<ByteArray>),
    Int(Vec<i32>),
    Long(Vec<i64>),
}

impl<W: Write + Send> Sheet<W> {
    /// `schema` in the language of Parquet: `message x { required binary url (STRING); … }`.
    pub(crate) fn new(out: W, schema: &str) -> Result<Self> {
        use parquet::basic::Type;
        let schema = Arc::new(parse_message_type(schema)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
            .set_created_by(concat!("lycosa version ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let columns = schema.get_fields().iter().map(|field| Column {
            cells: match field.get_physical_type() {
                Type::INT32 => Cells::Int(Vec::new()),
                Type::INT64 => Cells::Long(Vec::new()),
                _ => Cells::Text(Vec::new()),
            },
            given: field.is_optional().then(Vec::new),
        });
        let columns = columns.collect();
        let file = SerializedFileWriter::new(out, Arc::clone(&schema), Arc::new(properties))?;
        Ok(Self { file, columns, rows: 0, bytes: 0 })
    }

    /// One more row; its cells in the order of the columns.
    pub(crate) fn push(&mut self, row: &[Cell<'_>]) -> Result<()> {
        debug_assert_eq!(row.len(), self.columns.len(), "a cell for each column");
        for (cell, column) in row.iter().zip(&mut self.columns) {
            self.bytes += cell.bytes();
            column.push(cell)?;
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS_MAX || self.bytes >= GROUP_BYTES_MAX {
            self.end_group()?;
        }
        Ok(())
    }

    fn end_group(&mut self) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            let mut writer = group.next_column()?.ok_or_else(|| misfit("a column too many"))?;
            let given = column.given.as_deref();
            match &column.cells {
                Cells::Text(cells) => {
                    writer.typed::<ByteArrayType>().write_batch(cells, given, None)?;
                }
                Cells::Int(cells) => {
                    writer.typed::<Int32Type>().write_batch(cells, given, None)?;
                }
                Cells::Long(cells) => {
                    writer.typed::<Int64Type>().write_batch(cells, given, None)?;
                }
            }
            writer.close()?;
            column.clear();
        }
        group.close()?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    /// Ends the file and gives back what it was written to.
    pub(crate) fn finish(mut self) -> Result<W> {
        if self.rows > 0 {
            self.end_group()?;
        }
        self.file.into_inner()
    }
}

impl<W: Write + Send> std::fmt::Debug for Sheet<W> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Sheet").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// A value, if there is one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell<'a> {
    Text(Option<&'a str>),
    Int(Option<i32>),
    Long(Option<i64>),
}

impl<'a> Cell<'a> {
    pub(crate) fn text(text: &'a str) -> Self {
        Self::Text(Some(text))
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.map_or(1, str::len),
            Self::Int(_) => 4,
            Self::Long(_) => 8,
        }
    }
}

impl Column {
    fn push(&mut self, cell: &Cell<'_>) -> Result<()> {
        let given = match (&mut self.cells, cell) {
            (Cells::Text(cells), Cell::Text(text)) => {
                cells.extend(text.map(ByteArray::from));
                text.is_some()
            }
            (Cells::Int(cells), Cell::Int(number)) => {
                cells.extend(*number);
                number.is_some()
            }
            (Cells::Long(cells), Cell::Long(number)) => {
                cells.extend(*number);
                number.is_some()
            }
            _ => return Err(misfit("a cell of another type than its column")),
        };
        match &mut self.given {
            Some(rows) => rows.push(i16::from(given)),
            None if given => {}
            None => return Err(misfit("no value where there must be one")),
        }
        Ok(())
    }

    fn clear(&mut self) {
        match &mut self.cells {
            Cells::Text(cells) => cells.clear(),
            Cells::Int(cells) => cells.clear(),
            Cells::Long(cells) => cells.clear(),
        }
        if let Some(given) = &mut self.given {
            given.clear();
        }
    }
}

fn misfit(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}
