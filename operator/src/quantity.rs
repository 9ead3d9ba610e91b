//! Sizes and amounts as Kubernetes writes them ("Quantity"), for comparing only.

use std::cmp::Ordering;

/// In billionths, the smallest unit there is; `None` when `text` is no quantity or too large.
///
/// The API server stores a canonical form (`1024Mi` becomes `1Gi`), so equal amounts need not be
/// equal texts.
pub fn nanos(text: &str) -> Option<i128> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(split)?;
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut mantissa: i128 = 0;
    for digit in whole.chars().chain(fraction.chars()) {
        mantissa = mantissa
            .checked_mul(10)?
            .checked_add(i128::from(digit.to_digit(10)?))?;
    }
    let scaled = match suffix {
        "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => {
            let steps = 1 + ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
                .iter()
                .position(|known| *known == suffix)?;
            mantissa
                .checked_mul(1_i128.checked_shl(u32::try_from(steps * 10).ok()?)?)?
                .checked_mul(1_000_000_000)
        }
        _ => mantissa.checked_mul(10_i128.checked_pow(decimal_exponent(suffix)?)?),
    }?;
    let scaled = scaled / 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    Some(if negative { -scaled } else { scaled })
}

/// Power of ten of a suffix, counted from billionths.
fn decimal_exponent(suffix: &str) -> Option<u32> {
    let power: i32 = match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "" => 0,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        _ => suffix.strip_prefix(['e', 'E'])?.parse().ok()?,
    };
    u32::try_from(power + 9).ok()
}

/// How two quantities compare; `None` when one of them is none.
pub fn compare(left: &str, right: &str) -> Option<Ordering> {
    Some(nanos(left)?.cmp(&nanos(right)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_amounts_in_other_words() {
        for (left, right) in [
            ("1Gi", "1024Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5", "500m"),
            ("20Gi", "21474836480"),
            ("1k", "1e3"),
            ("1E", "1000P"),
            ("100n", "0.1u"),
            ("+5", "5"),
            (".5", "500m"),
        ] {
            assert_eq!(
                compare(left, right),
                Some(Ordering::Equal),
                "{left} {right}"
            );
        }
    }

    #[test]
    fn smaller_and_larger() {
        for (small, large) in [
            ("20000Mi", "20Gi"),
            ("20G", "20Gi"),
            ("-1", "1m"),
            ("9Ti", "1Pi"),
        ] {
            assert_eq!(
                compare(small, large),
                Some(Ordering::Less),
                "{small} {large}"
            );
            assert_eq!(
                compare(large, small),
                Some(Ordering::Greater),
                "{large} {small}"
            );
        }
    }

    #[test]
    fn what_is_no_quantity() {
        for text in ["", "Gi", "1Xi", "1.2.3", "1-", "a", "1 Gi", "-", "9e999"] {
            assert_eq!(nanos(text), None, "{text:?}");
        }
    }
}
