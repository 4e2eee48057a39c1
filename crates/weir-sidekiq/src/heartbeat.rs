//! Parses the JSON in the field `info` of a heartbeat.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use weir_base::clock::Timestamp;

use crate::time;

/// Threads of a process that share a set of queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capsule {
    /// Name; the first capsule is `default`.
    pub name: String,
    /// Number of threads.
    pub concurrency: u32,
    /// How it selects among its queues.
    pub mode: CapsuleMode,
    /// Queues in the order in which they are checked.
    pub queues: Vec<WeightedQueue>,
}

/// How a capsule selects the next queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CapsuleMode {
    /// All weights are 0: the first queue that has jobs.
    Strict,
    /// All weights are 1: random with equal probabilities.
    Random,
    /// Random by weight.
    Weighted,
    /// Not known: Sidekiq 6 reports only the order of the queues.
    #[default]
    Unknown,
}

/// A queue with its weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeightedQueue {
    /// Its name.
    pub name: String,
    /// 0 in strict order, or if not reported.
    pub weight: u32,
}

/// The fields of `info` that are used.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct HeartbeatInfo {
    #[serde(default)]
    pub(crate) hostname: String,
    #[serde(default)]
    pub(crate) pid: u32,
    #[serde(default)]
    pub(crate) tag: Option<String>,
    #[serde(default)]
    pub(crate) version: Option<String>,
    #[serde(default, deserialize_with = "time::deserialize")]
    pub(crate) started_at: Option<Timestamp>,
    #[serde(default)]
    concurrency: u32,
    #[serde(default)]
    queues: Vec<String>,
    #[serde(default)]
    weights: Weights,
    #[serde(default)]
    capsules: Ordered<CapsuleInfo>,
}

#[derive(Debug, Deserialize)]
struct CapsuleInfo {
    #[serde(default)]
    mode: String,
    #[serde(default)]
    concurrency: u32,
    #[serde(default)]
    weights: Ordered<u32>,
}

impl HeartbeatInfo {
    pub(crate) fn parse(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// Returns the capsules from what the version reports: capsules (8.0.8 and later), weights (7
    /// and later), or queues only.
    pub(crate) fn capsules(&self) -> Vec<Capsule> {
        if !self.capsules.0.is_empty() {
            return self.capsules.0.iter().map(|(name, info)| info.capsule(name)).collect();
        }
        if !self.weights.0.is_empty() {
            return self.weighted();
        }
        let queue = |name: &String| WeightedQueue { name: name.clone(), weight: 0 };
        vec![Capsule {
            name: "default".to_owned(),
            concurrency: self.concurrency,
            mode: CapsuleMode::Unknown,
            queues: self.queues.iter().map(queue).collect(),
        }]
    }

    /// Version 7 reports the total threads of all capsules, which are assigned to the first one.
    fn weighted(&self) -> Vec<Capsule> {
        let capsules = self.weights.0.iter().enumerate().map(|(index, weights)| Capsule {
            name: if index == 0 { "default".to_owned() } else { format!("capsule {}", index + 1) },
            concurrency: if index == 0 { self.concurrency } else { 0 },
            mode: mode(weights),
            queues: queues(weights),
        });
        capsules.collect()
    }
}

impl CapsuleInfo {
    fn capsule(&self, name: &str) -> Capsule {
        let told = match self.mode.as_str() {
            "strict" => CapsuleMode::Strict,
            "random" => CapsuleMode::Random,
            "weighted" => CapsuleMode::Weighted,
            _ => mode(&self.weights),
        };
        let (concurrency, queues) = (self.concurrency, queues(&self.weights));
        Capsule { name: name.to_owned(), concurrency, mode: told, queues }
    }
}

fn mode(weights: &Ordered<u32>) -> CapsuleMode {
    let all = |weight: u32| weights.0.iter().all(|(_, it)| *it == weight);
    if all(0) {
        CapsuleMode::Strict
    } else if all(1) {
        CapsuleMode::Random
    } else {
        CapsuleMode::Weighted
    }
}

fn queues(weights: &Ordered<u32>) -> Vec<WeightedQueue> {
    let queue =
        |(name, weight): &(String, u32)| WeightedQueue { name: name.clone(), weight: *weight };
    weights.0.iter().map(queue).collect()
}

/// The members of a JSON object in their order, which is the order of strict queues.
#[derive(Debug)]
struct Ordered<T>(Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for MembersVisitor<T> {
            type Value = Ordered<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Ordered(members))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Ordered::default())
            }
        }
        deserializer.deserialize_any(MembersVisitor(std::marker::PhantomData))
    }
}

/// A list with one object per capsule, or a single object if there is one capsule.
#[derive(Debug, Default)]
struct Weights(Vec<Ordered<u32>>);

