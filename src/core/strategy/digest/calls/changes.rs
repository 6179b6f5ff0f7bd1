//! Calls that change something, which must not be made again, and the rows of results that came out
//! otherwise than the others.

use super::commands::{join_commands, writes};
use super::names::{COMMANDS, is_among, words_in};
use crate::core::conversation::{Call, Text};
use crate::core::json::Json;
use crate::core::strategy::digest::line::{DigestLine, Part};
use crate::core::strategy::digest::weigh::place::commas;
use crate::core::strategy::maps::Map;
use crate::core::text::{CHANGES, LOOKS, MAY_CHANGE, TELLING, shape, words_of};

/// Rows of a result that are compared with each other; the exceptions among them are at most one in
/// so many.
const LEAST_ROWS: usize = 3;
const MOST_ROWS: usize = 64;
const EXCEPTIONS: usize = 3;
/// The longest result of a change that is told with it (bytes).
const GIVEN_BYTES: usize = 240;
/// Programs that change what is elsewhere, words by which they do, and the words of a command
/// within which these stand.
const PROGRAMS: [&str; 16] = [
    "ansible-playbook",
    "argocd",
    "aws",
    "az",
    "cargo",
    "docker",
    "flux",
    "gcloud",
    "gh",
    "git",
    "helm",
    "kubectl",
    "npm",
    "podman",
    "systemctl",
    "terraform",
];
const DOES: [&str; 57] = [
    "annotate",
    "apply",
    "attach",
    "authorize",
    "checkout",
    "cherry",
    "close",
    "commit",
    "cordon",
    "cp",
    "create",
    "delete",
    "deploy",
    "deregister",
    "destroy",
    "detach",
    "disable",
    "drain",
    "edit",
    "enable",
    "import",
    "install",
    "kill",
    "label",
    "merge",
    "modify",
    "mv",
    "patch",
    "promote",
    "publish",
    "push",
    "put",
    "rebase",
    "register",
    "remove",
    "rename",
    "replace",
    "reset",
    "restart",
    "restore",
    "revert",
    "revoke",
    "rm",
    "rollback",
    "scale",
    "set",
    "start",
    "stop",
    "switch",
    "sync",
    "taint",
    "terminate",
    "uncordon",
    "undo",
    "uninstall",
    "update",
    "upgrade",
];
const LOOKING: [&str; 8] = [
    "describe", "diff", "get", "history", "list", "log", "show", "status",
];
const WORDS_OF_COMMAND: usize = 4;
/// Programs that edit files by a command, with what makes them do so.
const EDIT_IN_PLACE: [(&str, &str); 2] = [("sed", "-i"), ("perl", "-i")];

/// Marks the call that these lines begin with, and the rows that it was given, where its tool
/// changes something. Of the result of such a call, the few rows that came out otherwise than the
/// others are marked, too.
pub(in super::super) fn mark_changes(lines: &mut [DigestLine]) {
    let Some(call) = lines.first().filter(|line| line.part == Part::Call) else {
        return;
    };
    let is_change = changes(&call.text);
    // Attributes of what was looked up are no outcomes.
    if is_change {
        let is_row = |line: &DigestLine| line.part == Part::Row && !line.of_argument;
        for rows in lines.chunk_by_mut(|one, next| is_row(one) && is_row(next)) {
            mark_exceptions(rows);
        }
    }
    if is_change {
        let of_call = lines
            .iter_mut()
            .filter(|line| line.of_argument || line.part == Part::Call);
        of_call.for_each(|line| line.changes = true);
        mark_given(lines);
    }
}

/// Marks what a call that changes something gave, where that is short and has a name or a number:
/// the id of what was made, what it costs now.
fn mark_given(lines: &mut [DigestLine]) {
    let is_given = |line: &&mut DigestLine| !line.is_of_call();
    let given: Vec<&mut DigestLine> = lines.iter_mut().filter(is_given).collect();
    let bytes: usize = given.iter().map(|line| line.text.len()).sum();
    if bytes > GIVEN_BYTES {
        return;
    }
    let of_record = |line: &&mut DigestLine| matches!(line.part, Part::Record | Part::Member);
    for line in given.into_iter().filter(of_record) {
        line.changes |= words_of(&line.text).any(|word| shape(word) >= TELLING);
    }
}

