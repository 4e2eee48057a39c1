//! Storing what can be stored of a batch, in a store that stores all or none.

/// Stores `jobs` in order, all at once if the store accepts them. If one job is refused on its own
/// account (too large, one queue too many), which `is_of_one_job` tells from the error, the batch is
/// halved until that job is isolated, so that the others are stored. Returns a result for each job.
pub async fn store_parts<T, E: Clone>(
    jobs: &[T],
    is_of_one_job: impl Fn(&E) -> bool,
    store: impl AsyncFn(&[T]) -> Result<(), E>,
) -> Vec<Result<(), E>> {
    let mut results = Vec::with_capacity(jobs.len());
    let mut parts = vec![jobs];
    while let Some(part) = parts.pop() {
        if part.is_empty() {
            continue;
        }
        match store(part).await {
            Err(error) if is_of_one_job(&error) && part.len() > 1 => {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
            result => results.extend(part.iter().map(|_| result.clone())),
        }
    }
    results
}
