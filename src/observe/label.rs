//! Closed sets of label values. A set lists all of its values, so that every series exists at 0
//! from the start.

use crate::core::policy::Reason;
use crate::core::summary::Rejected;
use crate::core::wire::overflow::Kind;
use crate::proxy::ProxyError;

/// Characters of a name that a client chose, at most.
const NAME_CHARS: usize = 96;

/// A name that a client chose, as it may stand in a log line: short, and of plain characters.
#[must_use]
pub fn plain_name(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.:/@+".contains(c) {
            c
        } else {
            '_'
        }
    };
    name.chars().take(NAME_CHARS).map(plain).collect()
}

/// A value of a closed set; the same word is the metric's label and the log's value.
pub trait Label: Copy + PartialEq + 'static {
    /// Every value of the set.
    fn all() -> Vec<Self>;

    /// The word in metrics and logs.
    fn as_str(self) -> &'static str;
}

/// Declares an enum whose variants are label values.
macro_rules! labels {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word in metrics and logs.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl $crate::observe::label::Label for $name {
            fn all() -> Vec<Self> {
                Self::ALL.to_vec()
            }

            fn as_str(self) -> &'static str {
                self.as_str()
            }
        }
    };
}

/// The same for an enum of another room that lists its values itself.
macro_rules! label_of {
    ($($name:ty: $word:ident),+ $(,)?) => {
        $(impl Label for $name {
            fn all() -> Vec<Self> {
                Self::ALL.to_vec()
            }

            fn as_str(self) -> &'static str {
                self.$word()
            }
        })+
    };
}

pub(in crate::observe) use labels;

label_of!(
    Reason: as_str,
    Rejected: as_str,
    Kind: as_str,
    ProxyError: kind,
);
