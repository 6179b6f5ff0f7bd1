//! Reads and parses Rust sources for the tests of the architecture. Items for tests are left out.

use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Attribute, Item};

/// One file of the repository.
pub struct Source {
    /// Relative to the repository, with `/`.
    pub path: String,
    pub text: String,
    /// The syntax tree without items that exist for tests only.
    pub syntax: syn::File,
    /// Lines of the file that belong to items for tests.
    pub test_lines: usize,
}

/// A function, as far as its length and parameters go.
pub struct Function {
    pub name: String,
    /// The line of `fn`, counted from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace, with comments and blank lines.
    pub lines: usize,
    /// Parameters with `self`.
    pub parameters: usize,
    /// Whether an attribute gives a reason for the number of parameters, or a trait of others does.
    pub reasoned: bool,
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below `folder`, sorted, relative to the repository.
pub fn rust_files(folder: &str) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::from(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path.to_str().unwrap().replace('\\', "/"));
            }
        }
    }
    found.sort();
    found
}

/// Parses all files below `folder`.
pub fn sources(folder: &str) -> Vec<Source> {
    let files = rust_files(folder);
    assert!(files.len() > 20, "{folder} holds the sources");
    files.into_iter().map(Source::read).collect()
}

impl Source {
    fn read(path: String) -> Self {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        let mut syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut test_lines = 0;
        syntax
            .items
            .retain(|item| keeps(attributes(item), item, &mut test_lines));
        for item in &mut syntax.items {
            if let Item::Impl(block) = item {
                block.items.retain(|item| match item {
                    syn::ImplItem::Fn(method) => keeps(&method.attrs, method, &mut test_lines),
                    _ => true,
                });
            }
        }
        Source {
            path,
            text,
            syntax,
            test_lines,
        }
    }

    /// The values of all string and byte string literals, those in macros and attributes included,
    /// each with its line. Documentation is left out.
    pub fn literals(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        collect_literals(self.syntax.to_token_stream(), &mut found);
        found
    }

    pub fn functions(&self) -> Vec<Function> {
        struct Visitor {
            found: Vec<Function>,
            of_trait: bool,
        }
        impl Visitor {
            fn add(&mut self, attributes: &[Attribute], signature: &syn::Signature, end: usize) {
                let line = signature.fn_token.span.start().line;
                let reasoned = attributes.iter().any(|attribute| {
                    let tokens = attribute.meta.to_token_stream().to_string();
                    tokens.contains("too_many_arguments") && tokens.contains("reason")
                });
                self.found.push(Function {
                    name: signature.ident.to_string(),
                    line,
                    lines: end - line + 1,
                    parameters: signature.inputs.len(),
                    reasoned: reasoned || self.of_trait,
                });
            }
        }
        impl<'ast> Visit<'ast> for Visitor {
            fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
                self.add(&item.attrs, &item.sig, end_of(&item.block));
                visit::visit_item_fn(self, item);
            }

            fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
                self.of_trait = item.trait_.is_some();
                visit::visit_item_impl(self, item);
                self.of_trait = false;
            }

            fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
                self.add(&item.attrs, &item.sig, end_of(&item.block));
                visit::visit_impl_item_fn(self, item);
            }

            fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
                let line = item.sig.fn_token.span.start().line;
                self.add(
                    &item.attrs,
                    &item.sig,
                    item.default.as_ref().map_or(line, end_of),
                );
                visit::visit_trait_item_fn(self, item);
            }
        }
        let mut visitor = Visitor {
            found: Vec::new(),
            of_trait: false,
        };
        visitor.visit_file(&self.syntax);
        visitor.found
    }

    /// Fields of types that are read from or written to JSON by derived code: line and name.
    pub fn derived_fields(&self) -> Vec<(usize, String)> {
        struct Visitor(Vec<(usize, String)>);
        impl<'ast> Visit<'ast> for Visitor {
            fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
                let derives = item.attrs.iter().any(|attribute| {
                    let tokens = attribute.meta.to_token_stream().to_string();
                    tokens.starts_with("derive") && tokens.contains("erialize")
                });
                if derives {
                    let named = item.fields.iter().filter_map(|field| field.ident.as_ref());
                    self.0
                        .extend(named.map(|name| (name.span().start().line, name.to_string())));
                }
                visit::visit_item_struct(self, item);
            }
        }
        let mut visitor = Visitor(Vec::new());
        visitor.visit_file(&self.syntax);
        visitor.0
    }
}

fn end_of(block: &syn::Block) -> usize {
    block.brace_token.span.close().end().line
}

/// Whether an item stays; the lines of one that does not are added to `test_lines`.
fn keeps(attributes: &[Attribute], item: &impl ToTokens, test_lines: &mut usize) -> bool {
    let for_tests = attributes.iter().any(|attribute| {
        let tokens = attribute.meta.to_token_stream().to_string();
        tokens == "test" || tokens.starts_with("cfg") && tokens.contains("test")
    });
    if for_tests {
        let spans: Vec<_> = item.to_token_stream().into_iter().collect();
        let line = |tree: Option<&TokenTree>, end: bool| {
            tree.map_or(0, |tree| match end {
                true => tree.span().end().line,
                false => tree.span().start().line,
            })
        };
        *test_lines += line(spans.last(), true) + 1 - line(spans.first(), false);
    }
    !for_tests
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn collect_literals(tokens: TokenStream, found: &mut Vec<(usize, String)>) {
    let mut after_hash = false;
    for token in tokens {
        let attribute = after_hash;
        after_hash = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#')
            || attribute && matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '!');
        match token {
            TokenTree::Literal(literal) => {
                let line = literal.span().start().line;
                match syn::Lit::new(literal) {
                    syn::Lit::Str(text) => found.push((line, text.value())),
                    syn::Lit::ByteStr(bytes) => {
                        let text = String::from_utf8_lossy(&bytes.value()).into_owned();
                        found.push((line, text));
                    }
                    _ => {}
                }
            }
            TokenTree::Group(group) => {
                let documents = attribute
                    && group.delimiter() == Delimiter::Bracket
                    && matches!(
                        group.stream().into_iter().next(),
                        Some(TokenTree::Ident(name)) if name == "doc"
                    );
                if !documents {
                    collect_literals(group.stream(), found);
                }
            }
            _ => {}
        }
    }
}
