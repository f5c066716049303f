//! One folder per controller: observe, plan, apply, status.

pub mod cloneset;

mod pods;
