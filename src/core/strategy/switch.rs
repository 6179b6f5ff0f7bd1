//! A part of a strategy that can be off: `false`, `true` for its defaults, or a table.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A part with its options, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch<T>(Option<T>);

impl<T> Switch<T> {
    /// The part is off.
    pub const OFF: Self = Switch(None);

    /// The part with these options.
    pub const fn on(options: T) -> Self {
        Switch(Some(options))
    }

    /// Its options, where it is on.
    pub fn get(self) -> Option<T> {
        self.0
    }
}

impl<T: Serialize> Serialize for Switch<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(options) => options.serialize(serializer),
            None => serializer.serialize_bool(false),
        }
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Switch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SwitchVisitor(PhantomData))
    }
}

struct SwitchVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for SwitchVisitor<T> {
    type Value = Switch<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("true, false or a table of keys")
    }

    fn visit_bool<E>(self, is_on: bool) -> Result<Switch<T>, E> {
        Ok(Switch(is_on.then(T::default)))
    }

    fn visit_unit<E>(self) -> Result<Switch<T>, E> {
        Ok(Switch::OFF)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Switch<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Switch::on)
    }
}

impl<T: JsonSchema> JsonSchema for Switch<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}Switch", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let options = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [{ "type": "boolean" }, options] })
    }
}
