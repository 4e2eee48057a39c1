//! Decides whether a name is taken from an upstream. This is a pure function, and the only place
//! that allows it.
//!
//! A name has one source at a time. In order of precedence: a push or import here; the upstream
//! that a rule of the policy names; the first upstream that lists it. A gem that came from another
//! source meanwhile is replaced as a whole, or, if the policy forbids it, removed at once. Names of
//! an upstream that is no longer in the settings stay with it until a rule says otherwise.
//!
//! A name that could be confused with a local one is rejected, unless a rule names it exactly. If
//! the mirrored name was there first it stays: a push warns its author, but does not remove other
//! gems.

use super::policy::{Policy, Rule};
use super::upstream_name::UpstreamName;
use crate::name::GemName;
use crate::store::mirror::{Owner, Refusal, Standing};

/// Decision about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Take,
    Refuse(Refusal),
    /// Wait: an earlier upstream is unavailable and may list the name.
    Wait,
}

/// Position of an upstream among all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rank<'a> {
    pub(super) upstream: &'a UpstreamName,
    /// Upstreams with higher precedence.
    pub(super) earlier: &'a [UpstreamName],
    /// Upstreams with lower precedence.
    pub(super) later: &'a [UpstreamName],
    /// Whether all earlier upstreams have responded in this round.
    pub(super) is_earlier_known: bool,
}

/// Returns why the policy forbids a name from an upstream, or None if it does not. A forbidden gem
/// that was mirrored earlier is removed.
pub(super) fn forbidden(policy: &Policy, name: &str, upstream: &str) -> Option<Refusal> {
    match policy.rule(name)? {
        Rule::Private => Some(Refusal::Policy),
        Rule::From(only) => (only.as_str() != upstream).then_some(Refusal::Bound),
    }
}

