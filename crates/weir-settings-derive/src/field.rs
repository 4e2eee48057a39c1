//! One field of a section, as its comment, its type and `#[setting(..)]` describe it.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::meta::ParseNestedMeta;
use syn::{
    Attribute, Error, Expr, ExprLit, Field, GenericArgument, Lit, LitStr, Meta, Path,
    PathArguments, Result, Token, Type,
};

/// What `#[setting(..)]` says.
#[derive(Default)]
pub(crate) struct Options {
    /// The method of `TableReader` that reads it; None: by the type.
    kind: Option<Ident>,
    key: Option<LitStr>,
    range: Option<Expr>,
    default: Option<Expr>,
    change: Option<Ident>,
    /// A function that reads it.
    with: Option<Path>,
    is_advanced: bool,
    formerly: Option<LitStr>,
    /// The comment of the second setting of a rate.
    burst: Option<LitStr>,
}

pub(crate) struct SettingField<'a> {
    name: &'a Ident,
    ty: &'a Type,
    doc: String,
    options: Options,
}

/// What the struct says for all of its fields.
pub(crate) struct Defaults<'a> {
    /// What a changed setting takes, unless the field says otherwise.
    pub(crate) change: Option<&'a Ident>,
    pub(crate) path: Option<&'a LitStr>,
}

const CHANGES: [(&str, &str); 4] = [
    ("reload", "Reload"),
    ("restart", "Restart"),
    ("upgrade", "Upgrade"),
    ("stop", "StopAndStart"),
];

/// Kinds that are not one setting.
const STRUCTURE: [&str; 3] = ["section", "flatten", "skip"];

/// The word of a change as a variant of `Change`.
pub(crate) fn change_variant(word: &Ident) -> Option<Ident> {
    let (_, variant) = CHANGES.iter().find(|(known, _)| word == known)?;
    Some(Ident::new(variant, word.span()))
}

impl Options {
    fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut options = Self::default();
        for attribute in attributes.iter().filter(|it| it.path().is_ident("setting")) {
            attribute.parse_nested_meta(|meta| options.add(&meta))?;
        }
        Ok(options)
    }

    fn add(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let word = meta.path.require_ident()?.clone();
        if let Some(variant) = change_variant(&word) {
            self.change = Some(variant);
        } else if meta.input.peek(Token![=]) {
            let value = meta.value()?;
            match word.to_string().as_str() {
                "key" => self.key = Some(value.parse()?),
                "range" => self.range = Some(value.parse()?),
                "default" => self.default = Some(value.parse()?),
                "with" => self.with = Some(value.parse()?),
                "formerly" => self.formerly = Some(value.parse()?),
                "burst" => self.burst = Some(value.parse()?),
                _ => return Err(meta.error("not an option of a setting")),
            }
        } else if word == "advanced" {
            self.is_advanced = true;
        } else {
            self.kind = Some(word);
        }
        Ok(())
    }
}

impl<'a> SettingField<'a> {
    pub(crate) fn parse(field: &'a Field) -> Result<Self> {
        let Some(name) = &field.ident else {
            return Err(Error::new_spanned(field, "a setting has a name"));
        };
        let options = Options::parse(&field.attrs)?;
        let field = Self { name, ty: &field.ty, doc: documentation(&field.attrs), options };
        if field.doc.is_empty() && !field.is_structure() && field.options.with.is_none() {
            return Err(Error::new(
                name.span(),
                "a setting needs a doc comment: it is its reference",
            ));
        }
        Ok(field)
    }

    fn is_structure(&self) -> bool {
        self.options.kind.as_ref().is_some_and(|kind| STRUCTURE.iter().any(|it| kind == it))
    }

