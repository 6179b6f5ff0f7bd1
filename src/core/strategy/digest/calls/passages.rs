//! What an application puts into the user's message beside what he said: the passages that it found
//! for his question, below a label or between tags. They are texts of others.

/// Labels before passages and before the question, in small letters.
const PASSAGES: [&str; 16] = [
    "context",
    "contexts",
    "context information",
    "retrieved context",
    "documents",
    "retrieved documents",
    "passages",
    "sources",
    "search results",
    "knowledge",
    "kontext",
    "contexte",
    "contexto",
    "contesto",
    "上下文",
    "参考资料",
];
const QUESTIONS: [&str; 16] = [
    "question",
    "user question",
    "query",
    "user query",
    "user",
    "user message",
    "user input",
    "request",
    "task",
    "frage",
    "pregunta",
    "pergunta",
    "domanda",
    "问题",
    "質問",
    "질문",
];
/// Tags around passages.
const TAGS: [&str; 8] = [
    "context",
    "documents",
    "passages",
    "sources",
    "search_results",
    "retrieved_context",
    "retrieved_documents",
    "knowledge",
];
/// The longest label with what marks it (bytes).
const LABEL_BYTES: usize = 40;
/// Passages from this length on are told apart (bytes).
const LEAST_BYTES: usize = 200;

/// How lines begin that head a passage, in small letters.
const HEADS: [&str; 12] = [
    "[1", "<doc", "<passage", "<source", "<result", "chunk", "document", "passage", "source",
    "title:", "url:", "http",
];

/// What the user said in a text, and the passages that stand beside it; `None` where there are
/// none. What is called a context may be the user's own, unless it has the form of what was found.
pub(super) fn parted(text: &str) -> Option<(String, &str)> {
    if text.len() < LEAST_BYTES {
        return None;
    }
    let (said, passages) = between_tags(text).or_else(|| below_labels(text))?;
    let is_told = passages.len() >= LEAST_BYTES && !said.is_empty() && has_heads(passages);
    is_told.then_some((said, passages))
}

/// Whether passages have heads, as those that were found do.
fn has_heads(passages: &str) -> bool {
    passages.lines().any(|line| {
        let marks = |c: char| c.is_whitespace() || matches!(c, '#' | '*' | '-' | '_');
        let line = line.trim_start_matches(marks);
        let begin = line.get(..line.floor_char_boundary(LABEL_BYTES));
        let begin = begin.unwrap_or_default().to_lowercase();
        HEADS.iter().any(|head| begin.starts_with(head))
    })
}

/// `<context>…</context> What does it cost?`
fn between_tags(text: &str) -> Option<(String, &str)> {
    TAGS.iter().find_map(|tag| {
        let (before, rest) = text.split_once(&format!("<{tag}>"))?;
        let (passages, behind) = rest.rsplit_once(&format!("</{tag}>"))?;
        let said = [before.trim(), without_label(behind)];
        let said = said.into_iter().filter(|part| !part.is_empty());
        Some((said.collect::<Vec<_>>().join("\n\n"), passages.trim()))
    })
}

/// `Context: …` and, on a line of its own behind or before it, `Question: …`.
fn below_labels(text: &str) -> Option<(String, &str)> {
    let mut passages = None;
    let mut question = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let label = label_of(line).map(|(label, _)| label).unwrap_or_default();
        if passages.is_none() && PASSAGES.contains(&label.as_str()) {
            passages = Some(at);
        } else if QUESTIONS.contains(&label.as_str()) && !is_first(question, passages) {
            // Passages may have such a line, too: behind them the last one is the user's.
            question = Some(at);
        }
        at += line.len();
    }
    let (passages, question) = (passages?, question?);
    let part = |from: usize, to: usize| without_label(text.get(from..to).unwrap_or_default());
    let ends = |at: usize| {
        if at == passages.max(question) {
            text.len()
        } else {
            passages.max(question)
        }
    };
    let said = part(question, ends(question)).to_owned();
    Some((said, part(passages, ends(passages))))
}

/// Whether the question stands before the passages.
fn is_first(question: Option<usize>, passages: Option<usize>) -> bool {
    question.is_some_and(|question| passages.is_some_and(|passages| question < passages))
}

/// A text without the label that it begins with.
fn without_label(text: &str) -> &str {
    let text = text.trim();
    let line = text.lines().next().unwrap_or_default();
    let known = |label: &str| PASSAGES.contains(&label) || QUESTIONS.contains(&label);
    match label_of(line).filter(|(label, _)| known(label)) {
        Some((_, length)) => text.get(length..).unwrap_or_default().trim(),
        None => text,
    }
}

/// The label that a line begins with, in small letters, and its length: `**Question:** …`.
fn label_of(line: &str) -> Option<(String, usize)> {
    let begin = line.get(..line.floor_char_boundary(LABEL_BYTES))?;
    let (at, colon) = begin
        .char_indices()
        .find(|(_, c)| matches!(c, ':' | '：'))?;
    let is_mark = |c: char| c.is_whitespace() || matches!(c, '#' | '*' | '_' | '-');
    let label = begin.get(..at)?.trim_matches(is_mark);
    let behind = line.get(at + colon.len_utf8()..)?;
    let marks = behind.len() - behind.trim_start_matches('*').len();
    Some((label.to_lowercase(), at + colon.len_utf8() + marks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_are_told_from_what_the_user_said() {
        let passage = "[1] Ports | docs\nQuestion: which port?\nRelays listen on 8443.\n".repeat(5);
        let passage = passage.trim();
        for text in [
            format!("Context:\n{passage}\n\nQuestion: Why?\nAnd how?"),
            format!("## Question:\nWhy?\nAnd how?\n\n**Documents:**\n{passage}"),
            format!("<context>\n{passage}\n</context>\n\nQuestion: Why?\nAnd how?"),
        ] {
            let (said, passages) = parted(&text).unwrap();
            assert_eq!(
                (said.as_str(), passages),
                ("Why?\nAnd how?", passage),
                "{text}"
            );
        }
        let before = format!("Frage: Warum?\n\nKontext:\n[1] {}", "Text. ".repeat(60));
        assert_eq!(parted(&before).unwrap().0, "Warum?");
        for other in [
            "Context: we moved.\nQuestion: why?",
            "The question: why? Context: none.",
            &"Note: a\n".repeat(90),
            &format!(
                "Context: {}\nTask: draw it.",
                "We are a bakery in Bergen. ".repeat(20)
            ),
        ] {
            assert_eq!(parted(other), None, "{other}");
        }
    }
}
