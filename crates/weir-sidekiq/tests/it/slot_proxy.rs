//! A proxy before several Redis servers that looks like one server, as that of Redis Enterprise does.
//!
//! Each command goes to the server that has the slot of its keys. Commands, scripts and transactions with
//! keys of several slots are rejected (`CROSSSLOT`), and `CONFIG` and `SSUBSCRIBE` are unknown.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;
use weir_sidekiq::{RedisAddress, RedisEndpoint, TlsFiles};

/// Commands with this text are not executed.
type Blocked = Arc<Mutex<Vec<&'static str>>>;
type Words = Vec<Vec<u8>>;

pub(crate) struct SlotProxy {
    folder: TempDir,
    blocked: Blocked,
    database: i64,
}

impl SlotProxy {
    /// Starts a proxy before the servers at these sockets. Its threads end with the test's process.
    pub(crate) fn start(endpoints: &[RedisEndpoint]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = endpoints[0].database;
        let proxy = Self { folder, blocked: Arc::default(), database };
        let listener = UnixListener::bind(proxy.socket()).unwrap();
        let sockets: Vec<PathBuf> =
            endpoints.iter().map(|it| crate::shared_redis::socket(it).to_owned()).collect();
        let blocked = Arc::clone(&proxy.blocked);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let servers = sockets.iter().map(Server::connect).collect();
                let session = Session { servers, blocked: Arc::clone(&blocked), queued: None };
                thread::spawn(move || drop(session.run(client)));
            }
        });
        proxy
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("proxy.sock")
    }

    pub(crate) fn endpoint(&self) -> RedisEndpoint {
        let (address, tls) = (RedisAddress::Unix(self.socket()), TlsFiles::default());
        RedisEndpoint { address, database: self.database, username: None, password: None, tls }
    }

    /// Rejects commands with one of these texts from now on.
    pub(crate) fn block(&self, texts: &[&'static str]) {
        *self.blocked.lock().unwrap() = texts.to_vec();
    }
}

struct Server {
    replies: BufReader<UnixStream>,
    commands: UnixStream,
}

impl Server {
    fn connect(socket: &PathBuf) -> Self {
        let commands = UnixStream::connect(socket).unwrap();
        Self { replies: BufReader::new(commands.try_clone().unwrap()), commands }
    }

    fn ask(&mut self, words: &Words) -> std::io::Result<Vec<u8>> {
        let mut packed = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            packed.extend(format!("${}\r\n", word.len()).bytes());
            packed.extend_from_slice(word);
            packed.extend(b"\r\n");
        }
        self.commands.write_all(&packed)?;
        let mut reply = Vec::new();
        read_reply(&mut self.replies, &mut reply)?;
        Ok(reply)
    }
}

