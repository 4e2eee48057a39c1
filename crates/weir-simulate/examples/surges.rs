//! Policies on scenarios and on random surges, without the command line: `surges scenario FILE POLICY ..`, or
//! `surges study FIRST LAST THREADS POLICY ..`.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for developers")]

use weir_simulate::Scenario;
use weir_simulate::policy::PolicyKind;
use weir_simulate::report::{PolicyResult, Table, charts, queue_table, summary_table};
use weir_simulate::study::study;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments[0].as_str() {
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

fn policies(names: &[String]) -> Vec<PolicyKind> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn scenario(file: &str, policies: &[PolicyKind]) {
    let scenario = match file.strip_prefix("surge:") {
        Some(seed) => weir_simulate::surge::surge(seed.parse().unwrap()),
        None => Scenario::parse(&std::fs::read_to_string(file).unwrap()).unwrap(),
    };
    let result = |kind: &PolicyKind| PolicyResult {
        policy: kind.to_string(),
        record: kind.simulate(&scenario, 1),
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