    /// `name: default,` of the `Default` of the struct.
    pub(crate) fn default(&self) -> TokenStream {
        let name = self.name;
        match &self.options.default {
            Some(default) => quote!(#name: #default,),
            None => quote!(#name: ::core::default::Default::default(),),
        }
    }

    /// `pub const NAME: Setting = ..;` for each setting that the field is: none, one or two.
    pub(crate) fn constants(&self, defaults: &Defaults<'_>) -> Result<TokenStream> {
        let mut constants = TokenStream::new();
        for (key, doc) in self.keys() {
            let name = self.constant_name(&key);
            let setting = self.setting(&key, &doc, defaults)?;
            let doc = format!("The setting `{key}`.");
            constants.extend(quote! {
                #[doc = #doc]
                pub const #name: ::weir_settings::Setting = #setting;
            });
        }
        Ok(constants)
    }

    /// Keys with what they do.
    fn keys(&self) -> Vec<(String, String)> {
        if self.is_structure() || self.options.with.is_some() {
            return Vec::new();
        }
        let Some(burst) = &self.options.burst else {
            return vec![(self.key(), self.doc.clone())];
        };
        let key = self.key();
        vec![
            (format!("{key}_per_second"), self.doc.clone()),
            (format!("{key}_burst"), burst.value()),
        ]
    }

    /// Names of the keys that it is.
    pub(crate) fn key_names(&self) -> Vec<String> {
        self.keys().into_iter().map(|(key, _)| key).collect()
    }

    fn constant_name(&self, key: &str) -> Ident {
        Ident::new(&key.to_uppercase(), self.name.span())
    }

    fn key(&self) -> String {
        self.options.key.as_ref().map_or_else(|| self.name.to_string(), LitStr::value)
    }

    fn setting(&self, key: &str, doc: &str, defaults: &Defaults<'_>) -> Result<TokenStream> {
        let Some(change) = self.options.change.as_ref().or(defaults.change) else {
            let message = "what takes a changed value? write reload, restart, upgrade or stop";
            return Err(Error::new(self.name.span(), message));
        };
        let mut setting = quote! {
            ::weir_settings::Setting::new(#key, #doc, ::weir_settings::Change::#change)
        };
        if let Some(path) = defaults.path {
            setting.extend(quote!(.within(#path)));
        }
        if self.options.is_advanced {
            setting.extend(quote!(.advanced()));
        }
        if let Some(formerly) = &self.options.formerly {
            setting.extend(quote!(.formerly(#formerly)));
        }
        Ok(setting)
    }

    /// The statement that reads it from `table`.
    pub(crate) fn read(&self) -> Result<TokenStream> {
        let (name, key) = (self.name, self.key());
        if let Some(with) = &self.options.with {
            return Ok(quote!(#with(&mut self.#name, table);));
        }
        let kind = match &self.options.kind {
            Some(kind) => kind.clone(),
            None => kind_of(self.ty)?,
        };
        if kind == "skip" {
            return Ok(TokenStream::new());
        }
        if kind == "flatten" {
            return Ok(quote!(::weir_settings::Section::read(&mut self.#name, table);));
        }
        if kind == "section" {
            return Ok(quote! {
                table.section(#key, |table| ::weir_settings::Section::read(&mut self.#name, table));
            });
        }
        let constants = self.keys().into_iter().map(|(key, _)| self.constant_name(&key));
        let range = self.options.range.as_ref().map(|range| quote!(#range,));
        Ok(quote!(table.#kind(#(Self::#constants,)* #range &mut self.#name);))
    }
}

/// The comment as one line of text.
fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else { return None };
        let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &pair.value else { return None };
        pair.path.is_ident("doc").then(|| text.value().trim().to_owned())
    });
    lines.collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// The method of `TableReader` for fields of this type.
fn kind_of(ty: &Type) -> Result<Ident> {
    let unknown = || {
        let shown = ty.to_token_stream();
        Error::new_spanned(ty, format!("no kind for {shown}: name one, like #[setting(parsed)]"))
    };
    let (name, argument) = last_segment(ty).ok_or_else(unknown)?;
    let inner = argument.and_then(last_segment).map(|(name, _)| name.to_string());
    let kind = match (name.to_string().as_str(), inner.as_deref()) {
        ("bool", _) => "flag",
        ("u8" | "u16" | "u32" | "u64" | "usize", _) => "number",
        ("Duration", _) => "duration",
        ("String", _) => "text",
        ("PathBuf", _) => "path",
        ("Rate", _) => "rate",
        ("Vec", Some("String")) => "texts",
        ("Option", Some("u8" | "u16" | "u32" | "u64" | "usize")) => "optional_number",
        ("Option", Some("Duration")) => "optional_duration",
        ("Option", Some("String")) => "optional_text",
        ("Option", Some("PathBuf")) => "optional_path",
        ("Option", Some("SocketAddr")) => "optional_address",
        ("Option", Some("Secret")) => "secret",
        _ => return Err(unknown()),
    };
    Ok(Ident::new(kind, Span::call_site()))
}

/// `Option<Duration>` -> `Option`, `Duration`.
fn last_segment(ty: &Type) -> Option<(&Ident, Option<&Type>)> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last()?;
    let argument = match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.first(),
        _ => None,
    };
    let argument = argument.and_then(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    Some((&segment.ident, argument))
}
