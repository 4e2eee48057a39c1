//! A JSON schema of weir.toml, for editors: completion, descriptions and ranges while one types.
//! Draft 7, which is what Taplo and the TOML extensions of editors read.

use serde_json::{Map, Value, json};
use weir_settings::{Allowed, SettingValue};

use super::reference;

/// Returns the schema, generated from the definitions of the settings.
pub fn schema() -> String {
    let mut root = table_schema("Settings of Weir");
    for value in reference::values() {
        insert_setting(&mut root, &value.path, setting_schema(&value));
    }
    root["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    format!("{root:#}\n")
}

fn table_schema(description: &str) -> Value {
    json!({ "type": "object", "description": description, "properties": {}, "additionalProperties": false })
}

/// Inserts a setting below `node`, and creates the tables of its path.
fn insert_setting(node: &mut Value, path: &str, leaf: Value) {
    let Some((step, rest)) = path.split_once('.') else {
        node["properties"][path] = leaf;
        return;
    };
    insert_setting(child_table(node, step), rest, leaf);
}

/// Returns the table `step` below `node`: `limits`, `apps[]` (a list of tables, or a single one) or `NAME` (a table
/// of names).
fn child_table<'a>(node: &'a mut Value, step: &str) -> &'a mut Value {
    if step == "NAME" {
        let names = &mut node["additionalProperties"];
        if !names.is_object() {
            *names = table_schema("");
        }
        return names;
    }
    let name = step.trim_end_matches("[]");
    let is_list = name.len() < step.len();
    let properties = node["properties"].as_object_mut().expect("a table has properties");
    let entry = properties.entry(name).or_insert_with(|| {
        if is_list {
            json!({ "type": "array", "items": table_schema("") })
        } else {
            table_schema("")
        }
    });
    if is_list { &mut entry["items"] } else { entry }
}

fn setting_schema(value: &SettingValue) -> Value {
    let mut leaf = kind_schema(value);
    leaf.insert("description".to_owned(), json!(value.setting.doc));
    // Defaults are in TOML. Those that are not valid JSON ("none", sets of names) are omitted.
    if let Ok(default) = serde_json::from_str::<Value>(&value.default) {
        leaf.insert("default".to_owned(), default);
    }
    Value::Object(leaf)
}

fn kind_schema(value: &SettingValue) -> Map<String, Value> {
    let kind = match (value.kind, &value.allowed) {
        ("true or false", _) => json!({ "type": "boolean" }),
        ("number", Allowed::Range(low, high)) => {
            json!({ "type": "integer", "minimum": parse_limit(low), "maximum": parse_limit(high) })
        }
        ("number", _) => json!({ "type": "integer" }),
        ("fraction", _) => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        ("size", _) => {
            json!({ "type": ["integer", "string"], "pattern": "^[0-9]+ ?([KMGT]iB|[kMGT]?B)?$" })
        }
        ("duration", _) => {
            json!({ "type": "string", "pattern": "^([0-9]+ ?(d|h|m|s|ms|us|ns)|0)$" })
        }
        ("percentage", _) => json!({ "type": "string", "pattern": "^[0-9]+%$" }),
        // Its table has a schema of its own; a pattern concerns texts alone.
        ("choice or table", Allowed::Words(words)) => json!({
            "type": ["string", "object"],
            "pattern": format!("^({})$", words.join("|")),
            "properties": {},
            "additionalProperties": false,
        }),
        ("choice", Allowed::Words(words)) => json!({ "enum": words }),
        ("list of texts", _) => json!({ "type": "array", "items": { "type": "string" } }),
        ("secret", _) => secret_schema(),
        ("text or secret", _) => json!({ "anyOf": [{ "type": "string" }, secret_schema()] }),
        ("table of texts or secrets", _) => json!({
            "type": "object",
            "additionalProperties": { "anyOf": [{ "type": "string" }, secret_schema()] },
        }),
        _ => json!({ "type": "string" }),
    };
    match kind {
        Value::Object(kind) => kind,
        _ => Map::new(),
    }
}

fn parse_limit(text: &str) -> u64 {
    text.parse().unwrap_or(u64::MAX)
}

fn secret_schema() -> Value {
    let source = |name: &str| {
        json!({
            "type": "object",
            "properties": { name: { "type": "string" } },
            "required": [name],
            "additionalProperties": false,
        })
    };
    json!({ "anyOf": [source("env"), source("file")] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_contains_every_setting() {
        let schema: Value = serde_json::from_str(&schema()).expect("JSON");
        for value in reference::values() {
            let pointer = value.path.split('.').fold(String::new(), |place, step| match step {
                "NAME" => format!("{place}/additionalProperties"),
                step => match step.strip_suffix("[]") {
                    Some(list) => format!("{place}/properties/{list}/items"),
                    None => format!("{place}/properties/{step}"),
                },
            });
            let leaf = schema.pointer(&pointer).unwrap_or_else(|| panic!("{}", value.path));
            assert_eq!(leaf["description"], value.setting.doc, "{}", value.path);
        }
    }

    #[test]
    fn schema_has_kinds_and_ranges() {
        let schema: Value = serde_json::from_str(&schema()).expect("JSON");
        let setting_at = |pointer: &str| schema.pointer(pointer).cloned().expect("a setting");
        let connections =
            setting_at("/properties/jobs/properties/limits/properties/connections_max");
        assert_eq!((&connections["type"], &connections["minimum"]), (&json!("integer"), &json!(1)));
        assert_eq!(connections["default"], 10_000);
        let fsync = setting_at("/properties/jobs/properties/fsync");
        assert_eq!(fsync["enum"], json!(["always", "everysec", "never"]));
        let queue = setting_at("/properties/jobs/properties/queues/additionalProperties");
        assert_eq!(queue["properties"]["fresh_lane"]["type"], "boolean");
    }
}
