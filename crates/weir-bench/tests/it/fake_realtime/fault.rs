//! Faults on demand.

/// What this server does wrong. The victim is the client that subscribed first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The victim never gets event 3.
    LosesAnEvent,
    /// The victim gets event 3 twice.
    RepeatsAnEvent,
    /// The victim gets event 3 after event 4.
    ReordersEvents,
    /// The same, and pings the victim without end, so that something always comes.
    LosesAnEventAndNeverRests,
    /// The victim gets nothing until so many events were published, then all of them.
    HoldsEvents(u64),
    /// Says 401 to every publish.
    RefusesPublishes,
    /// Does not answer a subscription.
    NeverSubscribes,
    /// Closes every connection with this code instead of a greeting.
    ClosesAtOnce(u16),
    /// Answers the first 3 requests for a WebSocket with 503.
    IsBusyAtFirst,
    /// Answers every request for a WebSocket after the first 12 with 503.
    LetsNobodyBack,
    /// Closes the victim with 4200 after event 3.
    ClosesTheVictim,
    /// Closes a client with 4100 that has not answered the pings with so many events.
    ClosesSlowClients(u32),
    /// Closes everybody with this code after event 30.
    ClosesEverybody(u16),
    /// Keeps no history: every recovery is a gap.
    ForgetsHistory,
    /// Says that it recovers, and leaves out the first event.
    RecoversTooLittle,
    /// Does not tell the victim of new members.
    MiscountsMembers,
    /// Does not tell a victim that follows the members of the first that goes, but how many are left.
    MislistsMembers,
    /// Leaves that difference out altogether.
    LosesADifference,
    /// Does not tell the victim of those who go.
    KeepsMembers,
    /// Knows nothing of lists that are followed.
    KnowsNoLists,
}
