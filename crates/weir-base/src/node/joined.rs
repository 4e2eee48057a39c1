//! The same nodes, as several servers or several parts know them.

use super::{NodeProcess, NodeState, NodeView};

/// A node, as two parts report it.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinedNode<'a, A, B> {
    pub id: &'a str,
    pub is_self: bool,
    /// Of the latest report.
    pub state: &'a str,
    /// As in [`NodeView`].
    pub age_seconds: Option<f64>,
    pub process: &'a NodeProcess,
    /// The figures of the first part. `None`: it does not report there.
    pub first: Option<&'a A>,
    /// The figures of the second part.
    pub second: Option<&'a B>,
}

/// Returns nodes by hostname.
#[must_use]
pub(super) fn sorted<F>(mut nodes: Vec<NodeState<F>>) -> Vec<NodeState<F>> {
    let name =
        |node: &NodeState<F>| node.report.as_ref().map(|report| report.process.hostname.clone());
    nodes.sort_by_cached_key(|node| (name(node), node.id.clone()));
    nodes
}

/// Returns each node once, with its latest report, by hostname.
#[must_use]
pub fn merged<F>(mut nodes: Vec<NodeState<F>>) -> Vec<NodeState<F>> {
    nodes.sort_by(|one, other| {
        let is_silent = |node: &NodeState<F>| node.report.is_none();
        (&one.id, is_silent(one), one.age).cmp(&(&other.id, is_silent(other), other.age))
    });
    nodes.dedup_by(|later, first| later.id == first.id);
    sorted(nodes)
}

/// Returns the nodes of two parts, each once, by hostname.
#[must_use]
pub fn joined<'a, A, B>(
    first: &'a [NodeView<A>],
    second: &'a [NodeView<B>],
) -> Vec<JoinedNode<'a, A, B>> {
    let mut nodes: Vec<JoinedNode<'a, A, B>> = Vec::new();
    for node in first {
        nodes.push(JoinedNode { first: Some(&node.report.figures), ..row(node) });
    }
    for node in second {
        let row = JoinedNode { second: Some(&node.report.figures), ..row(node) };
        match nodes.iter_mut().find(|known| known.id == node.id) {
            Some(known) if is_later(known.age_seconds, row.age_seconds) => {
                *known = JoinedNode { first: known.first, ..row };
            }
            Some(known) => known.second = row.second,
            None => nodes.push(row),
        }
    }
    nodes.sort_by_key(|node| (&node.process.hostname, node.id));
    nodes
}

/// Reports whether `other` is the age of a later report.
fn is_later(age: Option<f64>, other: Option<f64>) -> bool {
    other.is_some_and(|other| age.is_none_or(|age| other < age))
}

fn row<F, A, B>(node: &NodeView<F>) -> JoinedNode<'_, A, B> {
    JoinedNode {
        id: &node.id,
        is_self: node.is_self,
        state: &node.state,
        age_seconds: node.age_seconds,
        process: &node.report.process,
        first: None,
        second: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeReport;

    fn view<F>(id: &str, hostname: &str, state: &str, age: f64, figures: F) -> NodeView<F> {
        let process = NodeProcess { hostname: hostname.to_owned(), ..NodeProcess::default() };
        let report = NodeReport { process, figures };
        let (id, state) = (id.to_owned(), state.to_owned());
        NodeView { id, is_self: false, state, age_seconds: Some(age), report }
    }

    #[test]
    fn a_node_of_two_parts_is_listed_once_in_the_state_of_its_latest_report() {
        let first = [view("a", "web-2", "away", 40.0, 1_u8), view("b", "web-1", "up", 3.0, 2)];
        let second = [
            view("a", "web-2", "up", 2.0, "x"),
            view("b", "web-1", "away", 50.0, "y"),
            view("c", "web-3", "up", 1.0, "z"),
        ];
        let nodes = joined(&first, &second);
        let nodes: Vec<_> = nodes
            .iter()
            .map(|node| (node.id, node.state, node.first.copied(), node.second.copied()))
            .collect();
        let expected = [
            ("b", "up", Some(2), Some("y")),
            ("a", "up", Some(1), Some("x")),
            ("c", "up", None, Some("z")),
        ];
        assert_eq!(nodes, expected);
    }
}
