//! What of a result only repeats what its call was given.

use super::changes::is_change;
use super::made::{Made, named_value};
use crate::core::json::Json;
use crate::core::strategy::maps::Set;

/// Members with scalars, which tell what a call asked for: key and value.
type Asked = Set<(String, String)>;

/// The scalars among the arguments of a call.
fn asked_by(made: &Made) -> Asked {
    let scalars = made.arguments.iter().filter(|(_, value)| value.is_scalar());
    scalars.map(named_value).collect()
}

/// Takes away values that only repeat the call's arguments: of an object those that it itself has,
/// unless it has no others, and of a list of objects those that all of them have. In objects inside
/// of one they stay: there, another value may stand beside them. A map from ids to objects that
/// have these ids becomes the list of them.
pub(in super::super) fn without_echo(value: &mut Json, made: &Made) {
    let asked = asked_by(made);
    if let Json::Object(members) = value {
        take_away(members, &asked);
    }
    // What a change was given is of one thing, and lists in its answer may have others, too.
    if !is_change(made.tool()) {
        lists_without_echo(value, &asked);
    }
}

/// Takes away values from the items of the lists in a value.
fn lists_without_echo(value: &mut Json, asked: &Asked) {
    match value {
        Json::Object(members) => {
            for (_, value) in members.iter_mut().filter(|(_, value)| !value.is_scalar()) {
                lists_without_echo(value, asked);
            }
            let has_id = |(key, value): &(String, Json)| match value {
                Json::Object(inner) => inner
                    .iter()
                    .any(|(_, value)| matches!(value, Json::String(text) if text == key)),
                _ => false,
            };
            if !members.is_empty() && members.iter().all(has_id) {
                let items = members.drain(..).map(|(_, value)| value).collect();
                *value = Json::List(items);
            }
        }
        Json::List(items) => {
            let in_all = in_all(items, asked);
            for item in items.iter_mut().filter(|item| !item.is_scalar()) {
                if let Json::Object(members) = item {
                    take_away(members, &in_all);
                }
                lists_without_echo(item, &in_all);
            }
        }
        _ => {}
    }
}

/// Takes away members that were asked for, unless all of them were.
fn take_away(members: &mut Vec<(String, Json)>, asked: &Asked) {
    let is_echo =
        |member: &(String, Json)| member.1.is_scalar() && asked.contains(&named_value(member));
    if !asked.is_empty() && !members.iter().all(is_echo) {
        members.retain(|member| !is_echo(member));
    }
}

/// Those of the values asked for that all items have.
fn in_all(items: &[Json], asked: &Asked) -> Asked {
    let mut common: Option<Asked> = None;
    for item in items {
        if asked.is_empty() || common.as_ref().is_some_and(Set::is_empty) {
            break;
        }
        let wanted = common.as_ref().unwrap_or(asked);
        let members: &[(String, Json)] = match item {
            Json::Object(members) => members,
            _ => &[],
        };
        let scalars = members.iter().filter(|(_, value)| value.is_scalar());
        let has = scalars
            .map(named_value)
            .filter(|named| wanted.contains(named));
        common = Some(has.collect());
    }
    common.unwrap_or_default()
}
