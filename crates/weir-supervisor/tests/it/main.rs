//! Real children: small shell scripts that behave and misbehave.

mod notify;
mod supervise;
