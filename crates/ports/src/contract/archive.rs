//! Promises about archives: where members lie, when files change, what a cut leaves.

use types::{Timestamp, WarcRef};

use crate::archive::{Archive, ArchiveEnd};
use crate::error::PortResult;
use crate::spool::{Blob, MemorySpool, Spool as _};

/// An archive's files, which can be opened again and again and looked into.
pub trait ReopenArchive {
    type Archive: Archive;

    /// Opens the archive; files become at most `file_bytes_max` large.
    fn open(&mut self, file_bytes_max: u64) -> PortResult<Self::Archive>;

    /// Serial numbers and bytes of all files, in order.
    fn files(&self) -> Vec<(u32, Vec<u8>)>;

    /// Takes bytes from the end of a file, as a power loss does that was not synced against.
    fn shorten(&mut self, file: u32, bytes: u64);

    /// A whole member, different for each number.
    fn member(&self, number: u64) -> Vec<u8>;

    /// The members of a file's bytes; none if they are not whole members from end to end.
    fn members(&self, bytes: &[u8]) -> Option<u64>;
}

pub(super) type ArchiveCase<R> = (&'static str, fn(&mut R));

pub(super) fn cases<R: ReopenArchive>() -> Vec<ArchiveCase<R>> {
    vec![
        ("members lie where the archive says", members_lie_where_said),
        ("a full file is followed by the next", a_full_file_is_followed),
        ("a group stays in one file", a_group_stays_in_one_file),
        ("a cut leaves what is known", a_cut_leaves_what_is_known),
        ("nothing known is nothing kept", nothing_known_is_nothing_kept),
        ("an archive that lost bytes goes on in a new file", lost_bytes_begin_a_new_file),
        ("a kill at any point leaves valid files", a_kill_leaves_valid_files),
    ]
}

fn now() -> Timestamp {
    Timestamp::from_secs(1_800_000_000)
}

/// Appends visits of two members each.
fn append<R: ReopenArchive>(
    state: &R,
    archive: &mut R::Archive,
    visits: std::ops::Range<u64>,
) -> Vec<(u64, WarcRef)> {
    // One of the two lies elsewhere, as those of large answers do.
    let stored = |member: Vec<u8>| {
        let mut draft = MemorySpool.begin().unwrap();
        draft.append(&member).unwrap();
        Blob::Stored(draft.finish())
    };
    let groups: Vec<[Blob; 2]> = visits
        .clone()
        .map(|n| [state.member(2 * n).into(), stored(state.member(2 * n + 1))])
        .collect();
    let groups: Vec<&[Blob]> = groups.iter().map(<[_; 2]>::as_slice).collect();
    let places = archive.append(&groups, now()).unwrap();
    assert_eq!(places.len(), groups.len());
    let numbered = visits.zip(places).flat_map(|(n, places)| {
        assert_eq!(places.len(), 2);
        [(2 * n, places[0]), (2 * n + 1, places[1])]
    });
    numbered.collect()
}

/// Every place holds its member, and all files are whole.
fn check<R: ReopenArchive>(state: &R, archive: &R::Archive, places: &[(u64, WarcRef)]) {
    let files = state.files();
    for (number, place) in places {
        let (_, file) = files.iter().find(|(serial, _)| *serial == place.file).unwrap();
        let bytes = &file[place.offset as usize..(place.offset + place.length) as usize];
        assert_eq!(bytes, state.member(*number), "member {number} at {place:?}");
    }
    let mut members = 0;
    for (serial, bytes) in &files {
        let found = state.members(bytes);
        members += found.unwrap_or_else(|| panic!("file {serial} is not whole"));
    }
    // Each file begins with a warcinfo record of its own.
    assert_eq!(members, (places.len() + files.len()) as u64);
    let size: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(archive.bytes_written(), size as u64);
    if let Some(end) = archive.end() {
        let (serial, bytes) = files.last().unwrap();
        assert_eq!(end, ArchiveEnd { file: *serial, bytes: bytes.len() as u64 });
    }
}

fn members_lie_where_said<R: ReopenArchive>(state: &mut R) {
    let mut archive = state.open(1 << 30).unwrap();
    archive.cut(None).unwrap();
    assert_eq!((archive.end(), archive.bytes_written()), (None, 0));
    archive.sync().unwrap();
    assert!(archive.append(&[], now()).unwrap().is_empty());
    assert!(state.files().is_empty());
    let mut places = append(state, &mut archive, 0..3);
    places.extend(append(state, &mut archive, 3..4));
    archive.sync().unwrap();
    assert!(places.is_sorted_by_key(|(_, place)| (place.file, place.offset)));
    check(state, &archive, &places);
    let name = archive.file_name(0);
    assert!(name.ends_with("-00000.warc.gz"), "{name}");
}

fn a_full_file_is_followed<R: ReopenArchive>(state: &mut R) {
    let size = state.member(0).len() as u64;
    let mut archive = state.open(size * 8).unwrap();
    archive.cut(None).unwrap();
    let mut places = Vec::new();
    for n in 0..12 {
        places.extend(append(state, &mut archive, n..n + 1));
    }
    assert!(state.files().len() > 3);
    assert!(state.files().iter().all(|(_, bytes)| bytes.len() as u64 <= size * 8));
    let serials: Vec<_> = state.files().iter().map(|(serial, _)| *serial).collect();
    assert_eq!(serials, (0..serials.len() as u32).collect::<Vec<_>>());
    check(state, &archive, &places);
}

fn a_group_stays_in_one_file<R: ReopenArchive>(state: &mut R) {
    // Every group is larger than a file may be: each has its own.
    let mut archive = state.open(1).unwrap();
    archive.cut(None).unwrap();
    let places = append(state, &mut archive, 0..5);
    for pair in places.chunks(2) {
        assert_eq!(pair[0].1.file, pair[1].1.file);
    }
    assert_eq!(state.files().len(), 5);
    check(state, &archive, &places);
}

fn a_cut_leaves_what_is_known<R: ReopenArchive>(state: &mut R) {
    let size = state.member(0).len() as u64;
    let mut ends = vec![];
    let mut archive = state.open(size * 8).unwrap();
    archive.cut(None).unwrap();
    let mut places = Vec::new();
    for n in 0..9 {
        places.extend(append(state, &mut archive, n..n + 1));
        ends.push(archive.end());
    }
    // From the last end to the first: each cut goes deeper.
    for (n, end) in ends.iter().enumerate().rev() {
        drop(archive);
        archive = state.open(size * 8).unwrap();
        archive.cut(*end).unwrap();
        assert_eq!(archive.end(), *end);
        places.truncate(2 * (n + 1));
        check(state, &archive, &places);
    }
    // And the archive goes on from there.
    places.extend(append(state, &mut archive, 20..30));
    check(state, &archive, &places);
}

fn nothing_known_is_nothing_kept<R: ReopenArchive>(state: &mut R) {
    let mut archive = state.open(1).unwrap();
    archive.cut(None).unwrap();
    append(state, &mut archive, 0..3);
    drop(archive);
    let mut archive = state.open(1).unwrap();
    archive.cut(None).unwrap();
    assert!(state.files().is_empty() && archive.end().is_none());
    let places = append(state, &mut archive, 0..2);
    check(state, &archive, &places);
}

fn lost_bytes_begin_a_new_file<R: ReopenArchive>(state: &mut R) {
    for lost in [1, 30, 100_000] {
        let mut archive = state.open(1 << 30).unwrap();
        archive.cut(None).unwrap();
        append(state, &mut archive, 0..3);
        let end = archive.end();
        drop(archive);
        state.shorten(0, lost);
        let mut archive = state.open(1 << 30).unwrap();
        archive.cut(end).unwrap();
        let places = append(state, &mut archive, 7..8);
        assert!(places.iter().all(|(_, place)| place.file == 1), "{places:?}");
        for (serial, bytes) in state.files() {
            assert!(state.members(&bytes).is_some(), "file {serial}");
        }
    }
}

fn a_kill_leaves_valid_files<R: ReopenArchive>(state: &mut R) {
    let size = state.member(0).len() as u64;
    let mut known = None;
    let mut places = Vec::new();
    for life in 0..20_u64 {
        let mut archive = state.open(size * 9).unwrap();
        archive.cut(known).unwrap();
        check(state, &archive, &places);
        let n = life * 10;
        places.extend(append(state, &mut archive, n..n + 1 + life % 3));
        archive.sync().unwrap();
        known = archive.end();
        // Not known when it is killed.
        append(state, &mut archive, n + 5..n + 5 + life % 4);
    }
}
