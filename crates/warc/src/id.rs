//! What is a record called?
//!
//! `<urn:uuid:…>`. We have no randomness here: a name is made from a number that the caller knows
//! to be unique, so a visit that is written again after a crash gets the same names again.

use std::fmt;

use sha1::Digest as _;

/// A record's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(u128);

impl RecordId {
    /// From 128 bits that are a UUID already.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The name of one part of something that has a unique number: a UUID of version 5 with that
    /// number as its namespace. The same number and part always give the same name.
    #[must_use]
    pub fn derive(unique: u128, part: &str) -> Self {
        let hash = sha1::Sha1::new().chain_update(unique.to_be_bytes()).chain_update(part);
        let mut bits = [0; 16];
        bits.copy_from_slice(&hash.finalize()[..16]);
        bits[6] = 0x50 | bits[6] & 0x0f;
        bits[8] = 0x80 | bits[8] & 0x3f;
        Self(u128::from_be_bytes(bits))
    }

    /// Reads `<urn:uuid:…>`, with or without the brackets.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('<').trim_end_matches('>');
        let (urn, uuid) = text.split_at_checked("urn:uuid:".len())?;
        let hyphen = |(at, byte): (usize, u8)| (byte == b'-') == [8, 13, 18, 23].contains(&at);
        let shape = uuid.len() == 36 && uuid.bytes().enumerate().all(hyphen);
        let digits: String = uuid.chars().filter(|char| char.is_ascii_hexdigit()).collect();
        if urn.eq_ignore_ascii_case("urn:uuid:") && shape && digits.len() == 32 {
            u128::from_str_radix(&digits, 16).ok().map(Self)
        } else {
            None
        }
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0;
        let (a, b, c) = (bits >> 96, bits >> 80 & 0xffff, bits >> 64 & 0xffff);
        let (d, e) = (bits >> 48 & 0xffff, bits & 0xffff_ffff_ffff);
        write!(out, "<urn:uuid:{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}>")
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

#[cfg(test)]
mod tests {
    use super::RecordId;

    #[test]
    fn a_record_id_is_a_uuid_and_reads_back() {
        let id = RecordId::derive(42, "response");
        assert_ne!(id, RecordId::derive(42, "request"));
        assert_ne!(id, RecordId::derive(43, "response"));
        let text = id.to_string();
        assert_eq!(&text[..10], "<urn:uuid:");
        assert_eq!(&text[24..25], "5");
        assert_eq!(RecordId::parse(&text), Some(id));
        assert_eq!(RecordId::parse(text.trim_matches(['<', '>'])), Some(id));
        for bad in ["", "<urn:uuid:>", "<urn:uuid:+0000000-0000-0000-0000-000000000001>", "<é:y>"]
        {
            assert_eq!(RecordId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_derived_name_is_that_of_rfc_9562() {
        // Its example for version 5: the DNS namespace and "www.example.com".
        let dns = 0x6ba7_b810_9dad_11d1_80b4_00c0_4fd4_30c8;
        assert_eq!(
            RecordId::derive(dns, "www.example.com").to_string(),
            "<urn:uuid:2ed6657d-e927-568b-95e1-2665a8aea6a2>"
        );
    }
}
