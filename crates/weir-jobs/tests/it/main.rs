//! Integration tests of the job server, in one binary.

mod contract;
