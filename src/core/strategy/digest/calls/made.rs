//! A call, as far as it tells what its result is about, and what of the result only repeats it.

use std::cell::OnceCell;
use std::rc::Rc;

use super::names::{COMMANDS, is_among, words_in};
use super::scope::Scope;
use crate::core::json::Json;
use crate::core::strategy::digest::json_form::{is_id, is_short, may_tell_anything};
use crate::core::strategy::maps::{Set, hash_of};

/// Arguments that members of a result are compared to one by one: more are data.
const MOST_COMPARED: usize = 32;

/// Words in the names of tools that edit files, where they are given the name of one.
const EDITS: [&str; 12] = [
    "append",
    "create",
    "delete",
    "edit",
    "insert",
    "move",
    "overwrite",
    "patch",
    "remove",
    "rename",
    "replace",
    "write",
];
/// Words in the names of tools that set something: the last call tells what is there now.
const OVERRIDES: [&str; 14] = [
    "actualizar",
    "alterar",
    "atualizar",
    "amend",
    "change",
    "modifier",
    "modify",
    "rename",
    "reschedule",
    "revise",
    "set",
    "update",
    "zmień",
    "ändern",
];
/// Arguments that tell which part of a thing is set.
const PLACES: [&str; 13] = [
    "cell", "column", "field", "index", "key", "line", "name", "path", "property", "range", "row",
    "section", "setting",
];
/// Beginnings of arguments that say how a call is to be made, and nothing of the thing.
const OF_CALL: [&str; 5] = ["dry", "force", "if", "notify", "send"];
/// Arguments that are added to what a thing has, rather than replaced.
const ADDED: [&str; 7] = [
    "comment",
    "comments",
    "comentario",
    "kommentar",
    "message",
    "note",
    "reply",
];
/// Words in the names of tools that do a step.
const ACTS: [&str; 18] = [
    "back", "click", "drag", "fill", "forward", "goto", "hover", "navigate", "next", "press",
    "redo", "scroll", "select", "step", "submit", "tap", "type", "undo",
];
/// Words of arguments that say whom or what a call is about.
const TARGETS: [&str; 27] = [
    "account",
    "address",
    "channel",
    "customer",
    "device",
    "email",
    "file",
    "folder",
    "guest",
    "host",
    "invoice",
    "item",
    "member",
    "name",
    "order",
    "path",
    "person",
    "recipient",
    "repo",
    "room",
    "seat",
    "server",
    "service",
    "sku",
    "ticket",
    "to",
    "user",
];
/// Words of arguments that say how much.
const AMOUNTS: [&str; 16] = [
    "amount",
    "betrag",
    "cantidad",
    "ilość",
    "importe",
    "importo",
    "kwota",
    "menge",
    "montant",
    "monto",
    "qty",
    "quantity",
    "quantité",
    "quantidade",
    "total",
    "valor",
];
/// The shortest word of a tool's name that is that of a thing (bytes).
const LEAST_NAME: usize = 3;
/// The longest ending of a file's name, without the dot (bytes).
const ENDING_BYTES: usize = 6;
/// The shortest value that names one thing by letters and digits (bytes).
const LEAST_ID: usize = 4;
/// The arguments with the name of a file.
pub(in super::super) const FILE: [&str; 7] = [
    "path",
    "file_path",
    "filepath",
    "filename",
    "file",
    "target_file",
    "notebook_path",
];
/// What stands before the name of a file in a patch.
pub(in super::super) const HEADS: [&str; 3] =
    ["*** Update File: ", "*** Add File: ", "*** Delete File: "];

/// Whether a tool, by its name, replaces what an earlier call of it set of the same thing.
pub(in super::super) fn overrides(tool: &str) -> bool {
    words_in(tool).any(|word| is_among(&OVERRIDES, word))
}

