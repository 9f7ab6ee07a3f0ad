//! Reads that wait for the disk, several at once.
//!
//! A disk answers sixteen questions in little more time than one. Many keys are read by a few
//! threads side by side, each a run of neighbours, so that a block is still read once.

use std::thread;

use ports::PortResult;

/// Fewer keys a thread are not worth starting it.
const RUN_KEYS_MIN: usize = 48;

/// Reads all keys, which are sorted, with up to `threads` threads. `read` answers for a run.
pub(crate) fn read_runs<'k, V: Send>(
    keys: &[&'k [u8]],
    threads: usize,
    read: impl Fn(&[&'k [u8]]) -> PortResult<Vec<V>> + Sync,
) -> PortResult<Vec<V>> {
    let runs = threads.min(keys.len() / RUN_KEYS_MIN).max(1);
    if runs == 1 {
        return read(keys);
    }
    let mut runs = keys.chunks(keys.len().div_ceil(runs));
    let first = runs.next().unwrap_or_default();
    thread::scope(|scope| {
        let read = &read;
        let others: Vec<_> = runs.map(|run| scope.spawn(move || read(run))).collect();
        let mut values = read(first)?;
        for other in others {
            values.extend(other.join().expect("reading does not panic")?);
        }
        Ok(values)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_once_and_in_order() {
        let names: Vec<Vec<u8>> = (0..1_000_u32).map(|n| n.to_be_bytes().to_vec()).collect();
        for (count, threads) in [(0, 4), (1, 4), (95, 4), (96, 4), (1_000, 1), (1_000, 7)] {
            let keys: Vec<&[u8]> = names[..count].iter().map(Vec::as_slice).collect();
            let read = |run: &[&[u8]]| Ok(run.iter().map(|key| key.to_vec()).collect());
            assert_eq!(read_runs(&keys, threads, read).unwrap(), names[..count]);
        }
        let keys: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let broken = read_runs(&keys, 4, |run: &[&[u8]]| match run[0] == names[0] {
            true => Ok(vec![()]),
            false => Err(ports::PortError::corrupt("read", "broken")),
        });
        assert!(broken.is_err());
    }
}
