//! A filter on all cores, in the order of its input.
//!
//! A thread reads, as many as there are cores answer, one puts the answers in order. What is read
//! ahead and what waits to be written are bounded together; what a line gives is as in [`filter`].
//!
//! [`filter`]: super::filter

use std::collections::BTreeMap;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use serde::{Deserialize, Serialize};

use super::{Answer, Line, Refused, next_line, read_line};

/// Lines between reading and writing, for each core: enough to keep all busy, few enough to hold.
const SEATS_PER_CORE: usize = 4;

pub(super) fn filter_many<Ask, Reply>(
    input: impl Read + Send,
    output: impl Write,
    answer: impl Fn(&Ask) -> Result<Reply, String> + Sync,
) -> io::Result<()>
where
    Ask: for<'de> Deserialize<'de>,
    Reply: Serialize,
{
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let seats = cores * SEATS_PER_CORE;
    // A seat is taken for each line that is read and given back when its answer is written: so a
    // slow line lets only so many others wait behind it, and no channel is ever full.
    let (give_seat, take_seat) = sync_channel::<()>(seats);
    let (ask, asked) = sync_channel::<(u64, Vec<u8>)>(seats);
    let (reply, replied) = sync_channel::<(u64, io::Result<Vec<u8>>)>(seats);
    for _ in 0..seats {
        // There is room for all.
        let _ = give_seat.try_send(());
    }
    let asked = Mutex::new(asked);
    thread::scope(|scope| {
        let reader = scope.spawn(move || read_ahead(input, &take_seat, &ask));
        for _ in 0..cores {
            let (reply, asked, answer) = (reply.clone(), &asked, &answer);
            scope.spawn(move || {
                loop {
                    let next = asked.lock().map(|asked| asked.recv());
                    let Ok(Ok((number, line))) = next else { return };
                    if reply.send((number, answer_line(&line, answer))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(reply);
        write_in_order(output, &replied, &give_seat)?;
        // Nothing more is asked for: whoever still reads finds no seat.
        drop((give_seat, replied));
        reader.join().unwrap_or(Ok(()))
    })
}

fn read_ahead(
    input: impl Read,
    take_seat: &Receiver<()>,
    ask: &SyncSender<(u64, Vec<u8>)>,
) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let mut number = 0;
    loop {
        let mut line = Vec::new();
        if take_seat.recv().is_err()
            || !next_line(&mut input, &mut line)?
            || ask.send((number, line)).is_err()
        {
            return Ok(());
        }
        number += 1;
    }
}

fn write_in_order(
    output: impl Write,
    replied: &Receiver<(u64, io::Result<Vec<u8>>)>,
    give_seat: &SyncSender<()>,
) -> io::Result<()> {
    let mut output = BufWriter::with_capacity(1 << 16, output);
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    while let Ok((number, line)) = replied.recv() {
        waiting.insert(number, line);
        while let Some(line) = waiting.remove(&next) {
            output.write_all(&line?)?;
            // Nobody takes seats any more when the input has ended.
            let _ = give_seat.try_send(());
            next += 1;
        }
        // What can be written has been: nobody waits for the next line to see this one.
        output.flush()?;
    }
    output.flush()
}

fn answer_line<Ask, Reply>(
    line: &[u8],
    answer: &impl Fn(&Ask) -> Result<Reply, String>,
) -> io::Result<Vec<u8>>
where
    Ask: for<'de> Deserialize<'de>,
    Reply: Serialize,
{
    let (id, result) = match read_line::<Ask>(line) {
        Ok(Line { id, ask }) => (id, answer(&ask)),
        Err((id, error)) => (id, Err(error)),
    };
    let mut out = match result {
        Ok(answer) => serde_json::to_vec(&Answer { id, answer })?,
        Err(error) => serde_json::to_vec(&Answer { id, answer: Refused { error } })?,
    };
    out.push(b'\n');
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Ask {
        n: u64,
    }

    #[derive(Serialize)]
    struct Twice {
        twice: u64,
    }

    fn twice(input: &str) -> String {
        let mut out = Vec::new();
        let answer = |ask: &Ask| -> Result<Twice, String> { Ok(Twice { twice: 2 * ask.n }) };
        filter_many(input.as_bytes(), &mut out, answer).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn many_cores_keep_the_order() {
        let input: String = (0..1_000).map(|n| format!("{{\"id\":{n},\"n\":{n}}}\n")).collect();
        let expected: String =
            (0..1_000).map(|n| format!("{{\"id\":{n},\"twice\":{}}}\n", 2 * n)).collect();
        assert_eq!(twice(&input), expected);
        assert_eq!(twice(""), "");
    }

    #[test]
    fn a_bad_line_is_answered_in_its_place() {
        let out = twice("{\"n\":1}\nnonsense\n{\"id\":7}\n{\"n\":2}");
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!((lines[0], lines[3]), ("{\"twice\":2}", "{\"twice\":4}"));
        assert!(lines[1].starts_with("{\"error\":\"not JSON"));
        assert!(lines[2].starts_with("{\"id\":7,\"error\""));
    }

    #[test]
    fn whoever_stops_listening_ends_it() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let input = "{\"n\":1}\n".repeat(10_000);
        let answer = |ask: &Ask| -> Result<Twice, String> { Ok(Twice { twice: ask.n }) };
        assert!(filter_many(input.as_bytes(), Closed, answer).is_err());
    }
}
