//! The door that every request to one store goes through.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::aimd::{Aimd, Signal};
use super::tokens::Tokens;

/// Lets requests through as the controller and the rate allow.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Notify,
    begin: Instant,
    /// How long a store that answers nobody is waited for.
    patience: Duration,
}

#[derive(Debug)]
struct State {
    aimd: Aimd,
    rate: Option<Tokens>,
    in_flight: usize,
    /// Since when the store has answered nobody.
    down_since: Option<Duration>,
    /// Failures since then.
    unanswered: u32,
    /// Nobody waits for the store any longer.
    closed: bool,
    /// Somebody looks whether the store is still there.
    watched: bool,
}

/// A request under way; the next one may come when it is dropped. Held for as long as a body is
/// read.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<Gate>,
    begun: Duration,
}

impl Permit {
    /// The connection was lost after the answer had begun.
    pub(crate) fn broke(&self) {
        self.gate.observe(self.begun, Signal::TimedOut);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.state().in_flight -= 1;
        self.gate.changed.notify_waiters();
    }
}

/// A timer of no time would still cost a tick of the clock.
async fn sleep(pause: Duration) {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
}

enum Verdict {
    Go(Duration),
    Sleep(Duration),
    WaitForOthers,
    Closed,
}

impl State {
    /// Whether one more request may go at `now`, after which pause.
    fn admit(&mut self, now: Duration, within: bool) -> Verdict {
        if self.closed {
            return Verdict::Closed;
        }
        let early = self.aimd.ready_at().saturating_sub(now);
        if !early.is_zero() {
            return Verdict::Sleep(early);
        }
        if !within {
            if self.in_flight >= self.aimd.limit() {
                return Verdict::WaitForOthers;
            }
            self.in_flight += 1;
        }
        let pause = self.rate.as_mut().map(|rate| rate.take(now, 1.0));
        Verdict::Go(pause.unwrap_or_default())
    }
}

