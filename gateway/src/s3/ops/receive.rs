//! Receiving a body into the store and checking it against everything the client announced.

use filestore_common::digest::BodyDigests;
use filestore_common::{Checksum, ChecksumAlgorithm};
use filestore_store::Staged;
use http::HeaderMap;
use s3s::dto::StreamingBlob;
use s3s::{S3Error, S3ErrorCode, S3Result, TrailingHeaders};

use crate::ingest::{IngestError, Ingested, ingest};
use crate::s3::admission;
use crate::s3::checksum::{Announced, ContentMd5, announced};
use crate::s3::error::{self, reply};

/// Largest body of one PutObject or UploadPart.
pub(super) const MAX_PUT: u64 = 5 * 1024 * 1024 * 1024;

/// What a client announces of a body.
#[derive(Debug)]
pub(super) struct Promise {
    /// Bytes.
    pub(super) length: u64,
    /// Checksum in header or trailer.
    pub(super) checksum: Option<Announced>,
    md5: Option<ContentMd5>,
}

impl Promise {
    /// Reads the headers. `length` is `Content-Length` or, with aws-chunked, the decoded length; a
    /// body that HTTP sends in chunks as well (SDKs, over TLS) has the latter in the headers only.
    ///
    /// # Errors
    /// `MissingContentLength`, `EntityTooLarge` beyond `limit`, what the checksums may be wrong in.
    pub(super) fn of(headers: &HeaderMap, length: Option<i64>, limit: u64) -> S3Result<Self> {
        let length = length
            .or_else(|| admission::decoded_length(headers))
            .and_then(|length| u64::try_from(length).ok())
            .ok_or_else(|| error::code(S3ErrorCode::MissingContentLength))?;
        if length > limit {
            return Err(too_large(length, limit));
        }
        Ok(Self {
            length,
            checksum: announced(headers)?,
            md5: ContentMd5::of(headers)?,
        })
    }

    /// Receives `body`; `extra` is a further checksum to compute.
    ///
    /// # Errors
    /// `IncompleteBody`, `XAmzContentSHA256Mismatch`, `SignatureDoesNotMatch`, `BadDigest`, …;
    /// the staged file is gone then.
    pub(super) async fn receive(
        &self,
        staged: Staged,
        body: Option<StreamingBlob>,
        trailers: Option<&TrailingHeaders>,
        extra: Option<ChecksumAlgorithm>,
    ) -> S3Result<Received> {
        let mut algorithms = Vec::new();
        algorithms.extend(self.checksum.as_ref().map(|announced| announced.algorithm));
        if let Some(extra) = extra
            && !algorithms.contains(&extra)
        {
            algorithms.push(extra);
        }
        let body = body.unwrap_or_else(|| StreamingBlob::from(s3s::Body::empty()));
        let Ingested {
            staged, digests, ..
        } = ingest(staged, body, Some(self.length), &algorithms)
            .await
            .map_err(refused)?;
        if let Some(md5) = &self.md5 {
            md5.verify(&digests.content_md5())?;
        }
        let checksum = match &self.checksum {
            Some(announced) => Some(announced.verify(&digests, trailers)?),
            None => None,
        };
        Ok(Received {
            staged,
            digests,
            checksum,
        })
    }
}

/// A body that is what was announced.
#[derive(Debug)]
pub(super) struct Received {
    /// Ready to be published.
    pub(super) staged: Staged,
    /// Its digests.
    pub(super) digests: BodyDigests,
    /// The announced checksum, verified.
    pub(super) checksum: Option<Checksum>,
}

fn too_large(size: u64, limit: u64) -> S3Error {
    let mut error = error::code(S3ErrorCode::EntityTooLarge);
    reply::add_detail(&mut error, "ProposedSize", &size.to_string());
    reply::add_detail(&mut error, "MaxSizeAllowed", &limit.to_string());
    error
}

fn refused(error: IngestError) -> S3Error {
    if let IngestError::Store(error) = error {
        return error::from_store(error);
    }
    let mut answer = match &error {
        // s3s's chunk reader: the framing ended before its last chunk.
        IngestError::Incomplete { reason, .. } if reason == "Incomplete" => ended(),
        IngestError::Framing(_) => ended(),
        IngestError::Incomplete { .. } | IngestError::TooLong => {
            error::code(S3ErrorCode::IncompleteBody)
        }
        IngestError::ContentSha256 => {
            error::custom("XAmzContentSHA256Mismatch", http::StatusCode::BAD_REQUEST)
        }
        IngestError::ChunkSignature => error::code(S3ErrorCode::SignatureDoesNotMatch),
        IngestError::Store(_) => error::code(S3ErrorCode::InternalError),
    };
    answer.set_source(Box::new(error));
    answer
}

fn ended() -> S3Error {
    S3Error::with_message(
        S3ErrorCode::IncompleteBody,
        "The request body terminated unexpectedly",
    )
}
