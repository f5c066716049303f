//! The thin shell over kube: everything that talks to an API server or listens on a socket.

pub mod webhook;
