//! Known models: context windows, prices of the prompt cache, and the requirements of model
//! families.

mod family;
mod table;

pub use family::{Family, takes_temperature};
pub(in crate::core) use table::plain;
pub use table::{Model, Prices, known, table_name};

/// What a model's name tells, looked up once. By default, that of no model.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ModelFacts {
    /// The table's name for it, and its figures there.
    pub row: Option<(&'static str, Model)>,
    /// What its family wants on the wire.
    pub family: Family,
}

impl ModelFacts {
    /// The facts about a model that a request names, if it names one.
    #[must_use]
    pub fn of(model: Option<&str>) -> Self {
        let Some(name) = model.map(plain) else {
            return ModelFacts::default();
        };
        ModelFacts {
            row: table::row(&name),
            family: family::family(&name),
        }
    }

    /// Its figures in the table.
    #[must_use]
    pub fn known(&self) -> Option<Model> {
        self.row.map(|(_, known)| known)
    }
}
