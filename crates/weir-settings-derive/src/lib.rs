//! `#[derive(Section)]` and `#[derive(Choice)]`; `weir_settings` documents how to use them.

mod choice;
mod field;
mod section;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct a table of `weir.toml`: its fields are the keys, their comments the reference.
#[proc_macro_derive(Section, attributes(section, setting))]
pub fn derive_section(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    section::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes an enum without fields a setting that takes one of a few words.
#[proc_macro_derive(Choice, attributes(choice))]
pub fn derive_choice(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    choice::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
