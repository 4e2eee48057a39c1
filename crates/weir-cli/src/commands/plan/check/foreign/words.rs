//! Splits shell lines into words.

/// Returns the words of a line without quotes, and shell operators as words; None: a quote is not
/// closed.
pub(in crate::commands) fn split(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut is_word, mut quote) = (Vec::new(), String::new(), false, None);
    let mut letters = line.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (_, Some(closing)) if letter == closing => quote = None,
            ('\'' | '"', None) => (quote, is_word) = (Some(letter), true),
            ('\\', Some('"') | None) => {
                word.extend(letters.next());
                is_word = true;
            }
            ('&' | '|' | ';' | '\n', None) => {
                words.extend(std::mem::take(&mut is_word).then(|| std::mem::take(&mut word)));
                let mut operator = if letter == '\n' { ';' } else { letter }.to_string();
                operator.extend(letters.next_if(|next| *next == letter && letter != ';'));
                words.push(operator);
            }
            (_, None) if letter.is_whitespace() => {
                words.extend(std::mem::take(&mut is_word).then(|| std::mem::take(&mut word)));
            }
            _ => {
                word.push(letter);
                is_word = true;
            }
        }
    }
    words.extend(is_word.then_some(word));
    quote.is_none().then_some(words)
}

/// Returns the last component of a path.
pub(in crate::commands) fn file_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}
