//! Conversations about work: code, logs, data, pages, research.

use serde_json::{Value, json};

use super::{Chat, number, pick};

/// A coding agent: reads, edits, failing tests, a file read again after its edit.
pub(super) fn coding() -> Chat {
    let mut chat = Chat::new("You are a coding agent. Edits replace exact text.");
    chat.user(
        "Fix the rounding bug in src/billing/invoice.py: totals differ by a cent from the sum of the lines. \
        Do not change the public signature of total(), and keep Python 3.9 compatible.",
    );
    let source = |fixed: bool| {
        let body: String = (0..14)
            .map(|n| {
                format!(
                    "    def line_{n}(self, quantity, price):\n        \"\"\"Line {n}: amount for {} pieces.\"\"\"\n        \
                    amount = quantity * price * Decimal(\"1.{:02}\")\n        return amount.quantize(CENT)\n\n",
                    number(n, 90),
                    number(n + 4, 100)
                )
            })
            .collect();
        let total = if fixed {
            "sum((line.amount.quantize(CENT, ROUND_HALF_UP) for line in self.lines), Decimal(0))"
        } else {
            "sum(line.amount for line in self.lines).quantize(CENT)"
        };
        format!(
            "from decimal import Decimal, ROUND_HALF_UP\n\nCENT = Decimal(\"0.01\")\n\n\nclass Invoice:\n{body}    \
            def total(self):\n        return {total}\n"
        )
    };
    let failure = |n: usize| {
        format!(
            "============ test session starts ============\ncollected 48 items\n\n{}\ntests/test_invoice.py::test_total_{n} FAILED\n\n\
            ________ test_total_{n} ________\n    def test_total_{n}():\n>       assert invoice().total() == Decimal(\"{n}17.35\")\n\
            E       AssertionError: assert Decimal('{n}17.34') == Decimal('{n}17.35')\n\ntests/test_invoice.py:{}: AssertionError\n\
            1 failed, 47 passed in 0.{n}1s\n",
            (0..47)
                .map(|k| format!("tests/test_invoice.py::test_line_{k} PASSED"))
                .collect::<Vec<_>>()
                .join("\n"),
            80 + n
        )
    };
    let path = json!({"path": "src/billing/invoice.py"});
    chat.call("list_files", &json!({"path": "src"}), &json!("billing/__init__.py\nbilling/invoice.py\nbilling/tax.py\ncli.py"))
        .call("read_file", &path, &json!(source(false)))
        .call("run", &json!({"command": "pytest -v"}), &json!(failure(3)))
        .assistant("total() rounds the sum once, the lines are rounded each. I make total() add rounded lines.");
    let edit =
        |old: &str, new: &str| json!({"path": "src/billing/invoice.py", "old": old, "new": new});
    chat.call(
        "edit_file",
        &edit(
            "        return sum(line.amount for line in self.lines).quantize(CENT)",
            "        return sum(line.amount.quantize(CENT) for line in self.lines)",
        ),
        &json!("1 replacement made in src/billing/invoice.py"),
    )
    .call("run", &json!({"command": "pytest -v"}), &json!(failure(4)))
    .assistant("quantize() rounds half to even by default; the lines use half up.")
    .call(
        "edit_file",
        &edit(
            "line.amount.quantize(CENT) for line",
            "line.amount.quantize(CENT, ROUND_HALF_UP) for line",
        ),
        &json!("1 replacement made in src/billing/invoice.py"),
    )
    .call("read_file", &path, &json!(source(true)))
    .call("run", &json!({"command": "pytest -q"}), &json!("48 passed in 0.52s"))
    .call("run", &json!({"command": "mypy src"}), &json!("src/billing/tax.py:41: error: Incompatible return value type (got \"int\", expected \"Decimal\")\nFound 1 error in 1 file"))
    .assistant("Tests pass. mypy finds an older error in tax.py:41.")
    .user("Mend that one too, but leave the rest of tax.py alone.");
    chat
}

