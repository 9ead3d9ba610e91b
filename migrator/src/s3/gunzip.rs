//! Answers that came compressed although nobody asked for it: proxies that set `Accept-Encoding`
//! make MinIO compress its XML. Bodies of objects are never touched, their `Content-Encoding` is
//! the object's own.

use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeDeserializationInterceptorContextMut;
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use flate2::write::GzDecoder;
use http_body::{Body, Frame};

/// Largest answer in bytes; a thousand keys of the longest kind take less.
const MOST: usize = 64 << 20;

/// Decompresses.
#[derive(Debug)]
pub(super) struct Gunzip;

impl Intercept for Gunzip {
    fn name(&self) -> &'static str {
        "gunzip"
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let brings_an_object = config
            .load::<Metadata>()
            .is_none_or(|operation| matches!(operation.name(), "GetObject" | "HeadObject"));
        let response = context.response_mut();
        let failed = response.status().as_u16() >= 400;
        let compressed = response.headers().get("content-encoding") == Some("gzip");
        if compressed && (failed || !brings_an_object) {
            response.headers_mut().remove("content-encoding");
            response.headers_mut().remove("content-length");
            let body = std::mem::replace(response.body_mut(), SdkBody::taken());
            *response.body_mut() = plain(body);
        }
        Ok(())
    }
}

/// `body`, decompressed.
pub(super) fn plain(body: SdkBody) -> SdkBody {
    SdkBody::from_body_1_x(Plain {
        body,
        decoder: Some(GzDecoder::new(Vec::new())),
        came: 0,
    })
}

/// A body, decompressed as it comes.
struct Plain {
    body: SdkBody,
    decoder: Option<GzDecoder<Vec<u8>>>,
    came: usize,
}

impl Plain {
    fn count(&mut self, bytes: Vec<u8>) -> Result<Bytes, BoxError> {
        self.came += bytes.len();
        if self.came > MOST {
            return Err("the answer is larger than any that makes sense".into());
        }
        Ok(bytes.into())
    }

    /// What came out of one more piece, or, at the end, of what is left.
    fn next(&mut self, piece: Option<&[u8]>) -> Result<Option<Bytes>, BoxError> {
        match (piece, &mut self.decoder) {
            (Some(piece), Some(decoder)) => {
                decoder.write_all(piece)?;
                let bytes = std::mem::take(decoder.get_mut());
                self.count(bytes).map(Some)
            }
            (None, decoder @ Some(_)) => match decoder.take() {
                None => Ok(None),
                Some(decoder) => {
                    let bytes = decoder.finish()?;
                    self.count(bytes).map(Some)
                }
            },
            (_, None) => Ok(None),
        }
    }
}

impl Body for Plain {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            let piece = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Some(data),
                    Err(_) => continue,
                },
                None => None,
            };
            return Poll::Ready(match self.next(piece.as_deref()) {
                Ok(Some(bytes)) if bytes.is_empty() && piece.is_some() => continue,
                Ok(Some(bytes)) if bytes.is_empty() => None,
                Ok(bytes) => bytes.map(|bytes| Ok(Frame::data(bytes))),
                Err(error) => Some(Err(error)),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http_body_util::BodyExt as _;

    use super::*;

    fn compressed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn plain(body: Vec<u8>) -> Plain {
        Plain {
            body: SdkBody::from(body),
            decoder: Some(GzDecoder::new(Vec::new())),
            came: 0,
        }
    }

    #[tokio::test]
    async fn a_compressed_answer_comes_out_whole() {
        let text = "<Key>k</Key>".repeat(10_000);
        let read = plain(compressed(text.as_bytes())).collect().await.unwrap();
        assert_eq!(read.to_bytes(), text);
    }

    #[tokio::test]
    async fn a_cut_or_endless_answer_is_an_error() {
        let mut cut = compressed(b"<ListBucketResult>");
        cut.truncate(cut.len() - 6);
        assert!(plain(cut).collect().await.is_err());
        let bomb = compressed(&vec![b' '; MOST + 1]);
        assert!(plain(bomb).collect().await.is_err());
    }
}