/// Marks the rows that differ from most of their table in a column that has two values.
fn mark_exceptions(rows: &mut [DigestLine]) {
    if !(LEAST_ROWS..=MOST_ROWS).contains(&rows.len()) {
        return;
    }
    let table: Vec<Vec<&str>> = rows.iter().map(|line| cells_of(&line.text)).collect();
    let columns = table.iter().map(Vec::len).min().unwrap_or_default();
    let mut marked = vec![false; rows.len()];
    // The first column names the row.
    for column in 1..columns {
        let cells = || table.iter().filter_map(|row| row.get(column).copied());
        let mut counts: Map<&str, usize> = Map::default();
        for cell in cells() {
            *counts.entry(cell).or_default() += 1;
            if counts.len() > 2 {
                break;
            }
        }
        let few = counts.values().min().copied().unwrap_or_default();
        if counts.len() == 2 && few * EXCEPTIONS <= table.len() {
            for (marked, cell) in marked.iter_mut().zip(cells()) {
                *marked |= counts.get(cell) == Some(&few);
            }
        }
    }
    for (line, marked) in rows.iter_mut().zip(marked) {
        line.changes |= marked;
    }
}

/// The cells of a row.
fn cells_of(row: &str) -> Vec<&str> {
    let mut from = 0;
    let cell = |end: usize| {
        let cell = row.get(from..end).unwrap_or_default();
        from = end + 1;
        cell
    };
    commas(row)
        .into_iter()
        .chain([row.len()])
        .map(cell)
        .collect()
}

/// Whether the tool of a call, given as it is written, changes something: what was done must not be
/// done again.
fn changes(call: &str) -> bool {
    by_name(call).unwrap_or_else(|| runs_change(call))
}

/// Whether a tool changes something, by its name.
pub(in super::super) fn is_change(tool: &str) -> bool {
    by_name(tool).unwrap_or_default()
}

/// Whether a call changes something by its tool's name, or by the command that it was given.
pub(super) fn is_step(call: &Call<'_>) -> bool {
    by_name(&call.name).unwrap_or_else(|| {
        let text = call.arguments.map(Text::decode_or_raw).unwrap_or_default();
        match Json::parse(&text) {
            Some(Json::Object(mut members)) => {
                join_commands(&mut members);
                members.iter().any(|(key, value)| match value {
                    Json::String(command) if is_among(&COMMANDS, key) => is_step_of(command),
                    _ => false,
                })
            }
            Some(Json::String(command)) => is_step_of(&command),
            _ => is_step_of(&text),
        }
    })
}

fn is_step_of(command: &str) -> bool {
    writes(command) || changes_by_command(command)
}

/// The same; `None` where the name does not tell.
fn by_name(call: &str) -> Option<bool> {
    let words = || words_in(call).map(str::to_lowercase);
    let tells = |word: String| {
        let undone = word.strip_prefix("un").unwrap_or(&word);
        let is_change = CHANGES.contains(word.as_str()) || CHANGES.contains(undone);
        (is_change || LOOKS.contains(word.as_str())).then_some(is_change)
    };
    words().find_map(tells).or_else(|| {
        let may = words().any(|word| MAY_CHANGE.contains(word.as_str()));
        may.then_some(true)
    })
}

/// Whether a call runs a command that changes something elsewhere, such as `helm rollback`.
fn runs_change(call: &str) -> bool {
    let given = |key: &&str| {
        let behind = |before: &str| Some(call.split_once(&format!("{before}{key}="))?.1);
        behind("(").or_else(|| behind(", "))
    };
    let program = call.split('(').next().unwrap_or_default();
    if PROGRAMS.contains(&program) {
        let is_break = |c: char| c.is_whitespace() || "(=[],\"'".contains(c);
        let words = call.split(is_break).filter(|word| !word.is_empty());
        // Behind the name of the argument.
        return does(words.skip(2));
    }
    COMMANDS
        .iter()
        .find_map(given)
        .is_some_and(changes_by_command)
}

