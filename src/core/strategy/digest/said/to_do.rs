//! Lists of what is to be done, in what the parties say: each item is told as it stands last.

use crate::core::strategy::digest::line::Part;
use crate::core::strategy::digest::results::seen::Seen;
use crate::core::strategy::maps::{Set, hash_of};

/// What is to be done by one message: two parts of its list may have the same.
#[derive(Default)]
pub(in super::super) struct ToDo {
    own: Set<u64>,
}

impl ToDo {
    /// Whether a party tells an item for the last time. A newer message may add a remark in
    /// brackets; one that an older message alone has is told.
    pub(in super::super) fn is_newest(&mut self, party: Part, item: &str, seen: &mut Seen) -> bool {
        let plain = item.split(" (").next().unwrap_or(item);
        // The item as it stands comes last: it may be without a remark.
        let [_, as_it_stands] = [plain, item].map(|told| {
            let told = format!("- [ ] {told}");
            let key = hash_of(&told);
            let is_new = self.own.contains(&key) || seen.say(Some(party), &told);
            if is_new {
                self.own.insert(key);
            }
            is_new
        });
        as_it_stands
    }
}
