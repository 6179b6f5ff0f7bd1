//! Conversations with people: services, travel, plans.

use serde_json::{Value, json};

use super::{Chat, number, pick};

/// Two customers of an airline; rules turn on cabin, insurance, creation, bags, membership.
pub(super) fn airline() -> Chat {
    let mut chat = Chat::new(
        "You are the agent of an airline. Basic economy cannot be changed. A reservation can be \
        cancelled within 24 hours of its creation, with insurance for health or weather, or in business.",
    );
    chat.user("Hi, I am Mei Rossi, mei_rossi_7431. I need to change two trips, please.");
    let profile = json!({"user_id": "mei_rossi_7431", "name": {"first": "Mei", "last": "Rossi"},
        "dob": "1984-11-02", "membership": "silver", "saved_passengers": [{"first": "Juan",
        "last": "Rossi", "dob": "1981-03-19"}], "payment_methods": [{"id": "credit_card_2198",
        "brand": "visa", "last_four": "8012"}, {"id": "gift_card_5501", "amount": 187}],
        "reservations": ["KC18K6", "S61CZX", "H8Q05L"]});
    chat.call(
        "get_user_details",
        &json!({"user_id": "mei_rossi_7431"}),
        &profile,
    );
    for (n, (id, cabin, insurance, created)) in [
        ("KC18K6", "economy", "yes", "2024-05-13T08:41:10"),
        ("S61CZX", "basic_economy", "no", "2024-05-15T01:09:56"),
        ("H8Q05L", "business", "no", "2024-04-30T22:15:00"),
    ]
    .into_iter()
    .enumerate()
    {
        let leg = |from: &str, to: &str, k: usize| {
            json!({"flight_number": format!("HAT{:03}", 100 + number(n * 9 + k, 200)), "origin": from,
                "destination": to, "date": format!("2024-05-{}", 18 + n + k), "price": 90 + number(n + k, 300)})
        };
        let reservation = json!({"reservation_id": id, "user_id": "mei_rossi_7431", "cabin": cabin,
            "flight_type": "round_trip", "flights": [leg("MCO", "CLT", 0), leg("CLT", "MCO", 4)],
            "passengers": [{"first": "Mei", "last": "Rossi", "dob": "1984-11-02"}],
            "payment_history": [{"payment_id": "credit_card_2198", "amount": 312 + n * 41}],
            "created_at": created, "total_baggages": n + 1, "nonfree_baggages": n, "insurance": insurance});
        chat.call(
            "get_reservation_details",
            &json!({"reservation_id": id}),
            &reservation,
        );
    }
    chat.assistant("I found your three trips. Which of them would you like to change?")
        .user(
            "KC18K6: the later flight back on the 23rd, but I will not pay more than 120 dollars, and only \
            with the gift card. And cancel S61CZX if that is possible. Do not touch H8Q05L.",
        );
    let flights: Vec<Value> = (0..9)
        .map(|n| {
            json!({"flight_number": format!("HAT{:03}", 201 + n * 7), "origin": "CLT", "destination": "MCO",
                "scheduled_departure_time_est": format!("{:02}:30:00", 6 + n * 2), "status": "available",
                "available_seats": {"basic_economy": number(n, 20), "economy": number(n + 3, 20),
                "business": number(n + 5, 9)}, "prices": {"basic_economy": 60 + number(n, 40),
                "economy": 110 + number(n, 90), "business": 320 + number(n, 150)}})
        })
        .collect();
    let search = json!({"origin": "CLT", "destination": "MCO", "date": "2024-05-23"});
    chat.call("search_direct_flight", &search, &json!(flights))
        .assistant(
            "For KC18K6 there are HAT243 at 18:30 for 98 dollars more, and HAT250 at 20:30 for 131 dollars more. \
            S61CZX is basic economy without insurance, created more than 24 hours ago: it cannot be cancelled.",
        )
        .user("HAT243 then. Leave S61CZX. Two checked bags, please, I am silver so they should be free.")
        .call("calculate", &json!({"expression": "187 - 98"}), &json!("89"))
        .assistant("I will book HAT243 on KC18K6 with gift_card_5501 for 98 dollars and two free bags. Shall I (yes/no)?")
        .user("Yes. And is Juan's birthday right in my profile?")
        .assistant("It says 1981-03-19. One moment for the booking.")
        .user("That is right. Go on.");
    chat
}

