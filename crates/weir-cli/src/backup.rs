//! Backups of a data directory: a folder with one sub-folder for each backup, which is complete once
//! it has a manifest.
//!
//! ```text
//! FOLDER/lock                            one writer at a time
//! FOLDER/readers                         nothing is deleted while backups are read
//! FOLDER/2026-11-28T12-00-05Z/manifest.json
//! FOLDER/2026-11-28T12-00-05Z/data/..    laid out like data_dir
//! FOLDER/.partial/                       the backup in progress, or one that was interrupted
//! ```
//!
//! A file that has not changed since an earlier backup (a sealed segment of the job log, a `.gem`
//! file) is a hard link to that backup's file, so each sub-folder is a backup by itself and any of
//! them may be deleted.
//!
//! - [`manifest`]: what a backup holds; [`repository`]: the folder.
//! - [`sources`]: what is copied from a running or a stopped Weir, with [`times`] of its log and
//!   [`gems`]; [`open`]: opening its files; [`copier`]: copying.
//! - [`plan`]: which files a restore needs; [`restore`]: restoring; [`check`]: comparing checksums.
//! - [`marker`]: the mark of a data directory whose restore is incomplete; [`discarded`]: what a restore
//!   left out.

pub(crate) mod check;
pub(crate) mod copier;
pub(crate) mod discarded;
pub(crate) mod gems;
pub(crate) mod manifest;
pub(crate) mod marker;
pub(crate) mod open;
pub(crate) mod pace;
pub(crate) mod plan;
pub(crate) mod repository;
pub(crate) mod restore;
pub(crate) mod sources;
pub(crate) mod times;
