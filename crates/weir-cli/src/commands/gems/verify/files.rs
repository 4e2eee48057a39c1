//! `weir gems verify --files`: reads and compares each pushed `.gem` file.

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use weir_gems::Files;
use weir_gems::dependency_api::Fragment;
use weir_gems::mirror::forget_file;
use weir_gems::store::{GemStore, PROBLEMS_MAX, Repair, StoreError};

use weir_config::Settings;

/// Gems per read of the store.
const PAGE_GEMS: usize = 500;

/// The result of the check.
#[derive(Clone, Debug, Default)]
pub(super) struct FilesReport {
    pub(super) files: u64,
    /// Descriptions, at most [`PROBLEMS_MAX`] of them.
    pub(super) problems: Vec<String>,
    pub(super) problems_total: u64,
    /// Problems with files of upstreams, and how many of these were removed to be fetched again.
    pub(super) mirrored: u64,
    pub(super) fixed: u64,
    /// Imported releases, whose files are elsewhere, and some of their names.
    pub(super) absent: u64,
    pub(super) absent_names: Vec<String>,
    /// Whether clients are redirected to those files.
    pub(super) are_sent_elsewhere: bool,
}

/// Limit of imported releases that a report names.
const ABSENT_TOLD: usize = 3;

/// Reads the files of all releases that are not yanked.
pub(super) async fn check(
    settings: &Settings,
    store: &GemStore,
    releases: u64,
    repair: Repair,
) -> anyhow::Result<FilesReport> {
    let folder = settings.gems.files_dir();
    let files = Files::open(&folder).with_context(|| format!("cannot use {}", folder.display()))?;
    let bar = ProgressBar::new(releases)
        .with_style(ProgressStyle::with_template("{wide_bar} {pos}/{len} releases {eta}")?);
    let are_sent_elsewhere = settings.gems.settings.files_url.is_some();
    let mut report = FilesReport { are_sent_elsewhere, ..FilesReport::default() };
    let mut next = Some(0);
    while let Some(from) = next {
        let page = store.fragment_page(from, PAGE_GEMS).await?;
        for (name, bytes) in &page.gems {
            let fragment = Fragment::read(bytes).map_err(StoreError::from)?;
            for release in fragment.releases() {
                let full_name = format!("{name}-{}", release.full());
                report.look_at(&full_name, store, &files, repair).await?;
                bar.inc(1);
            }
        }
        next = page.next;
    }
    bar.finish_and_clear();
    Ok(report)
}

impl FilesReport {
    async fn look_at(
        &mut self,
        full_name: &str,
        store: &GemStore,
        files: &Files,
        repair: Repair,
    ) -> Result<(), StoreError> {
        let Some(stored) = store.file(full_name).await? else {
            // Files of upstreams are fetched on demand.
            if store.mirrored(full_name).await?.is_none() {
                self.absent += 1;
                if self.absent_names.len() < ABSENT_TOLD {
                    self.absent_names.push(full_name.to_owned());
                }
            }
            return Ok(());
        };
        self.files += 1;
        let Err(problem) = files.check(stored) else { return Ok(()) };
        self.problems_total += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(format!("{full_name}: {problem}"));
        }
        if store.mirrored(full_name).await?.is_some() {
            self.mirrored += 1;
            if repair == Repair::Fix && forget_file(store, files, full_name).await? {
                self.fixed += 1;
            }
        }
        Ok(())
    }

    /// Returns the number of remaining problems.
    pub(super) const fn left(&self) -> u64 {
        self.problems_total - self.fixed
    }
}
