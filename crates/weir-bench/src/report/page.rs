//! The part of the page that is generated, as Markdown.

use std::fmt::Write;
use std::fs;

use super::recorded::{Load, Range, Recorded, Server};
use crate::rounds::JudgedBy;

/// Ratios from this one on are no loss: the same server differs by more from run to run.
const EQUAL_FROM: f64 = 0.98;

pub(crate) fn markdown(recorded: &Recorded, images: &str) -> String {
    let mut text = format!("\n{}\n{}", machine(), floors(recorded));
    for note in &recorded.notes {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "- {note}");
    }
    text.push_str(&losses(recorded));
    for part in &recorded.parts {
        let _ = writeln!(text, "\n### {}\n", part.title);
        let _ = writeln!(text, "![{}]({images}/{})", part.title, part.chart_file());
        for load in &part.loads {
            text.push_str(&table(load));
        }
    }
    text + "\n"
}

fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let model = field(&read("/proc/cpuinfo"), "model name").unwrap_or_default();
    let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
    let kilobytes: f64 =
        memory.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default();
    let release = read("/proc/sys/kernel/osrelease");
    let linux: Vec<&str> = release.trim().split('.').take(2).collect();
    format!(
        "This machine has {cores} cores ({model}), {:.0} GB of memory and Linux {}; servers and clients share it.",
        kilobytes * 1024.0 / 1e9,
        linux.join(".")
    )
}

fn floors(recorded: &Recorded) -> String {
    let figure = |name: &str| recorded.floor(name).map_or_else(|| "-".to_owned(), format_range);
    format!(
        "The floor, measured before each round: a loopback round trip of 64 bytes takes {} µs, a synced write of 4 KiB {} µs,\n\
         SHA-256 of 1 MiB {} µs (median, lowest - highest).\n\n",
        figure("loopback_us"),
        figure("sync_us"),
        figure("hash_us")
    )
}

fn losses(recorded: &Recorded) -> String {
    let mut lines = String::new();
    let (mut compared, mut behind) = (0, 0);
    for part in &recorded.parts {
        for load in &part.loads {
            let peers = load.servers.iter().filter(|it| !it.is_weir() && !it.is_bound());
            let times = peers.filter_map(|it| Some((it.name.as_str(), load.times_better(it)?)));
            let times: Vec<(&str, f64)> = times.collect();
            let lost = times.iter().filter(|(_, times)| *times < EQUAL_FROM);
            let lost: Vec<String> = lost.map(|(name, times)| loss(load, name, *times)).collect();
            compared += times.len();
            behind += lost.len();
            if !lost.is_empty() {
                let _ = writeln!(lines, "- {}, {}: {}.", part.title, load.label, lost.join("; "));
            }
        }
    }
    format!(
        "\n### Losses\n\nWeir is behind in {behind} of {compared} comparisons with peers; ratios of {EQUAL_FROM} and above count as \
         equal.\n\n{lines}"
    )
}

fn loss(load: &Load, peer: &str, times: f64) -> String {
    if times <= 0.0 {
        return format!("Weir did not finish, {peer} did");
    }
    let more = 1.0 / times;
    match load.judged_by {
        JudgedBy::Rate => format!("{peer} has {more:.2} times the rate"),
        JudgedBy::P99 => format!("Weir's p99 is {more:.2} times that of {peer}"),
        JudgedBy::AllBack => format!("Weir takes {more:.2} times as long as {peer}"),
    }
}

fn table(load: &Load) -> String {
    let judged = match load.judged_by {
        JudgedBy::Rate => "operations/s",
        JudgedBy::P99 => "p99 µs at the same rate",
        JudgedBy::AllBack => "seconds until all were back",
    };
    let unit = match load.judged_by {
        JudgedBy::Rate => "operations per round trip",
        JudgedBy::P99 | JudgedBy::AllBack => "round trips",
    };
    let mut text = format!(
        "\n**{}**\n\n| server | {judged} (lowest - highest) | ratio | {unit} | p50 µs | p99 µs | server CPU µs | \
         client CPU µs | errors, all rounds |\n",
        load.label
    );
    text.push_str("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for server in &load.servers {
        text.push_str(&line(load, server));
    }
    text
}

fn line(load: &Load, server: &Server) -> String {
    let figure = |name: &str| median_of(server, name);
    let times = load.times_better(server).filter(|it| it.is_finite());
    let times = times.map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
    let trips = server.in_round_trips(load.judged_by).map_or_else(|| "-".to_owned(), format_figure);
    let errors: Option<u64> = server.runs.iter().map(|run| run["errors"].as_u64()).sum();
    let errors = errors.map_or_else(|| "-".to_owned(), |errors| errors.to_string());
    format!(
        "| {} | {} | {times} | {trips} | {} | {} | {} | {} | {errors} |\n",
        server.name,
        load.judged(server).map_or_else(|| "did not finish".to_owned(), format_range),
        figure("p50_us"),
        figure("p99_us"),
        figure("server_cpu_us_per_operation"),
        figure("client_cpu_us_per_operation")
    )
}

/// Returns the median; 0 is a figure that the load does not have.
fn median_of(server: &Server, figure: &str) -> String {
    let median = server.range(figure).map(|range| range.median).filter(|median| *median > 0.0);
    median.map_or_else(|| "-".to_owned(), format_figure)
}

fn format_range(Range { median, lowest, highest }: Range) -> String {
    format!("{} ({} - {})", format_figure(median), format_figure(lowest), format_figure(highest))
}

/// Three significant digits, or more for large figures, with thousands separated.
pub(super) fn format_figure(value: f64) -> String {
    let below_100 = [(1e-3, 6), (1e-2, 5), (0.1, 4), (1.0, 3), (10.0, 2), (100.0, 1)];
    if let Some((_, decimals)) = below_100.into_iter().find(|(below, _)| value.abs() < *below) {
        return format!("{value:.decimals$}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::recorded::tests::example;
    use super::*;

    #[test]
    fn page_has_losses_and_ranges() {
        let text = markdown(&example(), "images");
        for expected in [
            "- nginx 1.22\n",
            "Weir is behind in 1 of 2 comparisons with peers; ratios of 0.98 and above count as equal.\n\n\
             - Jobs & more, push: <nginx> has 1.25 times the rate.\n",
            "![Jobs & more](images/bench-jobs-more.svg)\n",
            "| <nginx> | 188 (125 - 250) | 0.80 | 0.00250 | 5.00 | 20.0 | - | 1.00 | 0 |\n",
            "| <nginx> | 20.0 (20.0 - 20.0) | 2.00 | 1.50 | 5.00 | 20.0 | - | 1.00 | 0 |\n",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }

    #[test]
    fn figures_have_three_digits_and_separated_thousands() {
        let texts = [0.001_234, 0.123, 12.34, 123.4, 1234.5, 1_234_567.0].map(format_figure);
        assert_eq!(texts, ["0.00123", "0.123", "12.3", "123", "1,234", "1,234,567"]);
    }
}
