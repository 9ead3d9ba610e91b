//! Shows what a migration does and remembers it: bars, lines or JSON on standard error, outcomes
//! of single objects in a file, numbers for whoever asks.

mod display;
mod json;
mod text;
mod tracker;

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use filestore_migrator::progress::{Event, Progress};
use filestore_migrator::{ExitCode, Outcome};
use serde_json::json;

use crate::exit::WithCode as _;
use display::Display;
pub(crate) use display::Style;
pub(crate) use json::time;
use tracker::Tracker;
pub(crate) use tracker::{LeftBehind, Snapshot};

/// A first line comes within five seconds, also while there is nothing but a listing.
const FIRST_LINE: Duration = Duration::from_secs(4);
/// Time between two lines about the same wait.
const WAIT_LINES: Duration = Duration::from_secs(10);
/// Failures that get a line each.
const FAILURE_LINES: u64 = 100;

/// Writes to standard error and leaves standard output to results.
pub(crate) struct Shown {
    shared: Arc<Shared>,
    ticker: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    stop: Condvar,
}

struct State {
    tracker: Tracker,
    display: Display,
    report: Option<BufWriter<File>>,
    report_error: Option<io::Error>,
    outcome: Option<Outcome>,
    failures: u64,
    last_wait: Option<Instant>,
    stopped: bool,
}

impl Shown {
    /// Bars when standard error is a terminal, lines otherwise.
    pub(crate) fn new() -> Self {
        Self::with(Style::Auto)
    }

    /// Shown as asked for.
    pub(crate) fn with(style: Style) -> Self {
        let display = Display::new(style, io::stderr().is_terminal());
        let interval = display.interval();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                tracker: Tracker::new(Instant::now()),
                display,
                report: None,
                report_error: None,
                outcome: None,
                failures: 0,
                last_wait: None,
                stopped: false,
            }),
            stop: Condvar::new(),
        });
        let ticker = interval.map(|interval| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.tick(interval))
        });
        Self {
            shared,
            ticker: Mutex::new(ticker),
        }
    }

    /// Writes a JSON line to `path` for every object that is copied, deleted or fails.
    pub(crate) fn report_to(&self, path: Option<&Path>) -> anyhow::Result<()> {
        let Some(path) = path else {
            return Ok(());
        };
        let file = File::create(path)
            .with_context(|| format!("create {}", path.display()))
            .code(ExitCode::Usage)?;
        self.shared.lock().report = Some(BufWriter::new(file));
        Ok(())
    }

    /// Remembers how the command ended.
    pub(crate) fn ended(&self, outcome: &Outcome) {
        self.shared.lock().outcome = Some(outcome.clone());
    }

    /// How the command ended, when it came to its end.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.shared.lock().outcome.clone()
    }

    /// This moment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.shared.lock().tracker.snapshot(Instant::now())
    }

    /// Ends the display, so that what follows starts on a clean line; writes out the report.
    ///
    /// # Errors
    /// The first failure of writing the report.
    pub(crate) fn finish(&self) -> io::Result<()> {
        let mut state = self.shared.lock();
        if !state.stopped {
            state.stopped = true;
            let now = state.tracker.snapshot(Instant::now());
            state.display.finish(&now);
        }
        if let Some(mut report) = state.report.take() {
            report.flush()?;
        }
        let failed = state.report_error.take();
        drop(state);
        self.shared.stop.notify_all();
        let ticker = self
            .ticker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(ticker) = ticker {
            // It shows and computes nothing that could be lost by a panic of its own.
            drop(ticker.join());
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        drop(self.finish());
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").finish_non_exhaustive()
    }
}

impl Progress for Shown {
    fn event(&self, event: &Event<'_>) {
        self.shared.lock().event(event, Instant::now());
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the state every `interval` until the end.
    fn tick(&self, interval: Duration) {
        let mut pause = interval.min(FIRST_LINE);
        let mut state = self.lock();
        while !state.stopped {
            let begin = Instant::now();
            let waited = self.stop.wait_timeout(state, pause);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.stopped {
                return;
            }
            // Woken for nothing: the rest of the pause.
            if let Some(rest) = pause
                .checked_sub(begin.elapsed())
                .filter(|rest| !rest.is_zero())
            {
                pause = rest;
                continue;
            }
            let now = state.tracker.snapshot(Instant::now());
            state.display.tick(&now);
            pause = interval;
        }
    }
}

impl State {
    fn event(&mut self, event: &Event<'_>, now: Instant) {
        if let Event::Phase { .. } = event {
            let over = self.tracker.snapshot(now);
            self.display.over(&over);
        }
        self.tracker.apply(event, now);
        match event {
            Event::Phase { .. } => {
                self.last_wait = None;
                let begun = self.tracker.snapshot(now);
                self.display.begin(&begun);
            }
            Event::Expected { .. } => {
                let counted = self.tracker.snapshot(now);
                self.display.counted(&counted);
            }
            Event::Failed(error) => self.failed(&error.to_string()),
            Event::Waiting { error, next } => {
                let seconds = next.as_secs().max(1);
                self.wait(&format!("{error}; next try in {seconds} s"), now);
            }
            Event::Note(text) => self.display.happened("note", text),
            _ => {}
        }
        self.record(event);
    }

    fn failed(&mut self, error: &str) {
        self.failures += 1;
        match self.failures.cmp(&FAILURE_LINES) {
            std::cmp::Ordering::Less => self.display.happened("failed", error),
            std::cmp::Ordering::Equal => {
                self.display.happened("failed", error);
                let text = "further failures are counted; --report FILE lists them all";
                self.display.happened("note", text);
            }
            std::cmp::Ordering::Greater => {}
        }
    }

    fn wait(&mut self, text: &str, now: Instant) {
        if self
            .last_wait
            .is_some_and(|last| now.duration_since(last) < WAIT_LINES)
        {
            return;
        }
        self.last_wait = Some(now);
        self.display.happened("waiting", text);
    }

    /// A line of the report.
    fn record(&mut self, event: &Event<'_>) {
        let Some(report) = &mut self.report else {
            return;
        };
        let line = match event {
            Event::Copied { object, bytes } => {
                json!({"outcome": "copied", "object": object, "bytes": bytes})
            }
            Event::Deleted { object } => json!({"outcome": "deleted", "object": object}),
            Event::Failed(error) => json!({
                "outcome": "failed",
                "object": error.object,
                "error": error.to_string(),
            }),
            _ => return,
        };
        if let Err(error) = writeln!(report, "{line}") {
            self.report_error.get_or_insert(error);
            self.report = None;
        }
    }
}
