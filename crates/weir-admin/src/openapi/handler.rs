//! Descriptions of handlers, from the types of their arguments and results.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;
use axum::response::sse::Sse;
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};
use weir_base::admin_api::{AdminError, JsonInput, Params};

/// The generators of schemas: a request may leave out members that a response always has.
pub(crate) struct Generators {
    pub(crate) requests: SchemaGenerator,
    pub(crate) responses: SchemaGenerator,
}

/// What a handler takes and returns.
#[derive(Debug, Default)]
pub(crate) struct OperationSchemas {
    /// The schema of the query: an object.
    pub(crate) query: Option<Schema>,
    /// The media type and the schema of the body.
    pub(crate) body: Option<(&'static str, Schema)>,
    /// The same for the response. None: it only fails.
    pub(crate) response: Option<(&'static str, Schema)>,
    pub(crate) can_fail: bool,
}

/// One method of one path.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    /// Below the prefix of its part.
    pub(crate) path: String,
    pub(crate) describe: fn(&mut OperationSchemas, &mut Generators),
}

const JSON: &str = "application/json";
const JSON_LINES: &str = "application/x-ndjson";

impl Operation {
    /// Describes a handler, whose path is added by [`Operation::at`].
    pub(crate) fn of<H: Described<T>, T>(method: &'static str) -> Self {
        Self { method, path: String::new(), describe: H::describe }
    }

    pub(crate) fn at(&self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self.clone() }
    }
}

/// A handler whose arguments and result are described. `T` is the marker of axum's `Handler`.
pub(crate) trait Described<T> {
    fn describe(operation: &mut OperationSchemas, generators: &mut Generators);
}

/// An argument of a handler. By default it is nothing that a client sends.
pub(crate) trait Input {
    fn describe(_operation: &mut OperationSchemas, _generators: &mut Generators) {}
}

/// The result of a handler.
pub(crate) trait Output {
    fn describe(operation: &mut OperationSchemas, generators: &mut Generators);
}

/// Implements [`Described`] for handlers with these arguments.
macro_rules! describe_handlers {
    ($marker:ty $(, $via:ident)?; $($input:ident),*) => {
        impl<F, Fut, R, $($via,)? $($input),*> Described<$marker> for F
        where
            F: FnOnce($($input),*) -> Fut,
            Fut: Future<Output = R>,
            R: Output,
            $($input: Input,)*
        {
            fn describe(operation: &mut OperationSchemas, generators: &mut Generators) {
                $($input::describe(operation, generators);)*
                R::describe(operation, generators);
            }
        }
    };
}

describe_handlers!(((),););
describe_handlers!((M, A), M; A);
describe_handlers!((M, A, B), M; A, B);
describe_handlers!((M, A, B, C), M; A, B, C);

impl<S> Input for State<S> {}
/// The parameters are those of the path's text.
impl Input for Path<String> {}
impl Input for HeaderMap {}

impl<T: JsonSchema> Input for Params<T> {
    fn describe(operation: &mut OperationSchemas, generators: &mut Generators) {
        operation.query = Some(generators.requests.root_schema_for::<T>());
        operation.can_fail = true;
    }
}

impl<T: JsonSchema> Input for JsonInput<T> {
    fn describe(operation: &mut OperationSchemas, generators: &mut Generators) {
        operation.body = Some((JSON, generators.requests.subschema_for::<T>()));
        operation.can_fail = true;
    }
}

impl Input for Body {
    fn describe(operation: &mut OperationSchemas, _: &mut Generators) {
        operation.body = Some((JSON_LINES, text()));
    }
}

impl<T: JsonSchema> Output for Json<T> {
    fn describe(operation: &mut OperationSchemas, generators: &mut Generators) {
        operation.response = Some((JSON, generators.responses.subschema_for::<T>()));
    }
}

impl<T: Output> Output for Result<T, AdminError> {
    fn describe(operation: &mut OperationSchemas, generators: &mut Generators) {
        T::describe(operation, generators);
        operation.can_fail = true;
    }
}

impl Output for AdminError {
    fn describe(operation: &mut OperationSchemas, _: &mut Generators) {
        operation.can_fail = true;
    }
}

impl Output for &'static str {
    fn describe(operation: &mut OperationSchemas, _: &mut Generators) {
        operation.response = Some(("text/plain", text()));
    }
}

/// A text, or a text that says why there is none.
impl Output for Response {
    fn describe(operation: &mut OperationSchemas, _: &mut Generators) {
        operation.response = Some(("text/plain", text()));
    }
}

/// JSON lines.
impl Output for ([(HeaderName, &'static str); 1], Body) {
    fn describe(operation: &mut OperationSchemas, _: &mut Generators) {
        operation.response = Some((JSON_LINES, text()));
    }
}

/// A JSON document.
impl Output for ([(HeaderName, &'static str); 1], Bytes) {
    fn describe(operation: &mut OperationSchemas, _: &mut Generators) {
        operation.response = Some((JSON, schemars::json_schema!({ "type": "object" })));
    }
}

impl<E> Output for Sse<E> {
    fn describe(operation: &mut OperationSchemas, _: &mut Generators) {
        operation.response = Some(("text/event-stream", text()));
    }
}

fn text() -> Schema {
    schemars::json_schema!({ "type": "string" })
}
