//! How many requests at once a store is asked: one more after every round that went well, half as
//! many when it says that it is too much (additive increase, multiplicative decrease).

use std::collections::BTreeMap;
use std::time::Duration;

/// What is left of the limit when a store refuses for load or does not answer in time.
const LESS: f64 = 0.5;
/// What is left of it when answers merely take much longer than they could.
const LESS_FOR_SLOWNESS: f64 = 0.8;
/// Slowness alone does not bring the limit below this.
const LEAST_FOR_SLOWNESS: f64 = 2.0;
/// First and longest pause between two looks at a store that cannot be reached.
const LOOKS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// The base of latencies is the least of the last one to two of these.
const WINDOW: Duration = Duration::from_secs(30);
/// Clearly slower than the base: by this factor, and by this much.
const SLOW: (f64, Duration) = (4.0, Duration::from_millis(500));
/// Weight of the newest latency in their moving average.
const NEWEST: f64 = 0.2;

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// An answer, and where that says something of the store's load, for what kind of request and
    /// how long it took to come.
    Answered(Option<(&'static str, Duration)>),
    /// 429, 503 or an equivalent; for how long the store wants to be left alone.
    Overloaded(Option<Duration>),
    /// No answer within the time for one.
    TimedOut,
    /// No connection.
    Unreachable,
}

/// The controller of one store.
#[derive(Debug)]
pub(crate) struct Aimd {
    ceiling: f64,
    limit: f64,
    /// Requests that began before the last decrease say nothing new.
    decreased_at: Option<Duration>,
    ready_at: Duration,
    /// Looks at the store that found it unreachable, one after another.
    unreachable: u32,
    latencies: BTreeMap<&'static str, Latency>,
}

impl Aimd {
    /// Begins at the ceiling: a store that bears it gets the whole load at once.
    pub(crate) fn new(ceiling: usize) -> Self {
        let ceiling = f64::from(u32::try_from(ceiling.max(1)).unwrap_or(u32::MAX));
        Self {
            ceiling,
            limit: ceiling,
            decreased_at: None,
            ready_at: Duration::ZERO,
            unreachable: 0,
            latencies: BTreeMap::new(),
        }
    }

    /// Requests that may be in flight.
    pub(crate) fn limit(&self) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 1 and the ceiling, which was a u32"
        )]
        let whole = self.limit as usize;
        whole.max(1)
    }

    /// Before this time nothing may be sent.
    pub(crate) fn ready_at(&self) -> Duration {
        self.ready_at
    }

    /// Learns at `now` what came of a request that began at `begun`, when `in_flight` requests
    /// (with this one) were under way.
    pub(crate) fn observe(
        &mut self,
        begun: Duration,
        now: Duration,
        in_flight: usize,
        signal: Signal,
    ) {
        let news = self.decreased_at.is_none_or(|at| begun >= at);
        match signal {
            Signal::Answered(timed) => {
                self.unreachable = 0;
                let slow = timed.is_some_and(|(operation, took)| {
                    let latency = self.latencies.entry(operation);
                    latency.or_insert_with(|| Latency::new(now)).slow(now, took)
                });
                if slow && news {
                    let least = LEAST_FOR_SLOWNESS.min(self.limit);
                    self.decrease(now, (self.limit * LESS_FOR_SLOWNESS).max(least));
                } else if !slow && in_flight >= self.limit() {
                    self.limit = (self.limit + 1.0 / self.limit).min(self.ceiling);
                }
            }
            Signal::Overloaded(pause) => {
                if let Some(pause) = pause {
                    self.ready_at = self.ready_at.max(now + pause);
                }
                if news {
                    self.decrease(now, self.limit * LESS);
                }
            }
            Signal::TimedOut if news => self.decrease(now, self.limit * LESS),
            // One looks whether it is back, on behalf of all.
            Signal::Unreachable if news => {
                let doubled = LOOKS.0 * 2_u32.saturating_pow(self.unreachable.min(16));
                self.unreachable += 1;
                self.ready_at = self.ready_at.max(now + doubled.min(LOOKS.1));
                self.decrease(now, 1.0);
            }
            Signal::TimedOut | Signal::Unreachable => {}
        }
    }

    /// Nobody waits beyond `last` before another look, whatever the store wishes.
    pub(crate) fn look_again_by(&mut self, last: Duration) {
        self.ready_at = self.ready_at.min(last);
    }

    /// The process that wished to be left alone is gone: the one that comes next did not wish for it.
    pub(crate) fn gone(&mut self, now: Duration) {
        self.unreachable = self.unreachable.max(1);
        self.ready_at = now + LOOKS.0;
    }

    fn decrease(&mut self, now: Duration, limit: f64) {
        self.limit = limit.max(1.0);
        self.decreased_at = Some(now);
    }
}

/// How long one kind of request takes to be answered.
#[derive(Debug)]
struct Latency {
    average: f64,
    /// Least of this window and of the one before.
    least: f64,
    least_before: f64,
    window: Duration,
}

impl Latency {
    fn new(now: Duration) -> Self {
        Self {
            average: 0.0,
            least: f64::INFINITY,
            least_before: f64::INFINITY,
            window: now,
        }
    }