/// Reading logs of a service that failed in the night.
pub(super) fn logs() -> Chat {
    let mut chat = Chat::new("You are on call for a shop's back end.");
    chat.user("Orders failed between two and three last night. Find out why. Never restart the database without asking me.");
    for (n, service) in ["gateway", "stock", "payment", "mailer"]
        .into_iter()
        .enumerate()
    {
        let mut lines: Vec<String> = (0..90)
            .map(|k| {
                format!(
                    "2026-03-04T02:{:02}:{:02}.{:03}Z INFO {service} request id={:08x} path=/orders/{} status=200 ms={}",
                    k * 60 / 90,
                    number(k, 60),
                    number(k + n, 1000),
                    number(k * 7 + n, 1 << 30),
                    4_000 + number(k, 900),
                    number(k * 3, 90)
                )
            })
            .collect();
        if service == "stock" {
            lines.insert(52, [
                "2026-03-04T02:34:41.118Z ERROR stock cannot reserve article LAMP-7: pool exhausted (size 20, waiting 61)",
                "java.sql.SQLTransientConnectionException: HikariPool-1 - Connection is not available, request timed out after 30000ms",
                "    at com.zaxxer.hikari.pool.HikariPool.createTimeoutException(HikariPool.java:696)",
                "    at shop.stock.StockRepository.reserve(StockRepository.java:112)",
                "    at shop.stock.StockService.handle(StockService.java:58)",
            ].join("\n"));
        }
        if service == "payment" {
            lines.insert(60, "2026-03-04T02:35:02.007Z WARN payment upstream stock answered 503, retry 3 of 3 failed for order 4471".to_owned());
        }
        chat.call(
            "read_log",
            &json!({"service": service, "from": "02:00", "to": "03:00"}),
            &json!(lines.join("\n")),
        );
    }
    chat.call("kubectl", &json!({"args": "get pods -n shop"}), &json!("NAME          READY STATUS   RESTARTS AGE\nstock-6d9f    1/1   Running  4        3d\npayment-77c   1/1   Running  0        9d\ngateway-5b1   1/1   Running  0        9d"))
        .assistant("The pool of stock (20 connections) was exhausted at 02:34:41 in StockRepository.reserve, line 112; payment gave up after three retries.")
        .user("What else ran at that time?")
        .call("read_log", &json!({"service": "cron"}), &json!("02:30:00 start nightly-inventory (holds a transaction on stock_levels)\n02:58:12 end nightly-inventory rows=1204417"))
        .assistant("nightly-inventory held a transaction on stock_levels from 02:30:00 to 02:58:12.")
        .user("Propose a fix that does not move the job.");
    chat
}

/// Results of queries.
pub(super) fn sql() -> Chat {
    let mut chat = Chat::new("You answer questions with SQL. Read only.");
    chat.user("Which customers of region NORTH should get a reminder? Only invoices overdue by more than 30 days and above 1,000 euros; not the blocked ones.")
        .call("describe", &json!({"table": "invoices"}), &json!("id text primary key\ncustomer_id text references customers\nnet numeric(12,2)\ncurrency char(3)\ndue date\nstatus text check (status in ('open','paid','overdue','void'))"))
        .call("describe", &json!({"table": "customers"}), &json!("id text primary key\nname text\nregion text\nblocked boolean\nemail text\ncredit_limit numeric"));
    let customers: Vec<Value> = (0..18)
        .map(|n| {
            json!({"id": format!("C{:03}", n), "name": format!("{} {}", ["Nordlys", "Café Ñandú", "Østfold", "Brücke", "Harbour"][n % 5], ["AS", "SL", "GmbH"][n % 3]),
                "region": if n % 4 == 0 { "SOUTH" } else { "NORTH" }, "blocked": n % 5 == 2, "email": format!("billing{n}@example.com"), "credit_limit": 1000 * (1 + number(n, 40))})
        })
        .collect();
    chat.call(
        "query",
        &json!({"sql": "select * from customers"}),
        &json!(customers),
    );
    for page in 0..3 {
        let invoices: Vec<Value> = (0..25)
            .map(|k| {
                let n = page * 25 + k;
                json!({"id": format!("INV-{}", 2_000 + n), "customer_id": format!("C{:03}", n % 18), "net": format!("{}.{:02}", 90 + number(n, 4_000), number(n + 2, 100)),
                    "currency": "EUR", "due": format!("2026-0{}-{:02}", 1 + number(n, 4), 1 + number(n + 9, 28)), "status": pick(&["open", "overdue", "paid", "overdue"], n % 4)})
            })
            .collect();
        chat.call("query", &json!({"sql": format!("select * from invoices order by id limit 25 offset {}", page * 25)}), &json!(invoices));
        if page == 1 {
            chat.assistant("Two pages are read; C002, C007, C012 and C017 are blocked.")
                .user("Leave out Harbour SL as well, I called them. Today is 2026-04-20.");
        }
    }
    chat.assistant("All 75 invoices are read.")
        .user("Now the list, with e-mail addresses.");
    chat
}