pub(super) fn decide(
    policy: &Policy,
    rank: Rank<'_>,
    name: &GemName,
    standing: &Standing,
) -> Decision {
    let name = name.as_str();
    if let Some(refusal) = forbidden(policy, name, rank.upstream.as_str()) {
        return Decision::Refuse(refusal);
    }
    if standing.owner == Owner::Local {
        return Decision::Refuse(Refusal::Local);
    }
    if standing.resembles_ours && !standing.has_versions && !policy.invites(name) {
        return Decision::Refuse(Refusal::Lookalike);
    }
    // A rule for this upstream overrides the order of upstreams.
    if policy.rule(name).is_some() {
        return Decision::Take;
    }
    let is_one = |all: &[UpstreamName], name: &str| all.iter().any(|it| it.as_str() == name);
    if standing.listed_by.iter().any(|name| is_one(rank.earlier, name)) {
        return Decision::Refuse(Refusal::Shadowed);
    }
    match &standing.owner {
        // This also holds if the earlier upstream no longer lists the name: the owner of a name
        // does not change by itself.
        Owner::Upstream(owner) if is_one(rank.earlier, owner) => {
            Decision::Refuse(Refusal::Shadowed)
        }
        Owner::Upstream(owner) if owner == rank.upstream.as_str() => Decision::Take,
        // The owner also stays if it is no longer in the settings.
        Owner::Upstream(owner) if !is_one(rank.later, owner) => Decision::Refuse(Refusal::Former),
        _ if rank.is_earlier_known => Decision::Take,
        _ => Decision::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(owner: Owner, listed_by: &[&str], is_earlier_known: bool) -> Decision {
        let policy: Policy = "private acme-*\nfrom b only-b\nfrom a only-a".parse().unwrap();
        decided_for("rack", &policy, owner, listed_by, is_earlier_known)
    }

    /// Decides for the upstream b of a, b and c.
    fn decided_for(
        name: &str,
        policy: &Policy,
        owner: Owner,
        listed_by: &[&str],
        is_earlier_known: bool,
    ) -> Decision {
        let [earlier, upstream, later] = ["a", "b", "c"].map(|name| [name.parse().unwrap()]);
        let rank =
            Rank { upstream: &upstream[0], earlier: &earlier, later: &later, is_earlier_known };
        let standing = Standing {
            owner,
            has_versions: false,
            resembles_ours: false,
            listed_by: listed_by.iter().map(|name| (*name).to_owned()).collect(),
        };
        decide(policy, rank, &name.parse().unwrap(), &standing)
    }

    fn from(upstream: &str) -> Owner {
        Owner::Upstream(upstream.to_owned())
    }

    #[test]
    fn upstreams_have_an_order() {
        use Decision::{Refuse, Take, Wait};
        let shadowed = Refuse(Refusal::Shadowed);
        for (owner, listed_by, known, expected) in [
            (Owner::Nobody, &[][..], true, Take),
            (Owner::Nobody, &["c"], true, Take),
            (Owner::Nobody, &["a"], true, shadowed),
            (Owner::Nobody, &["a"], false, shadowed),
            // a may list it since it was last read.
            (Owner::Nobody, &[], false, Wait),
            (from("b"), &[], false, Take),
            (from("b"), &["a"], true, shadowed),
            (from("a"), &[], true, shadowed),
            (from("c"), &["c"], true, Take),
            (from("c"), &["c"], false, Wait),
            // The owner is no longer in the settings.
            (from("former"), &[], true, Refuse(Refusal::Former)),
            (from("former"), &["former"], false, Refuse(Refusal::Former)),
            (from("former"), &["a"], true, shadowed),
        ] {
            let case = format!("{owner:?} {listed_by:?} {known}");
            assert_eq!(decided(owner, listed_by, known), expected, "{case}");
        }
    }

    #[test]
    fn what_is_private_is_never_taken_whatever_answers() {
        let policy: Policy = "private acme-*\nfrom b only-b\nfrom a only-a".parse().unwrap();
        for known in [false, true] {
            for owner in [Owner::Nobody, Owner::Local, from("a"), from("b"), from("c")] {
                let of = |name| decided_for(name, &policy, owner.clone(), &[], known);
                assert_eq!(of("acme-web"), Decision::Refuse(Refusal::Policy));
                assert_eq!(of("only-a"), Decision::Refuse(Refusal::Bound));
            }
            assert_eq!(decided(Owner::Local, &[], known), Decision::Refuse(Refusal::Local));
        }
    }

    #[test]
    fn what_could_be_taken_for_ours_comes_only_where_it_was_first_or_by_name() {
        let names: [UpstreamName; 1] = ["a".parse().unwrap()];
        let rank = Rank { upstream: &names[0], earlier: &[], later: &[], is_earlier_known: true };
        let of = |policy: &str, owner, has_versions| {
            let standing =
                Standing { owner, has_versions, resembles_ours: true, listed_by: Vec::new() };
            decide(&policy.parse().unwrap(), rank, &"shop_core".parse().unwrap(), &standing)
        };
        let refused = Decision::Refuse(Refusal::Lookalike);
        assert_eq!(of("none", Owner::Nobody, false), refused);
        // All its releases were withdrawn, so the similar local name takes precedence.
        assert_eq!(of("none", from("a"), false), refused);
        assert_eq!(of("from a *", Owner::Nobody, false), refused);
        assert_eq!(of("none", from("a"), true), Decision::Take);
        assert_eq!(of("from a shop_core", Owner::Nobody, false), Decision::Take);
        let private = of("private shop-core", Owner::Nobody, false);
        assert_eq!(private, Decision::Refuse(Refusal::Policy));
    }

    #[test]
    fn a_line_for_an_upstream_counts_more_than_the_order_but_not_more_than_a_push() {
        let policy: Policy = "from b only-b".parse().unwrap();
        let of = |owner| decided_for("only-b", &policy, owner, &["a"], false);
        assert_eq!(of(Owner::Nobody), Decision::Take);
        assert_eq!(of(from("a")), Decision::Take);
        // A rule assigns names of an upstream that is no longer in the settings.
        assert_eq!(of(from("former")), Decision::Take);
        assert_eq!(of(Owner::Local), Decision::Refuse(Refusal::Local));
    }
}
