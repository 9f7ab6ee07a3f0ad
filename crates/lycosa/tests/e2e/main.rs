//! The real binary, from outside: one test program, since linking it costs more than running it.

mod again;
mod backup;
mod bad_input;
mod common;
mod config;
mod copies;
mod crawl;
mod dlq;
mod export;
mod faults;
mod frontier;
mod hostile;
mod judge;
mod kills;
mod large;
mod neighbours;
mod protocols;
mod proxies;
mod rest;
mod search;
mod sheets;
mod tool;
mod tool_prints;
mod workers;
mod world;
