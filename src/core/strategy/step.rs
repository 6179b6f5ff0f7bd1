//! A step of a ladder, as it is written and as it runs: a strategy's name, or a table `{ NAME = {
//! options } }`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::scope::Scope;
use super::table::Strategy;

/// One step of a ladder.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The strategy with its options.
    pub strategy: Strategy,
    /// The limits of the step.
    pub scope: Scope,
}

impl Step {
    /// The strategy with this name, with default options and without limits.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let strategy = Strategy::named(name)?;
        Some(Step {
            strategy,
            scope: Scope::default(),
        })
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.strategy.write(&self.scope, serializer)
    }
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StepVisitor)
    }
}

struct StepVisitor;

impl<'de> Visitor<'de> for StepVisitor {
    type Value = Step;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a strategy's name, or a table of one with options")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Step, E> {
        Step::named(name).ok_or_else(|| E::unknown_variant(name, Strategy::NAMES))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Step, A::Error> {
        let Some(name) = map.next_key::<String>()? else {
            return Err(de::Error::invalid_length(0, &self));
        };
        let (strategy, scope) = Strategy::read(&name, &mut map)?;
        match map.next_key::<String>()? {
            None => Ok(Step { strategy, scope }),
            Some(_) => Err(de::Error::invalid_length(2, &"one strategy a table")),
        }
    }
}

impl JsonSchema for Step {
    fn schema_name() -> Cow<'static, str> {
        "Step".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let scope = Scope::json_schema(generator);
        let mut forms = vec![serde_json::json!({ "type": "string", "enum": Strategy::NAMES })];
        for (name, options) in Strategy::schemas(generator) {
            forms.push(serde_json::json!({
                "type": "object",
                "properties": { name: with_scope(options, &scope) },
                "required": [name],
                "additionalProperties": false,
            }));
        }
        json_schema!({
            "description": "A step of a ladder: a strategy's name, or a table of it with options.",
            "anyOf": forms,
        })
    }
}

/// The schema of the options with the keys of the scope added.
fn with_scope(mut options: Schema, scope: &Schema) -> Schema {
    if let Some(limits) = scope.get("properties").and_then(|keys| keys.as_object()) {
        let keys = options.ensure_object().entry("properties");
        if let Some(keys) = keys
            .or_insert_with(|| serde_json::json!({}))
            .as_object_mut()
        {
            keys.extend(limits.clone());
        }
    }
    options
}
