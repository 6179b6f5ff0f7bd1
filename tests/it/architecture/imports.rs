//! Which file of the core uses which: paths resolved to the file that defines what they name,
//! through re-exports.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::Visit;
use syn::{Item, UseTree, Visibility};

use super::sources::Source;

/// A path as segments from the root of the crate, or from the name of another crate.
type Path = Vec<String>;

/// What a file declares and names.
struct Module {
    /// The module's path: `["core", "edit", "draft"]`.
    path: Path,
    items: BTreeSet<String>,
    /// Imported names, and whether the import is also an export.
    imports: HashMap<String, (Path, bool)>,
    /// Modules of which everything is imported.
    globs: Vec<Path>,
    /// Paths outside of `use`, as written, each with whether a call or a path goes on behind it.
    mentioned: Vec<(Path, bool)>,
}

/// The files and their modules.
pub struct Crate {
    modules: Vec<Module>,
    by_path: HashMap<Path, usize>,
}

impl Crate {
    pub fn of(sources: &[Source]) -> Self {
        let paths: Vec<Path> = sources
            .iter()
            .map(|source| module_path(&source.path))
            .collect();
        let by_path: HashMap<Path, usize> = paths.iter().cloned().zip(0..).collect();
        let modules = sources
            .iter()
            .zip(paths)
            .map(|(source, path)| Module::read(source, path, &by_path))
            .collect();
        Crate { modules, by_path }
    }

    /// For every file the files it uses, each with one of the paths that name it.
    pub fn edges(&self) -> Vec<BTreeMap<usize, String>> {
        let edges_of = |at: usize| {
            let named = self.named(&self.modules[at]);
            let mut edges = BTreeMap::new();
            for path in named {
                if let Some((to, false)) = self.resolve(&path, 0)
                    && to != at
                {
                    edges.entry(to).or_insert_with(|| path.join("::"));
                }
            }
            edges
        };
        (0..self.modules.len()).map(edges_of).collect()
    }

    /// Every path that file `at` imports or mentions, from the root of the crate or as written.
    pub fn mentions_of(&self, at: usize) -> Vec<Path> {
        let module = &self.modules[at];
        let imported = module.imports.values().map(|(path, _)| path.clone());
        let written = module.mentioned.iter().map(|(path, _)| path.clone());
        let globs = module.globs.iter().cloned();
        imported.chain(written).chain(globs).collect()
    }

    /// The paths of [`Self::mentions_of`] that lead into this crate, without `crate`.
    pub fn crate_paths_of(&self, at: usize) -> Vec<Path> {
        let module = &self.modules[at];
        let into_crate = |path: &Path| absolute(path, &module.path, &self.by_path);
        let written = module.mentioned.iter().map(|(path, _)| path);
        let imported = module.imports.values().map(|(path, _)| path.clone());
        written
            .filter_map(into_crate)
            .chain(imported)
            .chain(module.globs.iter().cloned())
            .collect()
    }

    fn named(&self, module: &Module) -> Vec<Path> {
        let mut named: Vec<Path> = module
            .imports
            .values()
            .filter(|(_, exported)| !exported)
            .map(|(path, _)| path.clone())
            .collect();
        for (path, goes_on) in &module.mentioned {
            let (first, rest) = (&path[0], &path[1..]);
            if let Some((target, exported)) = module.imports.get(first) {
                // A variable may have the name of a function that the file hands on.
                let variable = *exported && !goes_on && starts_lower(first) && rest.is_empty();
                if !variable {
                    named.push([target, rest].concat());
                }
            } else if let Some(path) = absolute(path, &module.path, &self.by_path) {
                named.push(path);
            }
        }
        named
    }

    /// The file that defines what `path` names, and whether it names that file's module as a whole.
    fn resolve(&self, path: &[String], depth: usize) -> Option<(usize, bool)> {
        let known = (1..=path.len())
            .rev()
            .find(|length| self.by_path.contains_key(&path[..*length]))?;
        let file = self.by_path[&path[..known]];
        let Some(name) = path.get(known) else {
            return Some((file, true));
        };
        let module = &self.modules[file];
        if depth > 8 || module.items.contains(name) {
            return Some((file, false));
        }
        if let Some((target, _)) = module.imports.get(name) {
            return self.resolve(&[target, &path[known + 1..]].concat(), depth + 1);
        }
        let exported = module.globs.iter().find_map(|glob| {
            let (from, _) = self.resolve(glob, depth + 1)?;
            self.modules[from]
                .items
                .contains(name)
                .then_some((from, false))
        });
        exported.or(Some((file, false)))
    }
}

