//! Input: a measurement. Output: the same in another unit, if both are units of time.

use std::borrow::Cow;

use super::formats::Measurement;

/// Nanoseconds in a unit of time, which may be that of one iteration (`ns/iter`); `None` for
/// others. Units of one kind have the same word behind the stroke.
fn nanoseconds(unit: &str) -> Option<(f64, &str)> {
    let (unit, rest) = unit.trim().split_once('/').map_or((unit.trim(), ""), |(unit, rest)| (unit, rest));
    let nanoseconds = match unit {
        "ns" | "nsec" | "nanosecond" | "nanoseconds" => 1.0,
        "us" | "usec" | "µs" | "μs" | "microsecond" | "microseconds" => 1e3,
        "ms" | "msec" | "millisecond" | "milliseconds" => 1e6,
        "s" | "sec" | "second" | "seconds" => 1e9,
        "min" | "minute" | "minutes" => 6e10,
        "h" | "hour" | "hours" => 3.6e12,
        _ => return None,
    };
    Some((nanoseconds, rest))
}

impl Measurement {
    /// `true` if its numbers are times, which are more than 0.
    pub(super) fn is_time(&self) -> bool {
        nanoseconds(&self.unit).is_some()
    }

    /// The measurement in the unit of another one; `None` if they cannot be compared.
    pub fn in_unit_of(&self, other: &Measurement) -> Option<Cow<'_, Measurement>> {
        if self.better != other.better {
            return None;
        }
        if self.unit == other.unit {
            return Some(Cow::Borrowed(self));
        }
        let ((own, of_own), (wanted, of_wanted)) = (nanoseconds(&self.unit)?, nanoseconds(&other.unit)?);
        if of_own != of_wanted {
            return None;
        }
        let samples = self.samples.iter().map(|sample| sample * own / wanted).collect();
        Some(Cow::Owned(Measurement { unit: other.unit.clone(), better: self.better, samples }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Better;

    #[test]
    fn times_are_converted_and_nothing_else() {
        for (unit, other, better, samples) in [
            ("us", "ms", Better::Smaller, Some(vec![2.0])),
            ("seconds", "µs", Better::Smaller, Some(vec![2e9])),
            ("ns/iter", "us/iter", Better::Smaller, Some(vec![2.0])),
            ("us", "us", Better::Smaller, Some(vec![2000.0])),
            ("GB/s", "GB/s", Better::Smaller, Some(vec![2000.0])),
            ("us", "us", Better::Bigger, None),
            ("us", "GB/s", Better::Smaller, None),
            ("us", "", Better::Smaller, None),
            ("ns/iter", "us", Better::Smaller, None),
            ("MB", "GB", Better::Smaller, None),
        ] {
            let one = Measurement { unit: unit.to_owned(), better: Better::Smaller, samples: vec![2000.0] };
            let wanted = Measurement { unit: other.to_owned(), better, samples: vec![1.0] };
            assert_eq!(one.in_unit_of(&wanted).map(|one| one.samples.clone()), samples, "{unit} {other}");
        }
    }
}
