//! What takes input from outside, and what must hold for it?

pub mod canonical;
pub mod documents;
pub mod extract;
pub mod links;
pub mod prints;
pub mod record;
pub mod robots;
pub mod sitemap;
pub mod warc;
