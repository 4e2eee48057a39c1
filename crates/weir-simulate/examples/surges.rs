//! Policies on scenarios and on random surges, without the command line: `surges scenario FILE POLICY ..`,
//! `surges compare FIRST LAST POLICY POLICY`, or `surges study FIRST LAST THREADS POLICY ..`.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for developers")]

use weir_simulate::Scenario;
use weir_simulate::policy::PolicyKind;
use weir_simulate::report::{PolicyResult, Table, charts, queue_table, summary_table};
use weir_simulate::study::study;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments[0].as_str() {
        "compare" => compare(&arguments[1..]),
        "scenario" => scenario(&arguments[1], &policies(&arguments[2..])),
        _ => {
            let number = |at: usize| arguments[at].parse::<u64>().unwrap();
            let seeds: Vec<u64> = (number(1)..=number(2)).collect();
            let threads = usize::try_from(number(3)).unwrap();
            for row in study(&seeds, &policies(&arguments[4..]), threads, &|_| {}).rows {
                println!("{row:?}");
            }
        }
    }
}

/// Prints the results of two policies for each seed.
fn compare(arguments: &[String]) {
    let number = |at: usize| arguments[at].parse::<u64>().unwrap();
    for seed in number(0)..=number(1) {
        let surge = weir_simulate::surge::surge(seed);
        let results = policies(&arguments[2..]).into_iter().map(|kind| {
            let record = kind.simulate(&surge, seed);
            let drain = record.drain_seconds().unwrap_or(99_999.0);
            let mark = if record.is_urgent_in_target() { "met" } else { "missed" };
            format!(
                "{drain:>8.0} {mark:<6} {:>5.1}x {:>3}",
                record.slowdown(),
                record.decisions.len()
            )
        });
        println!("{seed:>4} {}", results.collect::<Vec<_>>().join(" | "));
    }
}

fn policies(names: &[String]) -> Vec<PolicyKind> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn scenario(file: &str, policies: &[PolicyKind]) {
    let seed = file.strip_prefix("surge:").map(|seed| seed.parse::<u64>().unwrap());
    let scenario = match seed {
        Some(seed) => weir_simulate::surge::surge(seed),
        None => Scenario::parse(&std::fs::read_to_string(file).unwrap()).unwrap(),
    };
    let result = |kind: &PolicyKind| PolicyResult {
        policy: kind.to_string(),
        record: kind.simulate(&scenario, seed.unwrap_or(1)),
    };
    let results: Vec<PolicyResult> = policies.iter().map(result).collect();
    print_table(&summary_table(&results));
    print_table(&queue_table(&results));
    if let [result] = results.as_slice() {
        println!("{}", charts(result));
        for decision in &result.record.decisions {
            println!("{:>8.0} {}", decision.at_seconds, decision.text);
        }
    }
}

fn print_table(table: &Table) {
    println!("{}", table.head.join("\t"));
    table.rows.iter().for_each(|row| println!("{}", row.join("\t")));
}
