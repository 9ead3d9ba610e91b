//! Shows what a migration does: a bar on a terminal, else a line every ten seconds.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use filestore_migrator::progress::{Event, Phase, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two lines where there is no terminal, and between two about the same wait.
const INTERVAL: Duration = Duration::from_secs(10);

/// Writes to standard error and leaves standard output to results.
pub(crate) struct Shown(Mutex<State>);

struct State {
    /// `None` where standard error is no terminal.
    bar: Option<ProgressBar>,
    phase: Phase,
    total: Tally,
    done: Tally,
    failed: u64,
    last_line: Instant,
    last_wait: Option<Instant>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    objects: u64,
    bytes: u64,
}

impl Shown {
    /// A bar when standard error is a terminal, lines otherwise.
    pub(crate) fn new() -> Self {
        let bar = io::stderr()
            .is_terminal()
            .then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()));
        Self(Mutex::new(State {
            bar,
            phase: Phase::Connect,
            total: Tally::default(),
            done: Tally::default(),
            failed: 0,
            last_line: Instant::now(),
            last_wait: None,
        }))
    }

    /// Removes the bar, so that what follows starts on a clean line.
    pub(crate) fn finish(&self) {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = &state.bar {
            bar.finish_and_clear();
        }
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").finish_non_exhaustive()
    }
}

impl Progress for Shown {
    fn event(&self, event: &Event<'_>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Phase {
                phase,
                objects,
                bytes,
            } => state.begin(*phase, *objects, *bytes),
            Event::Listed { .. } if state.phase != Phase::Copy => state.advance(1, 0),
            Event::Bytes(bytes) => state.advance(0, *bytes),
            Event::Copied { .. } => state.advance(1, 0),
            Event::Failed(error) => {
                state.failed += 1;
                state.line(&format!("failed: {error}"));
            }
            Event::Waiting { error, next } => state.wait(&error.to_string(), *next),
            Event::Note(text) => state.line(text),
            Event::Listed { .. }
            | Event::Skipped
            | Event::Deleted { .. }
            | Event::Started { .. }
            | Event::Ended { .. }
            | Event::Retrying(_)
            | Event::Left(_) => {}
        }
    }
}

impl State {
    fn begin(&mut self, phase: Phase, objects: Option<u64>, bytes: Option<u64>) {
        self.phase = phase;
        self.done = Tally::default();
        self.total = Tally {
            objects: objects.unwrap_or(0),
            bytes: bytes.unwrap_or(0),
        };
        self.last_wait = None;
        match &self.bar {
            Some(bar) => {
                bar.reset();
                bar.set_style(style(self.total));
                bar.set_message(phase.as_str());
                bar.set_length(if self.total.bytes > 0 {
                    self.total.bytes
                } else {
                    self.total.objects
                });
                bar.enable_steady_tick(Duration::from_millis(200));
            }
            None if self.total.objects > 0 => {
                self.line(&format!("{}: {}", phase.as_str(), describe(self.total)));
            }
            None => {}
        }
    }

    fn advance(&mut self, objects: u64, bytes: u64) {
        self.done.objects += objects;
        self.done.bytes += bytes;
        if let Some(bar) = &self.bar {
            bar.set_position(if self.total.bytes > 0 {
                self.done.bytes
            } else {
                self.done.objects
            });
        } else if self.last_line.elapsed() >= INTERVAL {
            let text = if self.total.objects > 0 {
                format!(
                    "{}: {} of {}",
                    self.phase.as_str(),
                    describe(self.done),
                    describe(self.total)
                )
            } else {
                format!("{}: {}", self.phase.as_str(), describe(self.done))
            };
            self.line(&text);
        }
    }

    fn wait(&mut self, error: &str, next: Duration) {
        if self.last_wait.is_some_and(|last| last.elapsed() < INTERVAL) {
            return;
        }
        self.last_wait = Some(Instant::now());
        self.line(&format!(
            "waiting: {error}; next try in {} s",
            next.as_secs().max(1)
        ));
    }

    fn line(&mut self, text: &str) {
        self.last_line = Instant::now();
        match &self.bar {
            Some(bar) => bar.suspend(|| write_line(text)),
            None => write_line(text),
        }
    }
}

fn write_line(text: &str) {
    // Nobody is left to tell when standard error is closed.
    drop(writeln!(io::stderr(), "{text}"));
}

fn describe(tally: Tally) -> String {
    let objects = if tally.objects == 1 {
        "object"
    } else {
        "objects"
    };
    if tally.bytes == 0 {
        return format!("{} {objects}", tally.objects);
    }
    format!(
        "{} {objects}, {}",
        tally.objects,
        ByteSize::b(tally.bytes).display().iec()
    )
}

fn style(total: Tally) -> ProgressStyle {
    let template = if total.bytes > 0 {
        "{msg:8} [{wide_bar}] {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta}"
    } else if total.objects > 0 {
        "{msg:8} [{wide_bar}] {pos}/{len} objects"
    } else {
        "{msg:8} {spinner} {pos} objects"
    };
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}
