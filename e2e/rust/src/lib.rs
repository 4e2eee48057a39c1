//! Empty: this package only has tests, in `tests/live`.
