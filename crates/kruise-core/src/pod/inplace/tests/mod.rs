//! What OpenKruise's own tests pin, what it got wrong, and random updates against a small kubelet.

mod batches;
mod completion;
mod model;
mod specs;
mod steps;
mod support;
mod vertical;
