//! Sending: through the gate, again after failures that may pass.

use std::future::Future;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use aws_sdk_s3::Client;
use aws_sdk_s3::error::SdkError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use super::{S3, error, signal, watch};
use crate::pace::Permit;
use crate::pace::aimd::Signal;
use crate::pace::retry::{self, Next, Tried};
use crate::{Error, Event, Kind, Result};

/// Waits are shown from here on.
const SHOWN_PAUSE: Duration = Duration::from_secs(1);

/// A skew that changed by less, in seconds, is told already.
const LEAST_SKEW_TOLD: i64 = 60;

impl S3 {
    /// Sends a request, again after failures that may pass.
    pub(crate) async fn call<T, E, F, Fut>(
        &self,
        operation: &'static str,
        object: &str,
        send: F,
    ) -> Result<T>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let (answer, _permit) = self.start(operation, object, send).await?;
        Ok(answer)
    }

    /// Like [`S3::call`], for an answer whose body is still to be read: the request is under way
    /// for as long as the permit lives.
    pub(crate) async fn start<T, E, F, Fut>(
        &self,
        operation: &'static str,
        object: &str,
        send: F,
    ) -> Result<(T, Permit)>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let mut tries = Tries::default();
        loop {
            let permit = self.enter(operation, object).await?;
            match self.once(operation, object, &send).await {
                Ok(answer) => return Ok((answer, permit)),
                Err(error) => {
                    drop(permit);
                    self.failed(error, &mut tries).await?;
                }
            }
        }
    }

    /// Like [`S3::call`], as a part of the request that `permit` stands for.
    pub(crate) async fn call_within<T, E, F, Fut>(
        &self,
        permit: &Permit,
        operation: &'static str,
        object: &str,
        send: F,
    ) -> Result<T>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let mut tries = Tries::default();
        loop {
            tokio::select! {
                () = self.patience.cancel.cancelled() => return Err(stopped(operation, object)),
                entered = self.gate.enter_within(permit) => {
                    entered.ok_or_else(|| self.given_up(operation, object))?;
                }
            }
            match self.once(operation, object, &send).await {
                Ok(answer) => return Ok(answer),
                Err(error) => self.failed(error, &mut tries).await?,
            }
        }
    }

    /// Sends a request whose body can be read only once; whoever has the source repeats it.
    pub(crate) async fn attempt<T, E, F, Fut>(
        &self,
        operation: &'static str,
        object: &str,
        send: F,
    ) -> Result<T>
    where
        F: FnOnce(Client) -> Fut,
        Fut: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let _permit = self.enter(operation, object).await?;
        let begun = self.gate.now();
        let failure = match send(self.client()).await {
            Ok(answer) => {
                self.observe(begun, Signal::Answered(None));
                return Ok(answer);
            }
            Err(failure) => failure,
        };
        self.observe(begun, signal::of(&failure));
        let learned = self.learn(&failure)?;
        let mut error = self.explain(operation, object, failure);
        if learned {
            error.kind = Kind::Down;
        }
        if error.kind == Kind::Down && self.gate.down_for() >= Some(self.patience.wait) {
            return Err(self.outage(error));
        }
        Err(error)
    }

    /// Whether the store has not answered since a request failed.
    pub(crate) fn is_down(&self) -> bool {
        self.gate.down_for().is_some()
    }

    async fn enter(&self, operation: &'static str, object: &str) -> Result<Permit> {
        tokio::select! {
            () = self.patience.cancel.cancelled() => Err(stopped(operation, object)),
            permit = self.gate.enter() => permit.ok_or_else(|| self.given_up(operation, object)),
        }
    }

    /// Waits before the next attempt, or gives the error back when there is to be none.
    async fn failed(&self, mut error: Error, so_far: &mut Tries) -> Result<()> {
        so_far.attempts += 1;
        error.attempts = so_far.attempts;
        let tried = Tried {
            attempts: so_far.attempts,
            unanswered: self.gate.unanswered(),
            waited: so_far.first.get_or_insert_with(Instant::now).elapsed(),
            down_for: self.gate.down_for(),
            patience: self.patience.wait,
        };
        let pause = match retry::next(&error, tried) {
            Next::GiveUp => {
                error.exhausted = error.kind == Kind::Down;
                return Err(error);
            }
            Next::StoreIsDown => return Err(self.outage(error)),
            Next::Again(pause) => pause,
        };
        self.patience.progress.event(&Event::Retrying(&error));
        let next = pause.max(self.gate.ready_in());
        if next.max(tried.down_for.unwrap_or_default()) >= SHOWN_PAUSE {
            let error = &error;
            self.patience
                .progress
                .event(&Event::Waiting { error, next });
        }
        tokio::select! {
            () = self.patience.cancel.cancelled() => {
                Err(stopped(error.operation, &error.object))
            }
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    /// The error of a request that is not sent any more.
    fn given_up(&self, operation: &'static str, object: &str) -> Error {
        self.outage(Error::new(Kind::Outage, operation, object, "not tried"))
    }

    /// Ends the wait for the store, for everybody.
    fn outage(&self, mut error: Error) -> Error {
        self.gate.close();
        error.kind = Kind::Outage;
        let waited = self.patience.wait.as_secs();
        error.with_cure(format!(
            "{} answered nobody for {waited} s (--wait); when it is back, run again: what was copied \
             stays",
            self.url
        ))
    }

    /// Sends a request once, or twice when the first answer teaches region or time.
    pub(super) async fn once<T, E, F, Fut>(
        &self,
        operation: &'static str,
        object: &str,
        send: F,
    ) -> Result<T>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let failure = match self.observed(operation, &send).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        if !self.learn(&failure)? {
            return Err(self.explain(operation, object, failure));
        }
        let again = self.observed(operation, &send).await;
        again.map_err(|failure| self.explain(operation, object, failure))
    }

    async fn observed<T, E, F, Fut>(
        &self,
        operation: &'static str,
        send: F,
    ) -> Result<T, SdkError<E, HttpResponse>>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
        E: ProvideErrorMetadata,
    {
        let begun = self.gate.now();
        let result = send(self.client()).await;
        let signal = match &result {
            Ok(_) => {
                let took = self.gate.now().saturating_sub(begun);
                Signal::Answered(Some((operation, took)))
            }
            Err(failure) => signal::of(failure),
        };
        self.observe(begun, signal);
        result
    }

    fn observe(&self, begun: Duration, signal: Signal) {
        self.gate.observe(begun, signal);
        if matches!(signal, Signal::Overloaded(Some(_))) {
            watch::watch(&self.gate, &self.host, self.port);
        }
    }

    /// Learns the region or the time that the server goes by from its complaint; whether it did.
    fn learn<E>(&self, failure: &SdkError<E, HttpResponse>) -> Result<bool>
    where
        E: ProvideErrorMetadata,
    {
        if let Some(region) = error::expected_region(failure) {
            tracing::debug!(region, url = self.url, "Learned the region");
            let learned = self.connection.client(&region)?;
            *self.client.write().unwrap_or_else(PoisonError::into_inner) = learned;
            return Ok(true);
        }
        let Some(ahead) = error::skew(failure) else {
            return Ok(false);
        };
        // The SDK goes by the server's clock from here on.
        let told = self.skew_told.swap(ahead, Ordering::Relaxed);
        if (ahead - told).abs() >= LEAST_SKEW_TOLD {
            let side = if ahead > 0 { "ahead of" } else { "behind" };
            self.patience.progress.event(&Event::Note(&format!(
                "warning: the clock of {} is {} s {side} this machine's; requests are dated by that \
                 clock now; set both by NTP",
                self.url,
                ahead.abs()
            )));
        }
        Ok(true)
    }

    fn explain<E>(
        &self,
        operation: &'static str,
        object: &str,
        failure: SdkError<E, HttpResponse>,
    ) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let date = seen.date.clone();
        drop(seen);
        error::explain(operation, object, failure, date.as_deref())
    }
}

/// How often a request was tried, and since when.
#[derive(Debug, Default)]
struct Tries {
    attempts: u32,
    first: Option<Instant>,
}

fn stopped(operation: &'static str, object: &str) -> Error {
    Error::new(Kind::Interrupted, operation, object, "stopped")
}
