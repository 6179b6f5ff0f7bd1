//! The weights of a digest, all in one place, each with its purpose. They were chosen on the
//! conversations in odd lines of the recorded traces; none is about one file.

/// Shares of the room that are spent before everything competes for the rest.
pub(in super::super) mod share {
    /// The most for what the user said: it is short as a rule, and cannot be looked up again.
    pub(in super::super::super) const USER: f64 = 0.4;
    /// The same in a dialogue with few calls, as a factor of his part of all that is told, and the
    /// most of it.
    pub(in super::super::super) const USER_OF_OWN: f64 = 1.35;
    pub(in super::super::super) const USER_OF_DIALOGUE: f64 = 0.55;
    /// For what the model said last, which the user's newest message answers: what he accepts is
    /// done next, with all that was said of it.
    pub(in super::super::super) const ANSWERED: f64 = 0.25;
    /// For the records of the newest turn, where no result stays as it is; less what the model's
    /// words took. The next question may be about what the model did not say.
    pub(in super::super::super) const NEWEST: f64 = 0.16;
    /// For reports of failures among repetitive output, and the lines that explain them.
    pub(in super::super::super) const FAILURES: f64 = 0.15;
    /// For the last call of a tool that failed, with what it was told: it is tried again next.
    pub(in super::super::super) const TO_MEND: f64 = 0.27;
    /// For what stands around the lines of files that the newest messages name.
    pub(in super::super::super) const REGIONS: f64 = 0.12;
    /// For the files that they name as wholes.
    pub(in super::super::super) const FILES: f64 = 0.3;
    /// Of what is left of either, the most for one file, but for the last.
    pub(in super::super::super) const REGION: f64 = 0.6;
    /// For calls that changed something: what was done must not be done again.
    pub(in super::super::super) const DONE: f64 = 0.15;
    /// The most for the rows that the newest messages name; none where there is room for no more
    /// than the first part of all lines, and as much where there is room for the second.
    pub(in super::super::super) const CHOSEN: f64 = 0.3;
    pub(in super::super::super) const ROOM_FOR_CHOSEN: (f64, f64) = (0.45, 0.55);
    /// For the rows that the user's newest message describes, by what he wants instead of by name.
    pub(in super::super::super) const DESCRIBED: f64 = 0.1;
    /// For the rows that older messages of his describe, and for those that he picked by an id or
    /// a number; no less than so many tokens, since a row comes with its head and its call, up to
    /// that part of the room.
    pub(in super::super::super) const MEANT: f64 = 0.15;
    pub(in super::super::super) const MEANT_TOKENS: u64 = 72;
    pub(in super::super::super) const PICKED: f64 = 0.1;
    pub(in super::super::super) const PICKED_TOKENS: u64 = 120;
    /// For the lists that the model goes through: the next calls take what is left of them.
    pub(in super::super::super) const GOES_THROUGH: f64 = 0.4;
    /// For the rows that were looked up since the user's newest message, of what was known before,
    /// and the fewest tokens of it.
    pub(in super::super::super) const AT_HAND: f64 = 0.15;
    pub(in super::super::super) const AT_HAND_TOKENS: u64 = 150;
    pub(in super::super::super) const MOST_FOR_ROW: f64 = 0.3;
    /// For the records that are talked about last, with all that they have.
    pub(in super::super::super) const IN_QUESTION: f64 = 0.2;
    pub(in super::super::super) const IN_QUESTION_TOKENS: u64 = 100;
    /// For the scalars that records themselves have: decisions turn on them.
    pub(in super::super::super) const RECORDS: f64 = 0.42;
    /// For the rows of what a party named, and more such scalars.
    pub(in super::super::super) const NAMED: f64 = 0.15;
    /// For the few records inside of one.
    pub(in super::super::super) const WITHIN: f64 = 0.2;
    /// For what decisions are made by of the rows that have no room as a whole.
    pub(in super::super::super) const SHORT: f64 = 0.12;
    /// For what was written last: scripts and files. The most where it is no more than so many
    /// tokens, since crumbs of a script are of no use; else the least.
    pub(in super::super::super) const MOST_WRITTEN: f64 = 0.35;
    pub(in super::super::super) const WRITTEN_TOKENS: u64 = 1_500;
    pub(in super::super::super) const WRITTEN: f64 = 0.15;
    /// For the sentences by which the model answered what the user asked, and the most of it as a
    /// part of the next share.
    pub(in super::super::super) const REPLIES: f64 = 0.06;
    pub(in super::super::super) const REPLIES_OF_MODEL: f64 = 0.5;
    /// For the first and last sentences of what the model said.
    pub(in super::super::super) const MODEL: f64 = 0.2;
    /// The most of it, as a factor of the part of all lines that there is room for.
    pub(in super::super::super) const MODEL_OF_ROOM: f64 = 0.5;
    /// The same factor where records are less than the first part of all lines. From the second
    /// part on they compete; in between it is in between.
    pub(in super::super::super) const MODEL_OF_ROOM_ALONE: f64 = 1.5;
    pub(in super::super::super) const RECORDS_COMPETE: (f64, f64) = (0.15, 0.3);
    /// For the long ones of them, as a factor of that share, and the most of it.
    pub(in super::super::super) const LONG: f64 = 0.32;
    pub(in super::super::super) const MOST_LONG: f64 = 0.12;
    /// The same where there are few records.
    pub(in super::super::super) const LONG_ALONE: f64 = 0.75;
    pub(in super::super::super) const MOST_LONG_ALONE: f64 = 0.15;
    /// For what it said that nothing else tells, and the most of it as a factor of the share for
    /// what the model said.
    pub(in super::super::super) const FINDINGS: f64 = 0.04;
    pub(in super::super::super) const FINDINGS_OF_MODEL: f64 = 0.25;
    /// For its questions, which the user has answered.
    pub(in super::super::super) const QUESTIONS: f64 = 0.02;
    /// For the sentences of pages and mails, which rows with ids leave no room; the same as a
    /// factor of their part of all, and the most of it.
    pub(in super::super::super) const PROSE: f64 = 0.1;
    pub(in super::super::super) const PROSE_OF_ALL: f64 = 0.8;
    pub(in super::super::super) const MOST_PROSE: f64 = 0.35;
    /// For what the model noted of these, in all of its sentences, where they are most of what
    /// there is.
    pub(in super::super::super) const NOTES: f64 = 0.35;
    /// For what it said beside calls, and the same where there are few records.
    pub(in super::super::super) const ASIDES: f64 = 0.05;
    pub(in super::super::super) const ASIDES_ALONE: f64 = 0.12;
    /// Where the parties said more than this part of all, the model gets its own share instead.
    pub(in super::super::super) const DIALOGUE: f64 = 0.6;
    /// For each end of a single text that is shortened.
    pub(in super::super::super) const EDGE: f64 = 0.2;
    /// The most that a single line of text may take before there are others.
    pub(in super::super::super) const LINE: f64 = 0.33;
}

