//! A command line that starts Sidekiq, as far as it says for sure what runs.

use super::super::queue_word::weighted;

/// Why something is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unknown(pub(super) String);

/// Options of Sidekiq that have a value and say nothing of queues or threads.
const OTHERS: [&str; 5] = ["-e", "-g", "-r", "-t", "-P"];
const OTHERS_LONG: [&str; 5] = ["--environment", "--tag", "--require", "--timeout", "--pidfile"];

/// It.
#[derive(Debug)]
pub(super) struct Command {
    variables: Vec<(String, String)>,
    options: Result<Options, Unknown>,
}

#[derive(Debug, Default)]
struct Options {
    concurrency: Vec<String>,
    queues: Vec<String>,
    /// A file of settings that the line names.
    settings: Option<String>,
}

impl Command {
    /// None: it starts something else.
    pub(super) fn of(line: &str) -> Option<Self> {
        if !line.contains("sidekiq") {
            return None;
        }
        let words = match words(line) {
            Ok(words) => words,
            Err(why) => {
                return Some(Self { variables: Vec::new(), options: Err(Unknown(why)) });
            }
        };
        let is_sidekiq = |word: &String| word == "sidekiq" || word.ends_with("/sidekiq");
        let at = words.iter().position(is_sidekiq)?;
        let variable = |word: &String| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        let variables = words[..at].iter().filter_map(variable).collect();
        Some(Self { variables, options: Options::of(&words[at + 1..]) })
    }

    pub(super) fn concurrency(&self) -> Result<u32, Unknown> {
        let options = self.options.as_ref().map_err(Clone::clone)?;
        match options.concurrency.as_slice() {
            [number] => number
                .parse()
                .map_err(|_| Unknown(format!("{number:?} is filled in elsewhere, or no number"))),
            [] => {
                let elsewhere = options.settings();
                Err(Unknown(format!(
                    "there is no -c: what {elsewhere} or RAILS_MAX_THREADS says, or 5"
                )))
            }
            _ => Err(Unknown("-c stands there more than once".to_owned())),
        }
    }

    /// As they stand behind `-q`.
    pub(super) fn queues(&self) -> Result<&[String], Unknown> {
        let options = self.options.as_ref().map_err(Clone::clone)?;
        if options.queues.is_empty() {
            let elsewhere = options.settings();
            return Err(Unknown(format!("there is no -q: what {elsewhere} says, or `default`")));
        }
        options.queues.iter().try_for_each(|queue| weighted(queue).map(|_| ())).map_err(Unknown)?;
        Ok(&options.queues)
    }

    /// Set in the line itself: `DB_POOL=25 bundle exec sidekiq`.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        let mut all = self.variables.iter().rev();
        all.find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }
}

impl Options {
    /// The file in which the rest stands.
    fn settings(&self) -> String {
        let named = self.settings.as_ref().map(|file| format!("{file:?}"));
        named.unwrap_or_else(|| "its sidekiq.yml".to_owned())
    }

    /// `-c 25`, `-c25`, `--concurrency 25`, `--concurrency=25`.
    fn of(words: &[String]) -> Result<Self, Unknown> {
        let mut options = Self::default();
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let (name, own) = split(word);
            if name == "-v" || name == "--verbose" {
                continue;
            }
            let value = own.or_else(|| words.next());
            let value = value.ok_or_else(|| Unknown(format!("{name} has no value")))?.to_owned();
            match name {
                "-c" | "--concurrency" => options.concurrency.push(value),
                "-q" | "--queue" => options.queues.push(value),
                "-C" | "--config" => options.settings = Some(value),
                other if OTHERS.contains(&other) || OTHERS_LONG.contains(&other) => {}
                other => {
                    return Err(Unknown(format!(
                        "{other:?} is no option of Sidekiq that is known here"
                    )));
                }
            }
        }
        Ok(options)
    }
}

/// An option, and the value that is written to it.
fn split(word: &str) -> (&str, Option<&str>) {
    if word.starts_with("--") {
        return word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    }
    match word.char_indices().nth(2) {
        Some((at, _)) if word.starts_with('-') => (&word[..at], Some(&word[at..])),
        _ => (word, None),
    }
}

/// The words of a line, quotes taken away; the error is why they can't be told.
pub(super) fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut is_word, mut quote) = (Vec::new(), String::new(), false, None);
    let mut letters = line.trim().chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (_, Some(closing)) if letter == closing => quote = None,
            ('\'' | '"', None) => (quote, is_word) = (Some(letter), true),
            ('\\', Some('"') | None) => {
                word.extend(letters.next());
                is_word = true;
            }
            ('&' | '|' | ';' | '(' | ')', None) => {
                return Err("the line is a shell's: more than one command may run".to_owned());
            }
            (_, None) if letter.is_whitespace() => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            _ => {
                word.push(letter);
                is_word = true;
            }
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(is_word.then_some(word));
    Ok(words)
}
