//! Requests to a new store that is not handed over yet: straight to its pod, signed with the root
//! keys, since nothing unsigned may hand a volume over.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings, sign,
};
use aws_sigv4::sign::v4;
use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::Empty;

use super::ask;
use super::http::{Failure, send};
use super::pinned;
use crate::render::{ADMIN_PORT, API_PORT};
use crate::told::Told;

/// A store that just started may have to read its volume first.
const PATIENCE: Duration = Duration::from_secs(5);

/// Root keys and region of a store, and how it is known.
#[derive(Clone)]
pub(super) struct Root {
    pub(super) access_key: String,
    pub(super) secret_key: String,
    pub(super) region: String,
    /// The certificate that it answers with, DER; `None` = plain HTTP.
    pub(super) certificate: Option<Vec<u8>>,
}

/// What the operator asks of a new store.
#[async_trait]
pub(super) trait Stores: Send + Sync + Debug {
    /// What the metrics of a pod tell; nothing when it does not answer.
    async fn told(&self, address: IpAddr) -> Told;

    /// Tries it: it answers root with at least so many buckets. Only reads, so that no client ever
    /// sees a trace; that it can write is tried by the hand-over itself, which writes the marker.
    async fn try_out(&self, address: IpAddr, root: &Root, buckets: u64) -> Result<(), String>;

    /// Hands it over to its clients. May be repeated.
    async fn hand_over(&self, address: IpAddr, root: &Root, run: &str) -> Result<(), String>;
}

/// Stores by their S3 port.
#[derive(Debug)]
pub(super) struct ByHttp {
    /// Port of the S3 API.
    pub(super) port: u16,
}

impl Default for ByHttp {
    fn default() -> Self {
        Self { port: API_PORT }
    }
}

#[async_trait]
impl Stores for ByHttp {
    async fn told(&self, address: IpAddr) -> Told {
        ask::pod(address, ADMIN_PORT).await
    }

    async fn try_out(&self, address: IpAddr, root: &Root, buckets: u64) -> Result<(), String> {
        let address = SocketAddr::new(address, self.port);
        let told = |error: Failure| format!("list the buckets of the new store: {error}");
        let answer = ask(address, Method::GET, "/", root).await.map_err(told)?;
        if !answer.status().is_success() {
            return Err(told(refusal(&answer).into()));
        }
        let text = String::from_utf8_lossy(answer.body());
        let listed = text.matches("<Bucket>").count() as u64;
        if listed < buckets {
            return Err(format!(
                "the new store lists {listed} buckets, {buckets} were carried"
            ));
        }
        Ok(())
    }

    async fn hand_over(&self, address: IpAddr, root: &Root, run: &str) -> Result<(), String> {
        let address = SocketAddr::new(address, self.port);
        let path = format!("/.filestore/hand-over?id={run}");
        let told = |error: Failure| format!("hand the new store over: {error}");
        let answer = ask(address, Method::POST, &path, root)
            .await
            .map_err(told)?;
        if answer.status().is_success() {
            Ok(())
        } else {
            Err(told(refusal(&answer).into()))
        }
    }
}

fn refusal(answer: &Response<Bytes>) -> String {
    let text = String::from_utf8_lossy(answer.body());
    let text: String = text.chars().take(300).collect();
    format!("{}: {}", answer.status(), text.trim())
}

async fn ask(
    address: SocketAddr,
    method: Method,
    path: &str,
    root: &Root,
) -> Result<Response<Bytes>, Failure> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, address.to_string())
        .header(header::CONNECTION, "close")
        .header(header::CONTENT_LENGTH, "0")
        .body(Empty::<Bytes>::new())?;
    // Of a URL only host, path and query are signed.
    let url = format!("http://{address}{path}");
    signed(&mut request, &url, root, SystemTime::now())?;
    let certificate = root.certificate.as_deref();
    let tls = certificate.map(pinned::client).transpose()?.map(Arc::new);
    send(address, tls, request, PATIENCE).await
}

/// Signs by AWS Signature Version 4 as S3 has it: the path as it is, and the hash of the body in a
/// header.
fn signed<B>(
    request: &mut Request<B>,
    url: &str,
    root: &Root,
    now: SystemTime,
) -> Result<(), Failure> {
    let identity = Credentials::new(&root.access_key, &root.secret_key, None, None, "root").into();
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(&root.region)
        .name("s3")
        .time(now)
        .settings(settings)
        .build()?
        .into();
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let signable = SignableRequest::new(
        request.method().as_str(),
        url,
        std::iter::once(("host", host)),
        SignableBody::Bytes(&[]),
    )?;
    let (instructions, _) = sign(signable, &params)?.into_parts();
    instructions.apply_to_request_http1x(request);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `GET Bucket Lifecycle` of "Signature Calculations for the Authorization Header: Transferring
    /// Payload in a Single Chunk" (Amazon S3 API Reference), with its keys and time.
    #[test]
    fn a_request_is_signed_as_the_documentation_of_s3_shows() {
        let root = Root {
            access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            region: "us-east-1".to_owned(),
            certificate: None,
        };
        let mut request = Request::get("/?lifecycle")
            .header(header::HOST, "examplebucket.s3.amazonaws.com")
            .body(())
            .unwrap();
        let url = "http://examplebucket.s3.amazonaws.com/?lifecycle";
        let now = "2013-05-24T00:00:00Z".parse::<jiff::Timestamp>().unwrap();
        let now = SystemTime::from(now);
        signed(&mut request, url, &root, now).unwrap();
        let authorization = request.headers()[header::AUTHORIZATION].to_str().unwrap();
        let signature = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543";
        assert!(authorization.ends_with(signature), "{authorization}");
    }
}
