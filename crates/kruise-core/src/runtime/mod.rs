//! The thin shell over kube: everything between a decision and the API server.
//!
//! Nothing in here knows a workload. In reading order:
//!
//! 1. Inputs: [`clock`] (time and chance; the only place that reads either), [`gates`].
//! 2. The way to the API server: [`client`] builds clients and gives every call a deadline, [`throttle`] is how long all
//!    writers wait when the server is busy.
//! 3. What is known: [`key`] names objects, [`cache`] holds what a watch shows, [`overlay`] lays our own writes over it,
//!    [`writes`] makes sure that each answer gets there.
//! 4. What is done: [`controller`] runs reconciles from a queue, [`executor`] carries out a plan's actions, [`events`]
//!    tells people, [`leader`] sees to it that only one process acts, [`access`]
//!    says which rights all this takes.
//! 5. What is answered: [`webhook`] serves admission and conversion and keeps its own certificates.
//! 6. The process: [`flags`], [`metrics`], [`health`], [`logs`], [`shutdown`].

pub mod clock;
pub mod gates;

pub mod client;
pub mod throttle;

pub mod cache;
pub mod key;
pub mod overlay;
pub mod writes;

pub mod access;
pub mod controller;
pub mod events;
pub mod executor;
pub mod leader;
mod queue;

pub mod webhook;

pub mod flags;
pub mod health;
pub mod logs;
pub mod metrics;
pub mod shutdown;
