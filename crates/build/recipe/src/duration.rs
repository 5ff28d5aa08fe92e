//! Times as users write them: `90s`, `30m`, `5h30m`.

use std::time::Duration;

use jiff::SignedDuration;

/// Parses a time of at least one second in jiff's friendly format: `90s`, `5h30m`, `1.5 hours`. The
/// largest unit is the hour. `None` for anything else.
pub fn parse(text: &str) -> Option<Duration> {
    let time = Duration::try_from(text.parse::<SignedDuration>().ok()?).ok()?;
    (time >= Duration::from_secs(1)).then_some(time)
}

/// The time in words: `2 h 5 min`, `1 min 5 s`, `0.3 s`.
pub fn words(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_said() {
        let seconds = |text: &str| parse(text).map(|time| time.as_secs());
        assert_eq!([seconds("90s"), seconds("330m"), seconds("5h30m")], [Some(90), Some(19800), Some(19800)]);
        assert_eq!([seconds("1.5h"), seconds("2 hours 5 minutes")], [Some(5400), Some(7500)]);
        for wrong in ["", "5", "h", "5d", "0s", "0.5s", "5m5h", "-1s", "5m5m", "99999999999999999999h"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        let said = |milliseconds| words(Duration::from_millis(milliseconds));
        assert_eq!([said(340), said(65_000), said(7_500_000)], ["0.3 s", "1 min 5 s", "2 h 5 min"]);
    }
}
