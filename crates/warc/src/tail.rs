//! How much of a file's tail is whole records?
//!
//! A crash leaves a file with a record half written, or with a stretch of zeros. Everything up to
//! the end of the last whole record is good; cutting there makes a valid file.

use std::io::BufRead;

use crate::{Damage, Error, Framing, Reader};

/// What a tail came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// End of the last whole record: cut here.
    pub end: u64,
    /// Whole records found.
    pub records: u64,
    /// What stands behind `end`; `None` if the file ends there.
    pub torn: Option<Torn>,
}

/// What was found instead of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Torn {
    /// The beginning of a record.
    Truncated,
    /// Something else. More records may follow it; a file of ours has none.
    Damaged(Damage),
}

/// Reads from `offset`, a record's start where `input` stands, to the end of the last whole
/// record. Checksums are verified, digests are not.
///
/// # Errors
/// [`Error::Io`] if the input cannot be read.
pub fn last_complete<R: BufRead>(input: R, offset: u64) -> Result<Tail, Error> {
    let mut reader = Reader::at(input, offset);
    let mut tail = Tail { end: offset, records: 0, torn: None };
    // Records of a gzip member that goes on: the file cannot be cut behind them.
    let mut in_member = 0;
    loop {
        let record = reader.next_record().and_then(|header| match header {
            Some(_) => reader.finish(),
            None => Ok(None),
        });
        match record {
            Ok(None) => return Ok(tail),
            Ok(Some(extent)) => {
                in_member += 1;
                // A member that is over has been left; a plain file never has one.
                if extent.framing == Framing::Plain || reader.source.framing() == Framing::Plain {
                    tail.records += std::mem::take(&mut in_member);
                    tail.end = reader.source.offset();
                }
            }
            Err(Error::Truncated { .. }) => tail.torn = Some(Torn::Truncated),
            Err(Error::Damaged { damage, .. }) => tail.torn = Some(Torn::Damaged(damage)),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gzip, gzip_file, plain_file};

    #[test]
    fn wherever_a_file_is_cut_the_whole_records_are_kept() {
        for (file, ends) in [gzip_file(), plain_file()] {
            for cut in 0..=file.len() {
                let records = ends.iter().filter(|&&end| end <= cut).count();
                let end = ends[..records].last().map_or(0, |&end| end as u64);
                let torn = (cut as u64 > end).then_some(Torn::Truncated);
                let tail = Tail { end, records: records as u64, torn };
                assert_eq!(last_complete(&file[..cut], 0).unwrap(), tail);
            }
        }
    }

    #[test]
    fn reading_starts_at_the_known_offset() {
        let (file, ends) = gzip_file();
        let tail = last_complete(&file[ends[1]..ends[3] - 1], ends[1] as u64).unwrap();
        assert_eq!((tail.end, tail.records), (ends[2] as u64, 1));
    }

    #[test]
    fn zeros_left_by_a_crash_are_cut_off() {
        let (file, _) = gzip_file();
        let tail = last_complete(&[&file[..], &[0; 4096]].concat()[..], 0).unwrap();
        assert_eq!((tail.end, tail.records), (file.len() as u64, 4));
        assert_eq!(tail.torn, Some(Torn::Damaged(Damage::NotARecord)));
    }

    #[test]
    fn a_member_with_several_records_is_kept_or_cut_as_one() {
        let (file, _) = gzip_file();
        let shared = [file.clone(), gzip(&plain_file().0)].concat();
        let whole = last_complete(&shared[..], 0).unwrap();
        assert_eq!((whole.end, whole.records), (shared.len() as u64, 8));
        let cut = last_complete(&shared[..shared.len() - 1], 0).unwrap();
        assert_eq!((cut.end, cut.records), (file.len() as u64, 4));
    }
}
