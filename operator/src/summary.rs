//! The termination message of a take-over: the JSON of `migrate --summary-file`, or the last lines
//! of its log when it could not write one.

use filestore_common::marker::{Counts, MarkerState};
use serde::Deserialize;

/// What the message tells, for people and in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// One line; empty when there is nothing to say.
    pub text: String,
    /// There was no legacy store.
    pub nothing_to_migrate: bool,
    /// `--deadline` was over; a rerun goes on.
    pub out_of_time: bool,
    /// What the marker says was carried.
    pub carried: Option<Counts>,
    /// State and run of the marker.
    pub marker: Option<(MarkerState, String)>,
    /// Objects that were copied, and those that were the same.
    pub copied: Option<(u64, u64)>,
    /// Objects that it was through with, the failed ones among them.
    pub through: Option<u64>,
    /// Bytes that were copied.
    pub copied_bytes: Option<u64>,
    /// Why something stays behind.
    pub left_behind: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    exit: i32,
    meaning: String,
    ending: Option<String>,
    error: Option<String>,
    #[serde(default)]
    failures: Vec<String>,
    marker: Option<Stage>,
    outcomes: Option<Outcomes>,
    copied_bytes: Option<u64>,
    #[serde(default)]
    not_carried: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Outcomes {
    copied: u64,
    skipped: u64,
    #[serde(default)]
    failed: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stage {
    run_id: String,
    state: MarkerState,
    carried: Counts,
}

/// Longest text in a condition.
const LONGEST: usize = 1000;

/// Reads a termination message.
pub(crate) fn read(message: &str) -> Summary {
    match serde_json::from_str::<File>(message) {
        Ok(file) => told(file),
        Err(_) => Summary {
            text: last_line(message),
            ..Summary::default()
        },
    }
}

fn told(file: File) -> Summary {
    let (carried, marker) = match file.marker {
        Some(found) => (Some(found.carried), Some((found.state, found.run_id))),
        None => (None, None),
    };
    let text = match (file.exit, &carried) {
        (0, Some(carried)) => format!(
            "{} objects, {} bytes in {} buckets",
            carried.objects, carried.bytes, carried.buckets
        ),
        (0, None) => file.meaning,
        _ => {
            let what = file.error.unwrap_or(file.meaning);
            let failed = file.failures.first();
            match failed {
                Some(first) => format!("{what}; first: {first}"),
                None => what,
            }
        }
    };
    Summary {
        text: last_line(&text),
        out_of_time: file.ending.as_deref() == Some("deadline"),
        nothing_to_migrate: file.ending.as_deref() == Some("nothingToMigrate"),
        carried,
        marker,
        through: file
            .outcomes
            .as_ref()
            .map(|found| found.copied + found.skipped + found.failed),
        copied_bytes: file.copied_bytes,
        copied: file.outcomes.map(|found| (found.copied, found.skipped)),
        left_behind: file.not_carried.keys().cloned().collect(),
    }
}

/// All lines as one, the end of it where it is too long: what went wrong is said last.
fn last_line(message: &str) -> String {
    let lines = message.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let text = lines.join("; ");
    let skip = text.chars().count().saturating_sub(LONGEST);
    text.chars().skip(skip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_file_is_read() {
        let done = r#"{"version":1,"command":"run","exit":0,"meaning":"done; nothing is missing",
            "ending":"migrated","error":null,"failures":[],
            "marker":{"runId":"r","state":"cutover","carried":{"buckets":2,"objects":7,"bytes":99}}}"#;
        let summary = read(done);
        assert_eq!(summary.text, "7 objects, 99 bytes in 2 buckets");
        assert_eq!(summary.carried.unwrap().objects, 7);

        let nothing =
            r#"{"exit":0,"meaning":"done; nothing is missing","ending":"nothingToMigrate"}"#;
        assert!(read(nothing).nothing_to_migrate);

        let failed = r#"{"exit":1,"meaning":"some objects failed","ending":"incomplete",
            "failures":["get b/k: damaged","get b/l: damaged"]}"#;
        assert_eq!(
            read(failed).text,
            "some objects failed; first: get b/k: damaged"
        );
        let late = r#"{"exit":4,"meaning":"time is up","ending":"deadline","error":"the deadline of 5 s is over"}"#;
        assert!(read(late).out_of_time);
        let refused = r#"{"exit":5,"meaning":"a guard refused","error":"no format.json"}"#;
        assert_eq!(read(refused).text, "no format.json");
    }

    #[test]
    fn the_end_of_a_log_is_kept() {
        assert_eq!(read("one\n\n two \n").text, "one; two");
        let long = format!("{}end", "x".repeat(5000));
        let text = read(&long).text;
        assert!(text.len() == LONGEST && text.ends_with("xend"));
        // What only looks like a summary is text.
        assert_eq!(read("{\"exit\": \"five\"}").text, "{\"exit\": \"five\"}");
    }
}
