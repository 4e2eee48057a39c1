//! What the crate promises, from outside.

mod package;
mod package_mutations;
