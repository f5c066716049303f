//! Ring 4: node duties on real kubelets and containerd, with a registry of each test's own.

mod failures;
mod faults;
mod images;
mod meta;
mod plugins;
mod probes;
mod recreate;
mod shown;
mod support;
mod terminator;
