//! The network between clients and servers, and everything that can go wrong on it.
//!
//! What is *not* simulated, because no real server does it either: within one watch, events are never lost, repeated
//! or swapped while the stream lives. A client misses events when its stream breaks or is late, and two watches are
//! late independently of each other. [`Weather::disorder`] goes beyond that on purpose and is off by default.

mod link;
mod service;
mod stream;
mod weather;

pub use link::{Direction, Link};
pub use service::LinkService;
pub use stream::SimBody;
pub use weather::{Fate, Weather};
