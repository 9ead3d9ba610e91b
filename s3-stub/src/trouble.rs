//! What goes wrong, and when.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Barrier;

use crate::answer::Asked;
use crate::{Object, Op};

/// What a rule does to a request.
#[derive(Debug, Clone)]
pub enum Act {
    /// An S3 error.
    Refuse {
        /// HTTP status.
        status: u16,
        /// S3 code.
        code: &'static str,
        /// Message.
        message: String,
        /// More headers, such as `Retry-After`.
        headers: Vec<(&'static str, String)>,
    },
    /// A page of HTML with this status, as proxies answer.
    Page(u16),
    /// The connection ends without an answer.
    Close,
    /// The connection ends after so many bytes of the body.
    CutAfter(usize),
    /// No answer, ever; the connection stays.
    Hang,
    /// This XML, with status 200.
    Xml(String),
    /// A pause before what would be answered without the rule.
    Delay(Duration),
    /// The object is written anew just before the request is answered.
    Rewrite(Object),
    /// The second half of the body is of other bytes under the same headers: a server that does
    /// not isolate its generations.
    Mix(Bytes),
}

impl Act {
    /// An S3 error without further headers.
    pub fn refuse(status: u16, code: &'static str) -> Self {
        Self::Refuse {
            status,
            code,
            message: format!("scripted {code}"),
            headers: Vec::new(),
        }
    }

    /// `503 SlowDown`, with `Retry-After` where one is given.
    pub fn slow_down(retry_after: Option<&str>) -> Self {
        Self::Refuse {
            status: 503,
            code: "SlowDown",
            message: "Please reduce your request rate.".into(),
            headers: retry_after
                .map(|value| ("retry-after", value.to_owned()))
                .into_iter()
                .collect(),
        }
    }
}

/// A rule: which requests it meets, and what it does to them. Of several rules that meet a request
/// the first one acts; a rule is asked only when none before it acted.
#[derive(Debug, Clone)]
pub struct Trouble {
    act: Act,
    op: Option<Op>,
    key: Option<String>,
    query: Option<String>,
    together: Option<Arc<Barrier>>,
    skip: u64,
    times: u64,
    every: u64,
    busier_than: usize,
    met: u64,
    acted: u64,
}

impl Trouble {
    /// Does `act` to every request.
    pub fn new(act: Act) -> Self {
        Self {
            act,
            op: None,
            key: None,
            query: None,
            together: None,
            skip: 0,
            times: u64::MAX,
            every: 1,
            busier_than: 0,
            met: 0,
            acted: 0,
        }
    }

    /// Only requests of this operation.
    #[must_use]
    pub fn on(mut self, op: Op) -> Self {
        self.op = Some(op);
        self
    }

    /// Only requests for this key, in whatever bucket.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Only requests with this in their query (`versions`, `uploads`).
    #[must_use]
    pub fn query(mut self, name: &str) -> Self {
        self.query = Some(name.to_owned());
        self
    }

    /// Acts on so many requests at once: each waits until all are there, so that a client that has no
    /// more at a time is known to wait for nothing else.
    #[must_use]
    pub fn together(mut self, requests: usize) -> Self {
        self.together = Some(Arc::new(Barrier::new(requests)));
        self
    }

    /// Not the first `skip` requests that it meets.
    #[must_use]
    pub fn after(mut self, skip: u64) -> Self {
        self.skip = skip;
        self
    }

    /// At most so often.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Only every `every`-th request that it meets.
    #[must_use]
    pub fn every(mut self, every: u64) -> Self {
        self.every = every.max(1);
        self
    }

    /// Only while more than `requests` are being answered.
    #[must_use]
    pub fn busier_than(mut self, requests: usize) -> Self {
        self.busier_than = requests;
        self
    }

    /// How often it acted.
    pub fn acted(&self) -> u64 {
        self.acted
    }

    pub(crate) fn fires(&mut self, asked: &Asked, in_flight: usize) -> Option<Fired> {
        let meets = self.op.is_none_or(|wanted| wanted == asked.op)
            && self.key.as_deref().is_none_or(|wanted| wanted == asked.key)
            && self
                .query
                .as_ref()
                .is_none_or(|wanted| asked.query.contains_key(wanted))
            && in_flight > self.busier_than;
        if !meets {
            return None;
        }
        self.met += 1;
        let due = self.met > self.skip && (self.met - self.skip).is_multiple_of(self.every);
        if !due || self.acted >= self.times {
            return None;
        }
        self.acted += 1;
        Some(Fired {
            act: self.act.clone(),
            together: self.together.clone(),
        })
    }
}

/// What a rule does to one request, and whom it waits for before.
#[derive(Debug)]
pub(crate) struct Fired {
    pub(crate) act: Act,
    pub(crate) together: Option<Arc<Barrier>>,
}
