//! What the parties said, and what of it belongs together: answers, choices, plans told anew.

pub(super) mod answers;
mod cheapest;
pub(super) mod choices;
pub(super) mod items;
pub(super) mod needs;
mod ordinals;
pub(super) mod replies;
pub(super) mod restated;
pub(super) mod telling;
pub(super) mod to_do;
pub(super) mod users;