    /// Adds one; whether answers are clearly slower by now than they could be.
    fn slow(&mut self, now: Duration, took: Duration) -> bool {
        let took = took.as_secs_f64();
        if now.saturating_sub(self.window) >= WINDOW {
            self.window = now;
            self.least_before = self.least;
            self.least = f64::INFINITY;
        }
        self.average = if self.least.min(self.least_before).is_finite() {
            self.average + (took - self.average) * NEWEST
        } else {
            took
        };
        self.least = self.least.min(took);
        let base = self.least.min(self.least_before);
        self.average > base * SLOW.0 && self.average > base + SLOW.1.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &str = "get";

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// A store in virtual time that answers `limit` requests a round, the next round when all are
    /// answered.
    struct Model {
        aimd: Aimd,
        now: Duration,
    }

    impl Model {
        fn new(ceiling: usize) -> Self {
            Self {
                aimd: Aimd::new(ceiling),
                now: Duration::ZERO,
            }
        }

        fn round(&mut self, latency: Duration, signal: impl Fn(usize, Duration) -> Signal) {
            let begun = self.now.max(self.aimd.ready_at());
            let in_flight = self.aimd.limit();
            self.now = begun + latency;
            for number in 0..in_flight {
                let signal = signal(number, latency);
                self.aimd.observe(begun, self.now, in_flight, signal);
            }
        }

        fn well(&mut self, rounds: usize) {
            for _ in 0..rounds {
                self.round(ms(10), |_, took| Signal::Answered(Some((GET, took))));
            }
        }
    }

    #[test]
    fn grows_by_about_one_a_round_up_to_the_ceiling() {
        let mut model = Model::new(16);
        model.round(ms(10), |_, _| Signal::Overloaded(None));
        assert_eq!(model.aimd.limit(), 8);
        let mut limits = Vec::new();
        for _ in 0..12 {
            model.well(1);
            limits.push(model.aimd.limit());
        }
        let steps = limits.windows(2).map(|two| two[1] - two[0]);
        assert!(steps.max() <= Some(1), "{limits:?}");
        assert!(limits[11] >= 15, "{limits:?}");
        model.well(100);
        assert_eq!(model.aimd.limit(), 16);
    }

    #[test]
    fn many_refusals_of_one_round_halve_once() {
        let mut model = Model::new(16);
        model.round(ms(10), |_, _| Signal::Overloaded(None));
        assert_eq!(model.aimd.limit(), 8);
        model.round(ms(10), |_, _| Signal::TimedOut);
        assert_eq!(model.aimd.limit(), 4);
        for _ in 0..10 {
            model.round(ms(10), |_, _| Signal::Overloaded(None));
        }
        assert_eq!(model.aimd.limit(), 1, "never less than one");
    }

    /// A store that bears six at once and refuses the rest: the refusals stay few.
    #[test]
    fn settles_near_what_the_store_bears() {
        let mut model = Model::new(32);
        model.well(1);
        let (mut refused, mut sent) = (0, 0);
        for round in 0..400 {
            let limit = model.aimd.limit();
            if round >= 20 {
                refused += limit.saturating_sub(6);
                sent += limit;
            }
            model.round(ms(10), |number, took| {
                if number < 6 {
                    Signal::Answered(Some((GET, took)))
                } else {
                    Signal::Overloaded(None)
                }
            });
        }
        assert!(refused * 10 < sent, "{refused} of {sent} refused");
        assert!(sent > 380 * 4, "{sent} sent in 380 rounds of 6");
    }

    #[test]
    fn an_idle_limit_does_not_grow() {
        let mut aimd = Aimd::new(16);
        aimd.observe(ms(0), ms(1), 16, Signal::Overloaded(None));
        for at in 1..1000 {
            aimd.observe(ms(at), ms(at + 1), 2, Signal::Answered(None));
        }
        assert_eq!(aimd.limit(), 8);
    }

    #[test]
    fn answers_far_above_the_base_lower_the_limit_but_not_to_one() {
        let mut model = Model::new(16);
        model.well(3);
        for _ in 0..3 {
            model.round(ms(3000), |_, took| Signal::Answered(Some((GET, took))));
        }
        let limit = model.aimd.limit();
        assert!(limit < 16, "{limit}");
        for _ in 0..8 {
            model.round(ms(3000), |_, took| Signal::Answered(Some((GET, took))));
        }
        assert_eq!(model.aimd.limit(), 2);
    }

    /// What is slow for good is the base at last, and no reason to crawl.
    #[test]
    fn a_lasting_slowness_becomes_the_base() {
        let mut model = Model::new(16);
        model.well(3);
        for _ in 0..80 {
            model.round(ms(3000), |_, took| Signal::Answered(Some((GET, took))));
        }
        assert_eq!(model.aimd.limit(), 16);
    }

    #[test]
    fn slow_kinds_of_requests_are_no_sign_of_load() {
        let mut model = Model::new(16);
        for _ in 0..50 {
            model.round(ms(900), |number, took| {
                let (operation, took) = if number == 0 {
                    ("list", took)
                } else {
                    (GET, ms(2))
                };
                Signal::Answered(Some((operation, took)))
            });
        }
        assert_eq!(model.aimd.limit(), 16);
    }

    #[test]
    fn nothing_is_sent_before_the_store_wants_it() {
        let mut aimd = Aimd::new(16);
        aimd.observe(ms(0), ms(10), 16, Signal::Overloaded(Some(ms(3000))));
        // A later and shorter wish does not take the earlier one back.
        aimd.observe(ms(0), ms(20), 15, Signal::Overloaded(Some(ms(1000))));
        assert_eq!(aimd.ready_at(), ms(3010));
    }

    /// Ten minutes of a store that is away: a look every ten seconds at the end, not sixteen at
    /// once, and afterwards back to the ceiling.
    #[test]
    fn a_store_that_is_away_is_looked_for_by_one_at_a_time() {
        let mut model = Model::new(16);
        model.well(3);
        let mut looks = 0;
        while model.now < Duration::from_mins(10) {
            looks += model.aimd.limit();
            model.round(ms(1), |_, _| Signal::Unreachable);
        }
        assert!((60..100).contains(&looks), "{looks}");
        assert!(model.aimd.ready_at() <= model.now + ms(10_000));
        model.well(200);
        assert_eq!(model.aimd.limit(), 16);
    }
}
