//! The documents: the README quotes what the program prints, and every link leads to something that
//! exists.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The README's promise to be short.
const README_MAX_BYTES: usize = 9_000;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

/// Every Markdown file of the repository.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            let name = entry.file_name();
            if entry.file_type().unwrap().is_dir() {
                // Build output and version control hold documents of others.
                if name != "target" && name != ".git" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A document without its code blocks.
fn prose(text: &str) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    assert!(!inside, "a code block is not closed");
    kept
}

/// The targets of inline links, `[text](target)`. Code spans are no links.
fn links(prose: &str) -> Vec<String> {
    let outside_code = prose.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let targets = outside_code.split("](").skip(1);
    targets
        .map(|rest| rest.split(')').next().unwrap().trim().to_owned())
        .collect()
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(prose: &str) -> Vec<String> {
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading_that_exist() {
    let documents = documents();
    assert!(documents.contains(&root().join("README.md")));
    let mut wrong = Vec::new();
    let mut followed = 0;
    for document in &documents {
        let text = prose(&std::fs::read_to_string(document).unwrap());
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() {
                document.clone()
            } else {
                document.parent().unwrap().join(path)
            };
            let leads = target
                .canonicalize()
                .is_ok_and(|target| target.starts_with(root().canonicalize().unwrap()));
            let has_anchor = || {
                let text = std::fs::read_to_string(&target).unwrap_or_default();
                anchors(&prose(&text)).iter().any(|known| known == anchor)
            };
            if !leads || !anchor.is_empty() && !has_anchor() {
                let name = document.strip_prefix(root()).unwrap();
                wrong.push(format!("{}: {link}", name.display()));
            }
        }
    }
    assert!(followed > 10, "only {followed} links were found");
    assert!(wrong.is_empty(), "broken links:\n{}", wrong.join("\n"));
}

#[test]
fn the_readme_is_short_and_names_the_test_command() {
    let readme = readme();
    assert!(
        readme.len() < README_MAX_BYTES,
        "README.md has {} bytes",
        readme.len()
    );
    let alone = readme
        .lines()
        .any(|line| line == "cargo test --profile checks");
    assert!(alone, "`cargo test --profile checks` on a line of its own");
}

#[test]
fn the_demo_prints_what_the_readme_quotes() {
    let readme = readme();
    let (_, rest) = readme
        .split_once("```text\nturn ")
        .expect("the README quotes the demo");
    let (quoted, _) = rest.split_once("\n```").unwrap();
    let quoted = format!("turn {quoted}");

    let mut demo = Command::new(env!("CARGO_BIN_EXE_baler"));
    let demo = demo.env_clear().args(["demo", "--plain"]);
    let output = demo.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();

    // An ellipsis on a line of its own stands for lines left out.
    let quoted: Vec<&str> = quoted.lines().collect();
    let mut from = 0;
    for section in quoted.split(|line| line.trim() == "...") {
        let rest = &printed[from..];
        let found = rest.windows(section.len()).position(|run| run == section);
        let at = found.unwrap_or_else(|| {
            panic!(
                "the demo does not print, after line {from}:\n{}\nbut:\n{}",
                section.join("\n"),
                printed.join("\n")
            )
        });
        from += at + section.len();
    }
    assert_eq!(from, printed.len(), "the quotation ends with the last line");
}

/// The names of all functions in the Rust files under `folder`.
fn functions(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let declared = text.lines().filter_map(|line| line.split_once("fn "));
            found.extend(
                declared.map(|(_, rest)| rest.split(['(', '<']).next().unwrap().to_owned()),
            );
        }
    }
}

#[test]
fn every_test_that_guards_an_invariant_exists() {
    let text = std::fs::read_to_string(root().join("src/README.md")).unwrap();
    let mut known = Vec::new();
    functions(&root().join("tests/it"), &mut known);
    let rows = text.lines().filter(|line| line.starts_with("| I"));
    let mut invariants = 0;
    for row in rows {
        invariants += 1;
        let guards = row.rsplit(" | ").next().unwrap();
        let code = guards.split('`').skip(1).step_by(2);
        let tests: Vec<&str> = code.filter(|name| !name.starts_with("core::")).collect();
        assert!(
            !tests.is_empty() || guards.contains("not yet"),
            "nothing guards {row}"
        );
        for test in tests.iter().filter(|name| name.contains("::")) {
            let function = test.rsplit("::").next().unwrap();
            assert!(
                known.iter().any(|name| name == function),
                "src/README.md names a test that does not exist: {test}"
            );
        }
    }
    assert_eq!(invariants, 12);
}