/// Scores of words, as factors of the score of their form.
pub(in super::super) mod word {
    /// A word of the oldest entry, compared to one of the newest.
    pub(in super::super::super) const OLDEST: f32 = 0.4;
    /// Growth by each further mention, and by each further call that has it.
    pub(in super::super::super) const USED: f32 = 0.3;
    /// A value under a key whose values calls take.
    pub(in super::super::super) const ASKED: f32 = 4.0;
    /// The same of a path or an address: the form of one says as much already, and what it led to
    /// says more.
    pub(in super::super::super) const ASKED_PATH: f32 = 1.5;
    /// A word of what the model said last in the topic, compared to one of the newest messages.
    pub(in super::super::super) const ANSWERED: f32 = 0.5;
    /// The score of a key: its value counts.
    pub(in super::super::super) const KEY: f32 = 0.1;
    /// The highest score of a line's first word with a capital, which is grammar.
    pub(in super::super::super) const FIRST: f32 = 0.25;
    /// The least score of the form of a word that names a row wherever in it it stands: ids, dates
    /// and numbers.
    pub(in super::super::super) const TELLING: f32 = crate::core::text::TELLING;
    /// What is left of it once a line that stays has the word.
    pub(in super::super::super) const COVERED: f32 = 0.03;
    /// The same of an id in a row: the row tells what it belongs to.
    pub(in super::super::super) const RELATED: f32 = 0.3;
}

