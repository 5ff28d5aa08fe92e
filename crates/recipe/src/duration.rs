//! Times as people write them: `90s`, `30m`, `5h30m`.

use std::time::Duration;

/// A time of at least a second; `None` for what is none.
pub fn parse(text: &str) -> Option<Duration> {
    let (mut seconds, mut number, mut last) = (0_u64, None::<u64>, u64::MAX);
    for letter in text.chars() {
        if let Some(digit) = letter.to_digit(10) {
            number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(digit.into())?);
            continue;
        }
        let unit = match letter {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        // From the largest to the smallest, each once.
        if unit >= last {
            return None;
        }
        last = unit;
        seconds = seconds.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    (number.is_none() && seconds > 0).then(|| Duration::from_secs(seconds))
}

/// The time as it is said to people: `2 h 5 min`, `1 min 5 s`, `0.3 s`.
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
        for wrong in ["", "5", "h", "5d", "0s", "5m5h", "1.5h", "-1s", "5m5m", "99999999999999999999h"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        let said = |milliseconds| words(Duration::from_millis(milliseconds));
        assert_eq!([said(340), said(65_000), said(7_500_000)], ["0.3 s", "1 min 5 s", "2 h 5 min"]);
    }
}