/// Pages that an agent opens and leaves.
pub(super) fn browsing() -> Chat {
    let mut chat = Chat::new("You browse for the user. Buy nothing without a clear yes.");
    chat.user("I need a used cello for a child of nine, half size, under 900 euros, near Utrecht. No rentals.");
    for n in 0..6 {
        let offers: String = (0..12)
            .map(|k| {
                let id = 88_000 + n * 97 + k * 13;
                format!(
                    "[{k}] link \"Cello {} {}\" /item/{id}\n    text \"€ {},-  {}  seen {} times\"\n    button \"Save\"\n",
                    ["1/2", "3/4", "4/4", "1/2"][k % 4],
                    ["Stentor", "Yamaha", "no name", "Gewa"][(n + k) % 4],
                    350 + number(n * 12 + k, 900),
                    ["Utrecht", "Amersfoort", "Groningen", "Zeist"][(n * 3 + k) % 4],
                    number(k, 400)
                )
            })
            .collect();
        let page = format!(
            "heading \"Results, page {}\"\nnavigation\n  link \"Home\" /\n  link \"Log in\" /login\n  link \"Help\" /help\n{offers}footer \"© market\"\n",
            n + 1
        );
        chat.call(
            "open",
            &json!({"url": format!("https://market.example/search?q=cello&page={}", n + 1)}),
            &json!(page),
        );
        if n % 2 == 1 {
            let id = 88_000 + n * 97 + 13 * 4;
            chat.call("open", &json!({"url": format!("https://market.example/item/{id}")}), &json!(format!(
                "heading \"Cello 1/2 Stentor\"\ntext \"€ {},- or nearest offer\"\ntext \"Bow is new, a crack near the F-hole was repaired in 2021.\"\ntext \"Pick up in Zeist, evenings. Seller: M. de Wit, 06-555{:05}\"\n", 420 + n * 55, id)))
                .assistant(&format!("Item {id}: Stentor, half size, {} euros, Zeist; a repaired crack.", 420 + n * 55))
                .user(["", "A repaired crack is not acceptable.", "", "Write to nobody yet.", "", "The Yamaha ones, which were in Amersfoort?"][n]);
        }
    }
    chat
}

/// Research with several tools, some of which fail.
pub(super) fn research() -> Chat {
    let mut chat = Chat::new("You research for a report. Cite every figure with its source.");
    chat.user("How much did heat pumps grow in the Nordic countries from 2019 to 2023? I need units sold, not money. Use no newspapers.");
    for (n, country) in ["Norway", "Sweden", "Finland", "Denmark"]
        .into_iter()
        .enumerate()
    {
        let hits: Vec<Value> = (0..6)
            .map(|k| {
                json!({"title": format!("{country}: heat pump statistics {}", 2018 + k), "url": format!("https://stat{n}.example.org/hp/{}", 2018 + k),
                    "snippet": format!("Sales in {country} came to {} units in {}, says the association of installers; air to air made up {} %.",
                    52_000 + number(n * 6 + k, 90_000), 2018 + k, 40 + number(k, 50)), "score": 0.5 + number(k, 50) as f64 / 100.0})
            })
            .collect();
        chat.call(
            "search",
            &json!({"query": format!("heat pump sales {country} units")}),
            &json!({"results": hits, "next": null}),
        );
        let url = json!({"url": format!("https://stat{n}.example.org/hp/2023")});
        if n == 2 {
            chat.call("fetch", &url, &json!("Error: 403 Forbidden (robots)"))
                .call("fetch", &url, &json!("Error: 403 Forbidden (robots)"))
                .assistant("Finland's page refuses to be read; I need another source for it.")
                .user("Take the European association's table for Finland.");
        } else {
            let table: String = (2015..2024)
                .map(|year| {
                    format!(
                        "| {year} | {} | {} |\n",
                        40_000 + number(n * 100 + year, 100_000),
                        number(year + n, 60)
                    )
                })
                .collect();
            chat.call("fetch", &url, &json!(format!(
                "# Heat pumps in {country}\n\nThe association counts units that left the warehouse; exports are not included.\n\n| year | units | share of houses, % |\n|---|---|---|\n{table}\nMethod changed in 2021: ground source is counted with the rest.\n")));
            chat.assistant(&format!("{country}: units are in the table of stat{n}.example.org/hp/2023; the method changed in 2021."));
        }
    }
    chat.call(
        "calculate",
        &json!({"expression": "(142388-61204)/61204"}),
        &json!("1.3264"),
    )
    .assistant("Norway grew by 132.64 %. Sweden next.")
    .user("Mark the years before the change of method. What is left to do?");
    chat
}