/// Whether an argument, by its key, stays true beside what a newer call gives under the same key.
pub(in super::super) fn stays_true(key: &str) -> bool {
    let mut words = words_in(key);
    let first = words.next().unwrap_or_default();
    is_among(&OF_CALL, first) || is_among(&ADDED, words.last().unwrap_or(first))
}

/// Whether a tool, by its name, edits files that it is given.
pub(in super::super) fn is_editor(name: &str) -> bool {
    words_in(name).any(|word| is_among(&EDITS, word))
}

/// Whether the tool of a call, given as it is written, does something where its user is: made
/// again, it is another step.
pub(in super::super) fn acts(call: &str) -> bool {
    words_in(call).any(|word| is_among(&ACTS, word))
}

/// Whether a tool keeps the model's own list of what is to be done: each call replaces it.
pub(in super::super) fn keeps_plan(tool: &str) -> bool {
    let name = tool.to_lowercase().replace(['_', '-', '.'], "");
    [
        "updateplan",
        "setplan",
        "writeplan",
        "todowrite",
        "writetodo",
        "updatetodo",
        "settodo",
    ]
    .iter()
    .any(|known| name.contains(known))
}

/// The file that a call, given as it is written, edits: one of several of a patch.
pub(in super::super) fn edited(call: &str) -> Option<&str> {
    let (name, arguments) = call.split_once('(')?;
    if !is_editor(name) || arguments.contains("command=view") {
        return None;
    }
    let behind = |start: &str| {
        let is_key = |at: &usize| {
            let before = arguments.get(..*at).unwrap_or_default();
            before.is_empty() || before.ends_with([' ', '='])
        };
        let mut found = arguments.match_indices(start).map(|(at, _)| at);
        arguments.get(found.find(is_key)? + start.len()..)
    };
    let named = FILE.iter().find_map(|key| behind(&format!("{key}=")));
    let value = named.or_else(|| HEADS.iter().find_map(|head| behind(head)))?;
    let end = value.find([',', ';', ')', '…']).unwrap_or(value.len());
    let file = value.get(..end)?;
    let is_name = file.contains(['.', '/'])
        && !file.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '='));
    Some(file).filter(|_| is_name)
}

/// A call, as far as it tells what its result is about.
#[derive(Debug, Default)]
pub(in super::super) struct Made {
    tool: String,
    pub(in super::super) arguments: Vec<(String, Json)>,
    /// Found at the first question: each item of a list asks.
    scope: OnceCell<Rc<Scope>>,
}

