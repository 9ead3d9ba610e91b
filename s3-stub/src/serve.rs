//! Connections: requests taken apart, recorded, met by trouble or answered.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;

use crate::answer::{Answer, Asked, answer, http_date};
use crate::record::Ticket;
use crate::{Act, Object, Op, Seen, Shared};

/// Bytes of a body that are handed to the connection at once.
const CHUNK: usize = 16 << 10;
/// How far a request's date may be off (S3 API reference, RequestTimeTooSkewed).
const MOST_SKEW_SECONDS: i64 = 15 * 60;

/// The connection ends here.
#[derive(Debug, thiserror::Error)]
#[error("cut by the script")]
pub(crate) struct Cut;

type Body = StreamBody<Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Cut>> + Send>>>;

/// Serves until it is dropped.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    while let Ok((connection, _)) = listener.accept().await {
        let shared = shared.clone();
        // Small answers must not wait for the acknowledgement of those before.
        drop(connection.set_nodelay(true));
        tokio::spawn(async move {
            let service = service_fn(|request| handle(shared.clone(), request));
            let serving = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(connection), service);
            // Cut by the script or by the client: nothing to tell.
            drop(serving.await);
        });
    }
}

/// Counts a request as being answered for as long as it lives.
struct InFlight(Arc<Shared>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.record().in_flight -= 1;
    }
}