impl Module {
    fn read(source: &Source, path: Path, by_path: &HashMap<Path, usize>) -> Self {
        struct Uses<'a>(Vec<&'a syn::ItemUse>);
        impl<'ast> Visit<'ast> for Uses<'ast> {
            fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
                self.0.push(item);
            }
        }
        let mut module = Module {
            path,
            items: source.syntax.items.iter().filter_map(name_of).collect(),
            imports: HashMap::new(),
            globs: Vec::new(),
            mentioned: Vec::new(),
        };
        let mut uses = Uses(Vec::new());
        uses.visit_file(&source.syntax);
        for item in uses.0 {
            let exported = !matches!(item.vis, Visibility::Inherited);
            let mut leaves = Vec::new();
            flatten(&item.tree, &mut Vec::new(), &mut leaves);
            for (alias, path) in leaves {
                let path = absolute(&path, &module.path, by_path).unwrap_or(path);
                match alias {
                    Some(alias) => drop(module.imports.insert(alias, (path, exported))),
                    None => module.globs.push(path),
                }
            }
        }
        for item in &source.syntax.items {
            if !matches!(item, Item::Use(_)) {
                collect_paths(item.to_token_stream(), &mut module.mentioned);
            }
        }
        module
    }
}

fn starts_lower(name: &str) -> bool {
    name.starts_with(|first: char| first.is_lowercase())
}

/// `src/core/edit/draft.rs` as `["core", "edit", "draft"]`.
fn module_path(file: &str) -> Path {
    let inner = file.trim_start_matches("src/").trim_end_matches(".rs");
    let mut path: Path = inner.split('/').map(str::to_owned).collect();
    if path
        .last()
        .is_some_and(|last| last == "mod" || last == "lib")
    {
        path.pop();
    }
    path
}

/// A path as written in `module`, from the root of the crate; `None` where it starts with none of
/// this crate's modules.
fn absolute(path: &[String], module: &[String], by_path: &HashMap<Path, usize>) -> Option<Path> {
    let mut base = module.to_vec();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => return Some(path[1..].to_vec()),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|segment| segment == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        child => {
            base.push(child.to_owned());
            let known = by_path.contains_key(&base);
            base.pop();
            if !known || path.len() == 1 {
                return None;
            }
        }
    }
    base.extend_from_slice(rest);
    Some(base)
}

/// The names that a `use` brings in, each with its path; no name for a glob.
fn flatten(tree: &UseTree, before: &mut Path, leaves: &mut Vec<(Option<String>, Path)>) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, leaves);
            before.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            leaves.push((before.last().cloned(), before.clone()));
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            leaves.push((Some(name.clone()), [&before[..], &[name]].concat()));
        }
        UseTree::Rename(rename) => {
            let path = [&before[..], &[rename.ident.to_string()]].concat();
            leaves.push((Some(rename.rename.to_string()), path));
        }
        UseTree::Glob(_) => leaves.push((None, before.clone())),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, before, leaves);
            }
        }
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Every path in `tokens`, macros included: `a`, `a::b`. A field or method behind a dot is none.
fn collect_paths(tokens: TokenStream, found: &mut Vec<(Path, bool)>) {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let punct = |at: usize, wanted: char| match trees.get(at) {
        Some(TokenTree::Punct(punct)) => punct.as_char() == wanted,
        _ => false,
    };
    let arguments = |at: usize| match trees.get(at) {
        Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Parenthesis,
        _ => false,
    };
    let mut at = 0;
    while at < trees.len() {
        match &trees[at] {
            TokenTree::Group(group) => collect_paths(group.stream(), found),
            TokenTree::Ident(first) => {
                let member = at > 0 && punct(at - 1, '.') && !(at > 1 && punct(at - 2, '.'));
                let mut path = vec![first.to_string()];
                while punct(at + 1, ':') && punct(at + 2, ':') {
                    let Some(TokenTree::Ident(next)) = trees.get(at + 3) else {
                        break;
                    };
                    path.push(next.to_string());
                    at += 3;
                }
                let goes_on =
                    path.len() > 1 || punct(at + 1, ':') && punct(at + 2, ':') || arguments(at + 1);
                if !member {
                    found.push((path, goes_on));
                }
            }
            _ => {}
        }
        at += 1;
    }
}
