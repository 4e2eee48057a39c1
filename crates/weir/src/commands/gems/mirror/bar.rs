//! How far a look is, drawn on a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use weir_gems::view::{PhaseView, ProgressView};

/// A bar for whatever is being done.
pub(super) struct Bar {
    bar: ProgressBar,
    of_bytes: ProgressStyle,
    of_pieces: ProgressStyle,
}

impl Bar {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            bar: ProgressBar::new(0),
            of_bytes: ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}")?,
            of_pieces: ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}")?,
        })
    }

    pub(super) fn draw(&self, upstream: &str, at: &ProgressView) {
        let (what, style) = match at.phase {
            PhaseView::Versions => ("/versions", &self.of_bytes),
            PhaseView::Gems => ("gems", &self.of_pieces),
            PhaseView::Files => (".gem files", &self.of_pieces),
        };
        let message = format!("{upstream}: {what}");
        if self.bar.message() != message {
            self.bar.set_style(style.clone());
            self.bar.set_message(message);
            self.bar.reset_eta();
        }
        self.bar.set_length(at.total.unwrap_or(at.done));
        self.bar.set_position(at.done);
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
