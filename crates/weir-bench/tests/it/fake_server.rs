//! A Faktory server in a few lines: one queue in memory, one thread per connection, faults on demand.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// What this server does wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The first job that is fetched stays in the queue, and is handed out again.
    RepeatsAJob,
    /// Every 10th job is accepted and forgotten.
    LosesJobs,
    /// Says no to every 10th job.
    RefusesJobs,
    /// Accepts FETCH and never answers.
    NeverAnswersFetch,
    /// Closes the connection at the first FETCH.
    ClosesOnFetch,
    /// Does not know PUSHB.
    HasNoPushb,
}

pub(crate) struct FakeServer {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    fault: Fault,
    jobs: VecDeque<Value>,
    pushed: u64,
    commands: Vec<String>,
    repeated: bool,
}

impl FakeServer {
    pub(crate) fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (jobs, commands) = (VecDeque::new(), Vec::new());
        let state = State { fault, jobs, pushed: 0, commands, repeated: false };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                // A client that hangs up ends its thread; there is nobody to tell.
                std::thread::spawn(move || drop(serve(stream, &state)));
            }
        });
        Self { address, state }
    }

    /// How many commands began with `verb` so far.
    pub(crate) fn count(&self, verb: &str) -> usize {
        let state = self.state.lock().expect("no panic in the server");
        state.commands.iter().filter(|command| *command == verb).count()
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    stream.write_all(b"+HI {\"v\":2}\r\n")?;
    let lines = BufReader::new(stream.try_clone()?).lines();
    for line in lines {
        let line = line?;
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let reply = {
            let mut state = state.lock().expect("no panic in the server");
            state.commands.push(verb.to_owned());
            state.reply(verb, rest)
        };
        match reply.as_deref() {
            Some(CLOSE) => return Ok(()),
            Some("$-1\r\n") => std::thread::sleep(EMPTY_FETCH),
            _ => {}
        }
        stream.write_all(reply.unwrap_or_default().as_bytes())?;
    }
    Ok(())
}

const CLOSE: &str = "close";
/// The real protocol waits 2 s; enough here not to spin.
const EMPTY_FETCH: Duration = Duration::from_millis(20);

impl State {
    /// `None`: no answer, for ever.
    fn reply(&mut self, verb: &str, rest: &str) -> Option<String> {
        match verb {
            "PUSHB" if self.fault == Fault::HasNoPushb => Some(error("Unknown command PUSHB")),
            "PUSHB" => {
                let jobs: Vec<Value> = serde_json::from_str(rest).expect("an array of jobs");
                let refused: Vec<Value> =
                    jobs.into_iter().filter_map(|job| self.push(job).err()).collect();
                let errors = refused.iter().map(|job| (job["jid"].to_string(), "no".into()));
                Some(bulk(&Value::Object(errors.collect()).to_string()))
            }
            "PUSH" => {
                let job = serde_json::from_str(rest).expect("a job");
                Some(self.push(job).map_or_else(|_| error("no"), |()| ok()))
            }
            "FETCH" => self.fetch(),
            "FETCHB" => {
                let most = rest.split(' ').next().and_then(|jobs| jobs.parse().ok());
                let most = self.jobs.len().min(most.expect("a number of jobs"));
                let jobs = self.jobs.drain(..most).map(|job| bulk(&job.to_string()));
                Some(jobs.fold(format!("*{most}\r\n"), |reply, job| reply + &job))
            }
            "ACKB" => Some(bulk("{}")),
            "INFO" => {
                let waiting = self.jobs.len();
                let server = r#"{"description":"Fake","faktory_version":"0"}"#;
                Some(bulk(&format!(
                    r#"{{"faktory":{{"queues":{{"weir-bench":{waiting}}}}},"server":{server}}}"#
                )))
            }
            "QUEUE" => {
                self.jobs.clear();
                Some(ok())
            }
            _ => Some(ok()),
        }
    }

    fn push(&mut self, job: Value) -> Result<(), Value> {
        self.pushed += 1;
        let tenth = self.pushed.is_multiple_of(10);
        match self.fault {
            Fault::RefusesJobs if tenth => return Err(job),
            Fault::LosesJobs if tenth => {}
            _ => self.jobs.push_back(job),
        }
        Ok(())
    }

    fn fetch(&mut self) -> Option<String> {
        match self.fault {
            Fault::NeverAnswersFetch => return None,
            Fault::ClosesOnFetch => return Some(CLOSE.to_owned()),
            _ => {}
        }
        let Some(job) = self.jobs.pop_front() else {
            return Some("$-1\r\n".to_owned());
        };
        if self.fault == Fault::RepeatsAJob && !self.repeated {
            self.repeated = true;
            self.jobs.push_back(job.clone());
        }
        Some(bulk(&job.to_string()))
    }
}

fn ok() -> String {
    "+OK\r\n".to_owned()
}

fn error(text: &str) -> String {
    format!("-ERR {text}\r\n")
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}
