//! A share of all keys, the same ones each time.

use std::fmt;
use std::str::FromStr;

use filestore_common::{BucketName, ObjectKey};
use sha2::{Digest, Sha256};

/// Parts of the whole.
const WHOLE: u32 = 1_000_000;

/// Which objects are read: those whose hash is small enough. The hash is the first eight bytes of
/// SHA-256 over `bucket NUL key`, big-endian, as a fraction of 2⁶⁴; so the same keys are read each
/// time, and those of a smaller sample are in every larger one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample(u32);

impl Default for Sample {
    fn default() -> Self {
        Self(WHOLE)
    }
}

impl Sample {
    /// Whether every object is read.
    pub fn is_all(self) -> bool {
        self.0 == WHOLE
    }

    /// Whether this object is read.
    pub fn takes(self, bucket: &BucketName, key: &ObjectKey) -> bool {
        if self.is_all() {
            return true;
        }
        let mut sha = Sha256::new();
        sha.update(bucket.as_str());
        sha.update([0]);
        sha.update(key.as_str());
        let digest = sha.finalize();
        let first = digest.first_chunk().copied().unwrap_or_default();
        let hash = u128::from(u64::from_be_bytes(first));
        (hash * u128::from(WHOLE)) >> 64 < u128::from(self.0)
    }
}

/// A text that is no share.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no share: a number above 0, at most 100, with at most four decimals, as in 2.5%")]
pub struct NoShare(String);

impl FromStr for Sample {
    type Err = NoShare;

    /// Per cent, with or without the sign.
    fn from_str(text: &str) -> Result<Self, NoShare> {
        let wrong = || NoShare(text.to_owned());
        let number = text.strip_suffix('%').unwrap_or(text);
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || decimals.len() > 4 || !digits(whole) || !digits(decimals) {
            return Err(wrong());
        }
        // Four digits behind the point make millionths of the whole.
        let share: u32 = format!("{whole}{decimals:0<4}")
            .parse()
            .map_err(|_| wrong())?;
        if (1..=WHOLE).contains(&share) {
            Ok(Self(share))
        } else {
            Err(wrong())
        }
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = format!("{}.{:04}", self.0 / 10_000, self.0 % 10_000);
        let number = number.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{number}%")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_per_cents() {
        for (text, shown) in [
            ("5", "5%"),
            ("5%", "5%"),
            ("2.50%", "2.5%"),
            ("0.0001", "0.0001%"),
            ("100", "100%"),
            ("100.0%", "100%"),
        ] {
            assert_eq!(text.parse::<Sample>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            "%",
            "0",
            "0%",
            "100.1",
            "101",
            "-1",
            "+1",
            "1e1",
            "0.00001",
            ".5",
            "5%%",
            "1.2.3",
            "99999999999",
        ] {
            assert!(text.parse::<Sample>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_sample_is_what_the_documented_hash_says() {
        // python3: int.from_bytes(sha256(b"data\0k%d" % n).digest()[:8]) / 2**64 < 0.1
        let bucket = BucketName::new("data").unwrap();
        let taken = |share: &str| -> Vec<u32> {
            let share: Sample = share.parse().unwrap();
            let key = |n: u32| ObjectKey::new(format!("k{n}")).unwrap();
            (0..60).filter(|n| share.takes(&bucket, &key(*n))).collect()
        };
        assert_eq!(taken("10%"), EXPECTED);
        assert_eq!(taken("100%").len(), 60);
        assert!(EXPECTED.iter().all(|n| taken("30%").contains(n)));
    }

    const EXPECTED: [u32; 5] = [16, 18, 33, 36, 51];
}
