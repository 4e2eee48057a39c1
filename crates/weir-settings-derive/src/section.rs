//! `#[derive(Section)]`.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, LitStr, Path, Result};

use super::field::{Defaults, SettingField, change_variant};

/// What `#[section(..)]` says.
#[derive(Default)]
struct Options {
    /// What a changed setting takes, unless its field says otherwise.
    change: Option<Ident>,
    /// The struct has a `Default` of its own, or none.
    has_own_default: bool,
    /// Where the table is: `realtime.limits`; None: in several places.
    path: Option<LitStr>,
    /// A method that checks what was read: `fn(&mut self, &mut TableReader<'_>)`.
    check: Option<Path>,
    /// Keys that no longer have an effect.
    removed: Vec<LitStr>,
}

impl Options {
    fn parse(input: &DeriveInput) -> Result<Self> {
        let mut options = Self::default();
        for attribute in input.attrs.iter().filter(|it| it.path().is_ident("section")) {
            attribute.parse_nested_meta(|meta| {
                let word = meta.path.require_ident()?;
                if let Some(variant) = change_variant(word) {
                    options.change = Some(variant);
                } else if word == "own_default" {
                    options.has_own_default = true;
                } else if word == "path" {
                    options.path = Some(meta.value()?.parse()?);
                } else if word == "removed" {
                    options.removed.push(meta.value()?.parse()?);
                } else if word == "check" {
                    options.check = Some(meta.value()?.parse()?);
                } else {
                    return Err(meta.error("not an option of a section"));
                }
                Ok(())
            })?;
        }
        Ok(options)
    }
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(input, "Section is for structs"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new_spanned(input, "the fields of a Section have names"));
    };
    let options = Options::parse(input)?;
    let fields = fields.named.iter().map(SettingField::parse).collect::<Result<Vec<_>>>()?;
    let defaults = Defaults { change: options.change.as_ref(), path: options.path.as_ref() };
    let constants =
        fields.iter().map(|field| field.constants(&defaults)).collect::<Result<Vec<_>>>()?;
    let keys = fields.iter().flat_map(SettingField::key_names);
    let reads = fields.iter().map(SettingField::read).collect::<Result<Vec<_>>>()?;
    let check = options.check.as_ref().map(|check| quote!(#check(self, table);));
    let removed = &options.removed;
    let removed = (!removed.is_empty()).then(|| quote!(table.removed(&[#(#removed),*]);));
    let name = &input.ident;
    let default = (!options.has_own_default).then(|| {
        let defaults = fields.iter().map(SettingField::default);
        quote! {
            impl ::core::default::Default for #name {
                fn default() -> Self {
                    Self { #(#defaults)* }
                }
            }
        }
    });
    Ok(quote! {
        impl #name {
            #(#constants)*

            /// The keys of its settings, those of other structs aside.
            pub const KEYS: &'static [&'static str] = &[#(#keys),*];
        }

        #default

        impl ::weir_settings::Section for #name {
            fn read(&mut self, table: &mut ::weir_settings::TableReader<'_>) {
                #(#reads)*
                #removed
                #check
            }
        }
    })
}
