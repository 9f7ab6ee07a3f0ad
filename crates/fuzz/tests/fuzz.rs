//! Every target: all of its files, and a short hunt with a fixed seed.
//!
//! `cargo xtask fuzz` runs the same for longer.

use lycosa_fuzz::hunt;
use lycosa_fuzz::targets::{
    canonical, documents, extract, links, prints, record, robots, sitemap, warc,
};

#[test]
fn no_robots_txt_breaks_its_reader() {
    hunt(&robots::TARGET);
}

#[test]
fn every_canonical_url_is_its_own_canonical_form() {
    hunt(&canonical::TARGET);
}

#[test]
fn no_page_breaks_the_link_scan() {
    hunt(&links::TARGET);
}

#[test]
fn no_file_breaks_the_archive_reader() {
    hunt(&warc::TARGET);
}

#[test]
fn no_stored_bytes_break_their_reader() {
    hunt(&record::TARGET);
}

#[test]
fn no_sitemap_breaks_its_reader() {
    hunt(&sitemap::TARGET);
}

#[test]
fn every_text_has_its_prints() {
    hunt(&prints::TARGET);
}

#[test]
fn no_page_breaks_the_reader_of_content() {
    hunt(&extract::TARGET);
}

#[test]
fn no_pdf_breaks_its_reader() {
    hunt(&documents::PDF);
}

#[test]
fn no_office_document_breaks_its_reader() {
    hunt(&documents::OFFICE);
}

#[test]
fn no_picture_breaks_its_reader() {
    hunt(&documents::IMAGE);
}

#[test]
fn no_data_breaks_its_reader() {
    hunt(&documents::DATA);
}
