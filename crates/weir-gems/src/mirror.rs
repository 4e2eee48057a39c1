//! Gems of other indexes.

pub mod prefix;
