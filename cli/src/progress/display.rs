//! Where progress is shown: bars on a terminal, lines, JSON, or nowhere.

use std::io::{self, Write as _};
use std::time::Duration;

use clap::ValueEnum;
use filestore_migrator::progress::Phase;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use super::tracker::Snapshot;
use super::{json, text};

/// The bar counts thousandths, of objects or bytes, whichever is further behind.
const STEPS: u64 = 1000;

/// How progress is shown on standard error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Style {
    /// Bars on a terminal, lines elsewhere.
    #[default]
    Auto,
    /// Bars.
    Bar,
    /// A line every ten seconds.
    Plain,
    /// A JSON document a line.
    Json,
    /// Nothing.
    None,
}

#[derive(Debug)]
pub(super) enum Display {
    Bars {
        bars: MultiProgress,
        main: ProgressBar,
        keys: ProgressBar,
    },
    Plain,
    Json,
    Nothing,
}

impl Display {
    pub(super) fn new(style: Style, terminal: bool) -> Self {
        match (style, terminal) {
            (Style::Bar, _) | (Style::Auto, true) => Self::bars(),
            (Style::Plain, _) | (Style::Auto, false) => Self::Plain,
            (Style::Json, _) => Self::Json,
            (Style::None, _) => Self::Nothing,
        }
    }

    fn bars() -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let main = bars.add(ProgressBar::new(STEPS));
        let keys = bars.add(ProgressBar::new_spinner());
        keys.set_style(template("         {wide_msg}"));
        Self::Bars { bars, main, keys }
    }

    /// Time between two looks; `None` where nobody looks.
    pub(super) fn interval(&self) -> Option<Duration> {
        match self {
            Self::Bars { .. } => Some(Duration::from_millis(200)),
            Self::Plain | Self::Json => Some(Duration::from_secs(10)),
            Self::Nothing => None,
        }
    }

    /// A phase begins.
    pub(super) fn begin(&self, now: &Snapshot) {
        match self {
            Self::Bars { main, .. } => {
                main.set_prefix(now.phase.as_str());
                main.set_style(style(now));
                self.tick(now);
            }
            Self::Plain if now.total.objects > 0 => {
                line(&format!(
                    "{}: {}",
                    now.phase.as_str(),
                    text::amount(now.total)
                ));
            }
            Self::Json => value(&json::state("phase", now)),
            Self::Plain | Self::Nothing => {}
        }
    }

    /// It is known how much there is to do.
    pub(super) fn counted(&self, now: &Snapshot) {
        if let Self::Bars { main, .. } = self {
            main.set_style(style(now));
        }
        self.tick(now);
    }

    /// Time went by.
    pub(super) fn tick(&self, now: &Snapshot) {
        match self {
            Self::Bars { main, keys, .. } => {
                main.set_position(now.permille().unwrap_or(0));
                main.set_message(text::state(now));
                main.tick();
                keys.set_message(now.current.join("  "));
            }
            // Said once; may take hours.
            Self::Plain if now.phase == Phase::Held => {}
            Self::Plain => line(&format!("{}: {}", now.phase.as_str(), text::state(now))),
            Self::Json => value(&json::state("progress", now)),
            Self::Nothing => {}
        }
    }

    /// A phase is over.
    pub(super) fn over(&self, now: &Snapshot) {
        if matches!(self, Self::Bars { .. } | Self::Plain)
            && let Some(text) = text::over(now)
        {
            self.say(&text);
        }
    }

    /// Something happened that people have to know at once.
    pub(super) fn happened(&self, event: &'static str, text: &str) {
        match self {
            Self::Json => value(&json::words(event, text)),
            Self::Nothing => {}
            _ if event == "note" => self.say(text),
            _ => self.say(&format!("{event}: {text}")),
        }
    }

    fn say(&self, text: &str) {
        match self {
            Self::Bars { bars, .. } => bars.suspend(|| line(text)),
            _ => line(text),
        }
    }

    /// Leaves a clean line for what follows.
    pub(super) fn finish(&self, now: &Snapshot) {
        self.over(now);
        match self {
            Self::Bars { main, keys, .. } => {
                keys.finish_and_clear();
                main.finish_and_clear();
            }
            Self::Json => value(&json::state("end", now)),
            Self::Plain | Self::Nothing => {}
        }
    }
}

fn style(now: &Snapshot) -> ProgressStyle {
    template(if now.permille().is_some() {
        "{prefix:8} [{bar:28}] {msg}"
    } else {
        "{prefix:8} {spinner} {msg}"
    })
}

fn template(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

fn line(text: &str) {
    // Nobody is left to tell when standard error is closed.
    drop(writeln!(io::stderr(), "{text}"));
}

fn value(value: &Value) {
    line(&value.to_string());
}
