//! Who links to whom?
//!
//! One row a link, in the order of the page, repeats kept: the page that it stands on, where it leads, its
//! words, its `rel` and what it is for.

use std::io::Write;

use crate::sheet::{Cell, Error, Sheet};

/// A link.
#[derive(Debug, Clone, Copy)]
pub struct LinkRow<'a> {
    /// The page.
    pub from: &'a str,
    /// Absolute.
    pub to: &'a str,
    /// The words of the link, or of its picture.
    pub anchor: Option<&'a str>,
    pub rel: Option<&'a str>,
    /// `anchor`, `image`, `stylesheet` and so on.
    pub kind: &'a str,
}

const SCHEMA: &str = "message links {
    required binary from (STRING);
    required binary to (STRING);
    optional binary anchor (STRING);
    optional binary rel (STRING);
    required binary kind (STRING);
}";

/// A file of links in the making.
#[derive(Debug)]
pub struct LinkTable<W: Write + Send> {
    sheet: Sheet<W>,
}

impl<W: Write + Send> LinkTable<W> {
    pub fn new(out: W) -> Result<Self, Error> {
        Ok(Self { sheet: Sheet::new(out, SCHEMA)? })
    }

    pub fn push(&mut self, link: &LinkRow<'_>) -> Result<(), Error> {
        self.sheet.push(&[
            Cell::text(link.from),
            Cell::text(link.to),
            Cell::Text(link.anchor),
            Cell::Text(link.rel),
            Cell::text(link.kind),
        ])
    }

    /// Ends the file and gives back what it was written to.
    pub fn finish(self) -> Result<W, Error> {
        self.sheet.finish()
    }
}
