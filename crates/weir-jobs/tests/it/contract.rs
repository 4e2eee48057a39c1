//! What every store promises, tested the same way for each of them.
//!
//! A test is an `async fn name<H: Harness>(world: World<H>)`. [`contract!`] runs all of them for one
//! harness: a new store needs a harness and one more line here.

#[macro_use]
mod promises;

mod batches;
mod counts;
mod dead;
mod dispatch;
mod durable;
mod harness;
mod limits;
mod model;
mod order;
mod queues;
mod reservations;
mod restore;
mod retries;
mod scan;
mod scheduled;
mod waiting;
mod world;

use harness::{EmbeddedHarness, MemoryHarness};

macro_rules! contract {
    ($store:ident: $harness:ty, { $($module:ident: $($test:ident),+;)+ }) => {
        mod $store {
            use super::*;
            $($(
                #[test]
                fn $test() {
                    world::run(super::$module::$test::<$harness>);
                }
            )+)+
        }
    };
}

macro_rules! contract_of_all_stores {
    ($tests:tt) => {
        contract!(memory: MemoryHarness, $tests);
        contract!(embedded: EmbeddedHarness, $tests);
    };
}

promises_of_every_store!(contract_of_all_stores);

/// What only the memory store has.
mod in_memory {
    use super::*;
    contract!(memory: MemoryHarness, {
        limits:
            the_memory_has_a_size;
    });
    use super::limits;
}

/// What only a store that survives the process can promise.
mod survives {
    use super::*;
    macro_rules! contract_of_embedded {
        ($tests:tt) => {
            contract!(embedded: EmbeddedHarness, $tests);
        };
    }
    promises_of_durable_stores!(contract_of_embedded);
    use super::{batches, durable};
}
