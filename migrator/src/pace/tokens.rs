//! Token buckets: a rate that holds on average, with short bursts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How much time's worth of tokens may be taken at once after a quiet time.
const BURST: Duration = Duration::from_millis(200);

/// A token bucket over virtual time. Tokens may be owed: who takes more than there are waits, and
/// those who come later wait behind.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    per_second: f64,
    most: f64,
    level: f64,
    at: Duration,
}

impl Tokens {
    /// `per_second` tokens a second; at least one at once.
    pub(crate) fn new(per_second: f64) -> Self {
        let per_second = per_second.max(f64::MIN_POSITIVE);
        let most = (per_second * BURST.as_secs_f64()).max(1.0);
        Self {
            per_second,
            most,
            level: most,
            at: Duration::ZERO,
        }
    }

    /// Takes `amount` tokens at `now`; returns how long to wait before they may be used.
    pub(crate) fn take(&mut self, now: Duration, amount: f64) -> Duration {
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        self.level = (self.level + passed.as_secs_f64() * self.per_second).min(self.most) - amount;
        if self.level >= 0.0 {
            return Duration::ZERO;
        }
        // A rate of next to nothing must not overflow.
        Duration::try_from_secs_f64(-self.level / self.per_second).unwrap_or(Duration::MAX)
    }
}

/// Bytes of object bodies a second, shared by everything that reads them. Clones share it.
#[derive(Debug, Clone)]
pub struct Bandwidth(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    tokens: Mutex<Tokens>,
    begin: Instant,
}

impl Bandwidth {
    /// At most `bytes` a second.
    pub fn new(bytes: u64) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "nobody counts bytes a second that closely"
        )]
        let tokens = Tokens::new(bytes as f64);
        Self(Arc::new(Shared {
            tokens: Mutex::new(tokens),
            begin: Instant::now(),
        }))
    }

    /// Waits until `bytes` that were read may be used; whoever sent them is held back meanwhile.
    pub async fn spend(&self, bytes: usize) {
        #[expect(clippy::cast_precision_loss, reason = "chunks are small")]
        let amount = bytes as f64;
        let pause = {
            let mut tokens = self.0.tokens.lock().unwrap_or_else(PoisonError::into_inner);
            tokens.take(self.0.begin.elapsed(), amount)
        };
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Whoever takes as soon as it may gets the rate, whatever the size of the pieces.
    #[test]
    fn the_average_holds_whatever_the_pieces() {
        for piece in [1.0, 64.0, 5000.0] {
            let mut tokens = Tokens::new(1000.0);
            let (mut now, mut taken) = (Duration::ZERO, 0.0);
            while now < seconds(60.0) {
                now += tokens.take(now, piece);
                taken += piece;
            }
            let rate = taken / now.as_secs_f64();
            assert!((990.0..=1010.0).contains(&rate), "{piece}: {rate}");
        }
    }

    #[test]
    fn a_quiet_time_saves_up_no_more_than_the_burst() {
        let mut tokens = Tokens::new(1000.0);
        assert_eq!(tokens.take(seconds(3600.0), 200.0), Duration::ZERO);
        assert_eq!(tokens.take(seconds(3600.0), 100.0), seconds(0.1));
    }

    #[test]
    fn those_who_come_later_wait_behind() {
        let mut tokens = Tokens::new(2.0);
        let waits: Vec<_> = (0..4)
            .map(|_| tokens.take(Duration::ZERO, 1.0).as_secs_f64())
            .collect();
        assert_eq!(waits, [0.0, 0.5, 1.0, 1.5]);
    }
}
