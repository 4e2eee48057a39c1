//! Alert rules for Prometheus name metrics and labels that exist.

/// Checks that a line of `metrics` has each selector with this prefix in `rules`, and that there are
/// at least `selectors_min`.
pub(crate) fn assert_metrics_exist(rules: &str, prefix: &str, selectors_min: usize, metrics: &str) {
    let selectors = selectors(rules, prefix);
    assert!(selectors.len() >= selectors_min, "{selectors:?}");
    for (name, labels) in selectors {
        let is_it = |line: &str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|label| line.contains(label))
        };
        assert!(metrics.lines().any(is_it), "{name} {labels:?} is missing:\n{metrics}");
    }
}

/// Returns the selectors `metric{label="value"}` in the rules: the metric, and what a line of it must contain.
fn selectors<'a>(rules: &'a str, prefix: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    let is_in_name = |character: char| character.is_ascii_lowercase() || character == '_';
    let starts = rules.match_indices(prefix).map(|(start, _)| &rules[start..]);
    starts
        .map(|text| {
            let (name, rest) = text.split_at(text.find(|it| !is_in_name(it)).expect("an end"));
            let labels = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            (name, labels.map(|(labels, _)| labels.split(',').collect()).unwrap_or_default())
        })
        .collect()
}
