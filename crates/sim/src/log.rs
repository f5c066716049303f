//! The event log of a run: what a failing test prints, and what two runs of one seed must have in common.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    fs::File,
    io::{self, BufWriter, Write as _},
    path::Path,
    sync::Mutex,
    time::Duration,
};

/// Lines in the order in which they happened; only the newest are kept.
#[derive(Debug)]
pub struct EventLog {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    lines: VecDeque<Box<str>>,
    keep: usize,
    written: u64,
    digest: u64,
    /// Where all of it goes as well.
    copy: Option<BufWriter<File>>,
}

impl EventLog {
    /// A log that keeps the newest `keep` lines.
    pub fn keeping(keep: usize) -> Self {
        let inner =
            Inner { lines: VecDeque::new(), keep, written: 0, digest: 0xcbf2_9ce4_8422_2325, copy: None };
        Self { inner: Mutex::new(inner) }
    }

    /// Has all lines written to a file as well, in place of what is in it.
    pub fn copy_to(&self, path: &Path) -> io::Result<()> {
        let file = BufWriter::new(File::create(path)?);
        self.inner.lock().expect("no panic happens under this lock").copy = Some(file);
        Ok(())
    }

    /// Writes one line.
    pub fn write(&self, at: Duration, line: std::fmt::Arguments<'_>) {
        let mut text = String::with_capacity(96);
        write!(text, "{:>12.3} {line}", at.as_secs_f64()).expect("writing to a String does not fail");

        let mut inner = self.inner.lock().expect("no panic happens under this lock");
        for byte in text.as_bytes() {
            inner.digest = (inner.digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        inner.written += 1;
        if let Some(copy) = &mut inner.copy {
            // Somebody looks at it while developing: a full disk must not end the run.
            let _ = writeln!(copy, "{text}");
        }
        if inner.keep == 0 {
            return;
        }
        if inner.lines.len() == inner.keep {
            inner.lines.pop_front();
        }
        inner.lines.push_back(text.into_boxed_str());
    }

    /// The newest `count` lines, oldest first.
    pub fn last(&self, count: usize) -> Vec<String> {
        let inner = self.inner.lock().expect("no panic happens under this lock");
        let skip = inner.lines.len().saturating_sub(count);
        inner.lines.iter().skip(skip).map(|it| it.to_string()).collect()
    }

    /// How many lines were ever written, and a hash over all of them.
    pub fn fingerprint(&self) -> (u64, u64) {
        let inner = self.inner.lock().expect("no panic happens under this lock");
        (inner.written, inner.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_lines_leave_but_stay_in_the_fingerprint() {
        let write = |keep: usize| {
            let log = EventLog::keeping(keep);
            for it in 0..5 {
                log.write(Duration::from_millis(it), format_args!("event {it}"));
            }
            log
        };
        assert_eq!(write(2).last(10), ["       0.003 event 3", "       0.004 event 4"]);
        assert_eq!(write(2).fingerprint(), write(100).fingerprint());
    }
}
