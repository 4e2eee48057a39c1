//! The page docs/reference/admin-api.md: the texts, with the parameters and the schemas of the document.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::document;
use super::texts::{RequestKey, TEMPLATE, row};

const SCHEMAS: &str = "#/components/schemas/";

const SCHEMAS_INTRODUCTION: &str = "
## Types of responses

Members of the objects that responses contain, from the [OpenAPI document](openapi.json). New ones may be added.
";

/// Returns the page.
///
/// # Panics
/// As [`document`](super::document()).
#[must_use]
pub fn page() -> String {
    let document = document::value();
    let mut page = String::new();
    for line in TEMPLATE.lines() {
        match row(line) {
            Some((requests, text)) => write_row(&mut page, &document, &requests, text),
            None => {
                page.push_str(line);
                page.push('\n');
            }
        }
    }
    page.push_str(SCHEMAS_INTRODUCTION);
    let schemas = document["components"]["schemas"].as_object();
    for (name, schema) in schemas.into_iter().flatten() {
        write_schema(&mut page, name, schema);
    }
    page
}

fn write_row(page: &mut String, document: &Value, requests: &[RequestKey], text: &str) {
    let shown = requests.iter().map(|request| show_request(document, request));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let mut types: Vec<String> = Vec::new();
    for (method, path) in requests {
        let content = &document["paths"][path][method]["responses"]["200"]["content"];
        let schema = &content["application/json"]["schema"];
        if schema.is_object() {
            let name = show_type(schema);
            if name.contains("](#") && !types.contains(&name) {
                types.push(name);
            }
        }
    }
    let types = if types.is_empty() { String::new() } else { format!(" → {}", types.join(", ")) };
    let _ = writeln!(page, "| {shown} | {text}{types} |");
}

/// `GET /v1/jobs/count?place=&search=`.
fn show_request(document: &Value, (method, path): &RequestKey) -> String {
    let parameters = document["paths"][path][method]["parameters"].as_array();
    let in_query = parameters.into_iter().flatten().filter(|parameter| parameter["in"] == "query");
    let names: Vec<String> = in_query
        .filter_map(|parameter| parameter["name"].as_str())
        .map(|name| format!("{name}="))
        .collect();
    let query = if names.is_empty() { String::new() } else { format!("?{}", names.join("&")) };
    format!("`{} {path}{query}`", method.to_uppercase())
}

fn write_schema(page: &mut String, name: &str, schema: &Value) {
    let _ = write!(page, "\n### {name}\n\n");
    if let Some(description) = schema["description"].as_str() {
        let _ = write!(page, "{}\n\n", one_line(description));
    }
    let Some(members) = schema["properties"].as_object() else {
        let _ = writeln!(page, "{}", show_type(schema));
        return;
    };
    page.push_str("| member | type | meaning |\n| --- | --- | --- |\n");
    write_members(page, members);
}

fn write_members(page: &mut String, members: &Map<String, Value>) {
    for (name, member) in members {
        let description = member["description"].as_str().map(one_line).unwrap_or_default();
        let _ = writeln!(page, "| `{name}` | {} | {description} |", show_type(member));
    }
}

/// Returns the text of a doc comment for a cell of a table.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Returns the name of a type, with links to those that are on the page.
fn show_type(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix(SCHEMAS)) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    for alternatives in ["anyOf", "oneOf"] {
        if let Some(parts) = schema[alternatives].as_array() {
            return join_types(parts.iter().map(show_type));
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        return join_types(words.iter().map(|word| format!("`{word}`")));
    }
    if let Some(word) = schema.get("const") {
        return format!("`{word}`");
    }
    match &schema["type"] {
        Value::String(name) => show_named_type(name, schema),
        Value::Array(names) => join_types(
            names.iter().filter_map(Value::as_str).map(|name| show_named_type(name, schema)),
        ),
        _ => "any".to_owned(),
    }
}

fn show_named_type(name: &str, schema: &Value) -> String {
    match name {
        "array" => format!("list of {}", show_type(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map of {}", show_type(&schema["additionalProperties"]))
        }
        "object" => {
            let members = schema["properties"].as_object().into_iter().flatten();
            let members: Vec<String> = members.map(|(name, _)| format!("`{name}`")).collect();
            match members.is_empty() {
                true => "object".to_owned(),
                false => format!("object with {}", members.join(", ")),
            }
        }
        name => name.to_owned(),
    }
}

fn join_types(types: impl Iterator<Item = String>) -> String {
    types.collect::<Vec<_>>().join(" or ")
}
