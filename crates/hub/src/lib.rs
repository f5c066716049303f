//! Where does each federated object run, and which cluster may belong to the fleet?
//!
//! Decisions are plain functions. [`admission`] says what is let in, [`members`] which clusters there are and what they can
//! be used for, [`placement`] which policy wins for an object and what of it each cluster gets. [`ledger`] brings the
//! promises of `scheduling` into the form in which they are stored and back, and [`names`] makes the names of what the hub
//! creates. The arithmetic is in `scheduling`; the kinds are in `kruise-core::api::fleet`.
//!
//! Around them is a process: [`dispatch`] carries out one object's round after the other, [`control`] is what the leader
//! runs, [`process`] starts and ends it, and [`measures`] is what it counts.

pub mod admission;
pub mod ledger;
pub mod members;
pub mod names;
pub mod placement;

pub mod control;
pub mod dispatch;
pub mod measures;
pub mod process;