impl<'de> Deserialize<'de> for Weights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Objects;
        impl<'de> Visitor<'de> for Objects {
            type Value = Weights;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object or a list of them")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Weights, A::Error> {
                let mut objects = Vec::new();
                while let Some(object) = list.next_element()? {
                    objects.push(object);
                }
                Ok(Weights(objects))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Weights, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Weights(vec![Ordered(members)]))
            }

            fn visit_unit<E>(self) -> Result<Weights, E> {
                Ok(Weights::default())
            }
        }
        deserializer.deserialize_any(Objects)
    }
}

/// A job in progress: queue and payload under a thread's name in `IDENTITY:work`.
#[derive(Debug, Deserialize)]
pub(crate) struct RunningJob {
    #[serde(default)]
    pub(crate) queue: String,
    #[serde(default, deserialize_with = "time::deserialize")]
    pub(crate) run_at: Option<Timestamp>,
    /// A string, or an object up to about version 7.0. Both are accepted.
    #[serde(default)]
    payload: Option<Box<serde_json::value::RawValue>>,
}

impl RunningJob {
    pub(crate) fn parse(json: &[u8]) -> Option<Self> {
        let work: Option<Self> = serde_json::from_slice(json).ok();
        // Only objects describe a thread's job.
        serde_json::from_slice::<IgnoredAny>(json).ok().and(work)
    }

    /// Returns the job.
    pub(crate) fn job(&self) -> Option<crate::JobSummary> {
        let payload = self.payload.as_ref()?.get();
        let text: Option<String> = serde_json::from_str(payload).ok();
        crate::JobSummary::parse(text.as_deref().unwrap_or(payload).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn capsules(json: &str) -> Vec<Capsule> {
        HeartbeatInfo::parse(json.as_bytes()).unwrap().capsules()
    }

    fn queue(name: &str, weight: u32) -> WeightedQueue {
        WeightedQueue { name: name.to_owned(), weight }
    }

    #[test]
    fn version_6_tells_the_order_only() {
        let found = capsules(
            r#"{"hostname":"web","started_at":1763792000.1,"pid":7,"tag":"","concurrency":5,
                "queues":["push","default"],"labels":[],"identity":"web:7:0123456789ab"}"#,
        );
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].mode, found[0].concurrency), (CapsuleMode::Unknown, 5));
        assert_eq!(found[0].queues, [queue("push", 0), queue("default", 0)]);
    }

    #[test]
    fn version_7_tells_weights_for_each_capsule() {
        let found = capsules(
            r#"{"concurrency":6,"queues":["push","default","one"],
                "weights":[{"push":0,"default":0},{"one":1}],"version":"7.3.9","embedded":false}"#,
        );
        let modes: Vec<_> = found.iter().map(|capsule| capsule.mode).collect();
        assert_eq!(modes, [CapsuleMode::Strict, CapsuleMode::Random]);
        assert_eq!(found[0].queues, [queue("push", 0), queue("default", 0)]);
        assert_eq!(found.iter().map(|capsule| capsule.concurrency).sum::<u32>(), 6);
    }

    #[test]
    fn version_8_tells_capsules() {
        let found = capsules(
            r#"{"concurrency":6,"queues":["z","a"],"weights":[{"z":2,"a":1}],"version":"8.0.9","capsules":
                {"default":{"concurrency":5,"mode":"weighted","weights":{"z":2,"a":1}},
                 "single":{"concurrency":1,"mode":"strict","weights":{"one":0}}}}"#,
        );
        assert_eq!(found[0].queues, [queue("z", 2), queue("a", 1)]);
        assert_eq!((found[1].name.as_str(), found[1].mode), ("single", CapsuleMode::Strict));
    }

    #[test]
    fn one_object_of_weights_is_one_capsule() {
        let found = capsules(r#"{"concurrency":5,"weights":{"b":8,"a":1}}"#);
        assert_eq!(found[0].queues, [queue("b", 8), queue("a", 1)]);
        assert_eq!(found[0].mode, CapsuleMode::Weighted);
    }

    #[test]
    fn work_is_read_with_a_payload_as_text_or_object() {
        for json in [
            r#"{"queue":"pull","payload":"{\"class\":\"A\",\"args\":[]}","run_at":1763792000}"#,
            r#"{"queue":"pull","payload":{"class":"A","args":[]},"run_at":1763792000000}"#,
        ] {
            let work = RunningJob::parse(json.as_bytes()).unwrap();
            assert_eq!(work.run_at, Some(Timestamp::from_millis(1_763_792_000_000)));
            assert_eq!(work.job().unwrap().class, "A");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, text in "\\PC{0,60}") {
            for json in [bytes.as_slice(), text.as_bytes()] {
                let _ = HeartbeatInfo::parse(json).map(|info| info.capsules());
                let _ = RunningJob::parse(json).map(|work| work.job());
            }
        }
    }
}
