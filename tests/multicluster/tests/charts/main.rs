//! Ring 3: the Helm charts, rendered by Helm and installed into real API servers. Pods run on fake nodes, so the programs
//! in them are not started; that they take the flags of the charts is checked with their own command lines.

mod chart;
mod flags;
mod hub;
mod images;
mod member;
mod render;
