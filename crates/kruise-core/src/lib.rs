//! What does one cluster need to run OpenKruise's workloads?
//!
//! This crate answers with the kinds themselves, the decisions about them as plain functions, and a thin shell over
//! kube that reads the world, asks a decision, and carries it out. In reading order: the kinds ([`api`]), what all
//! kinds share about pods ([`pod`]) and about history ([`revision`]), one folder per controller ([`controllers`]), what
//! is let in ([`admission`]), what happens on each node ([`daemon`]), and the shell ([`runtime`]).

pub mod api;
pub mod image;

pub mod pod;
pub mod revision;

pub mod controllers;

pub mod admission;

pub mod daemon;

pub mod backoff;
pub mod causes;
pub mod quantity;
pub mod runtime;
pub mod seal;
