//! Reports of workers whose job is not theirs any more.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// The command with which a worker ends a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the commands")]
pub enum StaleReport {
    Ack,
    Fail,
}

impl StaleReport {
    const ALL: [Self; 2] = [Self::Ack, Self::Fail];

    const fn label(self) -> &'static str {
        match self {
            Self::Ack => "ACK",
            Self::Fail => "FAIL",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StaleReportLabel {
    verb: &'static str,
}

pub(super) type StaleReports = [Counter; StaleReport::ALL.len()];

pub(super) fn register(registry: &mut Registry) -> StaleReports {
    let family = Family::<StaleReportLabel, Counter>::default();
    registry.register(
        "stale_reports",
        "ACKs and FAILs of jobs that another worker has by now, or that this node had lost, because \
         its lease in Redis was over or another node had ended them; such a job may run again",
        family.clone(),
    );
    StaleReport::ALL.map(|it| family.get_or_create_owned(&StaleReportLabel { verb: it.label() }))
}
