//! Sending a body: the time that a server may take is counted only while it is its turn.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use aws_sdk_s3::Client;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::primitives::{ByteStream, SdkBody};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_smithy_types::timeout::TimeoutConfig;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use http_body::Frame;
use http_body_util::StreamBody;

use super::S3;
use super::client::CONNECT_TIMEOUT;
use crate::body::SyncBody;
use crate::source::Body;
use crate::{Error, Kind, Result};

/// Longest time in which a server takes no byte, or does not answer when it has all.
const STALL: Duration = Duration::from_mins(2);

/// Settings of a request with a body: the SDK would count the time of sending it as time without
/// an answer.
pub(crate) fn patient() -> aws_sdk_s3::config::Builder {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .disable_read_timeout()
        .build();
    aws_sdk_s3::Config::builder().timeout_config(timeouts)
}

impl S3 {
    /// Sends a request with a body that can be read only once; whoever has the source repeats it.
    /// The request is to be sent with the settings of [`patient`].
    pub(crate) async fn upload<T, E, F, Fut>(
        &self,
        operation: &'static str,
        object: &str,
        body: Body,
        send: F,
    ) -> Result<T>
    where
        F: FnOnce(Client, ByteStream) -> Fut,
        Fut: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        self.upload_within(STALL, operation, object, body, send)
            .await
    }

    async fn upload_within<T, E, F, Fut>(
        &self,
        longest: Duration,
        operation: &'static str,
        object: &str,
        body: Body,
        send: F,
    ) -> Result<T>
    where
        F: FnOnce(Client, ByteStream) -> Fut,
        Fut: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let turn = Turn::default();
        let watched = Watched {
            body,
            turn: turn.clone(),
        };
        let frames = SyncBody::new(watched.boxed()).map(|chunk| chunk.map(Frame::data));
        let stream = ByteStream::new(SdkBody::from_body_1_x(StreamBody::new(frames)));
        tokio::select! {
            answer = self.attempt(operation, object, |client| send(client, stream)) => answer,
            () = turn.stalled(longest) => {
                let problem = format!("the server took no byte for {} s", longest.as_secs());
                Err(Error::new(Kind::Down, operation, object, problem))
            }
        }
    }
}

/// Since when it is the server's turn; `None` while it waits for us. Clones share it.
#[derive(Debug, Clone, Default)]
struct Turn(Arc<Mutex<Option<Instant>>>);

impl Turn {
    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Comes to an end when the server has had its turn for too long.
    async fn stalled(&self, longest: Duration) {
        loop {
            let since = *self.since();
            let had = since.map_or(Duration::ZERO, |since| since.elapsed());
            match longest.checked_sub(had) {
                None | Some(Duration::ZERO) => return,
                Some(left) => tokio::time::sleep(left).await,
            }
        }
    }
}

/// A body that notes whose turn it is.
struct Watched {
    body: Body,
    turn: Turn,
}

impl Stream for Watched {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.body.poll_next_unpin(context);
        *self.turn.since() = polled.is_ready().then(Instant::now);
        polled
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_s3::operation::put_object::PutObjectError;
    use futures::{FutureExt, stream};

    use super::*;
    use crate::progress::Silent;
    use crate::s3::{Pace, Patience};
    use crate::{Credentials, Endpoint};

    /// It takes everything and never answers.
    #[tokio::test]
    async fn a_server_that_does_not_answer_an_upload_is_given_up() {
        let endpoint = Endpoint {
            location: "http://127.0.0.1:1".parse().unwrap(),
            credentials: Some(Credentials {
                access_key: "a".into(),
                secret_key: "s".into(),
            }),
            ca_file: None,
            insecure: false,
            addressing: crate::Addressing::Path,
            region: None,
            stopped: false,
        };
        let patience = Patience {
            wait: Duration::ZERO,
            cancel: tokio_util::sync::CancellationToken::new(),
            progress: Arc::new(Silent),
            pace: Pace {
                parallel: 1,
                rate: None,
            },
        };
        let s3 = S3::new(&endpoint, patience).unwrap();
        let body = stream::iter([Ok(Bytes::from_static(b"all of it"))]).boxed();
        let took_all = |_: Client, mut sent: ByteStream| async move {
            while sent.next().await.is_some() {}
            std::future::pending::<Result<(), SdkError<PutObjectError, HttpResponse>>>().await
        };
        let longest = Duration::from_millis(1);

        let answer = s3
            .upload_within(longest, "put", "b/k", body, took_all)
            .await;

        let error = answer.unwrap_err();
        assert_eq!((error.kind, &*error.object), (Kind::Down, "b/k"));
        assert!(error.message.contains("took no byte for"), "{error}");
    }

    #[test]
    fn it_is_the_servers_turn_only_while_it_has_bytes_to_take() {
        let turn = Turn::default();
        let (sender, receiver) = futures::channel::mpsc::unbounded();
        let mut watched = Watched {
            body: receiver.boxed(),
            turn: turn.clone(),
        };
        assert!(watched.next().now_or_never().is_none());
        assert!(turn.since().is_none(), "the source is slow");
        sender.unbounded_send(Ok(Bytes::from_static(b"x"))).unwrap();
        assert!(watched.next().now_or_never().is_some());
        assert!(turn.since().is_some());
        drop(sender);
        assert!(watched.next().now_or_never().unwrap().is_none());
        assert!(turn.since().is_some(), "it owes an answer");
        let mut ended = Watched {
            body: stream::empty().boxed(),
            turn: Turn::default(),
        };
        assert!(ended.next().now_or_never().unwrap().is_none());
    }
}
