//! What runs in a workload cluster?
//!
//! One program, `kruise-agent`, with one role per subcommand. [`manager`] is the controllers and the admission of one
//! cluster: a complete OpenKruise by itself. [`daemon`] does the duties of one node. [`link`] is the member's side of a
//! fleet: it carries out what a hub has planned for this cluster. What they decide is in `kruise-core`; this crate reads
//! settings ([`flags`]), puts the parts together and sees to it that they start, lead and stop in order.

pub mod daemon;
pub mod flags;
pub mod link;
pub mod manager;
