//! Who is who, and what goes no further: credentials, Baler's own headers and tokens, bodies that
//! are signed or encoded.

mod bodies;
mod credentials;
mod marks;
mod own_headers;
mod tokens;
