//! Progress of synchronizations on a terminal: a bar for each upstream.

use std::sync::{Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use weir_gems::view::{PhaseView, ProgressView};

/// The progress bars.
pub(super) struct Bars {
    all: MultiProgress,
    /// By the names of upstreams. A std lock, held while drawing.
    bars: Mutex<Vec<(String, ProgressBar)>>,
    of_bytes: ProgressStyle,
    of_pieces: ProgressStyle,
}

impl Bars {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            all: MultiProgress::new(),
            bars: Mutex::default(),
            of_bytes: ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}")?,
            of_pieces: ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}")?,
        })
    }

    pub(super) fn draw(&self, upstream: &str, progress: &ProgressView) {
        let bar = self.bar_of(upstream);
        let (what, style) = match progress.phase {
            PhaseView::Versions => ("/versions", &self.of_bytes),
            PhaseView::Gems => ("gems", &self.of_pieces),
            PhaseView::Files => (".gem files", &self.of_pieces),
        };
        let message = format!("{upstream}: {what}");
        if bar.message() != message {
            bar.set_style(style.clone());
            bar.set_message(message);
            bar.reset_eta();
        }
        bar.set_length(progress.total.unwrap_or(progress.done));
        bar.set_position(progress.done);
    }

    /// Removes all bars.
    pub(super) fn clear(&self) {
        let mut bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        bars.drain(..).for_each(|(_, bar)| bar.finish_and_clear());
    }

    fn bar_of(&self, upstream: &str) -> ProgressBar {
        let mut bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bar)) = bars.iter().find(|(name, _)| name == upstream) {
            return bar.clone();
        }
        let bar = self.all.add(ProgressBar::new(0));
        bars.push((upstream.to_owned(), bar.clone()));
        bar
    }
}