/// Whether a command changes something elsewhere, or edits files in place.
fn changes_by_command(command: &str) -> bool {
    command.split(['&', '|', ';', '\n']).any(|part| {
        let mut words = part
            .split_whitespace()
            .map(|word| word.trim_matches(['"', '\'', ')', '…']));
        let program = words.next().unwrap_or_default();
        let edits = |(known, how): &(&str, &str)| {
            let mut options = words.clone().take_while(|word| word.starts_with('-'));
            program == *known && options.any(|option| option.starts_with(how))
        };
        EDIT_IN_PLACE.iter().any(edits) || (PROGRAMS.contains(&program) && does(words))
    })
}

/// Whether the first verb among the words behind a program changes something.
fn does<'w>(words: impl Iterator<Item = &'w str>) -> bool {
    let looks = |word: &str| LOOKING.iter().any(|look| word.starts_with(look));
    let mut verbs = words.take(WORDS_OF_COMMAND).peekable();
    // `modify-db-instance`
    let does = |word: &str| {
        let verb = word.split('-').next().unwrap_or(word);
        !word.starts_with('-') && DOES.contains(&verb)
    };
    let verb = verbs.find(|word| looks(word) || does(word));
    // `gh label list`
    let is_noun = verbs.peek().is_some_and(|next| looks(next));
    verb.is_some_and(|verb| !looks(verb) && !is_noun)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_that_came_out_otherwise_is_marked() {
        let rows = ["R-1,sent,5", "R-2,sent,7", "R-3,refused,9"];
        let mut lines = vec![DigestLine::new(Part::Call, 0, "remind(all=true)")];
        lines.extend(rows.map(|row| DigestLine::new(Part::Row, 2, row)));
        mark_changes(&mut lines);
        let marked: Vec<bool> = lines.iter().map(|line| line.changes).collect();
        assert_eq!(marked, [true, false, false, true]);
        lines.iter_mut().for_each(|line| line.changes = false);
        lines[0].text = "eligibility(house=7)".to_owned();
        mark_changes(&mut lines);
        assert!(!lines.iter().any(|line| line.changes), "attributes");
    }

    #[test]
    fn commands_that_change_something_elsewhere_are_changes() {
        for call in [
            "bash(command=helm rollback web 47)",
            "execute_command(requires_approval=true, command=git push)",
            "run(cmd=cd infra && terraform apply -auto-approve)",
            "bash(command=kubectl -n shop rollout)",
            "bash(command=kubectl rollout restart deploy/web)",
            "kubectl(args=-n pay scale deploy/exporter --replicas=0)",
            "kubectl(args=[rollout, undo, deploy/ledger])",
            "bash(command=kubectl label pod web-1 drained=true)",
            "bash(command=aws rds modify-db-instance --db-instance-identifier a)",
            "bash(command=cd src && sed -i 's/a/b/' x.py)",
        ] {
            assert_eq!(changes(call), !call.ends_with("rollout)"), "{call}");
        }
        for call in [
            "bash(command=git status)",
            "bash(command=kubectl get deploy)",
            "bash(command=gh label list)",
            "bash(command=aws rds describe-db-instances --output table)",
            "bash(command=echo git push)",
            "grep(pattern=git push)",
            "kubectl(args=get pods -n pay)",
            "kubectl(args=rollout history deploy/ledger)",
            "bash(command=sed -n 1,9p x.py)",
        ] {
            assert!(!changes(call), "{call}");
        }
    }

    #[test]
    fn names_of_tools_tell_what_changes_something() {
        for tool in [
            "open_dispute",
            "chargeCard",
            "issue_label",
            "split_shipment",
            "linkReferral",
            "agendar_exame",
            "return_order_items",
            "placeOrder",
        ] {
            assert!(is_change(tool), "{tool}");
        }
        for tool in [
            "open_file",
            "open",
            "get_dispute",
            "charge_history",
            "order_status",
            "schedule_get",
            "issue_read",
            "top_customers",
            "list_issues",
            "weather",
        ] {
            assert!(!is_change(tool), "{tool}");
        }
    }
}
