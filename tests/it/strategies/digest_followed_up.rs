//! What a digest keeps for the next question about what was found last.

use serde_json::{Value, json};

use super::{calls, forced, result, tagged};
use crate::invariants::policy_of;
use crate::support::{message, words};

const NAMES: [&str; 8] = [
    "Amber", "Birch", "Cedar", "Dune", "Ember", "Fjord", "Grove", "Heath",
];

/// A hotel with the places around it: far more of them than a digest has room for.
fn hotel(nth: usize, around: usize) -> Value {
    let places = |kind: &str| -> Vec<String> {
        let name = |at: usize| NAMES[(nth + 3 * at) % NAMES.len()];
        (0..around)
            .map(|at| format!("{} {kind} {nth}-{at}", name(at)))
            .collect()
    };
    json!({
        "id": format!("H-{}", 1_000 + nth * 37), "name": format!("Hotel {} {nth}", NAMES[nth % 8]),
        "price": 80 + nth * 7, "rating": 4.5, "address": format!("{} Harbour Road", nth * 11),
        "sights": places("Museum"), "restaurants": places("Kitchen"),
    })
}

/// Turns in which a hotel was looked up and named, and then a last word of the user's.
fn digest_before(last: &str, around: usize, target: u64) -> String {
    let mut chat = Vec::new();
    for nth in 0..30 {
        let id = format!("call_{nth}");
        let found = if nth == 29 {
            hotel(nth, around)
        } else {
            hotel(nth, 4)
        };
        let asked = json!({"district": nth, "price": 80 + nth * 7}).to_string();
        chat.push(message(
            "user",
            &format!("Find me a hotel in district {nth}."),
        ));
        chat.push(calls(&[(&id, "find_hotel", &asked)]));
        chat.push(result(
            &id,
            &json!({"count": 1, "results": [found]}).to_string(),
        ));
        chat.push(message(
            "assistant",
            &format!("Hotel {} {nth} is good.", NAMES[nth % 8]),
        ));
    }
    chat.push(message("user", last));
    let policy = policy_of(&format!(
        "[[policy]]\nwindow = 100000\nreserve = 0\nkeep = {{ tokens = 0, exchanges = 1 }}\n\
        target = {{ tokens = {target} }}\nladder = [\"digest\"]\n"
    ));
    tagged(&forced(&chat, &policy).messages, "conversation_digest")
}

#[test]
fn the_newest_result_has_room_for_the_next_question() {
    let mut alone = 0;
    for target in (1_300..1_800).step_by(25) {
        let digest = digest_before("Which restaurants are around it?", 60, target);
        let has = |kitchen: &str| digest.contains(kitchen);
        assert!(
            has("Kitchen 29-0") || !has("Kitchen 28-0"),
            "that is no longer asked for\n{digest}"
        );
        if !has("Kitchen 29-0") || has("Kitchen 29-59") {
            continue;
        }
        let mut lists = digest.lines().filter(|line| line.contains("Kitchen 29-"));
        let last = lists.next_back().unwrap();
        let behind = digest.split(last).last().unwrap();
        assert!(
            behind.trim_start().starts_with('…'),
            "a list that does not look complete\n{digest}"
        );
        alone += usize::from(!has("Kitchen 28-0"));
    }
    assert!(alone > 0);
}

#[test]
fn a_long_list_is_told_from_its_beginning() {
    let mut shown = 0;
    for target in (900..3_000).step_by(150) {
        let digest = digest_before("Which restaurants are around it?", 60, target);
        for kind in ["Museum", "Kitchen"] {
            let mut last = None;
            for at in 0..60 {
                if digest.contains(&format!("{kind} 29-{at}")) {
                    assert!(
                        last.is_some() || at == 0,
                        "{target}: {kind} {at} first\n{digest}"
                    );
                    last = Some(at);
                }
            }
            shown += u32::from(last.is_some());
        }
    }
    assert!(shown > 4, "{shown} lists");
}

#[test]
fn a_question_without_blanks_names_what_it_is_about() {
    const NAMES: [&str; 12] = [
        "金牛火锅城",
        "玉兰茶餐厅",
        "卤煮老字号",
        "铃木食堂店",
        "秋刀鱼之味",
        "老书虫咖啡",
        "大渔铁板烧",
        "松子料理屋",
        "井格小火锅",
        "新辣道鱼馆",
        "站点比萨屋",
        "豆汁儿老店",
    ];
    let mut chat = Vec::new();
    for (nth, name) in NAMES.iter().enumerate() {
        let id = format!("call_{nth}");
        let asked = json!({"区": 10 + nth}).to_string();
        let found = json!({"名称": name, "电话": format!("010-5{nth:02}97{nth:02}"),
            "地址": format!("朝阳区霄云路{}号", 26 + nth), "人均": 90 + nth, "介绍": words(nth, 40)});
        chat.push(message("user", &format!("第{}区有什么好吃的？", 10 + nth)));
        chat.push(calls(&[(&id, "查询", &asked)]));
        chat.push(result(
            &id,
            &json!({"数量": 1, "结果": [found]}).to_string(),
        ));
        chat.push(message("assistant", "有一家不错的。"));
    }
    let policy = policy_of(
        "[[policy]]\nwindow = 100000\nreserve = 0\nkeep = { tokens = 0, exchanges = 1 }\n\
        target = { tokens = 700 }\nladder = [\"digest\"]\n",
    );
    let digest = |last: &str| {
        let mut chat = chat.clone();
        chat.push(message("user", last));
        tagged(&forced(&chat, &policy).messages, "conversation_digest")
    };
    let other = digest("那么最便宜的是哪一家呢？");
    for (nth, name) in NAMES.iter().enumerate().take(4) {
        let asked = digest(&format!("那么请问刚才说的{name}的电话到底是多少呢？"));
        let phone = format!("010-5{nth:02}97{nth:02}");
        assert!(asked.contains(&phone), "{name}\n{asked}");
        assert!(!other.contains(&phone), "{name}\n{other}");
    }
}