/// A shop: only pending orders may be changed, and exchanges need available items.
pub(super) fn shop() -> Chat {
    let mut chat = Chat::new(
        "You serve customers of a shop. Only pending orders can be changed, only delivered ones returned.",
    );
    chat.user("Sofia Khan here, zip 98187. My lamp is broken and one order is late.")
        .call(
            "find_user_id",
            &json!({"name": "Sofia Khan", "zip": "98187"}),
            &json!("sofia_khan_9820"),
        );
    for n in 0..5 {
        let items: Vec<Value> = (0..2 + n % 3)
            .map(|k| {
                json!({"item_id": format!("{:010}", 1_000_000_007 * (n + 2) + k * 7_919), "name":
                    pick(&["Desk Lamp", "Kettle", "Backpack", "Jigsaw Puzzle"], (n + k) % 4), "price":
                    format!("{}.{:02}", 20 + number(n * 5 + k, 300), number(k, 100)), "options":
                    {"color": pick(&["black", "white", "red"], (n * 2 + k) % 3), "power source": "battery"}, "available": (n + k) % 3 > 0})
            })
            .collect();
        let order = json!({"order_id": format!("#W{}", 2_417_020 + n * 7_919), "user_id": "sofia_khan_9820",
            "status": pick(&["delivered", "pending", "processed", "pending", "cancelled"], n), "items": items,
            "address": {"street": format!("{} Cedar Street", 300 + n), "city": "Seattle", "zip": "98187"},
            "payment": {"method": "paypal_8720127", "amount": 98 + number(n, 400)}, "placed": format!("2024-02-{:02}", 3 + n * 5)});
        chat.call(
            "get_order_details",
            &json!({"order_id": format!("#W{}", 2_417_020 + n * 7_919)}),
            &order,
        );
    }
    chat.assistant("Which order has the broken lamp?")
        .user("#W2417020. I want the same lamp in white, not a refund, and nothing sent to the old address: 12 Quay Lane, Tacoma 98402.");
    let variants: Vec<Value> = (0..14)
        .map(|n| {
            json!({"item_id": format!("{:010}", 4_385_534_692_usize + n * 104_729), "options":
                {"color": pick(&["black", "white", "silver"], n % 3), "brightness": pick(&["low", "medium", "high"], n / 3 % 3),
                "power source": pick(&["battery", "USB", "AC adapter"], n % 2)}, "available": n % 4 != 1, "price": format!("{}.5", 120 + n * 3)})
        })
        .collect();
    chat.call("get_product_details", &json!({"product_id": "6817146515"}), &json!({"name": "Desk Lamp", "variants": variants}))
        .assistant("White lamps: 4386477337 (low, battery) for 141.5 is there, 4385639421 is not. Exchange to 4386477337 by paypal_8720127?")
        .user("Is that one brighter than mine? If it is lower I do not want it.")
        .assistant("It is the low one; yours was medium. There is 4386058421, white, medium, AC adapter, 132.5.")
        .user("Good, that one. The late order: cancel the backpack only if it is still pending.");
    chat
}

/// A trip to Beijing, in Chinese.
pub(super) fn travel() -> Chat {
    let mut chat = Chat::new("你是北京的旅行助手。请用中文回答，先查询再推荐。");
    chat.user(
        "你好，我们一家四口八月去北京，孩子六岁，老人坐轮椅，酒店要无障碍的，每晚不超过六百元。",
    );
    let places = ["故宫", "颐和园", "天坛公园", "北海公园", "雍和宫", "什刹海"];
    let hotels = [
        "京都大酒店",
        "北京贵都大酒店",
        "鸭川亭",
        "如家快捷酒店（前门店）",
        "桔子水晶酒店",
        "北京饭店",
    ];
    for round in 0..4 {
        let sights: Vec<Value> = places
            .iter()
            .enumerate()
            .map(|(n, name)| {
                json!({"名称": name, "门票": format!("{}元", 5 + number(n + round, 60)), "评分": 4.0 + number(n, 9) as f64 / 10.0,
                    "游玩时间": format!("{}小时 - {}小时", 1 + n % 3, 3 + n % 2), "地址": format!("北京市东城区{}路{}号", name, 3 + n * 7),
                    "电话": format!("010-{}", 62_880_000 + number(n * 3 + round, 90_000)), "无障碍": n % 2 == 0})
            })
            .collect();
        chat.call(
            "查询景点",
            &json!({"评分": "4.5分以上", "门票": format!("{}元以下", 20 + round * 20)}),
            &json!(sights),
        );
        let rooms: Vec<Value> = hotels
            .iter()
            .enumerate()
            .map(|(n, name)| {
                json!({"名称": name, "价格": 320 + number(n * 5 + round, 500), "酒店类型": if n % 2 == 0 { "高档型" } else { "经济型" },
                    "无障碍客房": (n + round) % 3 == 0, "评分": 4.2, "电话": format!("010-{}", 85_110_000 + n * 331)})
            })
            .collect();
        chat.call(
            "查询酒店",
            &json!({"无障碍客房": true, "页": round + 1}),
            &json!(rooms),
        );
        chat.assistant(&format!(
            "推荐{}，门票不贵，轮椅也方便。酒店可以住{}。",
            places[round],
            hotels[round * 2 % 6]
        ));
        chat.user(
            [
                "颐和园太远了，不要。故宫要周二上午九点，帮我记住。",
                "酒店一定要有早餐，京都大酒店我们上次住过，不想再住。",
                "孩子对花生过敏，餐馆要注意。",
                "好，那就定北京饭店，三晚，八月十二日入住。",
            ][round],
        );
    }
    chat.assistant("好的，北京饭店三晚，八月十二日入住，已记下。")
        .user("餐馆呢？离酒店近一点的。");
    chat
}

