//! Ring 3: the program itself on a real API server. No hub runs: what it would answer is written by the tests.

mod joining;
mod kit;
mod placement;
