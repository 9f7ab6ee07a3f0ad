//! How is a visit written in the log, so that older lines are read as well?
//!
//! A line as `ports::codec` writes it, and behind it what the visit told of its page, if it told
//! anything. Lines of the version that knew nothing of that end before it; that version reads ours up
//! to there.

use ports::shard_store::VisitLine;
use ports::{PortError, PortResult, codec};

/// Appends a line.
pub fn write(line: &VisitLine, out: &mut Vec<u8>) {
    codec::encode_into(line, out);
    if let Some(page) = &line.page {
        *out = postcard::to_extend(page, std::mem::take(out))
            .expect("our types serialise: no maps of unknown length");
    }
}

/// The line again.
pub fn read(bytes: &[u8]) -> PortResult<VisitLine> {
    const WHAT: &str = "a line of the visit log";
    let broken = |error| PortError::corrupt(format!("read {WHAT}"), error);
    let (mut line, rest): (VisitLine, _) = codec::decode_first(WHAT, bytes)?;
    if !rest.is_empty() {
        line.page = Some(postcard::from_bytes(rest).map_err(broken)?);
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{CrawlUrl, News, PageLine, TextFacts, Timestamp, VisitId};

    fn line() -> VisitLine {
        VisitLine {
            seq: 7,
            visit: VisitId(9),
            url: CrawlUrl::parse("http://a.test/").unwrap(),
            at: Timestamp::from_secs(1_800_000_000),
            status: 200,
            content_type: Some("text/html".into()),
            digest: Some([3; 20]),
            warc: None,
            page: None,
        }
    }

    fn page() -> PageLine {
        let text = TextFacts {
            digest: [4; 32],
            simhash: u64::MAX,
            words: 300,
            language: Some("pt-BR".into()),
        };
        PageLine {
            news: News::Other,
            depth: 3,
            seed: false,
            title: Some("T".into()),
            body_bytes: 70_000,
            truncated: None,
            noindex: true,
            nofollow: false,
            noarchive: false,
            text: Some(text),
            sketch: Some(vec![5; 132].into()),
            reading: None,
        }
    }

    #[test]
    fn a_line_comes_back_with_its_page_and_without() {
        for page in [None, Some(Box::new(page()))] {
            let line = VisitLine { page, ..line() };
            let mut bytes = b"before".to_vec();
            write(&line, &mut bytes);
            assert_eq!(read(&bytes[6..]).unwrap(), line);
        }
    }

    #[test]
    fn lines_of_the_version_before_are_read_and_it_reads_ours() {
        assert_eq!(read(&codec::encode(&line())).unwrap(), line());
        let mut bytes = Vec::new();
        write(&VisitLine { page: Some(Box::new(page())), ..line() }, &mut bytes);
        let whole = codec::encode(&line()).len();
        assert_eq!(codec::decode::<VisitLine>("a line", &bytes).unwrap(), line());
        for cut in (0..bytes.len()).filter(|cut| *cut != whole) {
            assert!(read(&bytes[..cut]).is_err(), "cut to {cut}");
        }
    }
}
