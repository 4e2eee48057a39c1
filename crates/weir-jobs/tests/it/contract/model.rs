//! Random operations on the embedded store and on the memory store, its model: after each of them
//! both have given the same answers and show the same state.
//!
//! Two things are drawn by lot in each store and kept apart here: the jitter of retries (retries
//! are brought back by hand, in the order of their jids, before they could be due) and the order of
//! jobs with exactly the same time (the clock moves a microsecond with every operation).

mod operation;
mod pair;
mod seen;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::world::run_local;
use operation::operations;
use pair::Pair;

/// Operations of one case.
const OPERATIONS_MAX: usize = 120;

/// A quarter of proptest's cases (`PROPTEST_CASES` says otherwise): each is some sixty operations
/// and a look at everything after each of them.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.div_ceil(4), max_shrink_iters: 4_096, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_embedded_store_does_what_the_model_does(operations in operations(OPERATIONS_MAX)) {
        let mut outcome = Ok(());
        run_local(async {
            let mut pair = Pair::open();
            for (step, operation) in operations.iter().enumerate() {
                pair.apply(operation).await;
                if let Err(difference) = pair.compare().await {
                    let text = format!("after step {step}, {operation:?}: {difference}");
                    outcome = Err(TestCaseError::fail(text));
                    return;
                }
            }
        });
        outcome?;
    }
}