/// Scores of lines.
pub(in super::super) mod line {
    /// A call besides its words: it shows what was done.
    pub(in super::super::super) const CALL: f32 = 0.4;
    /// A short command: it is likely to be run again as it is.
    pub(in super::super::super) const COMMAND: f32 = 2.0;
    /// Each scalar of a record besides its words, up to so many.
    pub(in super::super::super) const RECORD: f32 = 1.0;
    pub(in super::super::super) const MOST: usize = 6;
    /// Any other line besides its words.
    pub(in super::super::super) const OTHER: f32 = 0.02;
    /// A plain sentence, per token.
    pub(in super::super::super) const SAID: f32 = 0.35;
    /// Tokens that are added to those of a sentence: short ones say as much.
    pub(in super::super::super) const SENTENCE: f32 = 6.0;
    /// The same in what the user's newest message answers.
    pub(in super::super::super) const ANSWER: f32 = 2.0;
    /// Factor of a sentence that demands or refuses.
    pub(in super::super::super) const DEMANDS: f32 = 3.0;
    /// Of such a one, another factor where it takes back what was said before, or tells what is to
    /// be done instead; and where it is a question, which the model has answered.
    pub(in super::super::super) const CORRECTS: f32 = 1.5;
    pub(in super::super::super) const ANSWERED_SINCE: f32 = 0.5;
    /// The same where it says what was decided or done, which is when what was refused is over; and
    /// the factor of a plain sentence that does: `So we take the second one.`
    pub(in super::super::super) const DECIDES: f32 = 1.2;
    pub(in super::super::super) const DECIDES_PLAINLY: f32 = 1.8;
    /// How much more than the mean the user's newest sentence is worth, and the oldest less: the
    /// older one may be taken back by the newer.
    pub(in super::super::super) const NEWER: f32 = 0.25;
    /// A question of the model's, which the user has answered.
    pub(in super::super::super) const QUESTION: f32 = 0.3;
    /// One that only greets or thanks.
    pub(in super::super::super) const POLITE: f32 = 0.1;
    /// What the model suggests, offers, promises or decides.
    pub(in super::super::super) const PROPOSES: f32 = 2.0;
    /// The sentence of it that has most words of what the user asked.
    pub(in super::super::super) const REPLIES: f32 = 1.5;
    /// A call, a line of a long argument, a line of a text and a value of JSON, per token, in the
    /// newest entry; half of it so many entries before. What was done, written and read last is
    /// worked on.
    pub(in super::super::super) const FRESH_ARGUMENT: f32 = 0.3;
    pub(in super::super::super) const FRESH_TEXT: f32 = 0.2;
    pub(in super::super::super) const FRESH_MEMBER: f32 = 0.7;
    pub(in super::super::super) const FRESH_CALL: f32 = 0.2;
    pub(in super::super::super) const HALF_LIFE: f32 = 8.0;
    /// Factors by who said it.
    pub(in super::super::super) const USER: f32 = 1.5;
    pub(in super::super::super) const MODEL: f32 = 0.4;
    /// What the user passes on, as a log.
    pub(in super::super::super) const PASTED: f32 = 0.7;
    /// The least factor of an item of one of his lists.
    pub(in super::super::super) const LISTED: f32 = 2.0;
    /// A line of code in what was said: alone it is of little use.
    pub(in super::super::super) const CODE: f32 = 0.3;
    /// What a column of a database is: queries to come go by it.
    pub(in super::super::super) const DESCRIBES: f32 = 2.0;
    /// A report of a failure.
    pub(in super::super::super) const FAILURE: f32 = 1.3;
    /// Who a mail is from.
    pub(in super::super::super) const SENDER: f32 = 2.0;
    /// A sentence of a page or a mail that demands, refuses or limits something.
    pub(in super::super::super) const LIMITS: f32 = 1.5;
    /// The same of one of a page where these are most of what there is: of all lines, more than the
    /// second part. Below the first part it is as above.
    pub(in super::super::super) const LIMITS_OF_PAGES: f32 = 3.0;
    pub(in super::super::super) const PAGES: (f32, f32) = (0.15, 0.3);
    /// A sentence in a record, such as a mail or a note: it was written to somebody.
    pub(in super::super::super) const IN_RECORD: f32 = 2.0;
    /// What a text comes to.
    pub(in super::super::super) const CONCLUSION: f32 = 2.0;
    /// A line that sums up what a command did, and its score besides its words: counts are short.
    pub(in super::super::super) const OUTCOME: f32 = 3.0;
    pub(in super::super::super) const SUMS_UP: f32 = 2.0;
    /// A line that the model wrote itself, in a script or a file: it is likely to write it again.
    pub(in super::super::super) const WRITTEN: f32 = 1.3;
    /// One of many that differ in numbers only.
    pub(in super::super::super) const ALIKE: f32 = 0.2;
    /// Rows of a table after which one more tells half as much.
    pub(in super::super::super) const ROWS: f32 = 16.0;
    /// What a newer argument or result replaces.
    pub(in super::super::super) const STALE: f32 = 0.4;
    /// What a patch shows only to tell its place.
    pub(in super::super::super) const BESIDE: f32 = 0.5;
    /// Growth with each of its words that the newest messages have, by how rare it is: of a text,
    /// of what the user's newest message answers, of the values of JSON, and of these by the words
    /// of the call that gave them, as of what is within an item of a list by those of the item. The
    /// record that is talked about is acted on next.
    pub(in super::super::super) const ON_TOPIC: f32 = 0.08;
    pub(in super::super::super) const ANSWERED_ON_TOPIC: f32 = 0.2;
    pub(in super::super::super) const RECORD_ON_TOPIC: f32 = 0.3;
    pub(in super::super::super) const ASKED_ON_TOPIC: f32 = 0.2;
    /// The most that such words count together.
    pub(in super::super::super) const MOST_TOPIC: f32 = 12.0;
    /// Factors of the row of what a party named; of what belongs to a record that the user named;
    /// and of a row that the newest messages name, or the user's newest describes, as of an item of
    /// the model's lists that the user named: the name counts little by itself, as it is known, but
    /// what is said of it is wanted.
    pub(in super::super::super) const NAMED: f32 = 2.0;
    pub(in super::super::super) const NAMED_BY_USER: f32 = 3.0;
    pub(in super::super::super) const CHOSEN: f32 = 4.0;
    /// Of an item beside which the user chose another.
    pub(in super::super::super) const NOT_CHOSEN: f32 = 0.3;
    /// The length of a result that changes the scores of its lines neither way, the lengths between
    /// which it makes a difference (bytes), and the power to which it is raised.
    pub(in super::super::super) const USUAL_BYTES: f32 = 400.0;
    pub(in super::super::super) const SHORT_AND_LONG_BYTES: (f32, f32) = (40.0, 20_000.0);
    pub(in super::super::super) const ONE_OF_MANY: f32 = 0.3;
    /// Factor of the result of a call that took a value of an earlier result: it was chosen among
    /// others.
    pub(in super::super::super) const FOLLOWED: f32 = 1.5;
}

/// Costs of lines, tokens.
pub(in super::super) mod cost {
    /// Bytes of a token, about.
    pub(in super::super::super) const BYTES_PER_TOKEN: f32 = 3.5;
    /// A line besides its text: its blanks, its mark, its end.
    pub(in super::super::super) const LINE: f32 = 2.0;
    /// The mark of a gap before a line of text: lines that follow each other need none.
    pub(in super::super::super) const GAP: f32 = 2.0;
    /// The same of a line of a result between two gaps, with what makes it worth less: alone it is
    /// of little use.
    pub(in super::super::super) const ALONE: f32 = 6.0;
    /// Rows of a printed table that share what each of them needs: its names and its call.
    pub(in super::super::super) const ROWS: f32 = 4.0;
    /// The count of the rows that a table misses, which its last row takes the place of.
    pub(in super::super::super) const COUNT: f32 = 5.0;
}