/// Whether an argument, or one within it, is a file, or a text with the name of one that has an
/// ending.
fn names_file(key: &str, value: &Json) -> bool {
    let is_ending = |ending: &str| {
        (1..=ENDING_BYTES).contains(&ending.len())
            && ending.starts_with(|c: char| c.is_ascii_alphabetic())
            && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let is_hidden = |name: &str| name.is_empty() || name.ends_with('/');
    let is_file = |word: &str| {
        let word = word.trim_end_matches(|c: char| !c.is_alphanumeric());
        let named = word.rsplit_once('.');
        named.is_some_and(|(name, ending)| {
            !name.contains('@') && (is_hidden(name) || is_ending(ending))
        })
    };
    match value {
        Json::String(text) if is_among(&FILE, key) => !text.is_empty(),
        Json::String(text) => text
            .split([' ', '\n', '\t', ';', '|', '<', '>'])
            .any(is_file),
        Json::List(items) => items.iter().any(|item| names_file(key, item)),
        Json::Object(members) => members.iter().any(|(key, value)| names_file(key, value)),
        _ => false,
    }
}

impl Made {
    pub(in super::super) fn new(tool: &str, arguments: Vec<(String, Json)>) -> Self {
        Made {
            tool: tool.to_owned(),
            arguments,
            scope: OnceCell::new(),
        }
    }

    pub(in super::super) fn tool(&self) -> &str {
        &self.tool
    }

    /// Whether a key is that of the id of what the tool is named for: `charge_id` of `void_charge`.
    pub(in super::super) fn is_named_like(&self, key: &str) -> bool {
        let thing = words_in(key).next().unwrap_or_default();
        let is_it = |word: &str| {
            let word = word.strip_suffix('s').unwrap_or(word);
            word.len() >= LEAST_NAME && word.eq_ignore_ascii_case(thing)
        };
        words_in(&self.tool).any(is_it)
    }

    /// What the call asks of which thing.
    pub(in super::super) fn scope(&self) -> &Rc<Scope> {
        let of_this = || Rc::new(Scope::of(&self.tool, &self.arguments));
        self.scope.get_or_init(of_this)
    }

    /// The hash of the whole call; `None` where it was given more than is compared.
    pub(in super::super) fn hash(&self) -> Option<u64> {
        let mut given: Vec<_> = self.arguments.iter().map(named_value).collect();
        given.sort_unstable();
        (!self.is_long()).then(|| hash_of(&(self.tool.as_str(), given)))
    }

    /// Whether all that the call was given are short values, and nothing that is run.
    pub(in super::super) fn is_short(&self) -> bool {
        self.arguments
            .iter()
            .all(|(key, value)| is_short(value) && !is_among(&COMMANDS, key))
    }

    /// Whether the call was given the name of a file, by its key or its ending: its result may
    /// stand in there.
    pub(in super::super) fn may_read_file(&self) -> bool {
        let mut arguments = self.arguments.iter();
        arguments.any(|(key, value)| names_file(key, value))
    }

    /// Whether the call replaces what an earlier one of its tool set, whatever else it was given.
    pub(in super::super) fn overrides(&self) -> bool {
        overrides(&self.tool)
    }

    /// Of a call that replaces what an earlier one of its tool set: the argument that names the
    /// thing that it changes, and the hash of the tool and the thing.
    pub(in super::super) fn target(&self) -> Option<(&str, u64)> {
        if self.is_long() || !overrides(&self.tool) {
            return None;
        }
        // Any other id is that of what the thing is in or belongs to: a sheet, a person.
        let is_of_tool = |word: &str| {
            let mut of_tool = words_in(&self.tool).filter_map(|of| of.get(..word.len()));
            word.len() > 2 && of_tool.any(|of| of.eq_ignore_ascii_case(word))
        };
        let names_it = |key: &str| key.eq_ignore_ascii_case("id") || words_in(key).any(is_of_tool);
        let is_target =
            |(key, value): &&(String, Json)| is_id(key) && names_it(key) && value.is_scalar();
        let (target, value) = self.arguments.iter().find(is_target)?;
        let is_place = |(key, _): &&(String, Json)| is_among(&PLACES, key);
        let places = self.arguments.iter().filter(is_place).map(named_value);
        let places: Vec<(String, String)> = places.collect();
        let hash = hash_of(&(self.tool.as_str(), target, value.to_string(), places));
        Some((target, hash))
    }

    /// The short values that the call was given, but for commands, which are alike in how they are
    /// run, by their hashes.
    pub(in super::super) fn values(&self) -> Set<u64> {
        let is_command = |(key, _): &(String, Json)| is_among(&COMMANDS, key);
        if self.is_long() || self.arguments.iter().any(is_command) {
            return Set::default();
        }
        let short = self.arguments.iter().filter(|(_, value)| is_short(value));
        short.map(|member| hash_of(&named_value(member))).collect()
    }

    /// Those of these values that are the name of one thing, by what they are for or how they look:
    /// `AI4401` or `Ann`, and not `10:00`.
    pub(in super::super) fn names(&self) -> Set<u64> {
        let short = self.arguments.iter().filter(|(_, value)| is_short(value));
        let names = short.filter(|(key, value)| match value {
            _ if is_id(key) || words_in(key).any(|word| is_among(&TARGETS, word)) => true,
            Json::String(text) => names_one_thing(text),
            _ => false,
        });
        names.map(|member| hash_of(&named_value(member))).collect()
    }

    /// Those that say how much of something is changed.
    pub(in super::super) fn amounts(&self) -> Set<u64> {
        let is_amount = |key: &str| words_in(key).any(|word| is_among(&AMOUNTS, word));
        let amounts = self
            .arguments
            .iter()
            .filter(|(key, value)| is_short(value) && is_amount(key));
        amounts
            .map(|member| hash_of(&named_value(member)))
            .collect()
    }

    /// The hashes of the tool with each id that it was given.
    pub(in super::super) fn about(&self) -> impl Iterator<Item = u64> {
        let compared = self.arguments.iter().take(MOST_COMPARED);
        let ids = compared.filter(|(key, value)| is_id(key) && is_short(value));
        ids.map(|(key, value)| hash_of(&(self.tool.as_str(), key, value.to_string())))
    }
    /// Whether the call was given more than is compared to its result.
    pub(in super::super) fn is_long(&self) -> bool {
        self.arguments.len() > MOST_COMPARED
    }

    /// Whether the call was given this value.
    pub(in super::super) fn has(&self, value: &Json) -> bool {
        let mut compared = self.arguments.iter().take(MOST_COMPARED);
        compared.any(|(_, given)| given == value)
    }

    /// Whether a member of the result identifies it. Codes and numbers may tell anything: they do
    /// where they were asked for, or have letters and digits.
    pub(in super::super) fn identifies(&self, key: &str, value: &Json) -> bool {
        if !is_id(key) || !is_short(value) || is_no_id(value) {
            return false;
        }
        !may_tell_anything(key)
            || self.has(value)
            || matches!(value, Json::String(text) if is_mixed(text))
    }

    /// Whether all that the call was given identifies its result.
    pub(in super::super) fn only_names(&self, result: &Json) -> bool {
        let Json::Object(members) = result else {
            return false;
        };
        if self.is_long() {
            return false;
        }
        let ids = || {
            members
                .iter()
                .filter(|(key, value)| self.identifies(key, value))
        };
        self.arguments
            .iter()
            .all(|(_, given)| ids().any(|(_, value)| value == given))
    }
}

/// Whether a text looks like the name of one thing: an id, a path, an address, or a word that
/// begins large.
fn names_one_thing(text: &str) -> bool {
    let begins_large = text.starts_with(char::is_uppercase) && text.contains(char::is_lowercase);
    let is_word = text.len() >= LEAST_ID && !text.contains(' ');
    begins_large || (is_word && (is_mixed(text) || text.contains(['@', '/'])))
}

/// Whether a text has letters and digits.
fn is_mixed(text: &str) -> bool {
    text.bytes().any(|b| b.is_ascii_digit()) && text.chars().any(char::is_alphabetic)
}

/// Whether a value under the key of an id says that there is none.
fn is_no_id(value: &Json) -> bool {
    match value {
        Json::String(text) => text.is_empty(),
        Json::Number(number) => &**number == "0",
        value => value.is_scalar(),
    }
}

pub(super) fn named_value((key, value): &(String, Json)) -> (String, String) {
    (key.clone(), value.to_string())
}

/// Whether what a call was given has one command or statement after another, not only one in a
/// folder.
pub(in super::super) fn has_steps(told: &str) -> bool {
    let count = |mark: &str| told.matches(mark).count();
    count("&& ") + count("; ") > count("cd ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_from_one_command_in_a_folder() {
        let several = [
            "sh(make && make test)",
            "psql(sql=begin; drop table a;)",
            "sh(cd a && b && c)",
        ];
        assert!(several.iter().all(|told| has_steps(told)));
        let one = ["sh(cd a && make)", "psql(sql=drop table a;)", "sh(make)"];
        assert!(!one.iter().any(|told| has_steps(told)));
    }
}