impl Gate {
    /// At most `ceiling` requests at once, at most `rate` a second; a store that answers nobody is
    /// looked at again when `patience` is over at the latest.
    pub(crate) fn new(ceiling: usize, rate: Option<u32>, patience: Duration) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                aimd: Aimd::new(ceiling),
                rate: rate.map(|rate| Tokens::new(f64::from(rate))),
                in_flight: 0,
                down_since: None,
                unanswered: 0,
                closed: false,
                watched: false,
            }),
            changed: Notify::new(),
            begin: Instant::now(),
            patience,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the gate was made, for [`Gate::observe`].
    pub(crate) fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Waits until a request may be sent; `None` when nobody waits for the store any longer.
    pub(crate) async fn enter(self: &Arc<Self>) -> Option<Permit> {
        let pause = self.wait(false).await?;
        let permit = Permit {
            gate: self.clone(),
            begun: self.now(),
        };
        sleep(pause).await;
        Some(permit)
    }

    /// Waits until a request may be sent that belongs to one under way: it takes no place of its
    /// own, since whoever holds a place must never wait for another.
    pub(crate) async fn enter_within(&self, _permit: &Permit) -> Option<()> {
        let pause = self.wait(true).await?;
        sleep(pause).await;
        Some(())
    }

    async fn wait(&self, within: bool) -> Option<Duration> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            let verdict = self.state().admit(self.now(), within);
            match verdict {
                Verdict::Go(pause) => return Some(pause),
                Verdict::Closed => return None,
                Verdict::WaitForOthers => changed.await,
                Verdict::Sleep(pause) => tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = changed => {}
                },
            }
        }
    }

    /// Learns what came of a request that began at `begun`.
    pub(crate) fn observe(&self, begun: Duration, signal: Signal) {
        let now = self.now();
        let mut state = self.state();
        if let Signal::Answered(_) = signal {
            state.down_since = None;
            state.unanswered = 0;
        } else {
            state.down_since.get_or_insert(begun);
            state.unanswered = state.unanswered.saturating_add(1);
        }
        let in_flight = state.in_flight;
        state.aimd.observe(begun, now, in_flight, signal);
        if let Some(since) = state.down_since {
            state.aimd.look_again_by((since + self.patience).max(now));
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Lets nobody in from here on.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_waiters();
    }

    /// How many requests failed since the store last answered anybody.
    pub(crate) fn unanswered(&self) -> u32 {
        self.state().unanswered
    }

    /// How long everybody leaves the store alone.
    pub(crate) fn ready_in(&self) -> Duration {
        let ready = self.state().aimd.ready_at();
        ready.saturating_sub(self.now())
    }

    /// Whether the store wants to be left alone for `least` or longer, and nobody looks yet whether it
    /// is still there: the caller does from here on, until [`Gate::unwatch`].
    pub(crate) fn watch(&self, least: Duration) -> bool {
        let now = self.now();
        let mut state = self.state();
        let watch = !state.watched && state.aimd.ready_at().saturating_sub(now) >= least;
        state.watched |= watch;
        watch
    }

    /// Nobody looks any more; `gone` when there is no process that takes connections.
    pub(crate) fn unwatch(&self, gone: bool) {
        let now = self.now();
        let mut state = self.state();
        state.watched = false;
        if gone {
            state.aimd.gone(now);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// For how long the store has answered nobody.
    pub(crate) fn down_for(&self) -> Option<Duration> {
        let now = self.now();
        let since = self.state().down_since?;
        Some(now.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const PATIENCE: Duration = Duration::from_mins(15);

    /// A store that restarts says "Retry-After: 60", whoever waits for it said "2 s".
    #[test]
    fn no_wish_is_longer_than_the_patience() {
        let minute = Some(Duration::from_mins(1));
        for (patience, longest) in [(2, 2), (900, 60)] {
            let gate = Gate::new(4, None, Duration::from_secs(patience));
            gate.observe(Duration::ZERO, Signal::Overloaded(minute));
            let ready = gate.ready_in();
            let longest = Duration::from_secs(longest);
            assert!(ready <= longest && ready > longest / 2, "{ready:?}");
        }
    }

    #[test]
    fn a_wish_ends_with_the_process_that_had_it() {
        let gate = Gate::new(4, None, PATIENCE);
        let least = Duration::from_secs(2);
        assert!(!gate.watch(least), "nobody wished for anything");
        gate.observe(gate.now(), Signal::Overloaded(Some(Duration::from_mins(1))));
        assert!(gate.watch(least));
        assert!(!gate.watch(least), "one looks for all");
        gate.unwatch(false);
        assert!(gate.ready_in() > least);
        assert!(gate.watch(least));
        gate.unwatch(true);
        assert!(gate.ready_in() < least);
    }

    #[tokio::test]
    async fn as_many_as_the_limit_are_let_in() {
        let gate = Gate::new(2, None, PATIENCE);
        let first = gate.enter().now_or_never().flatten().unwrap();
        let _second = gate.enter().now_or_never().flatten().unwrap();
        assert!(gate.enter().now_or_never().is_none());
        gate.enter_within(&first).now_or_never().flatten().unwrap();

        let mut third = Box::pin(gate.enter());
        assert!((&mut third).now_or_never().is_none());
        drop(first);
        third.await.unwrap();
    }

    #[tokio::test]
    async fn a_lower_limit_holds_for_the_next_ones() {
        let gate = Gate::new(4, None, PATIENCE);
        let permits: Vec<_> = (0..4)
            .map(|_| gate.enter().now_or_never().flatten().unwrap())
            .collect();
        gate.observe(gate.now(), Signal::Overloaded(None));
        let mut permits = permits.into_iter();
        drop(permits.next());
        drop(permits.next());
        assert!(gate.enter().now_or_never().is_none(), "two are still in");
        drop(permits.next());
        assert!(gate.enter().now_or_never().is_some());
    }

    #[tokio::test]
    async fn giving_up_the_wait_takes_no_place() {
        let gate = Gate::new(1, None, PATIENCE);
        let permit = gate.enter().now_or_never().flatten().unwrap();
        let mut waiting = Box::pin(gate.enter());
        assert!((&mut waiting).now_or_never().is_none());
        drop(waiting);
        drop(permit);
        gate.enter().now_or_never().flatten().unwrap();
    }

    #[tokio::test]
    async fn those_who_wait_for_a_store_that_is_given_up_go_home() {
        let gate = Gate::new(1, None, PATIENCE);
        let permit = gate.enter().await.unwrap();
        gate.observe(gate.now(), Signal::Unreachable);
        let mut waiting = Box::pin(gate.enter());
        assert!((&mut waiting).now_or_never().is_none());
        gate.close();
        assert!(waiting.await.is_none());
        assert!(gate.enter_within(&permit).await.is_none());
    }

    #[test]
    fn a_store_is_down_from_the_first_failure_until_any_answer() {
        let gate = Gate::new(4, None, PATIENCE);
        assert_eq!(gate.down_for(), None);
        gate.observe(Duration::ZERO, Signal::Unreachable);
        gate.observe(gate.now(), Signal::Overloaded(None));
        assert!(gate.down_for().is_some_and(|down| down <= gate.now()));
        gate.observe(gate.now(), Signal::Answered(None));
        assert_eq!(gate.down_for(), None);
    }
}
