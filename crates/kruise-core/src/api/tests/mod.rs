//! The API as a whole: its documents, its definitions, its conversions.

mod conversion;
mod definitions;
mod documentation;
mod examples;
mod fleet;
