//! A gateway on a fresh volume, and signed requests to it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use filestore_common::shutdown::CancellationToken;
use filestore_gateway::{Config, CredentialSources, Gateway, Listen};
use filestore_store::Durability;

use crate::client::{Client, Response};
use crate::sigv4::{EMPTY_SHA256, Signer, sha256};

pub(crate) const ACCESS: &str = "ryax";
pub(crate) const SECRET: &str = "Ab3dEf6hIj9k";
pub(crate) const BUCKET: &str = "bucket";

/// Nothing here should take long; a test that hangs fails instead.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Server {
    pub(crate) gateway: Gateway,
    pub(crate) volume: tempfile::TempDir,
}

impl Server {
    /// With the defaults, and a bucket.
    pub(crate) fn start() -> Self {
        let server = Self::start_with(|_| {});
        let created = server.client().send(&Request::new("PUT", "/bucket"));
        assert_eq!(created.status, 200, "{created:?}");
        server
    }

    pub(crate) fn start_with(adjust: impl FnOnce(&mut Config)) -> Self {
        Self::start_on(tempfile::tempdir().unwrap(), adjust)
    }

    pub(crate) fn start_on(volume: tempfile::TempDir, adjust: impl FnOnce(&mut Config)) -> Self {
        let mut config = config(volume.path());
        adjust(&mut config);
        let gateway = Gateway::start(&config, &CancellationToken::new()).unwrap();
        Self { gateway, volume }
    }

    /// Ends in order; the volume stays.
    pub(crate) fn stop(self) -> tempfile::TempDir {
        self.gateway.shutdown();
        self.gateway.wait().unwrap();
        self.volume
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.gateway.addresses()[0]
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address())
    }

    pub(crate) fn put(&self, key: &str, body: &[u8]) -> Response {
        let path = format!("/{BUCKET}/{key}");
        self.client().send(&Request::new("PUT", &path).body(body))
    }

    pub(crate) fn get(&self, key: &str) -> Response {
        let path = format!("/{BUCKET}/{key}");
        self.client().send(&Request::new("GET", &path))
    }

    /// GET on the admin port.
    pub(crate) fn admin(&self, path: &str) -> Response {
        let mut client = Client::connect(self.gateway.admin_address().unwrap());
        client.write(format!("GET {path} HTTP/1.1\r\nHost: admin\r\n\r\n").as_bytes());
        client.response(false)
    }

    /// Value of a metric line, 0 when it is not there.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.admin("/metrics").text();
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
            .unwrap_or(0.0)
    }

    /// Waits until a metric has a value: what a client cannot see of the server.
    pub(crate) fn await_metric(&self, name: &str, value: f64) {
        until(name, || (self.metric(name) - value).abs() < 0.1);
    }
}

/// Polls until `done`.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn config(volume: &Path) -> Config {
    let mut config = Config::new(volume, CredentialSources::single(ACCESS, SECRET));
    config.admin_listen = Some("127.0.0.1:0".parse::<Listen>().unwrap());
    config.durability = Durability::Relaxed;
    config
}

pub(crate) fn signer() -> Signer {
    Signer {
        access_key: ACCESS.to_owned(),
        secret_key: SECRET.to_owned(),
        region: "us-east-1".to_owned(),
        at: jiff::Timestamp::now(),
    }
}

