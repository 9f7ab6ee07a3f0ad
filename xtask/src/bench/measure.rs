//! What did a process cost?
//!
//! CPU time is what the kernel adds to our own account when a child has ended and was waited for,
//! so it is that child's alone, to a hundredth of a second. Memory is the child's high-water mark,
//! looked up while it runs. Linux only, as benches are.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// What a process has used.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    pub cpu_seconds: f64,
    pub wall_seconds: f64,
    pub rss_bytes_max: u64,
}

/// Unit of times in /proc: fixed at 100 a second for whoever looks from user space.
const TICKS_PER_SECOND: f64 = 100.0;

/// Runs a command to its end. Nothing else may be waited for meanwhile.
pub fn run(command: &mut Command) -> Result<(ExitStatus, Cost)> {
    let before = children_cpu_ticks()?;
    let started = Instant::now();
    let mut child = command.spawn().context("start what is measured")?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut rss_bytes_max = 0;
    let status = loop {
        if let Ok(text) = fs::read_to_string(&status_file) {
            rss_bytes_max = high_water(&text).unwrap_or(0).max(rss_bytes_max);
        }
        if let Some(status) = child.try_wait().context("wait for what is measured")? {
            break status;
        }
        // Another process is at work; its memory is looked at now and then.
        std::thread::sleep(Duration::from_millis(20));
    };
    let ticks = children_cpu_ticks()? - before;
    let cost = Cost {
        cpu_seconds: ticks as f64 / TICKS_PER_SECOND,
        wall_seconds: started.elapsed().as_secs_f64(),
        rss_bytes_max,
    };
    Ok((status, cost))
}

fn children_cpu_ticks() -> Result<u64> {
    let stat = fs::read_to_string("/proc/self/stat").context("read /proc/self/stat")?;
    children_ticks(&stat).context("find the children's times in /proc/self/stat")
}

/// User and system time of children that were waited for: fields 16 and 17 of proc(5). The second
/// field is a name in brackets, which may hold anything.
fn children_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(16 - 3);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Bytes of all files below a folder.
pub fn bytes_below(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
            let entry = entry.context("list a folder")?;
            let data = entry.metadata().context("look at a file")?;
            if data.is_dir() {
                open.push(entry.path());
            } else {
                bytes += data.len();
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_children_are_told_from_our_own() {
        let stat = "1 (a) b) S 4 5 6 7 8 9 10 11 12 13 14 15 160 17 18";
        assert_eq!(children_ticks(stat), Some(160 + 17));
        assert_eq!(children_ticks("1 (a) S 4"), None);
    }

    #[test]
    fn the_high_water_mark_is_in_bytes() {
        assert_eq!(high_water("VmPeak:\t 9 kB\nVmHWM:\t    12 kB\n"), Some(12 * 1024));
        assert_eq!(high_water("VmPeak:\t 9 kB\n"), None);
    }

    #[test]
    fn a_child_that_works_costs_something() {
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let (status, cost) = run(Command::new("sh").args(["-c", script])).unwrap();
        assert!(status.success() && cost.cpu_seconds > 0.0, "{cost:?}");
    }
}
