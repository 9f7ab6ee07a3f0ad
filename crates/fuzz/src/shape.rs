//! Has anything new come of this input?
//!
//! A stable compiler does not tell which branches were taken. A target tells instead, in a few
//! small numbers, what its input came to: how many records, which kind of error, which verdicts.
//! An input whose shape was never seen is kept, and becomes the root of others.

/// What an input came to, as one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Shape(u64);

impl Shape {
    pub fn add(&mut self, fact: u64) {
        self.0 = (self.0 ^ fact).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
    }

    /// For a file's name.
    pub fn digits(self) -> String {
        format!("{:016x}", self.0)
    }

    /// A number by its magnitude: that there are 17 and not 18 is no news, that there are many is.
    pub fn add_size(&mut self, size: usize) {
        self.add(u64::from(usize::BITS - size.leading_zeros()));
    }

    /// The words of an error without what it quotes: its letters up to the first odd character.
    pub fn add_text(&mut self, text: &str) {
        for byte in text.bytes().take_while(|byte| byte.is_ascii_alphabetic() || *byte == b' ') {
            self.add(u64::from(byte));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_tells_kinds_apart_and_not_sizes() {
        let of = |size, text| {
            let mut shape = Shape::default();
            shape.add_size(size);
            shape.add_text(text);
            shape
        };
        assert_eq!(of(17, "not a number: 1"), of(18, "not a number: 2"));
        assert_ne!(of(17, "not a number"), of(3, "not a number"));
        assert_ne!(of(17, "not a number"), of(17, "no colon"));
    }
}
