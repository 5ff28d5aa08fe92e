//! Input: times and durations as reports write them. Output: moments.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// 1 January 2000. Some tools write an earlier time where they know none.
const EARLIEST: i64 = 946_684_800;

/// The moment that a report names. Most tools write the time without its zone; one folder has them
/// from one machine, so they are read as UTC.
pub(crate) fn moment(text: &str) -> Option<Timestamp> {
    any_moment(text).filter(|time| time.as_second() >= EARLIEST)
}

fn any_moment(text: &str) -> Option<Timestamp> {
    let with_zone = text.parse::<Timestamp>().ok();
    with_zone.or_else(|| Some(text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp()))
}

/// `true` for a time at the beginning of 1970 in any zone, which a program writes of what never
/// began.
pub(crate) fn is_epoch(text: &str) -> bool {
    const TWO_DAYS: i64 = 2 * 24 * 3600;
    any_moment(text).is_some_and(|time| time.as_second().abs() < TWO_DAYS)
}

/// The end of what started at a moment.
pub(crate) fn end_of(started: &str, seconds: Option<f64>) -> Option<Timestamp> {
    let started = moment(started)?;
    let duration = SignedDuration::from_millis((seconds.unwrap_or_default() * 1000.0) as i64);
    Some(started.checked_add(duration).unwrap_or(started))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_the_start_and_the_duration() {
        let end = |started: &str, seconds| end_of(started, seconds).map(|time| time.to_string());
        assert_eq!(end("2026-11-28T00:12:26.5+01:00", Some(3.25)).as_deref(), Some("2026-11-27T23:12:29.75Z"));
        assert_eq!(end("2026-11-28T00:12:26", None).as_deref(), Some("2026-11-28T00:12:26Z"));
        assert_eq!(end("2026-11-28T00:12:26Z", Some(1e300)).as_deref(), Some("2026-11-28T00:12:26Z"));
        for unknown in ["", "yesterday", "0001-01-01T00:00:00", "1970-01-01T00:00:00.000"] {
            assert_eq!(end(unknown, Some(1.0)), None, "{unknown}");
        }
    }
}
