//! How does a person write a number of bytes, or a rate?
//!
//! `KiB`, `MiB`, `GiB` are powers of 1024, `KB`, `MB`, `GB` of 1000, as the standards say.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number of bytes: `500KiB`, `15MiB`, `1GB`, `512B`; a bare `0` too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ByteSize(pub u64);

/// Bytes in a second: `1KiB/s`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ByteRate(pub u64);

const UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("KB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
];

impl ByteSize {
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// As a length in memory; what does not fit is as good as unlimited.
    pub fn as_len(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hint = || {
            format!(
                "`{text}` is not a size: write a number with a unit, such as 512B, 500KiB, 15MiB or 1GB"
            )
        };
        let trimmed = text.trim();
        if trimmed == "0" {
            return Ok(Self(0));
        }
        let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(hint)?;
        let number: f64 = trimmed[..digits].parse().map_err(|_| hint())?;
        let unit = trimmed[digits..].trim();
        let (_, size) =
            UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or_else(hint)?;
        let bytes = number * *size as f64;
        if bytes > 1e18 {
            return Err(hint());
        }
        Ok(Self(bytes.round() as u64))
    }
}

impl fmt::Display for ByteSize {
    /// The largest unit that needs no fraction, so that what is printed reads back the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0B");
        }
        let (unit, size) = UNITS
            .iter()
            .rev()
            .find(|(_, size)| self.0.is_multiple_of(*size))
            .expect("every number is a multiple of one byte");
        write!(f, "{}{unit}", self.0 / size)
    }
}

impl FromStr for ByteRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hint = || format!("`{text}` is not a rate: write a size per second, such as 1KiB/s");
        let trimmed = text.trim();
        if trimmed == "0" {
            return Ok(Self(0));
        }
        let size = trimmed.strip_suffix("/s").ok_or_else(hint)?;
        size.parse::<ByteSize>().map(|bytes| Self(bytes.0)).map_err(|_| hint())
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", ByteSize(self.0))
    }
}

/// The string form is the only form: in files, in the environment, in messages.
macro_rules! as_text {
    ($type:ident, $format:literal) => {
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $format.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "format": $format })
            }
        }
    };
}

as_text!(ByteSize, "size");
as_text!(ByteRate, "rate");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_reads_back_as_it_was_written() {
        for text in ["0B", "1B", "512B", "500KiB", "15MiB", "1GB", "64GiB", "1536B"] {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!(size.to_string().parse::<ByteSize>().unwrap(), size, "{text}");
        }
        assert_eq!("500KiB".parse::<ByteSize>().unwrap().get(), 512_000);
        assert_eq!("1.5MiB".parse::<ByteSize>().unwrap().get(), 1_572_864);
        assert_eq!("1kib/s".parse::<ByteRate>().unwrap().0, 1_024);
    }

    #[test]
    fn a_number_without_a_unit_is_refused_with_a_hint() {
        for text in ["", "5", "MiB", "1XB", "-1MB"] {
            assert!(text.parse::<ByteSize>().unwrap_err().contains("15MiB"), "{text}");
        }
        assert!("5KiB".parse::<ByteRate>().unwrap_err().contains("1KiB/s"));
    }
}
