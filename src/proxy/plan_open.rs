//! The beginning of a run of the planner: where the messages of a body stand, and how large they
//! are. Of a body that goes on from an earlier one only the rest is read.

use crate::core::Cancel;
use crate::core::planner::{NotPlanned, Session};
use crate::core::wire::Unreadable;
use crate::ledger::Owner;
use crate::observe::event::Phase;
use crate::proxy::Shared;
use crate::proxy::clock::Clock;
use crate::proxy::plan_request::{PlanRequest, Purpose, Run};

/// Outlines the body and measures its messages, as far as they are not known from an earlier
/// request, and keeps what the next one needs to know.
///
/// # Errors
/// [`NotPlanned`]: the body is forwarded as it came, or nobody waits any more.
pub(super) fn open<'b>(
    shared: &Shared,
    (request, run): (&'b PlanRequest, &Run),
    cancel: &Cancel,
    clock: &mut Clock<'_>,
) -> Result<Session<'b>, NotPlanned> {
    let (dialect, encoding) = (request.dialect, request.encoding);
    let beginning = &request.beginning;
    let outline = dialect.resume(&request.body, beginning.opening())?;
    if outline.messages.len() > shared.snapshot.config.limits.messages {
        return Err(Unreadable::Unusual.into());
    }
    clock.lap(Phase::View);
    let owner = Owner {
        tenant: &request.tenant,
        dialect,
        encoding,
    };
    let measures = shared.ledger.measures();
    let known = beginning.known();
    let first = known.map_or(&[][..], |known| known.measures(encoding));
    let all = measures.measure_all(owner, &outline, first, cancel)?;
    let fixed = measures.fixed_tokens(owner, &outline);
    // Only what the gate let through, which found no media in it, is assessed.
    let is_text = matches!(run.purpose, Purpose::Assess);
    let openings = shared.ledger.openings();
    let chains = openings.keep(beginning, encoding, (&outline, &all), is_text);
    clock.lap(Phase::Measure);
    Ok(Session::measured(dialect, outline, (all, fixed, encoding)).with_chains(chains))
}
