//! What an upgrade costs a conversation: a version that writes other text shares no checkpoint with
//! the one before it, so that what it sends instead is read anew by the upstream.

use std::collections::HashSet;

use baler::core::conversation::{Fingerprint, PrefixHash};
use baler::core::policy::Policy;

use super::replica::{Measures, Replica, Served, Upstream};
use super::{Conversation, SMALL, TRIGGER, WINDOW, made};
use crate::costs::{body, request_points};
use crate::invariants::policy_of;

/// Requests of a conversation during which old and new replicas serve it in turns.
const ROLLOUT: usize = 20;

/// What happens in the middle of the requests that are sent compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upgrade {
    /// Nothing.
    None,
    /// A new process of the same version.
    Restart,
    /// One that writes other text.
    OtherText,
    /// The same, after a while in which both serve the conversation in turns.
    Rollout,
}

/// An upstream's prompt cache: all prefixes that it has read.
#[derive(Default)]
struct Cache(HashSet<Fingerprint>);

impl Cache {
    /// Tokens of a list behind the longest prefix that was read before.
    fn read(&mut self, list: &[String], tokens: impl Fn(&String) -> u64) -> u64 {
        let mut hash = PrefixHash::new(&Fingerprint::of(b"cache"));
        let mut anew = 0;
        for message in list {
            hash.push(&Fingerprint::of(message.as_bytes()));
            if self.0.insert(hash.digest()) {
                anew += tokens(message);
            }
        }
        anew
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Bill {
    conversations: u64,
    rewrites: u64,
    sent: u64,
    anew: u64,
    /// Tokens of the list that the upgrade falls on.
    standing: u64,
}

/// The list as a version with another text would have it: every message that is Baler's differs.
fn rewritten(mut list: Vec<String>, client: &[String]) -> Vec<String> {
    let client: HashSet<&String> = client.iter().collect();
    for message in &mut list {
        if !client.contains(&*message) {
            message.push(' ');
        }
    }
    list
}

struct Play<'p> {
    policy: &'p Policy,
    upstream: Upstream,
    measures: &'p Measures,
}

impl Play<'_> {
    fn serve(&self, replica: &Replica, messages: &[String]) -> Served {
        let to = (&self.upstream, self.measures);
        replica.serve(&body(messages), self.policy, None, to)
    }

    /// The request that an upgrade falls on: the middle one of those that are sent compacted.
    fn middle(&self, messages: &Conversation) -> Option<usize> {
        let replica = Replica::fresh();
        let points = request_points(messages);
        let compacted = points.iter().position(|length| {
            let served = self.serve(&replica, &messages[..*length]);
            served.list.len() < *length
        });
        compacted.map(|first| usize::midpoint(first, points.len()))
    }

    fn bill(&self, conversations: &[Conversation], upgrade: Upgrade) -> Bill {
        let mut bill = Bill::default();
        for messages in conversations {
            let Some(middle) = self.middle(messages) else {
                continue;
            };
            bill.conversations += 1;
            self.add(&mut bill, messages, (upgrade, middle));
        }
        bill
    }

    fn add(&self, bill: &mut Bill, messages: &Conversation, (upgrade, middle): (Upgrade, usize)) {
        let (old, new) = (Replica::fresh(), Replica::of_version(1));
        let same = Replica::fresh();
        let mut cache = Cache::default();
        let mut before: Option<Vec<String>> = None;
        for (turn, length) in request_points(messages).into_iter().enumerate() {
            let is_new = match upgrade {
                Upgrade::None | Upgrade::Restart => false,
                Upgrade::OtherText => turn >= middle,
                Upgrade::Rollout => {
                    turn >= middle && (turn >= middle + ROLLOUT || (turn - middle) % 2 == 0)
                }
            };
            let restarted = upgrade == Upgrade::Restart && turn >= middle;
            let replica = match (is_new, restarted) {
                (true, _) => &new,
                (false, true) => &same,
                (false, false) => &old,
            };
            let list = self.serve(replica, &messages[..length]).list;
            let list = if is_new {
                rewritten(list, messages)
            } else {
                list
            };
            let tokens = |message: &String| {
                let message = message.trim_end().to_owned();
                self.upstream.count(&[message], self.measures)
            };
            let sent = list.iter().map(tokens).sum::<u64>();
            bill.sent += sent;
            bill.anew += cache.read(&list, tokens);
            bill.standing += if turn == middle { sent } else { 0 };
            let follows = before.is_none_or(|before| list.starts_with(&before));
            bill.rewrites += u64::from(!follows);
            before = Some(list);
        }
    }
}

#[test]
fn an_upgrade_costs_a_compacted_conversation_one_reading_of_its_list_at_most() {
    let (policy, measures) = (
        policy_of(&format!("[[policy]]\n{SMALL}")),
        Measures::default(),
    );
    let upstream = Upstream {
        window: WINDOW,
        factor: 1.0,
        uneven: 0.0,
        hidden: 0,
    };
    let play = Play {
        policy: &policy,
        upstream,
        measures: &measures,
    };
    let conversations = made();
    let kinds = [
        Upgrade::None,
        Upgrade::Restart,
        Upgrade::OtherText,
        Upgrade::Rollout,
    ];
    let bills = kinds.map(|upgrade| play.bill(&conversations, upgrade));
    let [none, restart, other, rollout] = bills;
    for (upgrade, bill) in kinds.iter().zip(bills) {
        let more = bill.anew.saturating_sub(none.anew) / none.conversations;
        println!(
            "{upgrade:?}: {} rewrites, {} prompt tokens sent, {} of them read anew; {more} more \
             for each of {} conversations, whose list was {} tokens then",
            bill.rewrites,
            bill.sent,
            bill.anew,
            bill.conversations,
            none.standing / none.conversations,
        );
    }
    assert!(none.conversations > 1 && none.rewrites > 3, "{none:?}");
    // The same text is derived again.
    assert_eq!((restart.rewrites, restart.anew), (none.rewrites, none.anew));
    assert!(other.rewrites > none.rewrites, "{other:?}");
    assert!(
        other.rewrites <= none.rewrites + none.conversations,
        "{other:?}"
    );
    assert!(other.anew <= none.anew + none.standing, "{other:?}");
    // In turns the list changes with each request, but the upstream has read both.
    let most = other.anew + 3 * TRIGGER * none.conversations;
    assert!(rollout.anew <= most, "{rollout:?}");
}
