//! I5 without a store: replicas that serve a conversation in turns, and replicas that forget all
//! they knew, rewrite it hardly more often than one process does, however the upstream counts.

mod replica;

use baler::core::policy::Policy;

use crate::costs::{body, request_points};
use crate::invariants::policy_of;
use crate::realistic;
use crate::support::long;
use crate::traces;

use self::replica::{Measures, Replica, Served, Tally, Upstream};

type Conversation = Vec<String>;

/// Who serves a request.
#[derive(Debug, Clone, Copy)]
enum Setting {
    /// So many replicas in turns.
    Turns(usize),
    /// One, which is restarted before every 25th request.
    Restarts,
    /// The same, with clients that send `x-baler-usage` back.
    RestartsTold,
    /// Two in turns, of which one is restarted before every 25th request.
    TurnsAndRestarts,
}

const SETTINGS: [Setting; 6] = [
    Setting::Turns(1),
    Setting::Turns(2),
    Setting::Turns(3),
    Setting::Restarts,
    Setting::RestartsTold,
    Setting::TurnsAndRestarts,
];

fn play(
    setting: Setting,
    conversations: &[Conversation],
    policy: &Policy,
    (upstream, measures): (&Upstream, &Measures),
) -> Tally {
    let replicas = match setting {
        Setting::Turns(count) => count,
        Setting::TurnsAndRestarts => 2,
        Setting::Restarts | Setting::RestartsTold => 1,
    };
    let restarts = !matches!(setting, Setting::Turns(_));
    let mut replicas: Vec<Replica> = (0..replicas).map(|_| Replica::fresh()).collect();
    let mut tally = Tally::default();
    for messages in conversations {
        let mut before: Option<Served> = None;
        for (turn, length) in request_points(messages).into_iter().enumerate() {
            let at = turn % replicas.len();
            if restarts && tally.requests % 25 == 24 {
                replicas[at] = Replica::fresh();
            }
            let told = before.as_ref().map(|before| before.told);
            let prior = told.filter(|_| matches!(setting, Setting::RestartsTold));
            let body = body(&messages[..length]);
            let served = replicas[at].serve(&body, policy, prior, (upstream, measures));
            let list = before.as_ref().map(|before| before.list.as_slice());
            tally.add(list, &served);
            before = Some(served);
        }
    }
    tally
}

/// An upstream, and the policy in front of it.
struct Case {
    name: &'static str,
    upstream: Upstream,
    policy: &'static str,
}

const SMALL: &str = "window = 8000\nreserve = 500\n";

fn cases() -> Vec<Case> {
    let upstream = |factor, uneven, hidden| Upstream {
        window: 8_000,
        factor,
        uneven,
        hidden,
    };
    let case = |name, factor, uneven, hidden| Case {
        name,
        upstream: upstream(factor, uneven, hidden),
        policy: SMALL,
    };
    vec![
        case("1.0", 1.0, 0.0, 0),
        case("1.005", 1.005, 0.0, 0),
        case("1.02", 1.02, 0.0, 0),
        case("1.05", 1.05, 0.0, 0),
        case("1.1", 1.1, 0.0, 0),
        case("1.15", 1.15, 0.0, 0),
        case("1.25", 1.25, 0.0, 0),
        case("1.4", 1.4, 0.0, 0),
        case("0.8", 0.8, 0.0, 0),
        case("1.0 uneven", 1.0, 0.1, 0),
        case("1.15 uneven", 1.15, 0.1, 0),
        case("1.05 +300", 1.05, 0.0, 300),
        case("1.15 uneven +300", 1.15, 0.1, 300),
        Case {
            name: "128k before 8k",
            upstream: upstream(1.0, 0.0, 0),
            policy: "window = 128000\n",
        },
        Case {
            name: "128k before 8k, 1.15",
            upstream: upstream(1.15, 0.0, 0),
            policy: "window = 128000\n",
        },
    ]
}

/// Plays every setting of a case and prints a line.
fn table_line(set: &str, case: &Case, conversations: &[Conversation]) -> [Tally; SETTINGS.len()] {
    let policy = policy_of(&format!("[[policy]]\n{}", case.policy));
    let measures = Measures::default();
    let all =
        SETTINGS.map(|setting| play(setting, conversations, &policy, (&case.upstream, &measures)));
    let columns: Vec<String> = all
        .iter()
        .map(|tally| {
            let Tally {
                refused,
                lost,
                over,
                ..
            } = tally;
            format!("{:5.1} ({refused},{lost},{over})", tally.per_100())
        })
        .collect();
    println!(
        "{set:8} {:22} {} | {}",
        case.name,
        all[0].requests,
        columns.join(" | ")
    );
    all
}

/// Conversations that are made from seeds, longer than the window.
fn made() -> Vec<Conversation> {
    let all = realistic::all().into_iter();
    all.map(|made| made.messages)
        .filter(|list| list.len() > 40)
        .collect()
}

/// Recorded ones, several after another in each: what a service desk's window sees of a day.
fn chained(name: &str, each: usize, take: usize) -> Option<Vec<Conversation>> {
    let conversations = traces::conversations(name)?;
    let is_system =
        |raw: &String| raw.contains(r#""role": "system""#) || raw.contains(r#""role":"system""#);
    let chains = conversations.chunks(each).take(take).map(|chunk| {
        let mut chain = chunk[0].clone();
        for conversation in &chunk[1..] {
            chain.extend(conversation.iter().filter(|raw| !is_system(raw)).cloned());
        }
        chain
    });
    Some(chains.collect())
}

#[test]
fn replicas_without_a_store_rewrite_no_more_than_one_process() {
    let mut sets = vec![("made", made())];
    sets.extend(chained("airline-agent.jsonl", 6, 4).map(|set| ("airline", set)));
    println!(
        "rewrites per 100 requests (refused, lost, over): one | two | three | restarts | restarts told | two, one restarted"
    );
    let cases = cases();
    let sets = &sets;
    std::thread::scope(|scope| {
        let halves = cases.chunks(cases.len().div_ceil(2));
        let threads: Vec<_> = halves
            .map(|half| {
                scope.spawn(move || {
                    for case in half {
                        for (name, set) in sets {
                            table_line(name, case, set);
                        }
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
    let _ = long();
}
