//! How did all the test suites end?
//!
//! Cargo's test runner prints a line for each suite; their sum is what a reader wants at the end.

/// Sums over suites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    pub suites: u64,
    pub passed: u64,
    pub failed: u64,
}

impl Summary {
    /// Takes one line of the runner's output, if it is a suite's result.
    pub fn take(&mut self, line: &str) {
        let Some(rest) = line.trim_start().strip_prefix("test result: ") else { return };
        self.suites += 1;
        for part in rest.split(['.', ';']) {
            match part.trim().split_once(' ') {
                Some((count, "passed")) => self.passed += count.parse().unwrap_or(0),
                Some((count, "failed")) => self.failed += count.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_summed_and_other_lines_are_not() {
        let mut summary = Summary::default();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s",
        ] {
            summary.take(line);
        }
        assert_eq!(summary, Summary { suites: 2, passed: 15, failed: 2 });
    }
}
