//! The OpenAPI document.

use std::collections::BTreeSet;

use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::handler::{Generators, Operation, OperationSchemas};
use super::texts::{RequestText, texts, without_links};
use crate::{
    audit, autopilot, gems, jobs, measured, observed, realtime, restart, status, switches, workers,
};

/// Where definitions are in an OpenAPI document.
const SCHEMAS: &str = "/components/schemas";

const DESCRIPTION: &str = "The API for operators, scripts and the command line, on the unix socket `weir.sock` of \
`data_dir` and on the console's port. Times are seconds since the Unix epoch, with a fraction; durations are seconds. \
New members may be added to responses.";

/// Returns all operations with their whole paths.
fn operations() -> Vec<Operation> {
    let parts = [
        ("", status::public_operations()),
        ("", status::metrics_operations()),
        ("/v1", status::operations()),
        ("/v1", super::embedded::operations()),
        ("/v1", observed::json::operations()),
        ("/v1", measured::operations()),
        ("/v1", audit::operations()),
        ("/v1", autopilot::operations()),
        ("/v1/jobs", jobs::operations()),
        ("/v1/realtime", realtime::operations()),
        ("/v1", switches::operations()),
        ("/v1", workers::operations()),
        ("/v1", restart::operations()),
        ("/v1/gems", gems::operations()),
    ];
    let with_prefix = |(prefix, operations): (&str, Vec<Operation>)| {
        operations
            .into_iter()
            .map(move |operation| operation.at(&format!("{prefix}{}", operation.path)))
            .collect::<Vec<_>>()
    };
    parts.into_iter().flat_map(with_prefix).collect()
}

/// Returns the document as text.
///
/// # Panics
/// If a request has no text in `admin-api.txt`, or a text has no request.
#[must_use]
pub fn document() -> String {
    format!("{:#}\n", value())
}

/// Returns the document.
pub(super) fn value() -> Value {
    let settings = || {
        let mut settings = SchemaSettings::draft2020_12();
        settings.definitions_path = SCHEMAS.into();
        settings.meta_schema = None;
        settings
    };
    let mut requests = settings();
    requests.inline_subschemas = true;
    let mut generators = Generators {
        requests: requests.for_deserialize().into_generator(),
        responses: settings().for_serialize().into_generator(),
    };
    let (mut paths, mut texts, mut tags) = (Map::new(), texts(), Vec::<String>::new());
    for operation in operations() {
        let key = (operation.method.to_owned(), operation.path.clone());
        let text = texts.remove(&key);
        let text = text.unwrap_or_else(|| panic!("admin-api.txt does not describe {key:?}"));
        if !tags.contains(&text.section) {
            tags.push(text.section.clone());
        }
        let described = describe(&operation, &text, &mut generators);
        let path = paths.entry(operation.path.clone()).or_insert_with(|| json!({}));
        path[operation.method] = described;
    }
    assert!(texts.is_empty(), "admin-api.txt describes requests that do not exist: {texts:?}");
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weir's admin API",
            "version": "1",
            "description": DESCRIPTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "http://127.0.0.1:7420", "description": "the console's port" }],
        "security": [{ "token": [] }, {}],
        "tags": tags.into_iter().map(|name| json!({ "name": name })).collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The value of `console.token`. The socket needs none.",
                },
            },
            "responses": { "Error": error_response() },
            "schemas": generators.responses.take_definitions(true),
        },
    })
}

fn describe(operation: &Operation, text: &RequestText, generators: &mut Generators) -> Value {
    let mut schemas = OperationSchemas::default();
    (operation.describe)(&mut schemas, generators);
    let OperationSchemas { query, body, response, can_fail } = schemas;
    let mut parameters: Vec<Value> = path_parameters(&operation.path);
    parameters.extend(query.iter().flat_map(query_parameters));
    let mut described = json!({
        "operationId": operation_id(operation),
        "tags": [text.section],
        "description": without_links(&text.text),
        "responses": responses(response, can_fail),
    });
    if !parameters.is_empty() {
        described["parameters"] = Value::Array(parameters);
    }
    if let Some((media, schema)) = body {
        described["requestBody"] =
            json!({ "required": true, "content": { media: { "schema": schema } } });
    }
    described
}

fn responses(response: Option<(&'static str, Schema)>, can_fail: bool) -> Value {
    let mut responses = Map::new();
    if let Some((media, schema)) = response {
        let content = json!({ media: { "schema": schema } });
        responses.insert("200".to_owned(), json!({ "description": "Done.", "content": content }));
    }
    if can_fail {
        let error = json!({ "$ref": "#/components/responses/Error" });
        responses.insert("default".to_owned(), error);
    }
    Value::Object(responses)
}

/// `{"error":"..","hint":".."}`, with the status of the error.
fn error_response() -> Value {
    let text = |description| json!({ "type": "string", "description": description });
    let schema = json!({
        "type": "object",
        "properties": { "error": text("What happened."), "hint": text("What to do; may be empty.") },
        "required": ["error", "hint"],
    });
    json!({
        "description": "The request failed.",
        "content": { "application/json": { "schema": schema } },
    })
}

/// `getJobsList`, from the method and the path.
fn operation_id(operation: &Operation) -> String {
    let words = operation.path.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty() && *word != "v1");
    let capitalized = words.map(|word| word[..1].to_uppercase() + &word[1..]);
    operation.method.to_owned() + &capitalized.collect::<String>()
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let parameter = |name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    names.map(parameter).collect()
}

fn query_parameters(query: &Schema) -> Vec<Value> {
    let value = query.as_value();
    let required: BTreeSet<&str> =
        value["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = value["properties"].as_object().into_iter().flatten();
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let mut parameter = json!({
            "name": name,
            "in": "query",
            "required": required.contains(name.as_str()),
            "schema": schema,
        });
        if let Some(description) = description {
            parameter["description"] = description;
        }
        parameter
    };
    properties.map(parameter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_unique_ids_and_every_reference_leads_somewhere() {
        let document = value();
        let mut ids = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(ids.insert(id), "{method} {path}: {id} is there twice");
                let description = operation["description"].as_str().unwrap();
                assert!(!description.contains("]("), "{method} {path}");
            }
        }
        assert!(ids.len() > 60, "{ids:?}");
        for reference in document.to_string().split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }
}
