//! Connections under faults: nothing a client gets is shorter than what came, nobody holds a place
//! by saying or reading nothing, and what can be tried again is.

mod clients;
mod faults;
mod floods;
mod http2;
mod restarts;
mod upstreams;
