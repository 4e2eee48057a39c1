//! How long an app says that it took: `X-Runtime`, in seconds, as Rack's and Rails' middleware writes it.

use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName};

const NAME: HeaderName = HeaderName::from_static("x-runtime");

pub(super) fn said(headers: &HeaderMap) -> Option<Duration> {
    let seconds: f64 = headers.get(NAME)?.to_str().ok()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read_and_nothing_else_is() {
        let of =
            |value: &str| said(&HeaderMap::from_iter([(NAME, value.parse().expect("a value"))]));
        assert_eq!(of("0.020000"), Some(Duration::from_millis(20)));
        for value in ["", "-1", "NaN", "inf", "20ms", "1e300"] {
            assert_eq!(of(value), None, "{value}");
        }
        assert_eq!(said(&HeaderMap::new()), None);
    }
}