async fn handle(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Body>, Cut> {
    let (head, body) = request.into_parts();
    let mut asked = take_apart(
        &head.method,
        head.uri.path(),
        head.uri.query(),
        &head.headers,
    );
    let ticket = shared.record().arrive(Seen {
        op: asked.op,
        bucket: asked.bucket.clone(),
        key: asked.key.clone(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: remembered(&head.headers),
        in_flight: 0,
        at: Instant::now(),
        status: 0,
    });
    let in_flight = InFlight(shared.clone());
    if asked.op == Op::PutObject {
        let bytes = body.collect().await.map_err(|_| Cut)?.to_bytes();
        asked.object = object(&head.headers, bytes);
    }
    let id = format!("STUB{:08}", ticket.number);
    let act = trouble(&shared, &asked, ticket).await;
    let mut cut_after = None;
    let given = match act {
        Some(Act::Close) => return Err(Cut),
        Some(Act::Hang) => {
            std::future::pending::<()>().await;
            return Err(Cut);
        }
        Some(Act::Refuse {
            status,
            code,
            message,
            headers,
        }) => {
            let headers = headers.into_iter();
            let mut refusal = Answer::error(status, code, &message, &id);
            refusal
                .headers
                .extend(headers.map(|(name, value)| (name.to_owned(), value)));
            refusal
        }
        Some(Act::Xml(text)) => Answer {
            status: 200,
            headers: vec![("content-type".into(), "application/xml".into())],
            body: text.into(),
            ..Answer::default()
        },
        Some(Act::Page(status)) => Answer {
            status,
            body: "<html><body>The proxy could not reach its server.</body></html>".into(),
            ..Answer::default()
        },
        other => {
            if let Some(Act::Delay(pause)) = other {
                tokio::time::sleep(pause).await;
            }
            let mut given = answered(&shared, &asked, &head.headers, &id);
            match other {
                Some(Act::CutAfter(bytes)) => cut_after = Some(bytes),
                Some(Act::Mix(bytes)) => given.body = mixed(&given.body, &bytes),
                _ => {}
            }
            given
        }
    };
    let without_body = head.method == Method::HEAD;
    Ok(respond(
        &shared,
        ticket,
        given,
        without_body,
        cut_after,
        &id,
        in_flight,
    ))
}

/// The rule that meets the request, its effect on the world done.
async fn trouble(shared: &Shared, asked: &Asked, ticket: Ticket) -> Option<Act> {
    let fired = shared.world().fires(asked, ticket.in_flight)?;
    if let Some(others) = fired.together {
        others.wait().await;
    }
    if let Act::Rewrite(object) = &fired.act {
        let mut world = shared.world();
        world.bucket(&asked.bucket).put(&asked.key, object.clone());
    }
    Some(fired.act)
}

/// The right answer, unless the clocks are too far apart.
fn answered(shared: &Shared, asked: &Asked, headers: &HeaderMap, id: &str) -> Answer {
    let mut world = shared.world();
    let date = headers
        .get("x-amz-date")
        .and_then(|date| date.to_str().ok());
    let told = date
        .and_then(|date| jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", date).ok())
        .and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok());
    if let Some(told) = told {
        let ours = jiff::Timestamp::now().as_second() + world.clock_ahead;
        if (told.timestamp().as_second() - ours).abs() > MOST_SKEW_SECONDS {
            let message =
                "The difference between the request time and the server's time is too large.";
            return Answer::error(403, "RequestTimeTooSkewed", message, id);
        }
    }
    answer(&mut world, asked, id)
}

fn respond(
    shared: &Arc<Shared>,
    ticket: Ticket,
    given: Answer,
    without_body: bool,
    cut_after: Option<usize>,
    id: &str,
    in_flight: InFlight,
) -> Response<Body> {
    let (clock_ahead, server) = {
        let world = shared.world();
        (world.clock_ahead, world.server.clone())
    };
    let ahead = Duration::from_secs(clock_ahead.unsigned_abs());
    let now = SystemTime::now();
    let now = if clock_ahead < 0 {
        now - ahead
    } else {
        now + ahead
    };
    let length = given.length.unwrap_or(given.body.len());
    let mut response = Response::builder()
        .status(StatusCode::from_u16(given.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
        .header("date", http_date(now))
        .header("server", server)
        .header("x-amz-request-id", id);
    if given.status != 204 {
        response = response.header("content-length", length);
    }
    for (name, value) in given.headers {
        response = response.header(name, value);
    }
    let bytes = if without_body {
        Bytes::new()
    } else {
        given.body
    };
    let body = StreamBody::new(sent(shared.clone(), &bytes, cut_after, in_flight).boxed());
    shared.record().answered(ticket, given.status);
    response
        .body(body)
        .unwrap_or_else(|_| Response::new(StreamBody::new(stream::empty().boxed())))
}

/// The body in chunks, up to where it is cut.
fn sent(
    shared: Arc<Shared>,
    bytes: &Bytes,
    cut_after: Option<usize>,
    in_flight: InFlight,
) -> impl Stream<Item = Result<Frame<Bytes>, Cut>> + Send + use<> {
    let cut = cut_after.filter(|at| *at < bytes.len());
    let rest = bytes.slice(..cut.unwrap_or(bytes.len()));
    // Counted as answered just before the last of it goes out: what a client sends when it has the
    // answer never meets its own request.
    let in_flight = Some(in_flight).filter(|_| !rest.is_empty());
    stream::unfold((Some(rest), in_flight), move |(rest, in_flight)| {
        let shared = shared.clone();
        async move {
            let mut rest = rest?;
            if !rest.is_empty() {
                let chunk = rest.split_to(CHUNK.min(rest.len()));
                shared.record().body_bytes += chunk.len() as u64;
                let in_flight = in_flight.filter(|_| !rest.is_empty());
                return Some((Ok(Frame::data(chunk)), (Some(rest), in_flight)));
            }
            cut?;
            // What was handed over goes out before the connection ends.
            tokio::task::yield_now().await;
            Some((Err(Cut), (None, in_flight)))
        }
    })
}

fn mixed(body: &Bytes, other: &Bytes) -> Bytes {
    let half = body.len() / 2;
    let rest = other.iter().copied().cycle().take(body.len() - half);
    body.slice(..half).into_iter().chain(rest).collect()
}

fn remembered(headers: &HeaderMap) -> BTreeMap<&'static str, String> {
    let value = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
    Seen::HEADERS
        .into_iter()
        .filter_map(|name| Some((name, value(name)?)))
        .collect()
}

fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn take_apart(method: &Method, path: &str, query: Option<&str>, headers: &HeaderMap) -> Asked {
    let query: BTreeMap<String, String> = query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        })
        .collect();
    let path = path.trim_start_matches('/');
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    let (bucket, key) = (decode(bucket), decode(key));
    let asks = |name: &str| query.contains_key(name);
    let op = match (method.as_str(), bucket.is_empty(), key.is_empty()) {
        ("GET", true, _) => Op::ListBuckets,
        ("HEAD", _, true) => Op::HeadBucket,
        ("PUT", _, true) if query.keys().all(|name| name == "x-id") => Op::CreateBucket,
        ("GET", _, true) if asks("list-type") => Op::ListObjects,
        ("GET", _, false) if asks("tagging") => Op::ObjectTags,
        ("GET", _, false) if asks("attributes") => Op::ObjectAttributes,
        ("GET", _, false) => Op::GetObject,
        ("HEAD", _, false) => Op::HeadObject,
        ("PUT", _, false) if !asks("uploadId") && !asks("tagging") => Op::PutObject,
        ("DELETE", _, false) if !asks("uploadId") => Op::DeleteObject,
        _ => Op::Other,
    };
    let header = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
    Asked {
        op,
        bucket,
        key,
        query,
        if_match: header("if-match"),
        if_none_match: header("if-none-match"),
        range: header("range"),
        object: None,
    }
}

/// What a PUT brings; `None` when its body is in signed chunks.
fn object(headers: &HeaderMap, bytes: Bytes) -> Option<Object> {
    let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
    if text("x-amz-content-sha256").is_some_and(|hash| hash.starts_with("STREAMING")) {
        return None;
    }
    let mut object = Object::new(bytes);
    object.modified = SystemTime::now();
    object.content_type = text("content-type");
    object.user = headers
        .iter()
        .filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix("x-amz-meta-")?;
            Some((name.to_owned(), value.to_str().ok()?.to_owned()))
        })
        .collect();
    Some(object)
}