/// A hotel's reception with guests whose names come in many scripts.
pub(super) fn guests() -> Chat {
    let mut chat = Chat::new(
        "You assist the reception of a conference hotel. Names are spelled as in the passport.",
    );
    let names = [
        "Ольга Петрова",
        "鈴木 一郎",
        "김민수",
        "فاطمة الزهراء",
        "דוד לוי",
        "प्रिया शर्मा",
        "สมชาย ใจดี",
        "Łukasz Żółć",
        "nguyễn văn an",
        "王小明",
    ];
    chat.user("Please prepare the arrivals of Thursday. VIPs get rooms above the tenth floor.");
    for (n, name) in names.iter().enumerate() {
        let guest = json!({"booking": format!("BK-{}", 7_100 + n * 13), "guest": name, "room": 300 + n * 101, "vip": n % 3 == 0,
            "arrival": format!("2026-06-1{}T{:02}:15", n % 4, 9 + n), "nights": 1 + n % 5, "diet": pick(&["none", "vegan", "halal", "kosher"], n % 4),
            "paid": n % 2 == 1, "notes": format!("Asked for a quiet room, away from the lift; arrival by train {}.", 400 + number(n, 500))});
        chat.call(
            "get_booking",
            &json!({"booking": format!("BK-{}", 7_100 + n * 13)}),
            &guest,
        );
        if n % 4 == 3 {
            chat.assistant(&format!(
                "{name} is in room {}. Shall I go on?",
                300 + n * 101
            ))
            .user(
                [
                    "Yes. Put 김민수 next to 鈴木 一郎, they travel together.",
                    "Yes, but never put דוד לוי on a Saturday checkout.",
                    "",
                ][n / 4],
            );
        }
    }
    chat.assistant("All ten are read. Two VIPs have rooms below the tenth floor: Ольга Петрова (300) and فاطمة الزهراء (603).")
        .user("Move both of them up. What is free?")
        .call("free_rooms", &json!({"floor_from": 11}), &json!([{"room": 1104, "beds": "twin"}, {"room": 1217, "beds": "double"}]))
        .assistant("1104 (twin) and 1217 (double) are free.")
        .user("1217 for Ольга Петрова. What did Łukasz want to eat?");
    chat
}

/// A long plan without any tool.
pub(super) fn planning() -> Chat {
    let mut chat = Chat::new("You help a couple to plan the renovation of a farmhouse.");
    let rooms = [
        "kitchen", "bathroom", "attic", "barn", "cellar", "garden", "roof", "workshop",
    ];
    let wishes = [
        "The budget is 84,000 euros in all, and we will not take a loan.",
        "No gas, please. We have decided that for good.",
        "My mother moves in next spring and cannot climb stairs.",
        "The beams in the attic must stay visible; the heritage office insists.",
        "We changed our minds: the workshop comes before the barn.",
        "Do not propose underfloor heating again, we said no to it.",
        "The roofer can only come in the last two weeks of September.",
        "We would like to keep 6,000 euros in reserve.",
    ];
    for (n, room) in rooms.iter().enumerate() {
        chat.user(&format!(
            "Let us talk about the {room}. {} We spent a lovely weekend there and took many pictures of the valley, \
            and the neighbours came over with cake.",
            wishes[n]
        ));
        let cost = 3_000 + number(n, 14) * 500;
        chat.assistant(&format!(
            "That sounds like a good weekend. Houses of that age often hide surprises, and it is worth opening one wall before \
            anything is ordered; most builders will agree to that. For the {room} I would begin with what cannot be seen later: \
            pipes, cables, insulation. I estimate {cost} euros and {} days of work. There are many tastes in these matters, and a \
            farmhouse forgives a lot. Wood fibre keeps out the heat in summer as well, which people tend to forget until July. \
            I suggest that we fix the order as {room} first, then {}. The permit for it takes about {} weeks.",
            4 + number(n + 2, 20),
            rooms[(n + 1) % 8],
            2 + number(n, 9)
        ));
    }
    chat.user("So in which order do we do things, and does the money suffice?");
    chat
}
