//! Results that are values, in JSON, YAML, XML or blocks of lines: records, their states, tables;
//! and pages of browsers.

mod addresses;
pub(super) mod answer;
mod blocks;
pub(super) mod encoded;
mod left_out;
mod named;
pub(super) mod page;
pub(super) mod pages;
mod plumbing;
pub(super) mod record;
pub(super) mod records;
mod references;
pub(super) mod rows;
pub(super) mod seen;
mod series;
mod states;
mod xml;
mod yaml;