/// Appends one reply, with all of its parts.
fn read_reply(from: &mut impl BufRead, reply: &mut Vec<u8>) -> std::io::Result<()> {
    let start = reply.len();
    from.read_until(b'\n', reply)?;
    if reply.len() == start {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let line = String::from_utf8_lossy(&reply[start..]).trim_end().to_owned();
    let count: i64 = line.get(1..).and_then(|it| it.parse().ok()).unwrap_or(-1);
    match line.as_bytes()[0] {
        b'$' if count >= 0 => {
            let mut text = vec![0; usize::try_from(count).unwrap() + 2];
            from.read_exact(&mut text)?;
            reply.extend(text);
        }
        b'*' => {
            for _ in 0..count {
                read_reply(from, reply)?;
            }
        }
        _ => {}
    }
    Ok(())
}

struct Session {
    servers: Vec<Server>,
    blocked: Blocked,
    /// Commands since `MULTI`. `Err`: one was rejected.
    queued: Option<Result<Vec<Words>, ()>>,
}

impl Session {
    fn run(mut self, client: UnixStream) -> std::io::Result<()> {
        let mut commands = BufReader::new(client.try_clone()?);
        let mut client = client;
        loop {
            let words = read_command(&mut commands)?;
            let reply = self.reply(words)?;
            client.write_all(&reply)?;
        }
    }

    fn reply(&mut self, words: Words) -> std::io::Result<Vec<u8>> {
        let name = String::from_utf8_lossy(&words[0]).to_uppercase();
        let text: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let text = text.join(" ");
        if self.blocked.lock().unwrap().iter().any(|blocked| text.contains(blocked)) {
            return Ok(b"-ERR blocked by the test\r\n".to_vec());
        }
        match name.as_str() {
            "CONFIG" | "SSUBSCRIBE" | "CLUSTER" => {
                Ok(format!("-ERR unknown command '{name}', with args\r\n").into_bytes())
            }
            "MULTI" => {
                self.queued = Some(Ok(Vec::new()));
                Ok(b"+OK\r\n".to_vec())
            }
            "EXEC" => self.exec(),
            _ => match slots(&name, &words) {
                Err(()) => {
                    if let Some(queued) = &mut self.queued {
                        *queued = Err(());
                    }
                    Ok(CROSSSLOT.to_vec())
                }
                Ok(_) if self.queued.is_some() => {
                    let queued = self.queued.as_mut().and_then(|queued| queued.as_mut().ok());
                    queued.into_iter().for_each(|queued| queued.push(words.clone()));
                    Ok(b"+QUEUED\r\n".to_vec())
                }
                Ok(Some(slot)) => {
                    let count = self.servers.len();
                    self.servers[usize::from(slot) % count].ask(&words)
                }
                Ok(None) if name == "SCRIPT" || name == "SELECT" => {
                    let replies = self.servers.iter_mut().map(|it| it.ask(&words));
                    replies.last().unwrap()
                }
                Ok(None) => self.servers[0].ask(&words),
            },
        }
    }

    fn exec(&mut self) -> std::io::Result<Vec<u8>> {
        let Some(Ok(queued)) = self.queued.take() else {
            return Ok(b"-EXECABORT Transaction discarded\r\n".to_vec());
        };
        let all: Vec<u16> = queued
            .iter()
            .filter_map(|words| {
                slots(&String::from_utf8_lossy(&words[0]).to_uppercase(), words).ok()
            })
            .flatten()
            .collect();
        if all.iter().any(|slot| *slot != all[0]) {
            return Ok(CROSSSLOT.to_vec());
        }
        let count = self.servers.len();
        let server = &mut self.servers[usize::from(*all.first().unwrap_or(&0)) % count];
        server.ask(&vec![b"MULTI".to_vec()])?;
        for words in &queued {
            server.ask(words)?;
        }
        server.ask(&vec![b"EXEC".to_vec()])
    }
}

const CROSSSLOT: &[u8] = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n";

fn read_command(from: &mut impl BufRead) -> std::io::Result<Words> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let ended = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let count: usize = line.trim_end().get(1..).and_then(|it| it.parse().ok()).ok_or_else(ended)?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let length = line.trim_end().get(1..).and_then(|it| it.parse().ok());
        let length: usize = length.ok_or_else(ended)?;
        let mut word = vec![0; length + 2];
        from.read_exact(&mut word)?;
        word.truncate(length);
        words.push(word);
    }
    Ok(words)
}

/// The slot of a command's keys. `Err`: they are in several.
fn slots(name: &str, words: &Words) -> Result<Option<u16>, ()> {
    let keys: &[Vec<u8>] = match name {
        "TIME" | "INFO" | "SCRIPT" | "PING" | "SELECT" | "ACL" | "CLIENT" | "WAIT" | "AUTH" => &[],
        "EVALSHA" | "EVAL" => {
            let count: usize = String::from_utf8_lossy(&words[2]).parse().unwrap();
            &words[3..3 + count]
        }
        "DEL" | "UNLINK" | "EXISTS" => &words[1..],
        _ => words.get(1..2).unwrap_or_default(),
    };
    let mut slots = keys.iter().map(|key| slot_of(key));
    let Some(first) = slots.next() else { return Ok(None) };
    if slots.all(|slot| slot == first) { Ok(Some(first)) } else { Err(()) }
}

/// As the specification of Redis Cluster says.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|start| {
        let rest = &key[start + 1..];
        let length = rest.iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &rest[..length])
    });
    let mut crc: u16 = 0;
    for byte in tag.unwrap_or(key) {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    crc % 16_384
}
