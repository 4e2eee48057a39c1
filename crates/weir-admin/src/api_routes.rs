//! Routes of the admin API that describe themselves: from the arguments and the result of a handler
//! come the parameters, the body and the response in the [`openapi`](crate::openapi) document.
//!
//! The description is compiled only with the feature `openapi`, which the generator of the document
//! (xtask) enables. The binary contains the finished document instead.

use axum::Router;
use axum::handler::Handler;
use axum::routing::MethodRouter;

#[cfg(feature = "openapi")]
pub(crate) use crate::openapi::handler::Described;
#[cfg(feature = "openapi")]
use crate::openapi::handler::Operation;

/// A handler without a description.
#[cfg(not(feature = "openapi"))]
pub(crate) trait Described<T> {}

#[cfg(not(feature = "openapi"))]
impl<H, T> Described<T> for H {}

/// Routes, as axum's `Router` has them, and their descriptions.
#[derive(Debug)]
pub(crate) struct ApiRoutes<S> {
    router: Router<S>,
    #[cfg(feature = "openapi")]
    operations: Vec<Operation>,
}

/// The handlers of one path.
#[derive(Debug)]
pub(crate) struct ApiMethods<S> {
    methods: MethodRouter<S>,
    #[cfg(feature = "openapi")]
    operations: Vec<Operation>,
}

/// Handles `GET` requests.
pub(crate) fn get<H, T, S>(handler: H) -> ApiMethods<S>
where
    H: Handler<T, S> + Described<T>,
    T: 'static,
    S: Clone + Send + Sync + 'static,
{
    ApiMethods {
        methods: axum::routing::get(handler),
        #[cfg(feature = "openapi")]
        operations: vec![Operation::of::<H, T>("get")],
    }
}

/// Handles `POST` requests.
pub(crate) fn post<H, T, S>(handler: H) -> ApiMethods<S>
where
    H: Handler<T, S> + Described<T>,
    T: 'static,
    S: Clone + Send + Sync + 'static,
{
    ApiMethods {
        methods: axum::routing::post(handler),
        #[cfg(feature = "openapi")]
        operations: vec![Operation::of::<H, T>("post")],
    }
}

impl<S: Clone + Send + Sync + 'static> ApiMethods<S> {
    /// Handles `POST` requests as well.
    pub(crate) fn post<H, T>(self, handler: H) -> Self
    where
        H: Handler<T, S> + Described<T>,
        T: 'static,
    {
        Self {
            methods: self.methods.post(handler),
            #[cfg(feature = "openapi")]
            operations: [self.operations, vec![Operation::of::<H, T>("post")]].concat(),
        }
    }
}

impl<S: Clone + Send + Sync + 'static> ApiRoutes<S> {
    pub(crate) fn new() -> Self {
        Self {
            router: Router::new(),
            #[cfg(feature = "openapi")]
            operations: Vec::new(),
        }
    }

    /// Adds the handlers of a path.
    pub(crate) fn route(self, path: &str, methods: ApiMethods<S>) -> Self {
        #[cfg(feature = "openapi")]
        let operations = {
            let at_path = methods.operations.iter().map(|operation| operation.at(path));
            self.operations.into_iter().chain(at_path).collect()
        };
        Self {
            router: self.router.route(path, methods.methods),
            #[cfg(feature = "openapi")]
            operations,
        }
    }

    /// Returns the routes for axum.
    pub(crate) fn into_router(self) -> Router<S> {
        self.router
    }

    /// Returns the descriptions.
    #[cfg(feature = "openapi")]
    pub(crate) fn into_operations(self) -> Vec<Operation> {
        self.operations
    }
}
