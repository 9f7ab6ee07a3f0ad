//! What does a commit say of itself?
//!
//! How far the log of each shard is in it, beside the documents, so that both are there or neither.

use std::collections::BTreeMap;
use std::fmt;

use ports::{PortError, PortErrorKind, PortResult};
use tantivy::Index;
use types::ShardId;

use crate::schema::FORMAT;

/// The payload of a commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Note {
    pub taken: BTreeMap<ShardId, u64>,
    /// The crawl had begun before the index did.
    pub partial: bool,
}

/// The first word of every note.
const NAME: &str = "lycosa";
const PARTIAL: &str = "partial";

impl fmt::Display for Note {
    /// `lycosa 1`, then a line a shard: its number and the place in its log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{NAME} {FORMAT}")?;
        if self.partial {
            writeln!(f, "{PARTIAL}")?;
        }
        self.taken.iter().try_for_each(|(shard, upto)| writeln!(f, "{} {upto}", shard.0))
    }
}

impl Note {
    /// That of the latest commit; of an index without one, nothing is taken.
    pub fn of(index: &Index) -> tantivy::Result<PortResult<Self>> {
        let payload = index.load_metas()?.payload;
        Ok(payload.map_or_else(|| Ok(Self::default()), |text| Self::parse(&text)))
    }

    fn parse(text: &str) -> PortResult<Self> {
        let doing = "read what the full-text index says of itself";
        let broken = || PortError::corrupt(doing, "it is not what we wrote");
        let mut lines = text.lines();
        let format = lines.next().and_then(|line| line.strip_prefix(NAME)).ok_or_else(broken)?;
        if format.trim().parse() != Ok(FORMAT) {
            let why = format!("format{format}; this lycosa reads format {FORMAT}");
            return Err(PortError::new(PortErrorKind::Version, doing, why));
        }
        let mut note = Self::default();
        for line in lines {
            if line == PARTIAL {
                note.partial = true;
                continue;
            }
            let (shard, upto) = line.split_once(' ').ok_or_else(broken)?;
            let shard = ShardId(shard.parse().map_err(|_| broken())?);
            note.taken.insert(shard, upto.parse().map_err(|_| broken())?);
        }
        Ok(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_as_it_was() {
        let taken = BTreeMap::from([(ShardId(0), 7), (ShardId(15), u64::MAX)]);
        for note in [
            Note::default(),
            Note { taken: taken.clone(), partial: false },
            Note { taken, partial: true },
        ] {
            assert_eq!(Note::parse(&note.to_string()).unwrap(), note);
        }
    }

    #[test]
    fn another_version_and_damage_are_told_apart() {
        let kind = |text: &str| Note::parse(text).unwrap_err().kind;
        assert_eq!(kind("lycosa 2\n"), PortErrorKind::Version);
        for text in ["", "x", "lycosa 1\n5", "lycosa 1\nx 1", "lycosa 1\n1 x"] {
            assert_eq!(kind(text), PortErrorKind::Corrupt, "{text:?}");
        }
    }
}
