//! History of templates: ControllerRevisions, byte for byte as OpenKruise writes them.
//!
//! [`data`] turns a template into the bytes that OpenKruise stores for it, [`hash`] names them, and [`history`] decides
//! which of the stored revisions is the wanted one and which may go. Nothing here knows a workload kind.
//!
//! # Cost
//!
//! Encoding walks the template once (a few microseconds for an ordinary one) and depends on nothing but the template.
//! Cache the [`data::RevisionData`] by the owner's (UID, `metadata.generation`): the generation changes with every
//! change of the spec, and a UID is never used twice. A status write changes neither, so a settled workload encodes
//! its template once.

pub mod data;
pub(crate) mod gojson;
pub mod hash;
pub mod history;
mod shape;
mod typed;

#[cfg(test)]
mod tests;
