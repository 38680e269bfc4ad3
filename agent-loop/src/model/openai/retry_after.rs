//! How long an answer asks to wait.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// Reads `retry-after-ms`, then `Retry-After` as seconds (whole or not) or as a date.
///
/// A date is compared with the `Date` of the same answer where there is one, so that a wrong clock
/// here does not matter; a date that has passed is no wait. What cannot be read is no wish at all.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |value: Option<&reqwest::header::HeaderValue>| {
        value.and_then(|value| value.to_str().ok().map(|text| text.trim().to_owned()))
    };
    if let Some(wait) = text(headers.get("retry-after-ms")).and_then(|text| scaled(&text, 1e-3)) {
        return Some(wait);
    }
    let wish = text(headers.get(RETRY_AFTER))?;
    if let Some(wait) = scaled(&wish, 1.0) {
        return Some(wait);
    }
    let until = httpdate::parse_http_date(&wish).ok()?;
    let since = text(headers.get(DATE))
        .and_then(|date| httpdate::parse_http_date(&date).ok())
        .unwrap_or(now);
    Some(until.duration_since(since).unwrap_or_default())
}

/// `text` in units of `unit` seconds. Negative, endless and absurdly long waits are refused by the
/// conversion itself.
fn scaled(text: &str, unit: f64) -> Option<Duration> {
    let number: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(number * unit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &[(&'static str, &str)], now: &str) -> Option<Duration> {
        let headers = fields
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect();
        retry_after(&headers, httpdate::parse_http_date(now).unwrap())
    }

    #[test]
    fn every_form_of_a_wait_is_read_and_nothing_else() {
        const NOW: &str = "Wed, 21 Oct 2026 07:27:50 GMT";
        const THEN: &str = "Wed, 21 Oct 2026 07:28:00 GMT";
        type Row = (&'static [(&'static str, &'static str)], Option<u64>);
        let table: &[Row] = &[
            (&[], None),
            (&[("retry-after", "7")], Some(7_000)),
            (&[("retry-after", " 7 ")], Some(7_000)),
            (&[("retry-after", "0")], Some(0)),
            (&[("retry-after", "0.25")], Some(250)),
            (&[("retry-after-ms", "1500")], Some(1_500)),
            (
                &[("retry-after-ms", "1500"), ("retry-after", "7")],
                Some(1_500),
            ),
            (
                &[("retry-after-ms", "soon"), ("retry-after", "7")],
                Some(7_000),
            ),
            (&[("retry-after", THEN)], Some(10_000)),
            (
                &[
                    ("retry-after", THEN),
                    ("date", "Wed, 21 Oct 2026 07:27:55 GMT"),
                ],
                Some(5_000),
            ),
            (
                &[("retry-after", THEN), ("date", "yesterday")],
                Some(10_000),
            ),
            (&[("retry-after", "Wed, 21 Oct 2026 07:00:00 GMT")], Some(0)),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "inf")], None),
            (&[("retry-after", "NaN")], None),
            (&[("retry-after", "1e40")], None),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "")], None),
        ];
        for (fields, millis) in table {
            assert_eq!(
                read(fields, NOW),
                millis.map(Duration::from_millis),
                "{fields:?}"
            );
        }
    }
}
