//! What is let in: reviews as functions over values.
//!
//! [`pod`] is the chain that every new pod passes.

pub mod pod;
