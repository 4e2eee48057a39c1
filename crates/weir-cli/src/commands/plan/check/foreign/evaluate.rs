//! Evaluates the few Ruby expressions with which settings files read the environment. Nothing is
//! executed.

use super::environment::Environment;

/// Operators that are not evaluated.
const OPERATORS: [&str; 9] = [" * ", " / ", " - ", " % ", " ? ", ".max", ".min", ".clamp", "if "];

/// Expressions that read variables.
const MARK: &str = "\0";

/// The value of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Set by a variable, or a literal.
    CheckedLayout(String),
    /// No variable is set: the default in the expression.
    Default(String),
    /// Neither, or an unsupported expression.
    Unknown,
}

impl Value {
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::CheckedLayout(text) | Self::Default(text) => Some(text),
            Self::Unknown => None,
        }
    }

    pub(super) fn number(&self) -> Option<u32> {
        self.text()?.trim().parse().ok()
    }
}

/// `5`, `ENV.fetch("A", 5)`, `ENV.fetch('A') { 5 }`, `ENV['A'] || ENV['B'] || 5`, and these with `.to_i` or in
/// `Integer(..)`.
pub(super) fn value(expression: &str, environment: &Environment) -> Value {
    let plain = expression.trim();
    if plain.parse::<u32>().is_ok() {
        return Value::CheckedLayout(plain.to_owned());
    }
    if plain.contains(" + ") {
        return sum(plain.split(" + ").map(|part| value(part, environment)));
    }
    if OPERATORS.iter().any(|operator| plain.contains(operator)) {
        return Value::Unknown;
    }
    // "RAILS_ENV" is a name, no hash of variables.
    let marked = plain.replace("ENV[", MARK).replace("ENV.", MARK);
    let mut parts = marked.split(MARK);
    parts.next();
    let mut default = None;
    let mut is_read = false;
    for part in parts {
        let Some((name, rest)) = quoted(part) else { return Value::Unknown };
        is_read = true;
        if let Some(value) = environment.get(name) {
            return Value::CheckedLayout(match plain.contains(".to_i") {
                true => leading_digits(value).to_owned(),
                false => value.to_owned(),
            });
        }
        default = number_in(rest);
    }
    match default {
        Some(number) if is_read => Value::Default(number),
        _ => Value::Unknown,
    }
}

/// Adds the parts. The sum is a default if any part is, and unknown if any part is.
fn sum(parts: impl Iterator<Item = Value>) -> Value {
    let (mut total, mut is_said) = (0_u32, true);
    for part in parts {
        let Some(number) = part.number() else { return Value::Unknown };
        total = total.saturating_add(number);
        is_said &= matches!(part, Value::CheckedLayout(_));
    }
    if is_said {
        Value::CheckedLayout(total.to_string())
    } else {
        Value::Default(total.to_string())
    }
}

/// Renders each `<%= .. %>` in a text; None: the text contains code.
pub(super) fn render_template(text: &str, environment: &Environment) -> Option<String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("<%") {
        let (code, after) = behind.split_once("%>")?;
        filled.push_str(before);
        match code.strip_prefix('=') {
            Some(expression) => match value(expression, environment).text() {
                Some(text) => filled.push_str(text),
                None => filled.push_str("<%=%>"),
            },
            None if code.trim_start().starts_with('#') => {}
            None => return None,
        }
        rest = after.strip_prefix('-').unwrap_or(after);
    }
    Some(filled + rest)
}

/// Returns the number at the start of a value, as `to_i` in Ruby does; 0 if there is none.
fn leading_digits(value: &str) -> &str {
    let value = value.trim_start();
    match value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len()) {
        0 => "0",
        end => &value[..end],
    }
}

/// Returns the first quoted word, and the text after it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let at = text.find(['"', '\''])?;
    let quote = text[at..].chars().next()?;
    let (word, rest) = text[at + 1..].split_once(quote)?;
    Some((word, rest))
}

/// Returns the first number.
fn number_in(text: &str) -> Option<String> {
    let digits = |letter: char| letter.is_ascii_digit();
    let at = text.find(digits)?;
    let number: String = text[at..].chars().take_while(|it| it.is_ascii_digit()).collect();
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_can_read_the_environment() {
        let mut environment = Environment::default();
        environment.set("MAX_THREADS", "16");
        environment.set("COMMENTED", "8 # eight");
        let said = |text: &str| Value::CheckedLayout(text.to_owned());
        let default = |text: &str| Value::Default(text.to_owned());
        for (expression, expected) in [
            ("5", said("5")),
            ("ENV.fetch(\"SIDEKIQ_CONCURRENCY\", 10)", default("10")),
            ("ENV.fetch('WEB_CONCURRENCY') { 2 }.to_i", default("2")),
            ("ENV['DB_POOL'] || ENV['MAX_THREADS'] || 5", said("16")),
            ("Integer(ENV.fetch('A', '7'))", default("7")),
            ("ENV['DB_POOL'] || 5", default("5")),
            ("ENV.fetch('A', 15).to_i + ENV.fetch('B', 5).to_i", default("20")),
            ("ENV['MAX_THREADS'].to_i + 2", said("18")),
            ("ENV['MAX_THREADS'].to_i + spare", Value::Unknown),
            ("ENV['DB_POOL']", Value::Unknown),
            ("ENV['COMMENTED'].to_i", said("8")),
            ("Integer(ENV['COMMENTED'])", said("8 # eight")),
            ("ENV['RACK'].to_i", Value::Unknown),
            ("ENV['MAX_THREADS'].to_i * 2", Value::Unknown),
            ("[ENV['MAX_THREADS'].to_i, 4].max", Value::Unknown),
            ("x ? ENV['MAX_THREADS'] : 4", Value::Unknown),
            ("ENV.fetch('RAILS_ENV_THREADS') { 3 }", default("3")),
            ("Etc.nprocessors", Value::Unknown),
        ] {
            assert_eq!(value(expression, &environment), expected, "{expression}");
        }
    }

    #[test]
    fn templates_are_rendered_unless_they_contain_code() {
        let environment = Environment::default();
        let fill = |text: &str| render_template(text, &environment);
        assert_eq!(fill("c: <%= ENV['N'] || 5 %>\n").as_deref(), Some("c: 5\n"));
        assert_eq!(fill("<%# a comment %>c: 1").as_deref(), Some("c: 1"));
        assert_eq!(fill("<% if x %>c: 1<% end %>"), None);
        assert_eq!(fill("c: <%= oops"), None);
    }
}
