//! The dashboard: pages, live updates, assets built from web/.
