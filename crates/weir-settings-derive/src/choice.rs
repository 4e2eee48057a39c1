//! `#[derive(Choice)]`: each variant is a word, its name in snake case or `#[choice("word")]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, LitStr, Result, Variant};

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(input, "Choice is for enums"));
    };
    let words = data.variants.iter().map(word).collect::<Result<Vec<_>>>()?;
    let variants = data.variants.iter().map(|variant| &variant.ident);
    let name = &input.ident;
    Ok(quote! {
        impl ::weir_settings::Choice for #name {
            const CHOICES: &'static [(&'static str, Self)] = &[#((#words, Self::#variants)),*];
        }
    })
}

fn word(variant: &Variant) -> Result<String> {
    if !variant.fields.is_empty() {
        return Err(Error::new_spanned(variant, "a word has no fields"));
    }
    match variant.attrs.iter().find(|attribute| attribute.path().is_ident("choice")) {
        Some(attribute) => attribute.parse_args::<LitStr>().map(|word| word.value()),
        None => Ok(snake_case(&variant.ident.to_string())),
    }
}

/// `DropOldest` -> `drop_oldest`.
fn snake_case(name: &str) -> String {
    let mut word = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.extend(letter.to_lowercase());
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_become_words() {
        for (name, word) in [("Always", "always"), ("DropOldest", "drop_oldest"), ("X", "x")] {
            assert_eq!(snake_case(name), word);
        }
    }
}
