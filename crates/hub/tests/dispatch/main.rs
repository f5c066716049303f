//! A hub and three members with their agents, in one process on virtual time.

mod crash;
mod deletion;
mod kit;
mod offline;
mod release;
mod rest;
mod scale;
