//! The keys of a step's table: those of the strategy's options and those of the scope, in one
//! table.
//!
//! Both types refuse unknown keys, which serde's `flatten` does not allow. So the table is split
//! while it is read.

use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer};
use serde::de::{MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::scope::Scope;

/// The keys of [`Scope`].
pub(super) const SCOPE_KEYS: &[&str] = &["tools", "exclude_tools", "older_than"];

/// The keys of a struct, as its derived `Deserialize` declares them.
pub(super) fn field_names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // The probe gives no value, so that reading always fails; it has noted the names by then.
    let _ = T::deserialize(FieldProbe(&mut names));
    names
}

struct FieldProbe<'n>(&'n mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldProbe<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("a probe holds no value"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Reads the table of one strategy: its options of type `O`, and the scope.
pub(super) struct StepTable<O> {
    name: &'static str,
    /// All keys of the table.
    known: &'static [&'static str],
    options: PhantomData<O>,
}

impl<O> StepTable<O> {
    /// Reads the table of the strategy with this name, which has the keys `known`.
    pub(super) fn of(name: &'static str, known: &'static [&'static str]) -> Self {
        StepTable {
            name,
            known,
            options: PhantomData,
        }
    }
}

impl<'de, O: DeserializeOwned> DeserializeSeed<'de> for StepTable<O> {
    type Value = (O, Scope);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, O: DeserializeOwned> Visitor<'de> for StepTable<O> {
    type Value = (O, Scope);

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a table with options of {}", self.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let mut scope = Scope::default();
        let options = O::deserialize(MapAccessDeserializer::new(OptionEntries {
            map,
            known: self.known,
            scope: &mut scope,
        }))?;
        Ok((options, scope))
    }
}

/// The entries of a step's table that are options; the others are read into the scope on the way.
struct OptionEntries<'s, A> {
    map: A,
    known: &'static [&'static str],
    scope: &'s mut Scope,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for OptionEntries<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key::<String>()? {
            match key.as_str() {
                "tools" => self.scope.tools = self.map.next_value()?,
                "exclude_tools" => self.scope.exclude_tools = self.map.next_value()?,
                "older_than" => self.scope.older_than = self.map.next_value()?,
                other if self.known.contains(&other) => {
                    return seed.deserialize(key.into_deserializer()).map(Some);
                }
                unknown => return Err(A::Error::unknown_field(unknown, self.known)),
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_the_scope_are_those_of_its_type() {
        assert_eq!(field_names::<Scope>(), SCOPE_KEYS);
    }
}