/// How a body is sent and signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    /// `x-amz-content-sha256` of the body.
    Sha256,
    /// `UNSIGNED-PAYLOAD`.
    Unsigned,
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD`.
    Chunked,
    /// `STREAMING-UNSIGNED-PAYLOAD-TRAILER` with a CRC32.
    Trailer,
    /// In the query.
    Presigned,
}

pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    payload: Payload,
    signer: Option<Signer>,
    host: String,
}

impl Request {
    /// Signed by the root key, without a body.
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: Vec::new(),
            headers: Vec::new(),
            body: Vec::new(),
            payload: Payload::Sha256,
            signer: Some(signer()),
            host: "gateway.test".to_owned(),
        }
    }

    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        self.query.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self
    }

    pub(crate) fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    pub(crate) fn payload(mut self, payload: Payload) -> Self {
        self.payload = payload;
        self
    }

    pub(crate) fn signed_by(mut self, adjust: impl FnOnce(&mut Signer)) -> Self {
        let mut by = signer();
        adjust(&mut by);
        self.signer = Some(by);
        self
    }

    pub(crate) fn unsigned(mut self) -> Self {
        self.signer = None;
        self
    }

    /// Head and body as they go over the wire.
    pub(crate) fn bytes(&self) -> (Vec<u8>, Vec<u8>) {
        let mut body = self.body.clone();
        let mut headers = vec![("Host".to_owned(), self.host.clone())];
        headers.extend(self.headers.clone());
        let mut query: Vec<String> = self
            .query
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if let Some(signer) = &self.signer {
            if self.payload == Payload::Presigned {
                assert!(self.query.is_empty());
                query = vec![signer.presign(&self.method, &self.path, &self.host, 300)];
            } else {
                body = self.sign(signer, &mut headers);
            }
        }
        if !body.is_empty() || self.method == "PUT" || self.method == "POST" {
            headers.push(("Content-Length".to_owned(), body.len().to_string()));
        }
        let query = if query.is_empty() {
            String::new()
        } else {
            format!("?{}", query.join("&"))
        };
        let mut head = format!("{} {}{query} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        head.push_str("\r\n");
        (head.into_bytes(), body)
    }

    /// Adds the headers of a signed request; returns the framed body.
    fn sign(&self, signer: &Signer, headers: &mut Vec<(String, String)>) -> Vec<u8> {
        let mut add = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
        let hash = match self.payload {
            Payload::Sha256 if self.body.is_empty() => EMPTY_SHA256.to_owned(),
            Payload::Sha256 => sha256(&self.body),
            Payload::Unsigned | Payload::Presigned => "UNSIGNED-PAYLOAD".to_owned(),
            Payload::Chunked => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD".to_owned(),
            Payload::Trailer => "STREAMING-UNSIGNED-PAYLOAD-TRAILER".to_owned(),
        };
        add("x-amz-content-sha256", &hash);
        add("x-amz-date", &signer.timestamp());
        if matches!(self.payload, Payload::Chunked | Payload::Trailer) {
            add("content-encoding", "aws-chunked");
            add("x-amz-decoded-content-length", &self.body.len().to_string());
        }
        if self.payload == Payload::Trailer {
            add("x-amz-trailer", "x-amz-checksum-crc32");
        }
        let (authorization, signature) =
            signer.header(&self.method, &self.path, &self.query, headers, &hash);
        headers.push(("Authorization".to_owned(), authorization));
        match self.payload {
            Payload::Chunked => signer.chunks(&signature, &self.body, 64 * 1024),
            Payload::Trailer => trailer_framed(&self.body),
            _ => self.body.clone(),
        }
    }
}

fn trailer_framed(body: &[u8]) -> Vec<u8> {
    use filestore_common::ChecksumAlgorithm;
    use filestore_common::digest::BodyHasher;
    let mut hasher = BodyHasher::new(&[ChecksumAlgorithm::Crc32]);
    hasher.update(body);
    let crc = hasher.finish().checksum(ChecksumAlgorithm::Crc32).unwrap();
    let mut framed = Vec::new();
    for piece in body.chunks(64 * 1024) {
        framed.extend(format!("{:x}\r\n", piece.len()).bytes());
        framed.extend_from_slice(piece);
        framed.extend_from_slice(b"\r\n");
    }
    framed.extend(format!("0\r\nx-amz-checksum-crc32:{}\r\n\r\n", crc.value).bytes());
    framed
}

/// `multipart/form-data` with boundary `xx`.
pub(crate) fn form(fields: &[(&str, &str)]) -> Request {
    let mut form = String::new();
    for (name, value) in fields {
        write!(
            form,
            "--xx\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        )
        .unwrap();
    }
    form += "--xx--\r\n";
    Request::new("POST", "/bucket")
        .unsigned()
        .header("Content-Type", "multipart/form-data; boundary=xx")
        .body(form.as_bytes())
}
