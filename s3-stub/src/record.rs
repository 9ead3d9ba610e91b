//! What was asked.

use std::collections::BTreeMap;
use std::time::Instant;

/// Operations that a test tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// `GET /`.
    ListBuckets,
    /// `HEAD /bucket`.
    HeadBucket,
    /// `PUT /bucket`.
    CreateBucket,
    /// `GET /bucket?list-type=2`.
    ListObjects,
    /// `GET /bucket/key`.
    GetObject,
    /// `HEAD /bucket/key`.
    HeadObject,
    /// `PUT /bucket/key`.
    PutObject,
    /// `DELETE /bucket/key`.
    DeleteObject,
    /// `GET /bucket/key?tagging`.
    ObjectTags,
    /// `GET /bucket/key?attributes`.
    ObjectAttributes,
    /// Settings of a bucket and everything else.
    Other,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Operation.
    pub op: Op,
    /// Bucket, decoded; empty for none.
    pub bucket: String,
    /// Key, decoded; empty for none.
    pub key: String,
    /// Query string as it came.
    pub query: String,
    /// Some of the headers, names in lower case: [`Seen::HEADERS`].
    pub headers: BTreeMap<&'static str, String>,
    /// How many requests were being answered when it came, itself included. A request counts until
    /// its whole body was handed to the connection.
    pub in_flight: usize,
    /// Arrival.
    pub at: Instant,
    /// Status that it was answered with; 0 when no answer was begun (yet).
    pub status: u16,
}

impl Seen {
    /// How many requests are remembered one by one.
    pub const KEPT: usize = 100_000;
    /// Headers that are remembered.
    pub const HEADERS: [&'static str; 6] = [
        "accept-encoding",
        "authorization",
        "host",
        "if-match",
        "range",
        "x-amz-date",
    ];

    /// A header, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The signature (SigV4) that it came with.
    pub fn signature(&self) -> &str {
        let authorization = self.header("authorization");
        authorization
            .split_once("Signature=")
            .map_or("", |(_, signature)| signature)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) requests: Vec<Seen>,
    pub(crate) counts: BTreeMap<Op, u64>,
    pub(crate) body_bytes: u64,
    pub(crate) in_flight: usize,
    /// Requests ever, for their ids.
    total: u64,
    /// Grows whenever the past is forgotten.
    era: u64,
}

/// Where a request is in the record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    index: Option<usize>,
    era: u64,
    pub(crate) number: u64,
    pub(crate) in_flight: usize,
}

impl Record {
    /// A request came.
    pub(crate) fn arrive(&mut self, mut seen: Seen) -> Ticket {
        self.in_flight += 1;
        self.total += 1;
        seen.in_flight = self.in_flight;
        *self.counts.entry(seen.op).or_default() += 1;
        let index = self.requests.len();
        let kept = index < Seen::KEPT;
        if kept {
            self.requests.push(seen);
        }
        Ticket {
            index: kept.then_some(index),
            era: self.era,
            number: self.total,
            in_flight: self.in_flight,
        }
    }

    /// Its answer begins.
    pub(crate) fn answered(&mut self, ticket: Ticket, status: u16) {
        if ticket.era != self.era {
            return;
        }
        if let Some(seen) = ticket.index.and_then(|index| self.requests.get_mut(index)) {
            seen.status = status;
        }
    }

    pub(crate) fn forget(&mut self) {
        self.requests.clear();
        self.counts.clear();
        self.body_bytes = 0;
        self.era += 1;
    }
}
