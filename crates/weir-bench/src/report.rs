//! One page of all comparisons: reads the record that they appended to (`--record`), and replaces what is between the
//! markers of a page by tables with ranges, the list of losses and a chart of each part.

mod chart;
mod page;
mod recorded;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use self::recorded::Recorded;

const BEGIN: &str = "<!-- weir-bench report: begin -->\n";
const END: &str = "<!-- weir-bench report: end -->\n";

#[derive(Debug, Args)]
pub(crate) struct ReportFlags {
    /// The file that comparisons appended to.
    record: PathBuf,
    /// A page with the two markers `<!-- weir-bench report: begin -->` and `<!-- weir-bench report: end -->`.
    #[arg(long)]
    page: PathBuf,
    /// Folder for the charts, in the folder of the page.
    #[arg(long, default_value = "images")]
    images: String,
}

/// Writes the page and its charts.
pub(crate) fn run(flags: &ReportFlags) -> Result<bool> {
    let record = fs::read_to_string(&flags.record);
    let record = record.with_context(|| flags.record.display().to_string())?;
    let recorded = Recorded::parse(&record).with_context(|| flags.record.display().to_string())?;
    let text = fs::read_to_string(&flags.page);
    let text = text.with_context(|| flags.page.display().to_string())?;
    let images = flags.page.with_file_name(&flags.images);
    fs::create_dir_all(&images).with_context(|| images.display().to_string())?;
    for part in &recorded.parts {
        let path = images.join(part.chart_file());
        fs::write(&path, chart::svg(part)).with_context(|| path.display().to_string())?;
    }
    let text = replace(&text, &page::markdown(&recorded, &flags.images))
        .with_context(|| flags.page.display().to_string())?;
    fs::write(&flags.page, text).with_context(|| flags.page.display().to_string())?;
    Ok(true)
}

/// Returns the text with other lines between the markers.
fn replace(text: &str, generated: &str) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("no line {BEGIN:?}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("no line {END:?}"))?;
    Ok(format!("{before}{BEGIN}{generated}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_between_the_markers_are_replaced() {
        let page = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(replace(&page, "new\n").unwrap(), format!("a\n{BEGIN}new\n{END}b\n"));
        assert!(replace("a\n", "new\n").is_err());
    }
}
