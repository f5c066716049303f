//! What runs in a workload cluster?
//!
//! One program, `kruise-agent`, with one role per subcommand. [`manager`] is the controllers and the admission of one
//! cluster: a complete OpenKruise by itself. What they decide is in `kruise-core`; this crate reads settings, puts the
//! parts together and sees to it that they start, lead and stop in order.

pub mod manager;
