//! For model families whose templates insist on turns: where a compaction puts two messages of one side next to each
//! other, or an answer first, a short synthetic message goes in between. Head and tail stay byte for byte.

use crate::core::conversation::Role;
use crate::core::edit::Draft;
use crate::core::edit::{Edit, Replacement};
use crate::core::wire::chat::Message;

/// What stands for an assistant's turn that was removed.
const ASSISTANT: &str = r#"{"role":"assistant","content":"[earlier messages were condensed]"}"#;
/// What stands for a user's turn that was removed.
const USER: &str = r#"{"role":"user","content":"[earlier messages were condensed]"}"#;

/// Takes earlier bridges away; what is left of the list decides anew where any are needed.
pub(super) fn unbridge(draft: &mut Draft<'_>) {
    for at in 0..draft.conversation().messages.len() {
        let Edit::Stand(new) = draft.edit(at) else {
            continue;
        };
        if new.iter().any(|message| is_bridge(&message.json)) {
            let left: Vec<Replacement> = new
                .iter()
                .filter(|message| !is_bridge(&message.json))
                .cloned()
                .collect();
            draft.stand(at, left);
        }
    }
}

fn is_bridge(json: &str) -> bool {
    json == ASSISTANT || json == USER
}

/// Puts bridges where removed messages leave two of one side next to each other.
pub(super) fn bridge(draft: &mut Draft<'_>) {
    let mut before: Option<(usize, Role)> = None;
    for at in 0..draft.conversation().messages.len() {
        let roles: Vec<Role> = draft
            .raws(at)
            .iter()
            .filter_map(|raw| Some(Message::parse(raw).ok()?.role))
            .collect();
        let (Some(first), Some(last)) = (roles.first().copied(), roles.last().copied()) else {
            continue;
        };
        if first.is_instruction() {
            continue;
        }
        if let Some(bridge) = between(before.map(|(_, role)| role), first) {
            let from = before.map_or(0, |(at, _)| at + 1);
            put(draft, from, at, bridge);
        }
        before = Some((at, last));
    }
}

/// What has to stand between two neighbours.
fn between(before: Option<Role>, after: Role) -> Option<&'static str> {
    match (before, after) {
        (None, Role::Assistant) | (Some(Role::Assistant), Role::Assistant) => Some(USER),
        (Some(Role::User | Role::Tool | Role::Function), Role::User) => Some(ASSISTANT),
        _ => None,
    }
}

/// Puts a bridge before what stands at `at`: in its own place when that is synthetic, in that of a removed message
/// otherwise. Neighbours that the client put there itself stay as they are.
fn put(draft: &mut Draft<'_>, from: usize, at: usize, bridge: &str) {
    let Some(new) = Replacement::new(bridge.to_owned(), draft.conversation().encoding) else {
        return;
    };
    if let Edit::Stand(own) = draft.edit(at) {
        let all = std::iter::once(new).chain(own.iter().cloned()).collect();
        draft.stand(at, all);
    } else if let Some(Edit::Stand(own)) = from.checked_sub(1).map(|before| draft.edit(before)) {
        let all = own.iter().cloned().chain([new]).collect();
        draft.stand(from - 1, all);
    } else if let Some(gone) = (from..at).find(|gone| *draft.edit(*gone) == Edit::Drop) {
        draft.stand(gone, vec![new]);
    }
}
