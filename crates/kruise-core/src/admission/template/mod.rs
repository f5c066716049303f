//! Pod templates: what is filled in, and who judges them.

pub mod defaults;
pub mod validate;
